//! The ledger against the plainest model there is, closed and opened again on the way.

use std::{cell::Cell, collections::HashMap, thread};

use ledger::{JobState, Ledger, LedgerError};
use proptest::{
    prelude::*,
    test_runner::{TestCaseResult, TestRunner},
};
use proto::{Commitment, RowRange, model::OpenBranch};

use crate::{ITERATIONS, Place, id, is_long, nonce, processors, rows};

#[derive(Clone, Debug)]
enum Step {
    /// `behind`: on the branch so many before the current one.
    Bind {
        behind: u64,
        start: u64,
        commitments: Vec<u8>,
    },
    Rewind {
        behind: u64,
        from_row: u64,
        parent: Option<u64>,
    },
    Finish,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    // Few rows and few commitments, so that calls meet; some rows lie beyond the plan.
    let start = prop_oneof![9 => 0..12u64, 1 => ITERATIONS - 3..ITERATIONS + 2];
    let behind = || prop_oneof![9 => Just(0), 1 => 1..3u64];
    let bind = (behind(), start, prop::collection::vec(0..3u8, 1..6));
    let parent = prop_oneof![2 => Just(None), 1 => (0..4u64).prop_map(Some)];
    let rewind = (behind(), 0..14u64, parent);
    prop_oneof![
        60 => bind.prop_map(|(behind, start, commitments)| Step::Bind { behind, start, commitments }),
        10 => rewind.prop_map(|(behind, from_row, parent)| Step::Rewind { behind, from_row, parent }),
        1 => Just(Step::Finish),
        6 => Just(Step::Reopen),
    ]
}

/// For each branch, whose Z each row has; for each row of a Z, what it is bound to.
#[derive(Default)]
struct Model {
    /// The branch of each row, for each branch of the job; rows past the end are the branch's own.
    owners: Vec<Vec<u64>>,
    opened: Vec<(Option<u64>, u64)>,
    bound: HashMap<(u64, u64), u8>,
    finished: bool,
}

impl Model {
    fn new() -> Self {
        Self { owners: vec![vec![0; ITERATIONS as usize]], opened: vec![(None, 0)], ..Self::default() }
    }

    fn current(&self) -> u64 {
        self.owners.len() as u64 - 1
    }

    fn bind(&mut self, branch: u64, start: u64, commitments: &[u8]) -> Result<u64, ()> {
        let end = start + commitments.len() as u64;
        if branch != self.current() || end > ITERATIONS {
            return Err(());
        }
        let owners = &self.owners[branch as usize];
        let asked = || (start..end).map(|row| (owners[row as usize], row)).zip(commitments.iter().copied());
        let is_refused = |(row, c): ((u64, u64), u8)| match self.bound.get(&row) {
            Some(bound) => *bound != c,
            None => self.finished,
        };
        if asked().any(is_refused) {
            return Err(());
        }
        let new: Vec<_> = asked().filter(|(row, _)| !self.bound.contains_key(row)).collect();
        self.bound.extend(new.iter().copied());
        Ok(new.len() as u64)
    }

    fn rows_of(&self, branch: u64) -> Vec<u64> {
        let mut rows: Vec<_> =
            self.bound.keys().filter(|(of, _)| *of == branch).map(|(_, row)| *row).collect();
        rows.sort_unstable();
        rows
    }

    fn next_row(&self, branch: u64) -> u64 {
        let own = self.rows_of(branch).last().map_or(0, |row| row + 1);
        own.max(self.opened[branch as usize].1)
    }

    /// The number of the branch.
    fn rewind(&mut self, expected: u64, from_row: u64, parent: Option<u64>) -> Result<u64, ()> {
        let parent = parent.unwrap_or(expected);
        let again = expected + 1 == self.current()
            && self.rows_of(self.current()).is_empty()
            && self.opened[self.current() as usize] == (Some(parent), from_row);
        if again {
            return Ok(self.current());
        }
        let is_refused = expected != self.current()
            || self.finished
            || parent > self.current()
            || from_row > self.next_row(parent);
        if is_refused {
            return Err(());
        }
        let branch = self.current() + 1;
        let kept = &self.owners[parent as usize][..from_row as usize];
        let fresh = std::iter::repeat_n(branch, (ITERATIONS - from_row) as usize);
        self.owners.push(kept.iter().copied().chain(fresh).collect());
        self.opened.push((Some(parent), from_row));
        Ok(branch)
    }
}

