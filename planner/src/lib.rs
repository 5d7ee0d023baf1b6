//! The choice of a mechanism: which one, with how many bands or buffers, for given rounds, participations, memory and
//! (ε, δ).
//!
//! [`suggest`] optimizes every mechanism that could serve a [`Request`], calibrates each to the same (ε, δ) and
//! ranks them by the error that is left: **noise multiplier × error of the released rows**, in units of the clip
//! norm. Two ways of forming batches are compared ([`Sampling`]): data in any order that keeps j − i ≥ min_sep, without
//! amplification, and cyclic Poisson sampling, whose amplification grows as the bands get fewer (McKenna 2024, §4.2).
//! [`recommend`] picks one entry. Symbols are those of the [notation](strategy#notation) of crate `strategy`.
//!
//! ```
//! use planner::{Request, Watch, recommend, suggest};
//! use std::ops::ControlFlow;
//! use strategy::{Objective, Participation, Workload};
//!
//! let request = Request {
//!     iterations: 16,
//!     participation: Participation::new(4, 4)?,
//!     sampling_probability: None,
//!     epsilon: 2.0,
//!     delta: 1e-6,
//!     objective: Objective::Rms,
//!     workload: Workload::Prefix,
//!     dimension: 1_000,
//!     workers: 1,
//!     memory_per_worker: None,
//!     on_grid: false,
//! };
//! let watch = Watch { progress: &|_| (), flow: &|| ControlFlow::Continue(()) };
//! let suggestion = suggest(&request, watch)?;
//! let choice = recommend(&suggestion.entries, 0.05).expect("no memory limit, so every entry fits");
//! let entry = &suggestion.entries[choice.index];
//! println!("{} with σ = {:.3}: {}", entry.mechanism, entry.noise_multiplier, choice.reason);
//! assert!(entry.error <= 1.05 * suggestion.entries[0].error);
//! # Ok::<(), planner::PlannerError>(())
//! ```
//!
//! # Layout
//!
//! * `request`: [`Request`] and [`PlannerError`]; `sampling`: [`Sampling`]; `entry`: [`Entry`].
//! * `candidates`: the mechanisms to evaluate; `amplification`: the band counts to try under sampling.
//! * `evaluate`: one candidate optimized, calibrated and measured; `recommend`: the entry to take, with the
//!   reason.
//! * `batch_size`: the noise of each batch size, for a data set and a number of gradients.
//! * `on_grid`: plans on a grid that keep what was promised of floats.

#![deny(missing_docs)]

mod amplification;
mod batch_size;
mod candidates;
mod entry;
mod evaluate;
mod on_grid;
mod recommend;
mod request;
mod sampling;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

pub use amplification::bands_to_try;
pub use batch_size::{BatchSizeEntry, BatchSizeRequest, batch_sizes, recommended_batch_size};
pub use entry::Entry;
pub use on_grid::{calibrate_on_grid, delta_on_grid, on_grid, with_accounted_noise};
pub use recommend::{Recommendation, recommend};
pub use request::{PlannerError, Request, Result};
pub use sampling::Sampling;

use candidates::Candidate;
use evaluate::{Evaluation, evaluate};

/// The progress of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Mechanisms evaluated so far.
    pub done: usize,
    /// Mechanisms to evaluate in all.
    pub total: usize,
}

/// The caller's callbacks during a search, called from several threads.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Called after each mechanism.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Called at every step; `Break` ends the search with what has been found by then.
    pub flow: &'a (dyn Fn() -> ControlFlow<()> + Sync),
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Suggestion {
    /// Every mechanism that can serve the request, the least error first.
    pub entries: Vec<Entry>,
    /// Mechanisms that can't be optimized or evaluated in this setting, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// True where the caller ended the search: mechanisms may be missing, and others not be at their best.
    pub stopped: bool,
}

/// Evaluates every mechanism that could serve the request. Each has the noise of a plan of floats; [`on_grid`] makes the plan on
/// a grid that costs as much, and what such a plan may lose of δ has been taken off.
///
/// # Errors
/// [`PlannerError`] for a request out of range or an (ε, δ) that no noise multiplier reaches.
pub fn suggest(request: &Request, watch: Watch<'_>) -> Result<Suggestion> {
    request.check()?;
    let left = if request.on_grid { delta_on_grid(request.epsilon, request.delta)? } else { request.delta };
    let request = &Request { delta: left, ..request.clone() };
    let mut suggestion = Suggestion { entries: Vec::new(), left_out: Vec::new(), stopped: false };
    let quick = candidates::all(request);
    let done = AtomicUsize::new(0);
    suggestion.extend(evaluate_all(&quick, quick.len(), &done, request, watch)?);
    let finer = candidates::refinements(request, &suggestion.entries);
    suggestion.extend(evaluate_all(&finer, quick.len() + finer.len(), &done, request, watch)?);
    suggestion.entries.sort_by(|a, b| a.error.total_cmp(&b.error));
    Ok(suggestion)
}

/// Evaluates candidates side by side; `None` for those that the caller's stop left out.
fn evaluate_all(
    candidates: &[Candidate],
    total: usize,
    done: &AtomicUsize,
    request: &Request,
    watch: Watch<'_>,
) -> Result<Vec<Option<Evaluation>>> {
    let evaluate_next = |candidate: &Candidate| {
        if (watch.flow)().is_break() {
            return Ok(None);
        }
        let evaluation = evaluate(candidate, request, watch.flow)?;
        (watch.progress)(Progress { done: done.fetch_add(1, Ordering::Relaxed) + 1, total });
        Ok(Some(evaluation))
    };
    candidates.par_iter().map(evaluate_next).collect()
}

impl Suggestion {
    fn extend(&mut self, evaluations: Vec<Option<Evaluation>>) {
        for evaluation in evaluations {
            match evaluation {
                Some(Evaluation::Entry(entry)) => {
                    self.stopped |= entry.stopped;
                    self.entries.push(*entry);
                }
                Some(Evaluation::LeftOut { name, reason }) => self.left_out.push((name, reason)),
                Some(Evaluation::NoScales { stopped }) => self.stopped |= stopped,
                None => self.stopped = true,
            }
        }
    }
}
