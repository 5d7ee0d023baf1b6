//! The actions of each node, and the invariants that must hold after them.
//!
//! This file and `faults` name each other: a fault is an action, and the actions of a state list its faults.

use super::faults::faults;
use super::rule::BindRule;
use super::state::{
    BRANCHES, COMMITMENTS, EPOCHS, Grants, Holder, Pending, REWOUND_TO, State, WORKERS, Worker,
};

/// The bugs that a model may have; none by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub acks_before_sync: bool,
    pub binds_twice: bool,
    pub no_epoch_check: bool,
    pub no_token_check: bool,
    pub lease_never_ends: bool,
    pub keeps_epoch_of_new_owner: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Bind { job: usize, row: usize, commitment: u8 },
    Sync,
    Serve { worker: usize, job: usize, branch: u8, row: usize, commitment: u8, epoch: u8 },
    Heartbeat { worker: usize },
    Answered { worker: usize },
    LeaseEnds { worker: usize },
    GivenUp { worker: usize },
    NewOwner { job: usize, worker: usize },
    Reshard { job: usize },
    Rewind { job: usize },
    CoordinatorCrash { keeps_unsynced: bool },
    CoordinatorStart,
    WorkerCrash { worker: usize },
    WorkerStart { worker: usize },
    Cut { worker: usize },
    Mend,
}

/// The explored cluster: at most `state::JOBS` jobs of at most `state::ROWS` rows.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    pub bind: &'a BindRule,
    pub rules: Rules,
    pub jobs: usize,
    pub rows: usize,
}

/// An action and the state that it leads to; `Err` describes a violation.
pub type Step = (Action, Result<State, String>);

impl Model<'_> {
    /// Returns every possible action.
    pub fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::with_capacity(32);
        faults(state, &mut steps);
        for worker in 0..WORKERS {
            lease_steps(state, worker, self.rules, &mut steps);
            serve_steps(state, worker, self, &mut steps);
        }
        if state.is_up {
            for job in 0..self.jobs {
                bind_steps(state, job, self, &mut steps);
                owner_steps(state, job, self.rules, &mut steps);
            }
            sync_step(state, &mut steps);
        }
        steps
    }
}

pub(super) fn changed(state: &State, change: impl FnOnce(&mut State)) -> Result<State, String> {
    let mut next = *state;
    change(&mut next);
    Ok(next)
}

fn bind_steps(state: &State, job: usize, model: &Model<'_>, steps: &mut Vec<Step>) {
    let Model { rules, bind, .. } = *model;
    if state.pending.is_some() {
        return;
    }
    let Some(rows) = state.jobs[job].rows.get(state.jobs[job].branch as usize) else { return };
    let from = if state.jobs[job].branch > 0 { REWOUND_TO } else { 0 };
    let bound = rows.map(|row| row.bound);
    let branch = state.jobs[job].branch as usize;
    for row in from..model.rows {
        for commitment in 1..=COMMITMENTS as u8 {
            if !rules.binds_twice && !bind.grants(&bound, row, commitment) {
                continue;
            }
            let token = 1 << state.starts;
            let next = changed(state, |next| {
                let tokens = &mut next.jobs[job].rows[branch][row].tokens[commitment as usize - 1];
                if bound[row] == commitment {
                    *tokens |= token;
                } else {
                    next.pending = Some(Pending { job: job as u8, row: row as u8, commitment });
                    *tokens |= if rules.acks_before_sync { token } else { 0 };
                }
            });
            steps.push((Action::Bind { job, row, commitment }, next));
        }
    }
}

/// The commit is on disk: only now it is acknowledged.
fn sync_step(state: &State, steps: &mut Vec<Step>) {
    if let Some(pending) = state.pending {
        steps.push((Action::Sync, durable(state, pending, true)));
    }
}

pub(super) fn durable(state: &State, pending: Pending, is_acked: bool) -> Result<State, String> {
    let Pending { job, row, commitment } = pending;
    let mut next = *state;
    next.pending = None;
    let job = &mut next.jobs[job as usize];
    let row = &mut job.rows[job.branch as usize][row as usize];
    if row.bound != 0 && row.bound != commitment {
        return Err(format!("a row that is bound to {} is bound to {commitment}", row.bound));
    }
    row.bound = commitment;
    if is_acked {
        row.tokens[commitment as usize - 1] |= 1 << state.starts;
    }
    Ok(next)
}

