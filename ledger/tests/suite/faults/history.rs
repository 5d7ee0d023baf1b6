//! A short history with a call of every kind, and what a ledger shows after each.

use ledger::{BranchReleases, Head, JobRecord, JobState, Ledger, Result, ShardRecord};
use proto::{
    CheckpointRecord, Commitment, WorkerId,
    model::{CheckpointPiece, OpenBranch},
    piece_object,
};

use crate::{commitment, id, job, nonce, range, rows, two_shards};

pub(super) enum Step {
    Call(fn(&Ledger) -> Result<()>),
    /// The process ends in order, and another one takes an epoch.
    Reopen,
}

use Step::{Call, Reopen};

pub(super) const HISTORY: &[Step] = &[
    Call(|ledger| ledger.create_job(&job("j"), &two_shards()).map(drop)),
    Call(|ledger| own(ledger, &[(0, "v"), (1, "w")])),
    Call(|ledger| bind(ledger, "j", 0, 0, &["a", "b", "c"])),
    // Two rows of it are bound already.
    Call(|ledger| bind(ledger, "j", 0, 1, &["b", "c", "d", "e"])),
    Call(|ledger| ledger.add_checkpoint(&checkpoint(7))),
    Reopen,
    Call(|ledger| ledger.create_job(&with_a_long_plan(), &two_shards()).map(drop)),
    Call(|ledger| bind(ledger, "long", 0, 0, &["a"])),
    Call(|ledger| bind(ledger, "j", 0, 9, &["f"])),
    Call(|ledger| rewind(ledger, 0, 3)),
    Call(|ledger| bind(ledger, "j", 1, 2, &["c", "D", "E"])),
    Call(|ledger| ledger.replace_shards(&id("j"), &[range(0, 2000)]).map(drop)),
    Call(|ledger| ledger.add_checkpoint(&checkpoint(8))),
    Call(|ledger| ledger.remove_checkpoint(&id("j"), 7)),
    Call(|ledger| own(ledger, &[(0, "w")])),
    Call(|ledger| ledger.set_job_state(&id("long"), JobState::Destroyed).map(drop)),
    Call(|ledger| bind(ledger, "j", 1, 5, &["F", "G"])),
    Call(|ledger| ledger.archive_destroyed().map(drop)),
    Reopen,
];

/// Returns a job whose plan is longer than a new file has room for, so that the file grows.
fn with_a_long_plan() -> JobRecord {
    JobRecord { plan_toml: "mechanism = \"blt\"\n".repeat(20_000), ..job("long") }
}

fn own(ledger: &Ledger, owners: &[(u32, &str)]) -> Result<()> {
    let changes: Vec<_> =
        owners.iter().map(|(shard, name)| (*shard, Some(WorkerId::new(*name).unwrap()))).collect();
    ledger.set_owners(&id("j"), &changes).map(drop)
}

fn bind(ledger: &Ledger, job: &str, branch: u64, start: u64, texts: &[&str]) -> Result<()> {
    let commitments: Vec<_> = texts.iter().map(|text| commitment(text)).collect();
    ledger.bind(&id(job), branch, rows(start, start + texts.len() as u64), &commitments).map(drop)
}

fn rewind(ledger: &Ledger, expected_branch: u64, from_row: u64) -> Result<()> {
    let request = OpenBranch { job: id("j"), from_row, expected_branch, parent: None };
    ledger.open_branch(&request, nonce(expected_branch + 1)).map(drop)
}

fn checkpoint(number: u64) -> CheckpointRecord {
    let object = piece_object(&id("j"), number, range(0, 2000));
    let range = range(0, 2000);
    CheckpointRecord {
        job: id("j"),
        id: number,
        branch: 0,
        plan_digest: [1; 32],
        next_row: 5,
        bytes: 99,
        pieces: vec![CheckpointPiece { object, range, next_row: 5, sha256: [3; 32] }],
    }
}

/// All that a ledger shows, but for the coordinator's epoch, which can be read by raising it alone.
#[derive(PartialEq)]
pub(super) struct Picture(Vec<OfJob>);

#[derive(PartialEq)]
struct OfJob {
    record: JobRecord,
    shards: Vec<ShardRecord>,
    checkpoints: Vec<CheckpointRecord>,
    head: Head,
    /// For each branch; empty for an archived job.
    bindings: Vec<Vec<(u64, Commitment)>>,
    released: Vec<BranchReleases>,
}

impl Picture {
    pub(super) fn of(ledger: &Ledger) -> Self {
        let of_job = |record: JobRecord| {
            let job = &record.job;
            let is_archived = ledger.is_archived(job).unwrap();
            let bindings = |branch| {
                if is_archived { Vec::new() } else { ledger.bindings(job, branch, 0..u64::MAX).unwrap() }
            };
            OfJob {
                released: ledger.released(job).unwrap(),
                shards: ledger.shards(job).unwrap(),
                checkpoints: ledger.checkpoints(job).unwrap(),
                head: ledger.head(job).unwrap(),
                bindings: (0..=record.branch).map(bindings).collect(),
                record,
            }
        };
        Self(ledger.jobs().unwrap().into_iter().map(of_job).collect())
    }

    /// Returns the rows of the current branch's lineage: branch to bind on, row, and what it is bound to.
    pub(super) fn bound_rows(&self) -> Vec<(&JobRecord, u64, Commitment)> {
        let mut all = Vec::new();
        for OfJob { record, bindings, .. } in &self.0 {
            for (branch, rows) in (0..).zip(bindings) {
                let own = rows.iter().filter(|(row, _)| record.lineage.branch_of(*row) == branch);
                all.extend(own.map(|(row, commitment)| (record, *row, *commitment)));
            }
        }
        all
    }
}
