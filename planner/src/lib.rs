//! Which mechanism, with how many bands or buffers, for these rounds, participations, memory and (ε, δ)?
//!
//! [`suggest`] optimises every mechanism that could serve a [`Request`], calibrates each to the same (ε, δ) and
//! ranks them by the error that is left: **noise multiplier × error of the released rows**, in units of the clip
//! norm. Two ways of forming batches are weighed against each other ([`Sampling`]): data in any order that keeps
//! j − i ≥ min_sep, without amplification, and cyclic Poisson sampling, whose amplification grows as the bands get
//! fewer (papers/001, §4.2).

mod amplified;
mod candidates;
mod entry;
mod recommend;
mod request;

use std::ops::ControlFlow;

use rayon::prelude::*;

pub use amplified::bands_to_try;
pub use entry::{Entry, Sampling};
pub use recommend::{Recommendation, recommend};
pub use request::{PlannerError, Request, Result};

use candidates::Candidate;

/// What has been weighed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub of: usize,
}

/// Every mechanism that can serve the request, the least error first.
///
/// `progress` is called after each; `Break` ends the search with what has been found by then.
///
/// # Errors
/// [`PlannerError`] for a request out of range or an (ε, δ) that no noise multiplier reaches. A mechanism that can't
/// be optimised in this setting is left out.
pub fn suggest(
    request: &Request,
    progress: &(dyn Fn(Progress) -> ControlFlow<()> + Sync),
) -> Result<Vec<Entry>> {
    request.check()?;
    let candidates = candidates::all(request);
    let (of, done) = (candidates.len(), std::sync::atomic::AtomicUsize::new(0));
    let stopped = std::sync::atomic::AtomicBool::new(false);
    let weigh = |candidate: &Candidate| {
        use std::sync::atomic::Ordering::Relaxed;
        if stopped.load(Relaxed) {
            return Ok(None);
        }
        let entry = entry::weigh(candidate, request)?;
        let seen = Progress { done: done.fetch_add(1, Relaxed) + 1, of };
        stopped.fetch_or(progress(seen).is_break(), Relaxed);
        Ok(entry)
    };
    let found: Result<Vec<Option<Entry>>> = candidates.par_iter().map(weigh).collect();
    let mut entries: Vec<Entry> = found?.into_iter().flatten().collect();
    entries.sort_by(|a, b| a.error.total_cmp(&b.error));
    Ok(entries)
}
