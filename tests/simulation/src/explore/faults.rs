//! Crashes, partitions, and what mends them.

use super::model::{Action, Step, changed, durable};
use super::state::{Grants, Holder, State, WORKERS, Worker};

pub fn faults(state: &State, steps: &mut Vec<Step>) {
    if !state.is_up {
        let started = changed(state, |next| {
            (next.is_up, next.starts) = (true, next.starts + 1);
            next.jobs.iter_mut().for_each(|job| job.holder = Holder::Unknown);
            // Owners from before are waited for, for the time of a lease.
            next.workers.iter_mut().for_each(|worker| worker.is_live = true);
        });
        steps.push((Action::CoordinatorStart, started));
    }
    for at in 0..WORKERS {
        if !state.workers[at].is_up {
            let started = changed(state, |next| next.workers[at].is_up = true);
            steps.push((Action::WorkerStart { worker: at }, started));
        }
    }
    if state.crashes_left > 0 {
        crashes(state, steps);
    }
    if let Some(_worker) = state.cut {
        steps.push((Action::Mend, changed(state, |next| next.cut = None)));
    } else if state.partitions_left > 0 {
        for worker in 0..WORKERS {
            let cut = changed(state, |next| {
                (next.cut, next.partitions_left) = (Some(worker as u8), next.partitions_left - 1);
            });
            steps.push((Action::Cut { worker }, cut));
        }
    }
}

fn crashes(state: &State, steps: &mut Vec<Step>) {
    let down = |state: &State| State { is_up: false, pending: None, crashes_left: 0, ..*state };
    if state.is_up {
        steps.push((Action::CoordinatorCrash { keeps_unsynced: false }, Ok(down(state))));
        if let Some(pending) = state.pending {
            let kept = durable(state, pending, false).map(|kept| down(&kept));
            steps.push((Action::CoordinatorCrash { keeps_unsynced: true }, kept));
        }
    }
    for at in (0..WORKERS).filter(|worker| state.workers[*worker].is_up) {
        let crashed = changed(state, |next| {
            next.crashes_left = 0;
            let worker = &mut next.workers[at];
            *worker =
                Worker { is_up: false, is_fresh: false, held: Grants::default(), answer: None, ..*worker };
            for job in next.jobs.iter_mut().filter(|job| job.owner() == Some(at)) {
                job.holder = if job.holder == Holder::Running { Holder::Gone } else { job.holder };
            }
        });
        steps.push((Action::WorkerCrash { worker: at }, crashed));
    }
}
