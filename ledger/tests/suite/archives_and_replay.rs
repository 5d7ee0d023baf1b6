//! Drawn histories, in one ledger with archives now and then and in another one without: they say and refuse the same.

use ledger::{BranchReleases, Clock, JobRecord, JobState, Ledger, LedgerError, Opening, Result};
use proptest::prelude::*;
use proto::{JobId, model::OpenBranch};

use crate::{Place, commitment, id, job, nonce, rows, two_shards};

const JOBS: [&str; 3] = ["i", "j", "k"];

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Bind {
        job: usize,
        start: u64,
        texts: Vec<u8>,
    },
    Rewind {
        job: usize,
        from_row: u64,
    },
    Finish(usize),
    Destroy(usize),
    Reshard(usize),
    /// In one of them alone.
    Archive,
    /// In one of them alone: archives, and gives room back.
    Compact,
    /// In both.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let of_job = || 0..JOBS.len();
    let bind = (of_job(), 0..12u64, prop::collection::vec(0..2u8, 1..5));
    prop_oneof![
        4 => of_job().prop_map(Step::Create),
        20 => bind.prop_map(|(job, start, texts)| Step::Bind { job, start, texts }),
        5 => (of_job(), 0..10u64).prop_map(|(job, from_row)| Step::Rewind { job, from_row }),
        1 => of_job().prop_map(Step::Finish),
        4 => of_job().prop_map(Step::Destroy),
        2 => of_job().prop_map(Step::Reshard),
        4 => Just(Step::Archive),
        1 => Just(Step::Compact),
        2 => Just(Step::Reopen),
    ]
}

/// One of the two ledgers.
struct Side {
    place: Place,
    ledger: Option<Ledger>,
}

impl Side {
    fn new() -> Self {
        let mut side = Self { place: Place::in_memory(), ledger: None };
        side.reopen();
        side
    }

    fn reopen(&mut self) {
        self.ledger = None;
        self.ledger = Some(self.place.open().with_clock(Clock::new(|| 1_790_000_000_000)));
    }

    fn compact(&mut self) {
        self.ledger = None;
        Ledger::compact(&self.place.path()).unwrap();
        self.reopen();
    }

    fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    /// Takes a step, and returns what it answered.
    fn take(&self, step: &Step) -> String {
        let ledger = self.ledger();
        let answer: Result<String> = match step {
            Step::Create(of) => ledger.create_job(&job(JOBS[*of]), &two_shards()).map(|it| format!("{it:?}")),
            Step::Bind { job, start, texts } => {
                let job = id(JOBS[*job]);
                let branch = branch_of(ledger, &job);
                let commitments: Vec<_> = texts.iter().map(|text| commitment(&text.to_string())).collect();
                let range = rows(*start, start + commitments.len() as u64);
                ledger.bind(&job, branch, range, &commitments).map(|it| format!("{it:?}"))
            }
            Step::Rewind { job, from_row } => {
                let job = id(JOBS[*job]);
                let expected_branch = branch_of(ledger, &job);
                let request = OpenBranch { job, from_row: *from_row, expected_branch, parent: None };
                ledger.open_branch(&request, nonce(expected_branch + 1)).map(|it| format!("{it:?}"))
            }
            Step::Finish(of) => end(ledger, *of, JobState::Finished),
            Step::Destroy(of) => end(ledger, *of, JobState::Destroyed),
            Step::Reshard(of) => {
                let whole = crate::range(0, 2000);
                ledger.replace_shards(&id(JOBS[*of]), &[whole]).map(|it| format!("{it:?}"))
            }
            Step::Archive | Step::Compact | Step::Reopen => Ok(String::new()),
        };
        answer.unwrap_or_else(|error| error.to_string())
    }

    fn picture(&self) -> Vec<Picture> {
        let ledger = self.ledger();
        ledger.jobs().unwrap().into_iter().map(|record| Picture::of(ledger, record)).collect()
    }
}

fn branch_of(ledger: &Ledger, job: &JobId) -> u64 {
    ledger.job(job).unwrap().map_or(0, |record| record.branch)
}

fn end(ledger: &Ledger, of: usize, state: JobState) -> Result<String> {
    ledger.set_job_state(&id(JOBS[of]), state).map(|it| format!("{it:?}"))
}

#[derive(Debug, PartialEq)]
struct Picture {
    released: Vec<BranchReleases>,
    openings: Vec<Opening>,
    summaries: Vec<(u64, u64)>,
    shards: String,
    record: JobRecord,
}

impl Picture {
    fn of(ledger: &Ledger, record: JobRecord) -> Self {
        let job = &record.job;
        let summary = |branch| {
            let summary = ledger.binding_summary(job, branch).unwrap();
            (summary.rows_bound, summary.next_row)
        };
        Self {
            released: ledger.released(job).unwrap(),
            openings: ledger.openings(job).unwrap(),
            summaries: (0..=record.branch).map(summary).collect(),
            shards: format!("{:?}", ledger.shards(job).unwrap()),
            record,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_ledger_with_archives_says_and_refuses_what_one_without_does(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut with = Side::new();
        let mut without = Side::new();
        for step in &steps {
            match step {
                Step::Archive => drop(with.ledger().archive_destroyed().unwrap()),
                Step::Compact => with.compact(),
                Step::Reopen => {
                    with.reopen();
                    without.reopen();
                }
                step => {
                    prop_assert_eq!(with.take(step), without.take(step), "{:?}", step);
                }
            }
        }
        prop_assert_eq!(with.picture(), without.picture());
        with.compact();
        prop_assert_eq!(with.picture(), without.picture());
        for record in without.ledger().jobs().unwrap() {
            let is_destroyed = record.state == JobState::Destroyed;
            prop_assert_eq!(with.ledger().is_archived(&record.job).unwrap(), is_destroyed);
            let listed = with.ledger().bindings(&record.job, 0, 0..99);
            if is_destroyed {
                let is_refused = matches!(listed, Err(LedgerError::JobState { .. }));
                prop_assert!(is_refused, "{:?}", listed);
            } else {
                let there = without.ledger().bindings(&record.job, 0, 0..99);
                prop_assert_eq!(listed.unwrap(), there.unwrap());
            }
        }
    }
}
