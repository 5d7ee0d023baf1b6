//! Items that are timed: McMahan, Xu, Zhang (2024), Table 2 and Figure 1; McKenna (2024), Figure 4.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Context;
use plot::{Axis, Chart, Series};
use strategy::optimize::{Family, Objective, Target, optimize};
use strategy::{Blt, Participation, Strategy, series, toeplitz};

use crate::curves::chart;
use crate::item::{Cell, Findings, Table, claims};
use crate::measure::Spread;
use crate::production::Production;
use crate::work::{Work, named};

/// Seconds of `repeats` runs.
pub(crate) fn timed<T>(
    repeats: usize,
    mut work: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<Spread> {
    let mut times = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let start = Instant::now();
        black_box(work()?);
        times.push(start.elapsed().as_secs_f64());
    }
    Spread::of(&times).context("nothing was timed")
}

pub(crate) fn seconds_chart(title: &str, series: impl IntoIterator<Item = Series>) -> Chart {
    chart(title, Axis::log("rows n"), Axis::log("seconds"), series)
}

/// n, seconds by the triangular system, seconds by Alg. 5, as published in Table 2.
const PUBLISHED_COEFFICIENTS: [(usize, f64, f64); 3] =
    [(2000, 0.021, 3.8e-5), (20_000, 0.258, 3.6e-5), (200_000, 4.772, 4.5e-5)];

/// Ways to n coefficients of C⁻¹.
struct Ways {
    n: usize,
    system: Spread,
    inverse: Spread,
    impulse: Spread,
    loss: Spread,
    /// Largest difference between the coefficients of the ways.
    apart: f64,
}

/// McMahan, Xu, Zhang (2024), Table 2: time to the coefficients of C⁻¹.
pub fn coefficients(work: &Work) -> anyhow::Result<Findings> {
    let Strategy::Blt(blt) = Production::B400.strategy()? else { anyhow::bail!("the BLT of App. A is none") };
    let mut rows = Vec::new();
    for (n, ..) in PUBLISHED_COEFFICIENTS {
        work.report(&format!("n = {n}"));
        rows.push(ways(&blt, n)?);
    }
    let header = ["n", "system, published", "system, ours", "Alg. 5, published", "Alg. 5, ours"];
    let more = ["impulse through Alg. 3, ours", "whole loss in closed form, ours", "largest difference"];
    let cells = |(row, (_, system, inverse)): (&Ways, (usize, f64, f64))| {
        let times = [Cell::Time(row.inverse), Cell::Time(row.impulse), Cell::Time(row.loss)];
        let first = [(row.n as u64).into(), Cell::Once(system), Cell::Time(row.system), Cell::Once(inverse)];
        first.into_iter().chain(times).chain([format!("{:.0e}", row.apart).into()]).collect()
    };
    let header = [&header[..], &more].concat();
    let rows_of_table = rows.iter().zip(PUBLISHED_COEFFICIENTS).map(cells);
    let tables = vec![Table::new("Seconds to n coefficients", header, rows_of_table)];

    let ratio = |row: &Ways| row.system.median / row.inverse.median;
    let ratios: Vec<String> = rows.iter().map(|row| format!("{:.0}", ratio(row))).collect();
    let losses: Vec<String> = rows.iter().map(|row| Cell::Time(row.loss).shown()).collect();
    let grows = rows.windows(2).all(|pair| ratio(&pair[0]) < ratio(&pair[1]));
    let agree = rows.iter().all(|row| row.apart < 1e-9);
    let claims = claims![
        grows && rows.iter().all(|row| ratio(row) > 10.0) => "{} times", ratios.join(", ");
        agree => "within 1e-9: {agree}";
        rows.iter().all(|row| row.loss.median < 3.6e-5) => "a whole loss costs {}", losses.join(", ");
    ];
    let series = |name: &str, way: fn(&Ways) -> Spread| {
        Series::new(name, rows.iter().map(|row| (row.n as f64, way(row).drawn(1.0))).collect())
    };
    let published = |name: &str, way: fn(&(usize, f64, f64)) -> f64| Series {
        name: name.into(),
        points: PUBLISHED_COEFFICIENTS.iter().map(|row| (row.0 as f64, way(row).into())).collect(),
        dashed: true,
    };
    let series = [
        series("system", |row| row.system),
        series("Alg. 5", |row| row.inverse),
        series("impulse", |row| row.impulse),
        series("loss, closed form", |row| row.loss),
        published("system, published", |row| row.1),
        published("Alg. 5, published", |row| row.2),
    ];
    let charts = vec![seconds_chart("Time to n coefficients of C⁻¹", series)];
    Ok(Findings { claims, tables, charts, ..Findings::default() })
}

