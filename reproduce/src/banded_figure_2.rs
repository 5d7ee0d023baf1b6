//! papers/001, Figure 2: bands and epochs.

use plot::{Axis, Chart, Lines, Series};
use rayon::prelude::*;

use super::amplified::{Budget, powers_of_two};
use super::bands_and_epochs::{Grid, N};
use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "banded-figure-2",
    source: Source::Banded,
    title: "Figure 2: RMSE by bands and epochs, and the best number of bands",
    shows: "(a) RMSE of DP-BandMF beside DP-SGD on full batches, for numbers of bands and of epochs at one n and ε. DP-SGD \
            needs many epochs to come near and gets worse rapidly with fewer; unamplified BandMF is worse than that with \
            many epochs and better with few; amplified BandMF with the best bands is ahead of both. (b) The best number \
            of bands falls about linearly with the number of epochs and rises so with ε.",
    timed: false,
    make,
};

const EPSILON: f64 = 1.0;
const EPSILONS: [f64; 5] = [0.25, 1.0, 4.0, 16.0, 64.0];
const MOST_EPOCHS: u64 = 512;

fn make(work: &Work) -> anyhow::Result<Found> {
    let grid = Grid::of(work, EPSILON)?;
    let epochs = powers_of_two(MOST_EPOCHS);
    let best: anyhow::Result<Vec<Vec<u64>>> = EPSILONS
        .par_iter()
        .map(|epsilon| epochs.iter().map(|k| Ok(Budget::new(*epsilon).best_bands(work, N, *k)?.0)).collect())
        .collect();
    let best = best?;
    let mut claims = claims_on_grid(&grid);
    claims.push(claim_on_bands(&epochs, &best));
    Ok(Found {
        setting: format!(
            "The text lost n, ε and δ: n = {N} here, so that everything up to one epoch can be computed, δ = 1e-6 and ε = \
             {EPSILON} in (a). RMSE is that of the mean gradient: k epochs in n rounds make batches of k/n of the data. \
             Column-normalised Toeplitz bands, powers of two of them. p = n/k is BandMF without amplification."
        ),
        claims,
        tables: vec![grid.table(), bands_table(&epochs, &best)],
        remarks: Vec::new(),
        charts: vec![grid.chart(), bands_chart(&epochs, &best)],
    })
}

fn claims_on_grid(grid: &Grid) -> Vec<Claim> {
    let many = 256;
    let few = 2;
    let sgd = |k| grid.at(k, 1);
    let unamplified = |k| grid.at(k, N / k);
    let ahead = grid.epochs.iter().all(|k| grid.best(*k).1 <= sgd(*k).min(unamplified(*k)) * (1.0 + 1e-9));
    let near = grid.epochs_within(1.05, sgd);
    let near_best = grid.epochs_within(1.05, |k| grid.best(k).1);
    vec![
        Claim::new(
            "(a) far fewer epochs than n bring DP-SGD near full-batch DP-SGD",
            format!("within 5 % from {near} epochs of {N} on"),
            near < N,
        ),
        Claim::new(
            "(a) unamplified BandMF is worse than DP-SGD with many epochs and better with few",
            format!(
                "{:.2} beside {:.2} at {many} epochs, {:.2} beside {:.2} at {few}",
                unamplified(many),
                sgd(many),
                unamplified(few),
                sgd(few)
            ),
            unamplified(many) > sgd(many) && unamplified(few) < sgd(few),
        ),
        Claim::new(
            "(a) amplified BandMF is the best of the three, and near full batches with fewer epochs still",
            format!("best everywhere: {ahead}; within 5 % from {near_best} epochs on"),
            ahead && near_best <= near,
        ),
        Claim::new(
            "(a) it is a modest factor above full batches with two epochs, a small one with eight",
            format!("{:.2} and {:.2} times", grid.best(2).1, grid.best(8).1),
            grid.best(2).1 > grid.best(8).1,
        ),
    ]
}

/// Slopes of ln p over ln k and ln ε, of what is not at an end of the range.
fn claim_on_bands(epochs: &[u64], best: &[Vec<u64>]) -> Claim {
    let inside = |p: u64, k: u64| p > 1 && p < N / k;
    let mut by_epochs = Vec::new();
    let mut by_epsilon = Vec::new();
    for (i, row) in best.iter().enumerate() {
        for (j, (p, k)) in row.iter().zip(epochs).enumerate().filter(|(_, (p, k))| inside(**p, **k)) {
            if let Some((next, after)) =
                row.get(j + 1).zip(epochs.get(j + 1)).filter(|(p, k)| inside(**p, **k))
            {
                by_epochs.push((*next as f64 / *p as f64).ln() / (*after as f64 / *k as f64).ln());
            }
            if let Some(next) = best.get(i + 1).map(|row| row[j]).filter(|p| inside(*p, *k)) {
                by_epsilon.push((next as f64 / *p as f64).ln() / (EPSILONS[i + 1] / EPSILONS[i]).ln());
            }
        }
    }
    let mean = |slopes: &[f64]| slopes.iter().sum::<f64>() / slopes.len().max(1) as f64;
    let k = mean(&by_epochs);
    let epsilon = mean(&by_epsilon);
    Claim::new(
        "(b) the best number of bands goes about linearly with 1/epochs and with ε",
        format!("as epochs to the power {k:.2} and ε to the power {epsilon:.2}, on average"),
        (-1.4..-0.6).contains(&k) && (0.5..1.4).contains(&epsilon),
    )
}

fn bands_table(epochs: &[u64], best: &[Vec<u64>]) -> Table {
    let header =
        std::iter::once("epochs".to_owned()).chain(EPSILONS.iter().map(|epsilon| format!("ε = {epsilon}")));
    let mut table = Table::new("(b) Best number of bands", header);
    for (j, k) in epochs.iter().enumerate() {
        let cells = best.iter().map(|row| Cell::from(row[j]));
        table.rows.push(std::iter::once(Cell::from(*k)).chain(cells).collect());
    }
    table
}

fn bands_chart(epochs: &[u64], best: &[Vec<u64>]) -> Chart {
    let series = EPSILONS.iter().zip(best).map(|(epsilon, row)| {
        let points = epochs.iter().zip(row).map(|(k, p)| (*k as f64, (*p as f64).into()));
        Series::new(format!("ε = {epsilon}"), points.collect())
    });
    Chart::Lines(Lines {
        title: format!("Best number of bands, n = {N}"),
        x: Axis::log("epochs k"),
        y: Axis::log("bands p"),
        series: series.collect(),
    })
}
