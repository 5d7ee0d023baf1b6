//! papers/001, Figure 8: Figure 2(a) at a larger ε.

use super::bands_and_epochs::{Grid, N};
use super::item::{Claim, Found, Item, Source};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "banded-figure-8",
    source: Source::Banded,
    title: "Figure 8: RMSE by bands and epochs at a larger ε",
    shows: "Figure 2(a) with a larger ε. DP-SGD needs more epochs to come near full-batch DP-SGD, the best number of bands \
            is higher, and DP-BandMF comes near with fewer epochs.",
    timed: false,
    make,
};

const EPSILON: f64 = 8.0;
const BEFORE: f64 = 1.0;

fn make(work: &Work) -> anyhow::Result<Found> {
    let before = Grid::of(work, BEFORE)?;
    let grid = Grid::of(work, EPSILON)?;
    let within = |grid: &Grid| {
        (grid.epochs_within(1.05, |k| grid.at(k, 1)), grid.epochs_within(1.05, |k| grid.best(k).1))
    };
    let (sgd_before, _) = within(&before);
    let (sgd, best) = within(&grid);
    let higher = grid.epochs.iter().all(|k| grid.best(*k).0 >= before.best(*k).0);
    Ok(Found {
        setting: format!(
            "As Figure 2(a) here, n = {N} and δ = 1e-6, at ε = {EPSILON} instead of {BEFORE} (both lost in the text)."
        ),
        claims: vec![
            Claim::new(
                "DP-SGD needs more epochs to come near full batches",
                format!("within 5 % from {sgd} epochs on, from {sgd_before} at ε = {BEFORE}"),
                sgd > sgd_before,
            ),
            Claim::new(
                "the best number of bands tends to be higher",
                format!(
                    "{} instead of {} at 16 epochs; never lower: {higher}",
                    grid.best(16).0,
                    before.best(16).0
                ),
                higher,
            ),
            Claim::new(
                "DP-BandMF comes near with fewer epochs than DP-SGD",
                format!("within 5 % from {best} epochs on"),
                best < sgd,
            ),
        ],
        tables: vec![grid.table()],
        remarks: Vec::new(),
        charts: vec![grid.chart()],
    })
}
