//! One state for all that differ in names alone.
//!
//! No step asks for a name: if names change places throughout a state, its steps are those of the state before, with
//! the names changed likewise, and so is what they violate. So it is enough to follow one state of those that are
//! alike, whichever is least. These change places:
//! * the workers, and the jobs (the first state gives each job another worker, which is a state like any other);
//! * the two commitments of a row, for each row by itself;
//! * the rows of a branch that may be bound there: all of the first, of the second those from the rewind on. Rows of
//!   two branches are different rows, even under one number.
//!
//! The last two hold where the ledger looks at nothing but the row itself: [`super::rule`] sees to that.

use super::model::Model;
use super::packed::Packed;
use super::state::{JOBS, Job, Pending, REWOUND_TO, State};
use super::unread::forget;

impl Model<'_> {
    /// The state that stands for this one and all that are like it.
    pub fn canonical(&self, state: &State) -> Packed {
        let mut state = *state;
        // These bugs make workers look at less, and so serve by what would not be read otherwise.
        if !self.rules.no_epoch_check && !self.rules.no_token_check {
            forget(&mut state);
        }
        name_rows(&mut state, self.rows);
        let swapped = with_workers_swapped(&state);
        let least = Packed::of(&state).min(Packed::of(&swapped));
        if self.jobs < JOBS {
            return least;
        }
        [state, swapped].iter().map(|state| Packed::of(&with_jobs_swapped(state))).fold(least, Packed::min)
    }
}

fn with_workers_swapped(state: &State) -> State {
    let mut swapped = *state;
    swapped.workers.swap(0, 1);
    swapped.cut = state.cut.map(|worker| 1 - worker);
    for owner in swapped.jobs.iter_mut().flat_map(|job| &mut job.owners).filter(|owner| **owner > 0) {
        *owner = 3 - *owner;
    }
    swapped
}

fn with_jobs_swapped(state: &State) -> State {
    let mut swapped = *state;
    swapped.jobs.swap(0, 1);
    swapped.pending = state.pending.map(|pending| Pending { job: 1 - pending.job, ..pending });
    for worker in &mut swapped.workers {
        worker.held.jobs.swap(0, 1);
        worker.answer.iter_mut().for_each(|answer| answer.jobs.swap(0, 1));
    }
    swapped
}

fn name_rows(state: &mut State, rows: usize) {
    for (number, job) in state.jobs.iter_mut().enumerate() {
        let pending = state.pending.as_mut().filter(|pending| usize::from(pending.job) == number);
        name_job_rows(job, pending, rows);
    }
}

/// A row's first commitment is the one it is bound to, else the one with more tokens, else the one under way; the row
/// with a binding under way comes first, and the others are sorted.
fn name_job_rows(job: &mut Job, mut pending: Option<&mut Pending>, rows: usize) {
    for (branch, cells) in job.rows.iter_mut().enumerate() {
        let mut pending = pending.as_deref_mut().filter(|_| branch == usize::from(job.branch));
        for (number, row) in cells.iter_mut().enumerate() {
            let pending = pending.as_deref_mut().filter(|pending| usize::from(pending.row) == number);
            let asks_second = pending.as_ref().is_some_and(|pending| pending.commitment == 2);
            let unbound = (row.tokens[1], asks_second) > (row.tokens[0], false);
            if row.bound == 2 || (row.bound == 0 && unbound) {
                row.tokens.swap(0, 1);
                row.bound = u8::from(row.bound == 2);
                pending.into_iter().for_each(|pending| pending.commitment = 3 - pending.commitment);
            }
        }
        let from = if branch > 0 { REWOUND_TO } else { 0 };
        let Some(alike) = cells.get_mut(from..rows) else { continue };
        let sorted = match pending {
            Some(pending) => {
                alike.swap(0, usize::from(pending.row) - from);
                pending.row = from as u8;
                1
            }
            None => 0,
        };
        alike.get_mut(sorted..).into_iter().for_each(|rest| rest.sort_unstable());
    }
}
