//! Tests group commit: every waiting caller gets its own outcome, exactly once, whether or not the shared commit
//! succeeds.

#![allow(clippy::unwrap_used)]

use std::{cell::Cell, path::PathBuf, sync};

use ledger::{LedgerError, Result};
use schedules::{each_schedule, group_commit::GroupCommit};
use shuttle::{
    rand::{Rng, thread_rng},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Failed,
    Panicked,
    /// One outcome is missing.
    Short,
}

const FATES: [Fate; 4] = [Fate::Done, Fate::Failed, Fate::Panicked, Fate::Short];

#[derive(Default)]
struct Commits {
    is_busy: AtomicBool,
    overlapped: AtomicBool,
    batches: sync::Mutex<Vec<(Fate, Vec<u32>)>>,
}

impl Commits {
    /// The number of the batch, once its commit has ended.
    fn commit(&self, batch: &[&u32], fate: Fate) -> usize {
        if self.is_busy.swap(true, SeqCst) {
            self.overlapped.store(true, SeqCst);
        }
        let number = {
            let mut batches = self.batches.lock().unwrap();
            batches.push((fate, batch.iter().copied().copied().collect()));
            batches.len() - 1
        };
        thread::yield_now();
        self.is_busy.store(false, SeqCst);
        number
    }

    /// The answer that the caller of `request` must have received.
    fn answer(&self, request: u32) -> String {
        let batches = self.batches.lock().unwrap();
        let of_it = batches.iter().enumerate().flat_map(|(number, (fate, requests))| {
            requests.iter().filter(|of_batch| **of_batch == request).map(move |_| (number, *fate))
        });
        let of_it: Vec<_> = of_it.collect();
        match of_it[..] {
            [(_, Fate::Done)] if is_refused(request) => format!("{request} refused"),
            [(_, Fate::Done)] => format!("{request} done"),
            [(number, Fate::Failed)] => format!("batch {number} failed"),
            [(number, Fate::Panicked | Fate::Short)] => format!("batch {number} lost"),
            _ => panic!("request {request} was committed {} times: {batches:?}", of_it.len()),
        }
    }
}

fn is_refused(request: u32) -> bool {
    request.is_multiple_of(3)
}

fn error(reason: String) -> LedgerError {
    LedgerError::Io { path: PathBuf::new(), reason }
}

/// The outcome that the caller gets.
fn call(
    queue: &GroupCommit<u32, u32>,
    commits: &Commits,
    request: u32,
    fate: impl FnOnce() -> Fate,
) -> String {
    let number = Cell::new(usize::MAX);
    let commit = |batch: &[&u32]| {
        let fate = fate();
        number.set(commits.commit(batch, fate));
        let outcome = |request: &&u32| {
            if is_refused(**request) { Err(error(format!("{request} refused"))) } else { Ok(**request) }
        };
        let outcomes: Vec<Result<u32>> = batch.iter().map(outcome).collect();
        match fate {
            Fate::Done => Ok(outcomes),
            Fate::Failed => Err(error(format!("batch {} failed", number.get()))),
            // As a panic, but without its words on the screen.
            Fate::Panicked => std::panic::resume_unwind(Box::new(())),
            Fate::Short => Ok(outcomes.into_iter().skip(1).collect()),
        }
    };
    match queue.run(request, commit, |_| error(format!("batch {} lost", number.get()))) {
        Ok(done) => format!("{done} done"),
        Err(LedgerError::Io { reason, .. }) => reason,
        Err(other) => panic!("{other}"),
    }
}

/// Each caller makes so many calls, one after the other. Gives the batches.
fn callers(
    callers: u32,
    calls: u32,
    fate: impl Fn() -> Fate + Copy + Send + 'static,
) -> Vec<(Fate, Vec<u32>)> {
    let queue = Arc::<GroupCommit<u32, u32>>::default();
    let commits = Arc::<Commits>::default();
    let threads: Vec<_> = (0..callers)
        .map(|caller| {
            let queue = queue.clone();
            let commits = commits.clone();
            let call = move |request| (request, call(&queue, &commits, request, fate));
            thread::spawn(move || (caller * calls..(caller + 1) * calls).map(call).collect::<Vec<_>>())
        })
        .collect();
    let outcomes: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert!(!commits.overlapped.load(SeqCst), "two commits at once");
    for (request, outcome) in outcomes {
        assert_eq!(outcome, commits.answer(request));
    }
    let batches = commits.batches.lock().unwrap().clone();
    assert_eq!(batches.iter().map(|(_, requests)| requests.len() as u32).sum::<u32>(), callers * calls);
    batches
}

/// Mostly well, and every other fate now and then.
fn drawn() -> Fate {
    FATES.get(thread_rng().gen_range(0..8)).copied().unwrap_or(Fate::Done)
}

#[test]
fn each_caller_gets_the_outcome_of_its_own_request_which_is_committed_once() {
    let shared: sync::Arc<sync::Mutex<Vec<Fate>>> = sync::Arc::default();
    let seen = shared.clone();
    each_schedule(move || {
        let batches = callers(4, 2, drawn);
        let of_several = batches.iter().filter(|(_, requests)| requests.len() > 1);
        seen.lock().unwrap().extend(of_several.map(|(fate, _)| *fate));
    });
    for fate in FATES {
        let count = shared.lock().unwrap().iter().filter(|of_batch| **of_batch == fate).count();
        println!("{count} batches of several requests: {fate:?}");
        assert!(count > 50, "{fate:?}");
    }
}
