//! papers/000, Figure 1: time to optimise.

use std::ops::ControlFlow;
use std::time::Instant;

use plot::{Axis, Chart, Lines, Series};
use strategy::Participation;
use strategy::optimize::{Family, Target, optimize};

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::{Loss, Work, named};
use crate::stats::Spread;

pub const ITEM: Item = Item {
    name: "blt-figure-1",
    source: Source::Blt,
    title: "Figure 1: time to optimise as n grows",
    shows: "Wall-clock time to optimise BandMF and BLTs on a V100 GPU for b = 400 as n grows, compilation included, a \
            mean of three runs. BLTs take longer for small n, because compilation does, and scale to much larger n.",
    timed: true,
    make,
};

const MIN_SEP: u64 = 400;
const ROUNDS: [u64; 8] = [400, 800, 1200, 2000, 10_000, 100_000, 1_000_000, 100_000_000];

/// What is timed, the largest n it is timed at, and how often.
const FAMILIES: [(Family, Loss, u64, usize); 4] = [
    (Family::Blt { buffers: 2 }, Loss::Rms, u64::MAX, 3),
    (Family::Blt { buffers: 4 }, Loss::Rms, u64::MAX, 3),
    (Family::BandToeplitz { bands: 400 }, Loss::Rms, 100_000, 3),
    (Family::BandMf { bands: 400 }, Loss::Rms, 2000, 1),
];

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut found = Vec::new();
    for (family, loss, most, repeats) in FAMILIES {
        let mut times = Vec::new();
        for n in ROUNDS.into_iter().filter(|n| *n <= most) {
            times.push((n, timed(work, family, loss, n, repeats)?));
        }
        found.push((named(family), times));
    }
    let header = std::iter::once("n".to_owned()).chain(found.iter().map(|(name, _)| name.clone()));
    let mut table = Table::new("Time of one optimisation", header);
    for n in ROUNDS {
        let at = |times: &[(u64, Spread)]| times.iter().find(|(other, _)| *other == n).map(|(_, time)| *time);
        let cells = found.iter().map(|(_, times)| match at(times) {
            Some(time) if time.repeats == 1 => Cell::Once(time.median),
            Some(time) => Cell::Time(time),
            None => Cell::Absent,
        });
        table.rows.push(std::iter::once(Cell::from(n)).chain(cells).collect());
    }
    let slowest = |name: usize, n: u64| {
        found[name].1.iter().find(|(other, _)| *other == n).map_or(f64::NAN, |(_, time)| time.median)
    };
    let blt = slowest(1, 2000);
    let band_mf = slowest(3, 2000);
    let largest = slowest(1, 100_000_000);
    let toeplitz = slowest(2, 100_000);
    Ok(Found {
        setting: "b = 400 and k = ⌈n/b⌉, RmsLoss, two processors instead of a GPU and nothing to compile. The text does \
                  not list the n of the figure. Band-mf has 400 bands, and so has band-toeplitz, which papers/000 names \
                  as the faster of the two; they are timed as far as n = 2000 and n = 100,000."
            .into(),
        claims: vec![
            Claim::new(
                "BLTs are optimised much faster than BandMF",
                format!("{:.0} times as fast at n = 2000", band_mf / blt),
                band_mf > 10.0 * blt,
            ),
            Claim::new(
                "BLTs scale to much larger n",
                format!("blt-4 at n = 10⁸ takes {}", Cell::Once(largest).shown()),
                largest < band_mf,
            ),
            Claim::new(
                "band-toeplitz takes longer to optimise than a BLT",
                format!("{} beside {} at n = 100,000", Cell::Once(toeplitz).shown(), Cell::Once(slowest(1, 100_000)).shown()),
                toeplitz > slowest(1, 100_000),
            ),
        ],
        tables: vec![table],
        remarks: vec![
            "BLTs are the faster ones at small n too: their losses come from closed forms whose cost does not depend on \
             n, and nothing is compiled."
                .into(),
            "Band-mf is timed once an n, the others three times.".into(),
        ],
        charts: vec![chart(&found)],
    })
}

fn timed(work: &Work, family: Family, loss: Loss, n: u64, repeats: usize) -> anyhow::Result<Spread> {
    let target = Target::new(n, Participation::new(MIN_SEP, n.div_ceil(MIN_SEP))?, loss.objective());
    work.says(&format!("{} at n = {n}", named(family)));
    let mut times = Vec::new();
    for _ in 0..repeats {
        let start = Instant::now();
        optimize(family, &target, &mut |_| ControlFlow::Continue(()))?;
        times.push(start.elapsed().as_secs_f64());
    }
    Spread::of(&times).ok_or_else(|| anyhow::anyhow!("nothing was timed"))
}

fn chart(found: &[(String, Vec<(u64, Spread)>)]) -> Chart {
    let series = found.iter().map(|(name, times)| {
        Series::new(name, times.iter().map(|(n, time)| (*n as f64, time.drawn(1.0))).collect())
    });
    Chart::Lines(Lines {
        title: "Time to optimise, b = 400".into(),
        x: Axis::log("rows n"),
        y: Axis::log("seconds"),
        series: series.collect(),
    })
}
