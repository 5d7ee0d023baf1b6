//! What no later step reads is forgotten: states that differ in that alone are one.
//!
//! Whatever a state can do, it can do with this forgotten, and then both are alike again once this is forgotten: so
//! no violation gets lost, nor does one appear. The tests compare the two, step by step
//! (`tests/simulation/tests/exploration.rs`).

use super::state::{Grants, Holder, State, WORKERS, Worker};

pub fn forget(state: &mut State) {
    forget_grants(state);
    for number in 0..state.jobs.len() {
        forget_tokens(state, number);
        forget_epochs(state, number);
    }
}

/// A worker serves by what it holds while it is up and its lease is fresh, and what makes a lease fresh replaces what
/// it holds. Until then only heartbeats read it: whether the present epoch is in it, epochs never coming back; and
/// that only while the coordinator does not know who runs, as it does not after a start. (Nor does it after
/// resharding, but no worker holds that epoch.)
fn forget_grants(state: &mut State) {
    let may_start = !state.is_up || state.crashes_left > 0;
    for worker in &mut state.workers {
        if !(worker.is_up && worker.is_fresh) {
            worker.held.key = 0;
            for (held, job) in worker.held.jobs.iter_mut().zip(&state.jobs) {
                let is_asked_for = may_start || job.holder == Holder::Unknown;
                *held = held
                    .filter(|(_, epoch)| is_asked_for && *epoch == job.epoch)
                    .map(|(_, epoch)| (0, epoch));
            }
        }
        for grants in std::iter::once(&mut worker.held).chain(&mut worker.answer) {
            if grants.jobs.iter().all(Option::is_none) {
                grants.key = 0;
            }
        }
    }
}

/// Of a job: branch, epoch and key of each grant that a worker serves by, or may once its answer has come.
fn grants(workers: &[Worker; WORKERS], job: usize) -> impl Iterator<Item = (u8, u8, u8)> {
    let each = workers.iter().flat_map(|worker| {
        let held = Some(worker.held).filter(|_| worker.is_up && worker.is_fresh);
        [held, worker.answer]
    });
    each.flatten()
        .filter_map(move |Grants { jobs, key }| jobs[job].map(|(branch, epoch)| (branch, epoch, key)))
}

/// Tokens are read together with a grant of their branch and key: one that there is, or one to come, which has the
/// present branch or a later one, and the key of the present start or of a later one. A branch that was left is bound
/// no more, and what its rows are bound to is read with a token alone.
fn forget_tokens(state: &mut State, number: usize) {
    let next_key = state.starts + u8::from(!state.is_up);
    let job = &mut state.jobs[number];
    for (branch, rows) in (0..).zip(&mut job.rows) {
        let is_left = branch < job.branch;
        let to_come = if is_left { 0 } else { u8::MAX << next_key };
        let read = grants(&state.workers, number)
            .filter(|grant| grant.0 == branch)
            .fold(to_come, |read, (_, _, key)| read | 1 << key);
        for row in rows {
            row.tokens.iter_mut().for_each(|tokens| *tokens &= read);
            if is_left && row.tokens == [0, 0] {
                row.bound = 0;
            }
        }
    }
}

/// Grants to come are of the present epoch: who had an earlier one, and whether it is fenced, is read as long as
/// there is a grant of it.
fn forget_epochs(state: &mut State, number: usize) {
    let job = &mut state.jobs[number];
    for epoch in 0..job.epoch {
        if grants(&state.workers, number).all(|grant| grant.1 != epoch) {
            job.owners[usize::from(epoch)] = 0;
            job.fenced &= !(1 << epoch);
        }
    }
}
