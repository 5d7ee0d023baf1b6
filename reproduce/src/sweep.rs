//! Losses of a few mechanisms, each made once, as the setting they are used in changes.

use rayon::prelude::*;
use strategy::optimize::{Family, Optimized};
use strategy::{Participation, Strategy, Tree};

use crate::curves::Curves;
use crate::tree_full;
use crate::work::{Loss, Work, named, normalised};

/// A mechanism with its RmsError over the rounds it runs for.
pub struct Mechanism {
    pub name: String,
    pub strategy: Strategy,
    pub rms_error: f64,
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

/// RmsLoss of every mechanism under the rule that belongs to each x, and a remark where some sensitivities are only
/// upper bounds.
pub fn losses(
    work: &Work,
    mechanisms: &[Mechanism],
    n: u64,
    rules: &[(u64, Participation)],
) -> anyhow::Result<(Curves, Option<String>)> {
    let cases: Vec<_> = mechanisms.iter().flat_map(|m| rules.iter().map(move |r| (m, r))).collect();
    let found: strategy::Result<Vec<_>> = cases
        .par_iter()
        .map(|(mechanism, (_, rule))| {
            work.report(&format!("{} at b = {}", mechanism.name, rule.min_sep));
            let sensitivity = mechanism.strategy.sensitivity(n, *rule)?;
            Ok((mechanism.rms_error * sensitivity.value, sensitivity.exact))
        })
        .collect();
    let found = found?;
    let mut curves = Curves::new(rules.iter().map(|(x, _)| *x as f64));
    for (mechanism, row) in mechanisms.iter().zip(found.chunks(rules.len())) {
        curves.add(&mechanism.name, row.iter().map(|(loss, _)| *loss));
    }
    let bounds = found.iter().filter(|(_, exact)| !exact).count();
    let remark = format!(
        "{bounds} of {} sensitivities are upper bounds, of banded matrices whose columns overlap: no search of patterns \
         settled them.",
        cases.len()
    );
    Ok((curves, (bounds > 0).then_some(remark)))
}

/// Rules of `k` participations at each separation.
pub fn rules<const N: usize>(separations: [u64; N], k: impl Fn(u64) -> u64) -> [(u64, Participation); N] {
    separations.map(|b| (b, Participation { min_sep: b, max_participations: k(b) }))
}
