//! The work that items share: strategies that are optimised once, and the progress of a long run.
//!
//! This file and `item` name each other: an item is a function of the work, and the work names the item it is at.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use accounting::amplification;
use indicatif::{ProgressBar, ProgressStyle};
use strategy::optimize::{Family, Objective, Optimized, Target, optimize};
use strategy::{Participation, Strategy};

use crate::item::{Findings, Item, Words};

/// The loss a strategy is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    Rms,
    Max,
    Last,
}

impl Loss {
    pub fn objective(self) -> Objective {
        match self {
            Self::Rms => Objective::Rms,
            Self::Max => Objective::Max,
            Self::Last => Objective::Last,
        }
    }
}

/// Every item that needs an answer waits for the first that asks.
type Cell<V> = Arc<Mutex<Option<V>>>;

struct Cache<K, V>(Mutex<HashMap<K, Cell<V>>>);

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    fn get(&self, key: K, make: impl FnOnce() -> anyhow::Result<V>) -> anyhow::Result<V> {
        let cell = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cell {
            Some(value) => Ok(value.clone()),
            None => Ok(cell.insert(make()?).clone()),
        }
    }
}

pub struct Work {
    bar: ProgressBar,
    lines: bool,
    strategies: Cache<(Family, u64, Participation, Loss), Arc<Optimized>>,
    errors: Cache<(u64, u64), f64>,
    noise: Cache<[u64; 5], f64>,
}

impl Work {
    pub fn new(items: usize) -> Self {
        let bar = ProgressBar::new(items as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        let lines = !stderr().is_terminal();
        Self { bar, lines, strategies: Cache::new(), errors: Cache::new(), noise: Cache::new() }
    }

    /// Makes one item.
    pub fn over(&self, item: Item, words: &Words) -> anyhow::Result<Findings> {
        if self.lines {
            let done = self.bar.position() + 1;
            let all = self.bar.length().unwrap_or_default();
            eprintln!("{done}/{all} {}", item.name);
        }
        self.bar.set_prefix(item.name);
        self.report(&words.title);
        let found = (item.make)(self)?.worded(words)?;
        self.bar.inc(1);
        Ok(found)
    }

    /// Shows what is being done now.
    pub fn report(&self, what: &str) {
        self.bar.set_message(format!("{}: {what}", self.bar.prefix()));
        self.bar.tick();
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The best strategy of a family for prefix sums.
    pub fn optimised(
        &self,
        family: Family,
        n: u64,
        rule: Participation,
        loss: Loss,
    ) -> anyhow::Result<Arc<Optimized>> {
        self.strategies.get((family, n, rule, loss), || {
            let found = optimize(family, &Target::new(n, rule, loss.objective()), &mut |step| {
                self.report(&format!("{} at n = {n}, step {}", named(family), step.iteration));
                ControlFlow::Continue(())
            });
            Ok(Arc::new(found?))
        })
    }

    /// RmsError of the banded strategy to run under sampling: the optimal Toeplitz column for one participation, every
    /// column of C scaled to norm one.
    pub fn column_normalised_error(&self, n: u64, bands: u64) -> anyhow::Result<f64> {
        self.errors.get((n, bands), || Ok(normalised(self, n, bands)?.rms_error(n)?))
    }

    /// σ of a strategy with this many bands and columns of norm one, under cyclic Poisson sampling with `epochs`
    /// expected participations of a record.
    pub fn amplified_noise(
        &self,
        (epsilon, delta): (f64, f64),
        n: u64,
        epochs: u64,
        bands: u64,
    ) -> anyhow::Result<f64> {
        self.noise.get([epsilon.to_bits(), delta.to_bits(), n, epochs, bands], || {
            let q = epochs as f64 / n as f64;
            Ok(amplification::band_mf_noise_multiplier(epsilon, delta, bands, q, n)?)
        })
    }
}

/// The optimal Toeplitz column for one participation, every column of C scaled to norm one.
pub fn normalised(work: &Work, n: u64, bands: u64) -> anyhow::Result<Strategy> {
    if bands == 1 {
        return Ok(Strategy::Identity);
    }
    let family = Family::BandToeplitz { bands: bands as usize };
    let found = work.optimised(family, n, Participation::single(), Loss::Rms)?;
    Ok(match &found.strategy {
        Strategy::BandToeplitz { c, .. } => Strategy::BandToeplitz { c: c.clone(), column_normalised: true },
        other => other.clone(),
    })
}

/// As cases are named everywhere: blt-4, band-mf-400.
pub fn named(family: Family) -> String {
    match family {
        Family::Blt { buffers: size }
        | Family::BltAuto { max_buffers: size }
        | Family::BandToeplitz { bands: size }
        | Family::BandToeplitzNormalised { bands: size }
        | Family::BandPower { bands: size }
        | Family::BandMf { bands: size }
        | Family::BandMfByEpoch { bands: size }
        | Family::BandSqrt { bands: size }
        | Family::BandInverse { bands: size }
        | Family::BandInverseSqrt { bands: size } => format!("{}-{size}", family.name()),
        _ => family.name().into(),
    }
}
