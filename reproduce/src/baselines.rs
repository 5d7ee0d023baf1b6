//! The mechanisms that papers/001 compares, at one privacy budget.

use strategy::optimize::Family;
use strategy::{Participation, Strategy, Tree};

use super::amplified::Budget;
use super::item::{Cell, Table};
use super::work::{Loss, Work};

pub const NAMES: [&str; 6] = ["DP-SGD", "tree", "FHU", "blt-4", "BandMF, not amplified", "BandMF, amplified"];
pub const SGD: usize = 0;
pub const BLT: usize = 3;
pub const UNAMPLIFIED: usize = 4;
pub const AMPLIFIED: usize = 5;

/// Why the list is what it is; for the pages.
pub const LIST: &str = "The tree is read in a stream; FHU is the square root of prefix sums with all its coefficients; \
                        BandMF is the optimal Toeplitz column with every column of C scaled to norm one, unamplified with \
                        n/k bands and amplified with the best power of two of bands. What is not amplified visits each \
                        record once an epoch in a fixed order: min-sep n/k and k participations.";

/// RMSE in units of the clip norm, in the order of [`NAMES`].
pub fn rmse(work: &Work, budget: Budget, n: u64, epochs: u64) -> anyhow::Result<[f64; 6]> {
    let rule = Participation::new(n / epochs, epochs)?;
    let blt = work.optimised(Family::Blt { buffers: 4 }, n, rule, Loss::Rms)?;
    let band_mf = (epochs as f64).sqrt() * work.column_normalised_error(n, n / epochs)?;
    Ok([
        budget.amplified(work, n, epochs, 1)?,
        budget.unamplified(Strategy::Tree(Tree::default()).rms_loss(n, rule)?)?,
        budget.unamplified(Strategy::BandSqrt { bands: n as usize }.rms_loss(n, rule)?)?,
        budget.unamplified(blt.rms_loss)?,
        budget.unamplified(band_mf)?,
        budget.best_bands(work, n, epochs)?.1,
    ])
}

/// One row per x: RMSE beside that of amplified BandMF.
pub fn table(title: &str, x: &str, rows: &[(f64, [f64; 6])]) -> Table {
    let mut table = Table::new(title, std::iter::once(x).chain(NAMES));
    for (x, rmse) in rows {
        let ratios = rmse.iter().map(|rmse_of| Cell::number(rmse_of / rmse[AMPLIFIED], 3));
        table.rows.push(std::iter::once(Cell::Text(x.to_string())).chain(ratios).collect());
    }
    table
}

pub fn chart(title: &str, x: &str, rows: &[(f64, [f64; 6])]) -> plot::Chart {
    let series = NAMES.iter().enumerate().map(|(i, name)| {
        let points = rows.iter().map(|(x, rmse)| (*x, (rmse[i] / rmse[AMPLIFIED]).into()));
        plot::Series::new(*name, points.collect())
    });
    plot::Chart::Lines(plot::Lines {
        title: title.into(),
        x: plot::Axis::log(x),
        y: plot::Axis::log("RMSE beside amplified BandMF"),
        series: series.collect(),
    })
}
