//! RMSE by number of bands and of epochs, beside DP-SGD on full batches: McKenna (2024), Figures 2 and 8.

use plot::{Axis, Chart};
use rayon::prelude::*;

use crate::amplified::{Budget, powers_of_two};
use crate::curves::Curves;
use crate::item::{Cell, Claim, Findings, Table, claims};
use crate::work::Work;

const N: u64 = 2048;
/// ε of Figure 2(a), and of Figure 8.
const EPSILON: f64 = 1.0;
const LARGER_EPSILON: f64 = 8.0;
const EPSILONS: [f64; 5] = [0.25, 1.0, 4.0, 16.0, 64.0];
const MOST_EPOCHS: u64 = 512;

struct Grid {
    epsilon: f64,
    epochs: Vec<u64>,
    bands: Vec<u64>,
    /// By epochs, then bands; none where no more than n/k bands can be sampled.
    ratios: Vec<Vec<Option<f64>>>,
}

impl Grid {
    fn new(work: &Work, epsilon: f64) -> anyhow::Result<Self> {
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
    fn best(&self, epochs: u64) -> (u64, f64) {
        let row = self.epochs.iter().position(|k| *k == epochs).map(|i| &self.ratios[i]);
        let cells = row.into_iter().flatten().zip(&self.bands).filter_map(|(ratio, p)| Some((*p, (*ratio)?)));
        cells.min_by(|x, y| x.1.total_cmp(&y.1)).unwrap_or((0, f64::NAN))
    }

    /// NaN off the grid.
    fn at(&self, epochs: u64, bands: u64) -> f64 {
        let row = self.epochs.iter().position(|k| *k == epochs);
        let column = self.bands.iter().position(|p| *p == bands);
        row.zip(column).and_then(|(row, column)| self.ratios[row][column]).unwrap_or(f64::NAN)
    }

    /// The fewest epochs from which on the ratio, by this choice of it, is at most `most`.
    fn epochs_within(&self, most: f64, ratio: impl Fn(u64) -> f64) -> u64 {
        let far = self.epochs.iter().rev().take_while(|k| ratio(**k) <= most).last();
        far.copied().unwrap_or(N)
    }

    /// The fewest epochs that bring DP-SGD, and the best bands, within 5 % of full batches.
    fn near(&self) -> (u64, u64) {
        (self.epochs_within(1.05, |k| self.at(k, 1)), self.epochs_within(1.05, |k| self.best(k).1))
    }

    fn table(&self) -> Table {
        let header = std::iter::once("epochs".to_owned())
            .chain(self.bands.iter().map(|p| format!("p = {p}")))
            .chain(["best p".into()]);
        let row = |(k, row): (&u64, &Vec<Option<f64>>)| {
            let cells = row.iter().map(|ratio| Cell::maybe(*ratio, 3));
            std::iter::once(Cell::from(*k)).chain(cells).chain([Cell::from(self.best(*k).0)]).collect()
        };
        let title = format!("RMSE beside full-batch DP-SGD, ε = {}", self.epsilon);
        Table::new(title, header, self.epochs.iter().zip(&self.ratios).map(row))
    }

    fn chart(&self) -> Chart {
        let mut curves = Curves::of_whole(&self.epochs);
        for p in [1, 4, 16, 64, 256] {
            let ratios = self.epochs.iter().map(|k| Some(self.at(*k, p)).filter(|ratio| ratio.is_finite()));
            curves.add(format!("p = {p}"), ratios);
        }
        curves.add("not amplified, p = n/k", self.epochs.iter().map(|k| self.at(*k, N / k)));
        curves.add("best p", self.epochs.iter().map(|k| self.best(*k).1));
        let title = format!("RMSE beside full-batch DP-SGD, n = {N}, ε = {}", self.epsilon);
        curves.chart(title, Axis::log("epochs k"), Axis::log("times the RMSE"))
    }
}

/// Figure 2.
pub fn best_bands(work: &Work) -> anyhow::Result<Findings> {
    let grid = Grid::new(work, EPSILON)?;
    let epochs = powers_of_two(MOST_EPOCHS);
    let best =
        |epsilon: &f64| epochs.iter().map(|k| Ok(Budget::new(*epsilon).best_bands(work, N, *k)?.0)).collect();
    let best: anyhow::Result<Vec<Vec<u64>>> = EPSILONS.par_iter().map(best).collect();
    let best = best?;
    let mut claims = claims_on_grid(&grid);
    claims.push(claim_on_bands(&epochs, &best));
    let mut bands = Curves::of_whole(&epochs);
    for (epsilon, row) in EPSILONS.iter().zip(&best) {
        bands.add(format!("ε = {epsilon}"), row.iter().map(|p| *p as f64));
    }
    let title = format!("Best number of bands, n = {N}");
    Ok(Findings {
        claims,
        tables: vec![grid.table(), bands.table("(b) Best number of bands", "epochs", Cell::whole, 0)],
        charts: vec![grid.chart(), bands.chart(title, Axis::log("epochs k"), Axis::log("bands p"))],
        ..Findings::default()
    })
}

fn claims_on_grid(grid: &Grid) -> Vec<Claim> {
    let sgd = |k| grid.at(k, 1);
    let unamplified = |k| grid.at(k, N / k);
    let ahead = grid.epochs.iter().all(|k| grid.best(*k).1 <= sgd(*k).min(unamplified(*k)) * (1.0 + 1e-9));
    let (near, near_best) = grid.near();
    let [[sgd_few, few], [sgd_many, many]] = [2, 256].map(|k| [sgd(k), unamplified(k)]);
    let [two, eight] = [2, 8].map(|k| grid.best(k).1);
    claims![
        near < N => "within 5 % from {near} epochs of {N} on";
        many > sgd_many && few < sgd_few =>
            "{many:.2} beside {sgd_many:.2} at 256 epochs, {few:.2} beside {sgd_few:.2} at 2";
        ahead && near_best <= near => "best everywhere: {ahead}; within 5 % from {near_best} epochs on";
        two > eight => "{two:.2} and {eight:.2} times";
    ]
}

/// Slopes of ln p over ln k and ln ε, of what is not at an end of the range.
fn claim_on_bands(epochs: &[u64], best: &[Vec<u64>]) -> Claim {
    let inside = |p: u64, k: u64| p > 1 && p < N / k;
    let mut by_epochs = Vec::new();
    let mut by_epsilon = Vec::new();
    for (i, row) in best.iter().enumerate() {
        for (j, (p, k)) in row.iter().zip(epochs).enumerate().filter(|(_, (p, k))| inside(**p, **k)) {
            let next = row.get(j + 1).zip(epochs.get(j + 1));
            if let Some((next, after)) = next.filter(|(p, k)| inside(**p, **k)) {
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
    let here = format!("as epochs to the power {k:.2} and ε to the power {epsilon:.2}, on average");
    Claim::new("", here, (-1.4..-0.6).contains(&k) && (0.5..1.4).contains(&epsilon))
}

/// Figure 8: Figure 2(a) at a larger ε.
pub fn larger_epsilon(work: &Work) -> anyhow::Result<Findings> {
    let before = Grid::new(work, EPSILON)?;
    let grid = Grid::new(work, LARGER_EPSILON)?;
    let (sgd_before, _) = before.near();
    let (sgd, best) = grid.near();
    let higher = grid.epochs.iter().all(|k| grid.best(*k).0 >= before.best(*k).0);
    let [bands, bands_before] = [&grid, &before].map(|grid| grid.best(16).0);
    Ok(Findings {
        claims: claims![
            sgd > sgd_before =>
                "within 5 % from {sgd} epochs on, from {sgd_before} at ε = {EPSILON}";
            higher => "{bands} instead of {bands_before} at 16 epochs; never lower: {higher}";
            best < sgd => "within 5 % from {best} epochs on";
        ],
        tables: vec![grid.table()],
        charts: vec![grid.chart()],
        ..Findings::default()
    })
}