fn ways(blt: &Blt, n: usize) -> anyhow::Result<Ways> {
    let by_system = || Ok(series::invert(&blt.coefficients(n), n)?);
    let by_inverse = || {
        let (theta, omega) = blt.inverse();
        series::blt_coefficients(&theta, &omega, n)
    };
    let by_impulse = || blt.inverse_coefficients(n);
    let rule = Participation::new(400, (n as u64).div_ceil(400))?;
    let by_closed_form = || Ok(blt.errors(n as u64)?.rms * blt.sensitivity(n as u64, rule)?.value);
    let mut system = Vec::new();
    let once = timed(1, || {
        system = by_system()?;
        Ok(())
    })?;
    let difference =
        |other: &Vec<f64>| system.iter().zip(other).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    Ok(Ways {
        n,
        // The longest takes a minute or more: once is enough.
        system: if n > 100_000 { once } else { timed(5, by_system)? },
        inverse: timed(101, || Ok(by_inverse()))?,
        impulse: timed(101, || Ok(by_impulse()))?,
        loss: timed(101, by_closed_form)?,
        apart: [by_inverse(), by_impulse()].iter().map(difference).fold(0.0, f64::max),
    })
}

/// What Figure 1 times, the largest n it is timed at, and how often.
const OPTIMISERS: [(Family, u64, usize); 4] = [
    (Family::Blt { buffers: 2 }, u64::MAX, 3),
    (Family::Blt { buffers: 4 }, u64::MAX, 3),
    (Family::BandToeplitz { bands: 400 }, 100_000, 3),
    (Family::BandMf { bands: 400 }, 2000, 1),
];

/// McMahan, Xu, Zhang (2024), Figure 1: time to optimise.
pub fn optimisers(work: &Work) -> anyhow::Result<Findings> {
    const MIN_SEP: u64 = 400;
    const ROUNDS: [u64; 8] = [400, 800, 1200, 2000, 10_000, 100_000, 1_000_000, 100_000_000];
    let mut found = Vec::new();
    for (family, most, repeats) in OPTIMISERS {
        let mut times = Vec::new();
        for n in ROUNDS.into_iter().filter(|n| *n <= most) {
            let rule = Participation::new(MIN_SEP, n.div_ceil(MIN_SEP))?;
            let target = Target::new(n, rule, Objective::Rms);
            work.report(&format!("{} at n = {n}", named(family)));
            let time = timed(repeats, || Ok(optimize(family, &target, &mut |_| ControlFlow::Continue(()))?))?;
            times.push((n, time));
        }
        found.push((named(family), times));
    }
    let at = |family: usize, n: u64| found[family].1.iter().find(|(other, _)| *other == n).map(|(_, t)| *t);
    let row = |n: &u64| {
        let cells = (0..found.len()).map(|family| at(family, *n).map_or(Cell::Absent, Cell::Time));
        std::iter::once(Cell::from(*n)).chain(cells).collect()
    };
    let header = std::iter::once("n").chain(found.iter().map(|(name, _)| name.as_str()));
    let tables = vec![Table::new("Time of one optimisation", header, ROUNDS.iter().map(row))];
    let median = |family: usize, n: u64| at(family, n).map_or(f64::NAN, |time| time.median);
    let [_, blt, toeplitz, band_mf] = [0, 1, 2, 3].map(|family| move |n| median(family, n));
    let shown = |seconds: f64| Cell::Once(seconds).shown();
    let ratio = band_mf(2000) / blt(2000);
    let largest = blt(100_000_000);
    let long_toeplitz = toeplitz(100_000);
    let long_blt = blt(100_000);
    let claims = claims![
        ratio > 10.0 => "{ratio:.0} times as fast at n = 2000";
        largest < band_mf(2000) => "blt-4 at n = 10⁸ takes {}", shown(largest);
        long_toeplitz > long_blt => "{} beside {} at n = 100,000", shown(long_toeplitz), shown(long_blt);
    ];
    let series = found.iter().map(|(name, times)| {
        Series::new(name, times.iter().map(|(n, time)| (*n as f64, time.drawn(1.0))).collect())
    });
    let charts = vec![seconds_chart("Time to optimise, b = 400", series)];
    Ok(Findings { claims, tables, charts, ..Findings::default() })
}

/// A loss and a step of the optimiser, timed.
struct TimedLoss {
    family: Family,
    n: u64,
    bands: usize,
    loss: Spread,
    step: Spread,
}

