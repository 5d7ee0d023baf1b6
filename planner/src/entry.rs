//! One mechanism of a suggestion, with its figures.

use serde::Serialize;
use strategy::{Banded, Strategy};

use crate::sampling::Sampling;

/// A mechanism in the setting of a request.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The mechanism's name in plan.toml.
    pub mechanism: &'static str,
    /// Bands of C or of C⁻¹, or buffers; `None` where there is no such number.
    pub size: Option<u64>,
    /// The norms of C's columns: `by-epoch` where they differ from one epoch of min_sep rounds to the next, else `equal`, but for
    /// what the end of the run cuts off.
    pub column_norms: &'static str,
    /// The optimized strategy.
    #[serde(skip)]
    pub strategy: Strategy,
    /// The way batches are formed.
    #[serde(skip)]
    pub sampling: Sampling,
    /// The name of [`Self::sampling`].
    #[serde(rename = "sampling")]
    pub sampling_name: &'static str,
    /// sens(C) per unit clip norm under the sampling's rule; of one participation for cyclic Poisson.
    pub sensitivity: f64,
    /// False where the sensitivity is an upper bound.
    pub sensitivity_exact: bool,
    /// Error of the released rows times sens(C), of the request's objective.
    pub loss: f64,
    /// σ for the request's (ε, δ).
    pub noise_multiplier: f64,
    /// σ × error of the released rows, in units of the clip norm: what entries are ranked by.
    pub error: f64,
    /// Bytes of state that a worker keeps for each coordinate.
    pub state_bytes_per_parameter: u64,
    /// Bytes of state of the largest shard.
    pub state_bytes_per_worker: u64,
    /// True where the state is within the memory that the request allows.
    pub fits: bool,
    /// ε where the sampling's assumption fails: a quarter less min_sep (and as many more participations), or cyclic
    /// batches whose records were not sampled at all; `None` for a min_sep of 1, which can't be smaller.
    pub epsilon_if_assumption_fails: Option<f64>,
    /// Loss over the first half of the rounds relative to the same mechanism made for half the rounds, less one; `None`
    /// where there is no such mechanism.
    pub excess_at_half: Option<f64>,
    /// False where the search ran out of steps; the entry is then the best point found. A search of general bands counts as
    /// converged once ten steps together gained less than 0.01 % of the loss.
    pub converged: bool,
    /// True where the caller ended the search.
    pub stopped: bool,
    /// Seconds that the search took.
    pub seconds: f64,
}

impl Entry {
    /// Returns the mechanism with its size, such as `blt 3`, and `scaled` where it is a Toeplitz matrix with scaled columns.
    #[must_use]
    pub fn name(&self) -> String {
        let size = self.size.map(|size| size as usize);
        name(self.mechanism, size, matches!(self.strategy, Strategy::Scaled(_)))
    }
}

pub(crate) fn name(mechanism: &str, size: Option<usize>, is_scaled: bool) -> String {
    let size = size.map_or(String::new(), |size| format!(" {size}"));
    format!("{mechanism}{size}{}", if is_scaled { " scaled" } else { "" })
}

/// Returns the words of [`Entry::column_norms`].
pub(crate) fn column_norms(strategy: &Strategy) -> &'static str {
    let differ = match strategy {
        Strategy::Scaled(_) => true,
        Strategy::BandMf(banded) => norms_differ(banded),
        _ => false,
    };
    if differ { "by-epoch" } else { "equal" }
}

/// Columns whose norms are this close, relatively, are equal but for rounding.
const ROUNDING: f64 = 1e-6;

fn norms_differ(banded: &Banded) -> bool {
    let n = banded.iterations();
    let columns = banded.columns().outer_iter().enumerate();
    let squares = columns.map(|(j, column)| column.iter().take(n - j).map(|c| c * c).sum::<f64>());
    let (least, most) =
        squares.fold((f64::INFINITY, 0.0_f64), |(least, most), x| (least.min(x), most.max(x)));
    most > least * (1.0 + 2.0 * ROUNDING)
}
