//! Losses of a few mechanisms, each made once, as the setting they are used in changes.

use plot::{Axis, Chart, Lines, Series};
use rayon::prelude::*;
use strategy::optimize::{Family, Optimized};
use strategy::{Participation, Strategy, Tree};

use super::item::{Cell, Table};
use super::tree_full;
use super::work::{Loss, Work, named, normalised};

/// A mechanism with its RmsError over the rounds it runs for.
pub struct Mechanism {
    pub name: String,
    strategy: Strategy,
    rms_error: f64,
}

impl Mechanism {
    pub fn of(name: impl Into<String>, found: &Optimized) -> Self {
        Self { name: name.into(), strategy: found.strategy.clone(), rms_error: found.rms_error }
    }

    pub fn given(strategy: Strategy, n: u64) -> anyhow::Result<Self> {
        let name = match &strategy {
            Strategy::BandSqrt { bands } => format!("band-sqrt-{bands}"),
            other => other.name().into(),
        };
        Ok(Self { name, rms_error: strategy.rms_error(n)?, strategy })
    }

    /// Band-mf of these numbers of bands, for RmsLoss. It does not depend on how often one user takes part, as long as
    /// columns don't overlap.
    pub fn band_mf(work: &Work, n: u64, bands: &[usize]) -> anyhow::Result<Vec<Self>> {
        let of = |bands: &usize| {
            let family = Family::BandMf { bands: *bands };
            let found = work.optimised(family, n, Participation::single(), Loss::Rms)?;
            Ok(Self::of(named(family), &found))
        };
        // The widest take longest.
        let found: anyhow::Result<Vec<Self>> = bands.par_iter().rev().map(of).collect();
        Ok(found?.into_iter().rev().collect())
    }

    /// What stands for band-mf where that has too many numbers to search: the optimal Toeplitz column for one
    /// participation, every column of C scaled to norm one.
    pub fn band_normalised(work: &Work, n: u64, bands: u64) -> anyhow::Result<Self> {
        let strategy = normalised(work, n, bands)?;
        let name = format!("band-toeplitz-{bands}, normalised");
        Ok(Self { name, rms_error: work.column_normalised_error(n, bands)?, strategy })
    }

    /// The name says which min-sep it was made for.
    pub fn blt(work: &Work, n: u64, buffers: usize, rule: Participation) -> anyhow::Result<Self> {
        let found = work.optimised(Family::Blt { buffers }, n, rule, Loss::Rms)?;
        Ok(Self::of(format!("blt-{buffers} for b = {}", rule.min_sep), &found))
    }

    pub fn tree_full(n: u64) -> Self {
        let errors = tree_full::errors(n as usize);
        let strategy = Strategy::Tree(Tree::default());
        Self { name: "tree, full decoder".into(), strategy, rms_error: errors.rms }
    }
}

/// RmsLoss of every mechanism (first index) at every x (second).
pub struct Sweep {
    pub xs: Vec<u64>,
    pub names: Vec<String>,
    pub losses: Vec<Vec<f64>>,
    /// Sensitivities that are upper bounds: no search of patterns settled them.
    pub bounds: usize,
}

impl Sweep {
    /// Under the rule that belongs to each x.
    pub fn over_rules(
        work: &Work,
        mechanisms: &[Mechanism],
        n: u64,
        rules: &[(u64, Participation)],
    ) -> anyhow::Result<Self> {
        let cases: Vec<_> = mechanisms.iter().flat_map(|m| rules.iter().map(move |r| (m, r))).collect();
        let found: strategy::Result<Vec<_>> = cases
            .par_iter()
            .map(|(mechanism, (_, rule))| {
                work.says(&format!("{} at b = {}", mechanism.name, rule.min_sep));
                let sensitivity = mechanism.strategy.sensitivity(n, *rule)?;
                Ok((mechanism.rms_error * sensitivity.value, sensitivity.exact))
            })
            .collect();
        let found = found?;
        Ok(Self {
            xs: rules.iter().map(|(x, _)| *x).collect(),
            names: mechanisms.iter().map(|mechanism| mechanism.name.clone()).collect(),
            losses: found
                .chunks(rules.len())
                .map(|row| row.iter().map(|(loss, _)| *loss).collect())
                .collect(),
            bounds: found.iter().filter(|(_, exact)| !exact).count(),
        })
    }

    /// The loss of the mechanism of this name at the x nearest to `x`; NaN for a name that is not there.
    pub fn at(&self, name: &str, x: u64) -> f64 {
        let nearest = (0..self.xs.len()).min_by_key(|i| self.xs[*i].abs_diff(x));
        let mechanism = self.names.iter().position(|other| other == name);
        nearest.zip(mechanism).map_or(f64::NAN, |(i, mechanism)| self.losses[mechanism][i])
    }

    /// All losses beside those of one mechanism; unchanged for a name that is not there.
    pub fn relative_to(&self, name: &str) -> Self {
        let one = vec![1.0; self.xs.len()];
        let unit = self.names.iter().position(|other| other == name).map_or(&one, |i| &self.losses[i]);
        let losses = self.losses.iter().map(|row| row.iter().zip(unit).map(|(x, unit)| x / unit).collect());
        Self { xs: self.xs.clone(), names: self.names.clone(), losses: losses.collect(), bounds: self.bounds }
    }

    pub fn table(&self, title: &str, x: &str) -> Table {
        let header = std::iter::once(x.to_owned()).chain(self.names.iter().cloned());
        let mut table = Table::new(title, header);
        for (i, x) in self.xs.iter().enumerate() {
            let losses = self.losses.iter().map(|row| Cell::number(row[i], 3));
            table.rows.push(std::iter::once(Cell::from(*x)).chain(losses).collect());
        }
        table
    }

    pub fn chart(&self, title: &str, x: Axis, y: Axis) -> Chart {
        let series = self.names.iter().zip(&self.losses).map(|(name, losses)| {
            let points = self.xs.iter().zip(losses).map(|(x, loss)| (*x as f64, (*loss).into()));
            Series::new(name, points.collect())
        });
        Chart::Lines(Lines { title: title.into(), x, y, series: series.collect() })
    }

    /// A remark where some sensitivities are bounds.
    pub fn remark(&self) -> Option<String> {
        let all = self.xs.len() * self.names.len();
        (self.bounds > 0).then(|| {
            format!(
                "{} of {all} sensitivities are upper bounds, of banded matrices whose columns overlap: no search of \
                 patterns settled them.",
                self.bounds
            )
        })
    }
}