impl TimedLoss {
    fn is_toeplitz(&self) -> bool {
        matches!(self.family, Family::BandToeplitz { .. })
    }
}

/// McKenna (2024), Figure 4: time of the loss and of a step of its optimiser.
pub fn losses(work: &Work) -> anyhow::Result<Findings> {
    const BANDS: [usize; 3] = [4, 16, 64];
    const GENERAL: [u64; 4] = [1000, 4000, 16_000, 64_000];
    const TOEPLITZ: [u64; 5] = [1000, 10_000, 100_000, 1_000_000, 10_000_000];
    /// Most numbers of a general banded matrix here.
    const MAX_NUMBERS: u64 = 1 << 21;
    let mut rows = Vec::new();
    for bands in BANDS {
        for n in GENERAL.into_iter().filter(|n| n * bands as u64 <= MAX_NUMBERS) {
            rows.push(loss_and_step(work, Family::BandMf { bands }, n, bands)?);
        }
        for n in TOEPLITZ {
            rows.push(loss_and_step(work, Family::BandToeplitz { bands }, n, bands)?);
        }
    }
    let header = ["mechanism", "n", "loss", "step: loss and gradient"];
    let cells = |row: &TimedLoss| {
        vec![Cell::from(named(row.family)), Cell::from(row.n), Cell::Time(row.loss), Cell::Time(row.step)]
    };
    let tables = vec![Table::new("Time of a loss, and of a step", header, rows.iter().map(cells))];

    let at = |toeplitz: bool, n: u64, bands: usize| {
        let row = rows.iter().find(|row| row.is_toeplitz() == toeplitz && row.n == n && row.bands == bands);
        row.map_or(f64::NAN, |row| row.loss.median + row.step.median)
    };
    let general = at(false, 64_000, 16);
    let long = at(true, 10_000_000, 64);
    let growth = at(false, 64_000, 16) / at(false, 16_000, 16);
    let shown = |seconds: f64| Cell::Once(seconds).shown();
    let claims = claims![
        general < 10.0 =>
            "n = 64,000 with 16 bands on one processor: {} for loss and step", shown(general);
        growth < 10.0 => "{growth:.1}-fold from n = 16,000 to 64,000, where n² would be 16-fold";
        long < 10.0 => "n = 10⁷ with 64 bands: {} for loss and step", shown(long);
    ];
    let chart = |title: &str, toeplitz: bool| {
        let series = BANDS.iter().flat_map(|bands| {
            let line = |time: fn(&TimedLoss) -> Spread| {
                let rows = rows.iter().filter(|row| row.is_toeplitz() == toeplitz && row.bands == *bands);
                rows.map(|row| (row.n as f64, time(row).drawn(1.0))).collect()
            };
            let loss = Series::new(format!("loss, p = {bands}"), line(|row| row.loss));
            [loss, Series::new(format!("step, p = {bands}"), line(|row| row.step))]
        });
        seconds_chart(title, series)
    };
    let charts = vec![chart("General bands", false), chart("Toeplitz bands", true)];
    Ok(Findings { claims, tables, charts, ..Findings::default() })
}

fn loss_and_step(work: &Work, family: Family, n: u64, bands: usize) -> anyhow::Result<TimedLoss> {
    work.report(&format!("{} at n = {n}", named(family)));
    let c = series::band_sqrt(bands);
    let strategy = match family {
        Family::BandMf { .. } => Strategy::BandMf(toeplitz::columns(&c, n)?.normalised()),
        _ => Strategy::BandToeplitz { c, column_normalised: false },
    };
    let loss = timed(5, || Ok(strategy.rms_error(n)?))?;
    Ok(TimedLoss { family, n, bands, loss, step: step(family, n, loss.min)? })
}

/// Seconds between two steps. General bands begin with a Toeplitz search, whose steps are recognised by taking less time
/// than one loss of the bands.
fn step(family: Family, n: u64, loss: f64) -> anyhow::Result<Spread> {
    /// An optimisation is watched for so long.
    const WATCHED: Duration = Duration::from_secs(8);
    let target = Target::new(n, Participation::single(), Objective::Rms);
    let start = Instant::now();
    let mut calls = Vec::new();
    optimize(family, &target, &mut |_| {
        calls.push(start.elapsed().as_secs_f64());
        if start.elapsed() < WATCHED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let between = calls.windows(2).map(|pair| pair[1] - pair[0]);
    let between: Vec<f64> = between.filter(|time| *time >= loss).collect();
    Spread::of(&between[between.len() / 2..])
        .with_context(|| format!("{} at n = {n} took {} steps", named(family), calls.len()))
}
