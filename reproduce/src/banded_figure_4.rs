//! papers/001, Figure 4: time of the loss and of a step of its optimiser.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use plot::{Axis, Chart, Lines, Series};
use strategy::optimize::{Family, Objective, Target, optimize};
use strategy::{Participation, Strategy, toeplitz};

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::{Work, named};
use crate::stats::Spread;

pub const ITEM: Item = Item {
    name: "banded-figure-4",
    source: Source::Banded,
    title: "Figure 4: time of a loss and its gradient",
    shows: "Wall-clock time of the loss and of its gradient, for general bands and for banded Toeplitz matrices, on CPUs and \
            GPUs, as n grows at fixed numbers of bands until both together take too long. General bands need a GPU for \
            large n; Toeplitz matrices go much further and are an order of magnitude faster on CPUs, where a serial \
            recurrence belongs.",
    timed: true,
    make,
};

const BANDS: [usize; 3] = [4, 16, 64];
const GENERAL: [u64; 4] = [1000, 4000, 16_000, 64_000];
const TOEPLITZ: [u64; 5] = [1000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Most numbers of a general banded matrix here.
const MAX_NUMBERS: u64 = 1 << 21;
/// An optimisation is watched for so long.
const WATCHED: Duration = Duration::from_secs(8);
const REPEATS: usize = 5;

struct Row {
    family: Family,
    n: u64,
    bands: usize,
    loss: Spread,
    step: Spread,
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut rows = Vec::new();
    for bands in BANDS {
        for n in GENERAL.into_iter().filter(|n| n * bands as u64 <= MAX_NUMBERS) {
            rows.push(row(work, Family::BandMf { bands }, n, bands)?);
        }
        for n in TOEPLITZ {
            rows.push(row(work, Family::BandToeplitz { bands }, n, bands)?);
        }
    }
    let mut table =
        Table::new("Time of a loss, and of a step", ["mechanism", "n", "loss", "step: loss and gradient"]);
    table.rows.extend(rows.iter().map(|row| {
        vec![Cell::from(named(row.family)), Cell::from(row.n), Cell::Time(row.loss), Cell::Time(row.step)]
    }));
    Ok(Found {
        setting: "One thread of a processor; p = 4, 16 and 64 (lost in the text). A loss is RmsError of a banded square root, \
                  as general bands or as a Toeplitz matrix. A step is the time between two calls of the optimiser's \
                  progress over the second half of what eight seconds of it allow: one loss with its gradient, now and \
                  then several, and the quasi-Newton update."
            .into(),
        claims: claims(&rows),
        tables: vec![table],
        remarks: vec![
            "General bands are evaluated by a recursion over the error's covariance in O(n·p²) instead of row by row in \
             O(n²·p): time is linear in n, and no GPU is needed."
                .into(),
            "Toeplitz losses stop at the round where the decoder has settled (App. I), so beyond that n hardly counts.".into(),
        ],
        charts: vec![chart("General bands", &rows, false), chart("Toeplitz bands", &rows, true)],
    })
}

fn row(work: &Work, family: Family, n: u64, bands: usize) -> anyhow::Result<Row> {
    work.says(&format!("{} at n = {n}", named(family)));
    let c = strategy::series::band_sqrt(bands);
    let strategy = match family {
        Family::BandMf { .. } => Strategy::BandMf(toeplitz::columns(&c, n)?.normalised()),
        _ => Strategy::BandToeplitz { c, column_normalised: false },
    };
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let start = Instant::now();
        black_box(strategy.rms_error(n)?);
        times.push(start.elapsed().as_secs_f64());
    }
    let loss = Spread::of(&times).ok_or_else(|| anyhow::anyhow!("nothing was timed"))?;
    Ok(Row { family, n, bands, loss, step: step(family, n, loss.min)? })
}

/// General bands begin with a Toeplitz search, whose steps are told by taking less than one loss of the bands does.
fn step(family: Family, n: u64, loss: f64) -> anyhow::Result<Spread> {
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
        .ok_or_else(|| anyhow::anyhow!("{} at n = {n} took {} steps", named(family), calls.len()))
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let at = |toeplitz: bool, n: u64, bands: usize| {
        let of = |row: &&Row| {
            matches!(row.family, Family::BandToeplitz { .. }) == toeplitz && row.n == n && row.bands == bands
        };
        rows.iter().find(of).map_or(f64::NAN, |row| row.loss.median + row.step.median)
    };
    let general = at(false, 64_000, 16);
    let long = at(true, 10_000_000, 64);
    let growth = at(false, 64_000, 16) / at(false, 16_000, 16);
    vec![
        Claim::new(
            "general bands up to n of about 10⁴ in reasonable time, with a GPU",
            format!(
                "n = 64,000 with 16 bands on one processor: {} for loss and step",
                Cell::Once(general).shown()
            ),
            general < 10.0,
        ),
        Claim::new(
            "the time of general bands grows no faster than n²",
            format!("{growth:.1}-fold from n = 16,000 to 64,000, where n² would be 16-fold"),
            growth < 10.0,
        ),
        Claim::new(
            "Toeplitz matrices up to 10⁶ and beyond",
            format!("n = 10⁷ with 64 bands: {} for loss and step", Cell::Once(long).shown()),
            long < 10.0,
        ),
    ]
}

fn chart(title: &str, rows: &[Row], toeplitz: bool) -> Chart {
    let mut series = Vec::new();
    for bands in BANDS {
        let of =
            |row: &&Row| matches!(row.family, Family::BandToeplitz { .. }) == toeplitz && row.bands == bands;
        let line = |time: fn(&Row) -> Spread| {
            rows.iter().filter(of).map(|row| (row.n as f64, time(row).drawn(1.0))).collect()
        };
        series.push(Series::new(format!("loss, p = {bands}"), line(|row| row.loss)));
        series.push(Series::new(format!("step, p = {bands}"), line(|row| row.step)));
    }
    let x = Axis::log("rows n");
    let y = Axis::log("seconds");
    Chart::Lines(Lines { title: title.into(), x, y, series })
}
