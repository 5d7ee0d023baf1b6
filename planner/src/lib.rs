//! Which mechanism, with how many bands or buffers, for these rounds, participations, memory and (ε, δ)?
//!
//! [`suggest`] optimises every mechanism that could serve a [`Request`], calibrates each to the same (ε, δ) and
//! ranks them by the error that is left: **noise multiplier × error of the released rows**, in units of the clip
//! norm. Two ways of forming batches are weighed against each other ([`Sampling`]): data in any order that keeps
//! j − i ≥ min_sep, without amplification, and cyclic Poisson sampling, whose amplification grows as the bands get
//! fewer (papers/001, §4.2).

#![deny(missing_docs)]

mod amplification;
mod candidates;
mod entry;
mod evaluate;
mod recommend;
mod request;
mod sampling;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

pub use amplification::bands_to_try;
pub use entry::Entry;
pub use recommend::{Recommendation, recommend};
pub use request::{PlannerError, Request, Result};
pub use sampling::Sampling;

use candidates::Candidate;
use evaluate::{Evaluation, evaluate};

/// What has been weighed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub total: usize,
}

/// How a caller watches a search, from several threads.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Called after each mechanism.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// Asked at every step; `Break` ends the search with what has been found by then.
    pub flow: &'a (dyn Fn() -> ControlFlow<()> + Sync),
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Suggestion {
    /// Every mechanism that can serve the request, the least error first.
    pub entries: Vec<Entry>,
    /// What can't be optimised or evaluated in this setting, with the reason.
    pub left_out: Vec<(String, String)>,
    /// True where the caller ended the search: mechanisms may be missing, and others not be at their best.
    pub stopped: bool,
}

/// Weighs every mechanism that could serve the request.
///
/// # Errors
/// [`PlannerError`] for a request out of range or an (ε, δ) that no noise multiplier reaches.
pub fn suggest(request: &Request, watch: Watch<'_>) -> Result<Suggestion> {
    request.check()?;
    let candidates = candidates::all(request);
    let total = candidates.len();
    let done = AtomicUsize::new(0);
    let evaluate_next = |candidate: &Candidate| {
        if (watch.flow)().is_break() {
            return Ok(None);
        }
        let evaluation = evaluate(candidate, request, watch.flow)?;
        (watch.progress)(Progress { done: done.fetch_add(1, Ordering::Relaxed) + 1, total });
        Ok(Some(evaluation))
    };
    let evaluations: Result<Vec<Option<Evaluation>>> = candidates.par_iter().map(evaluate_next).collect();
    let mut suggestion = Suggestion { entries: Vec::new(), left_out: Vec::new(), stopped: false };
    for evaluation in evaluations? {
        match evaluation {
            Some(Evaluation::Entry(entry)) => {
                suggestion.stopped |= entry.stopped;
                suggestion.entries.push(*entry);
            }
            Some(Evaluation::LeftOut { name, reason }) => suggestion.left_out.push((name, reason)),
            None => suggestion.stopped = true,
        }
    }
    suggestion.entries.sort_by(|a, b| a.error.total_cmp(&b.error));
    Ok(suggestion)
}