fn is_refusal(error: &LedgerError) -> bool {
    use LedgerError::*;
    matches!(
        error,
        AlreadyBound { .. }
            | RowBeyondIterations { .. }
            | BranchSuperseded { .. }
            | JobState { .. }
            | Invalid { .. }
    )
}

fn compare(ledger: &Ledger, model: &Model) {
    let released = ledger.released(&id("j")).unwrap();
    assert_eq!(released.len(), model.owners.len());
    for (branch, of_ledger) in (0..).zip(released) {
        assert_eq!((of_ledger.parent, of_ledger.from_row), model.opened[branch as usize]);
        let listed: Vec<u64> = of_ledger.released.iter().flat_map(RowRange::as_range).collect();
        assert_eq!(listed, model.rows_of(branch));
        let bound: Vec<_> = listed
            .iter()
            .map(|row| (*row, Commitment::declared([model.bound[&(branch, *row)]; 32])))
            .collect();
        assert_eq!(ledger.bindings(&id("j"), branch, 0..u64::MAX).unwrap(), bound);
        let summary = ledger.binding_summary(&id("j"), branch).unwrap();
        assert_eq!(summary.rows_bound, listed.len() as u64);
        assert_eq!(summary.next_row, model.next_row(branch));
        let lineage = ledger.lineage(&id("j"), branch).unwrap();
        let owners: Vec<u64> = (0..ITERATIONS).map(|row| lineage.branch_of(row)).collect();
        assert_eq!(owners, model.owners[branch as usize]);
    }
}

/// Takes the steps with a ledger and with the model. What they answer is compared, and after each step all they hold.
fn follow(steps: Vec<Step>) -> TestCaseResult {
    let place = if is_long() { Place::in_memory() } else { Place::new() };
    let mut ledger = place.with_job();
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Reopen => {
                drop(ledger);
                ledger = place.open();
            }
            Step::Finish => {
                ledger.set_job_state(&id("j"), JobState::Finished).unwrap();
                model.finished = true;
            }
            Step::Bind { behind, start, commitments } => {
                let branch = model.current().saturating_sub(behind);
                let expected = model.bind(branch, start, &commitments);
                let asked: Vec<_> = commitments.iter().map(|c| Commitment::declared([*c; 32])).collect();
                let range = rows(start, start + asked.len() as u64);
                let got = ledger.bind(&id("j"), branch, range, &asked);
                prop_assert!(got.as_ref().err().is_none_or(is_refusal), "{:?}", got);
                prop_assert_eq!(got.map(|bound| bound.newly).map_err(|_| ()), expected);
            }
            Step::Rewind { behind, from_row, parent } => {
                let expected_branch = model.current().saturating_sub(behind);
                let expected = model.rewind(expected_branch, from_row, parent);
                let request = OpenBranch { job: id("j"), from_row, expected_branch, parent };
                let got = ledger.open_branch(&request, nonce(expected_branch + 1));
                prop_assert!(got.as_ref().err().is_none_or(is_refusal), "{:?}", got);
                prop_assert_eq!(got.map(|opened| opened.job.branch).map_err(|_| ()), expected);
            }
        }
        compare(&ledger, &model);
    }
    Ok(())
}

/// Runs batches of 48 cases until so many steps were taken. Returns the number of steps, and of those
/// that reopened the ledger.
fn take(least: usize) -> (usize, usize) {
    let taken = Cell::new(0);
    let reopened = Cell::new(0);
    while taken.get() == 0 || taken.get() < least {
        let config = ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() };
        let case = |steps: Vec<Step>| {
            taken.set(taken.get() + steps.len());
            let reopens = steps.iter().filter(|step| matches!(step, Step::Reopen));
            reopened.set(reopened.get() + reopens.count());
            follow(steps)
        };
        let run = TestRunner::new(config).run(&prop::collection::vec(step(), 1..50), case);
        run.unwrap_or_else(|failure| panic!("{failure}"));
    }
    (taken.get(), reopened.get())
}

/// With RUSTLE_LONG a million steps, in memory, on every processor.
#[test]
fn the_ledger_does_what_maps_would() {
    let (threads, least) = if is_long() { (processors(), 1_000_000) } else { (1, 0usize) };
    let (steps, reopened) = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| take(least.div_ceil(threads)))).collect();
        let done = running.into_iter().map(|thread| thread.join().unwrap());
        done.fold((0, 0), |(steps, reopened), (s, r)| (steps + s, reopened + r))
    });
    println!("{steps} steps, {reopened} of them open the ledger anew");
    assert!(steps >= least);
}
