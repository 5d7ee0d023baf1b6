//! The mechanisms that McKenna (2024) compares, at one privacy budget.

use plot::{Axis, Chart};
use strategy::optimize::Family;
use strategy::{Participation, Strategy, Tree};

use crate::amplified::Budget;
use crate::curves::Curves;
use crate::item::{Cell, Table};
use crate::work::{Loss, Work};

pub const NAMES: [&str; 6] = ["DP-SGD", "tree", "FHU", "blt-4", "BandMF, not amplified", "BandMF, amplified"];
pub const SGD: usize = 0;
pub const BLT: usize = 3;
pub const UNAMPLIFIED: usize = 4;
pub const AMPLIFIED: usize = 5;

/// RMSE in units of the clip norm, in the order of [`NAMES`].
pub type Rmse = [f64; 6];

pub fn rmse(work: &Work, budget: Budget, n: u64, epochs: u64) -> anyhow::Result<Rmse> {
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

/// RMSE beside that of amplified BandMF.
fn curves(rows: &[(f64, Rmse)]) -> Curves {
    let mut curves = Curves::new(rows.iter().map(|(x, _)| *x));
    for (i, name) in NAMES.iter().enumerate() {
        curves.add(*name, rows.iter().map(|(_, rmse)| rmse[i] / rmse[AMPLIFIED]));
    }
    curves
}

pub fn table(title: &str, x: &str, rows: &[(f64, Rmse)]) -> Table {
    curves(rows).table(title, x, |x| Cell::Text(x.to_string()), 3)
}

pub fn chart(title: &str, x: &str, rows: &[(f64, Rmse)]) -> Chart {
    curves(rows).chart(title, Axis::log(x), Axis::log("RMSE beside amplified BandMF"))
}