/// Whatever a client may ask: any row of any branch, under any token and epoch.
fn serve_steps(state: &State, worker: usize, model: &Model<'_>, steps: &mut Vec<Step>) {
    let Worker { is_up: true, is_fresh: true, held, .. } = state.workers[worker] else { return };
    let rules = model.rules;
    for job in 0..model.jobs {
        let Some((held_branch, held_epoch)) = held.jobs[job] else { continue };
        for (branch, rows) in (0..BRANCHES as u8).zip(&state.jobs[job].rows) {
            for (row, cell) in rows.iter().enumerate().take(model.rows) {
                for commitment in 1..=COMMITMENTS as u8 {
                    let is_signed = cell.tokens[commitment as usize - 1] & (1 << held.key) != 0;
                    for epoch in 0..EPOCHS as u8 {
                        let is_served = (is_signed || rules.no_token_check)
                            && (epoch == held_epoch || rules.no_epoch_check)
                            && branch == held_branch;
                        if is_served {
                            let action = Action::Serve { worker, job, branch, row, commitment, epoch };
                            steps.push((
                                action,
                                may_be_served(state, worker, job, epoch, cell.bound, commitment),
                            ));
                        }
                    }
                }
            }
        }
    }
}

/// Checks what must hold at the moment a byte is released.
fn may_be_served(
    state: &State,
    worker: usize,
    job: usize,
    epoch: u8,
    bound: u8,
    commitment: u8,
) -> Result<State, String> {
    let job = &state.jobs[job];
    let owner = job.owners[epoch as usize] as usize;
    if bound != commitment {
        return Err(format!("released for {commitment}, bound to {bound}"));
    }
    if owner != worker + 1 {
        return Err(format!("worker {worker} served under epoch {epoch} of {owner}"));
    }
    if job.fenced & (1 << epoch) != 0 {
        return Err(format!("worker {worker} served under a fenced epoch"));
    }
    Ok(*state)
}

fn lease_steps(state: &State, at: usize, rules: Rules, steps: &mut Vec<Step>) {
    let worker = state.workers[at];
    let is_reachable = state.cut != Some(at as u8) && worker.is_up;
    if state.is_up && is_reachable && worker.answer.is_none() {
        steps.push((Action::Heartbeat { worker: at }, changed(state, |next| heartbeat(next, at))));
    }
    if is_reachable && worker.answer.is_some() {
        let applied = changed(state, |next| {
            let worker = &mut next.workers[at];
            worker.held = worker.answer.take().unwrap_or_default();
            worker.is_fresh = true;
        });
        steps.push((Action::Answered { worker: at }, applied));
    }
    if worker.is_fresh || worker.answer.is_some() {
        // An answer later than this comes from a request too old to begin a lease with.
        let ended = changed(state, |next| {
            next.workers[at].answer = None;
            next.workers[at].is_fresh &= rules.lease_never_ends;
        });
        steps.push((Action::LeaseEnds { worker: at }, ended));
    }
    // A worker's lease counts from when it asked, the coordinator's from when it heard: it ends later.
    let has_ended = !worker.is_fresh && worker.answer.is_none();
    if state.is_up && worker.is_live && (has_ended || rules.lease_never_ends) {
        steps.push((Action::GivenUp { worker: at }, changed(state, |next| next.workers[at].is_live = false)));
    }
}

/// The coordinator hears what the worker holds, and answers with what it should.
fn heartbeat(next: &mut State, at: usize) {
    let mut grants = Grants { key: next.starts, ..Grants::default() };
    let held = next.workers[at].held;
    next.workers[at].is_live = true;
    for (number, job) in next.jobs.iter_mut().enumerate() {
        if job.owner() != Some(at) {
            continue;
        }
        let names_it = held.jobs[number].is_some_and(|(_, epoch)| epoch == job.epoch);
        job.holder = match job.holder {
            Holder::Unknown if names_it => Holder::Running,
            // It does not hold it any more: placement gives the shard anew.
            Holder::Unknown => Holder::Gone,
            holder => holder,
        };
        if job.holder == Holder::Running {
            grants.jobs[number] = Some((job.branch, job.epoch));
        }
    }
    next.workers[at].answer = Some(grants);
}

fn owner_steps(state: &State, at: usize, rules: Rules, steps: &mut Vec<Step>) {
    let job = state.jobs[at];
    if (job.epoch as usize) + 1 < EPOCHS {
        let has_lapsed = job.owner().is_some_and(|owner| !state.workers[owner].is_live);
        let needs_owner = job.owner().is_none() || has_lapsed || job.holder == Holder::Gone;
        for worker in (0..WORKERS).filter(|worker| needs_owner && state.workers[*worker].is_live) {
            let given = changed(state, |next| {
                let job = &mut next.jobs[at];
                job.fenced |= u8::from(has_lapsed) << job.epoch;
                job.epoch += u8::from(!rules.keeps_epoch_of_new_owner);
                job.owners[job.epoch as usize] = worker as u8 + 1;
                job.holder = Holder::Running;
            });
            steps.push((Action::NewOwner { job: at, worker }, given));
        }
        let resharded = changed(state, |next| {
            let job = &mut next.jobs[at];
            job.epoch += 1;
            job.holder = Holder::Unknown;
        });
        steps.push((Action::Reshard { job: at }, resharded));
    }
    if state.rewinds_left > 0 && state.pending.is_none() {
        let rewound = changed(state, |next| {
            next.rewinds_left -= 1;
            next.jobs[at].branch += 1;
        });
        steps.push((Action::Rewind { job: at }, rewound));
    }
}
