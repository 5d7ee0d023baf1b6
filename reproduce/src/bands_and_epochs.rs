//! RMSE by number of bands and of epochs, beside DP-SGD on full batches: papers/001, Figures 2(a) and 8.

use plot::{Axis, Chart, Lines, Series};
use rayon::prelude::*;

use super::amplified::{Budget, powers_of_two};
use super::item::{Cell, Table};
use super::work::Work;

pub const N: u64 = 2048;

pub struct Grid {
    pub epsilon: f64,
    pub epochs: Vec<u64>,
    pub bands: Vec<u64>,
    /// By epochs, then bands; none where no more than n/k bands can be sampled.
    ratios: Vec<Vec<Option<f64>>>,
}

impl Grid {
    pub fn of(work: &Work, epsilon: f64) -> anyhow::Result<Self> {
        let epochs = powers_of_two(N);
        let bands = powers_of_two(N);
        let budget = Budget::new(epsilon);
        let cell = |k: u64, p: u64| -> anyhow::Result<Option<f64>> {
            if k * p > N { Ok(None) } else { budget.beside_full_batch(work, N, k, p).map(Some) }
        };
        let ratios: anyhow::Result<Vec<_>> =
            epochs.par_iter().map(|k| bands.iter().map(|p| cell(*k, *p)).collect()).collect();
        Ok(Self { epsilon, epochs, bands, ratios: ratios? })
    }

    /// (bands, ratio) with the least ratio at this number of epochs.
    pub fn best(&self, epochs: u64) -> (u64, f64) {
        let row = self.epochs.iter().position(|k| *k == epochs).map(|i| &self.ratios[i]);
        let cells = row.into_iter().flatten().zip(&self.bands).filter_map(|(ratio, p)| Some((*p, (*ratio)?)));
        cells.min_by(|x, y| x.1.total_cmp(&y.1)).unwrap_or((0, f64::NAN))
    }

    /// NaN off the grid.
    pub fn at(&self, epochs: u64, bands: u64) -> f64 {
        let row = self.epochs.iter().position(|k| *k == epochs);
        let column = self.bands.iter().position(|p| *p == bands);
        row.zip(column).and_then(|(row, column)| self.ratios[row][column]).unwrap_or(f64::NAN)
    }

    /// The fewest epochs from which on the ratio, by this choice of it, is at most `most`.
    pub fn epochs_within(&self, most: f64, ratio: impl Fn(u64) -> f64) -> u64 {
        let far = self.epochs.iter().rev().take_while(|k| ratio(**k) <= most).last();
        far.copied().unwrap_or(N)
    }

    pub fn table(&self) -> Table {
        let header = std::iter::once("epochs".to_owned())
            .chain(self.bands.iter().map(|p| format!("p = {p}")))
            .chain(std::iter::once("best p".into()));
        let mut table = Table::new(format!("RMSE beside full-batch DP-SGD, ε = {}", self.epsilon), header);
        for (k, row) in self.epochs.iter().zip(&self.ratios) {
            let cells = row.iter().map(|ratio| Cell::maybe(*ratio, 3));
            let best = Cell::from(self.best(*k).0);
            table
                .rows
                .push(std::iter::once(Cell::from(*k)).chain(cells).chain(std::iter::once(best)).collect());
        }
        table
    }

    pub fn chart(&self) -> Chart {
        let series = |name: String, ratio: &dyn Fn(u64) -> Option<f64>| {
            let points = self.epochs.iter().filter_map(|k| Some((*k as f64, ratio(*k)?.into())));
            Series::new(name, points.collect())
        };
        let shown = [1, 4, 16, 64, 256];
        let mut all: Vec<Series> = shown
            .iter()
            .map(|p| series(format!("p = {p}"), &|k| Some(self.at(k, *p)).filter(|ratio| ratio.is_finite())))
            .collect();
        all.push(series("not amplified, p = n/k".into(), &|k| Some(self.at(k, N / k))));
        all.push(series("best p".into(), &|k| Some(self.best(k).1)));
        Chart::Lines(Lines {
            title: format!("RMSE beside full-batch DP-SGD, n = {N}, ε = {}", self.epsilon),
            x: Axis::log("epochs k"),
            y: Axis::log("times the RMSE"),
            series: all,
        })
    }
}
