//! A log as a ledger writes it: what each of some calls changed, in records by the encoder itself.

use ledger::{
    Clock, JobRecord, JobState, Ledger, ShardRecord,
    wire::{change::Change, log_record},
};
use proto::{
    CheckpointRecord, Commitment, CoordinateRange, JobId, Lineage, Nonce, RowRange, WorkerId,
    model::{CheckpointPiece, OpenBranch},
    piece_object,
};

use super::tables_in_memory::{Disk, open, rows_of};

pub const JOB: &str = "job-1";
const RANGE: CoordinateRange = CoordinateRange { start: 0, end: 1_024 };

fn id() -> JobId {
    JobId::new(JOB).expect("a valid name")
}

fn job() -> JobRecord {
    JobRecord {
        job: id(),
        nonce: Nonce::from_bytes([3; 32]),
        plan_toml: "format = 1".into(),
        plan_digest: [1; 32],
        dimension: RANGE.end,
        layout_digest: [3; 32],
        iterations: 9,
        shards: 1,
        layout_epoch: 1,
        key_commitment: [2; 32],
        branch: 0,
        lineage: Lineage::of_job(Nonce::from_bytes([3; 32])),
        state: JobState::Running,
        mechanism: "identity".into(),
    }
}

fn bound(text: &str) -> Commitment {
    Commitment::of_text(text)
}

/// The job, and what was bound on one of its two branches.
pub fn made(branch: u64) -> (JobRecord, Vec<(u64, Commitment)>) {
    let rows = match branch {
        0 => vec![(0, bound("a")), (1, bound("b")), (2, bound("c"))],
        _ => vec![(2, bound("d")), (3, bound("e"))],
    };
    (job(), rows)
}

fn bind(ledger: &Ledger, branch: u64) -> ledger::Result<()> {
    let (rows, commitments): (Vec<u64>, Vec<_>) = made(branch).1.into_iter().unzip();
    let range = RowRange { start: rows[0], end: rows[0] + rows.len() as u64 };
    ledger.bind(&id(), branch, range, &commitments).map(drop)
}

fn checkpoint() -> CheckpointRecord {
    let object = piece_object(&id(), 1, RANGE);
    CheckpointRecord {
        job: id(),
        id: 1,
        branch: 0,
        plan_digest: [1; 32],
        next_row: 3,
        bytes: 10,
        pieces: vec![CheckpointPiece { object, range: RANGE, next_row: 3, sha256: [7; 32] }],
    }
}

type Step = fn(&Ledger) -> ledger::Result<()>;

const STEPS: [Step; 9] = [
    |ledger| ledger.next_coordinator_epoch().map(drop),
    |ledger| {
        let shards = [ShardRecord { shard: 0, range: RANGE, epoch: 1, owner: None }];
        ledger.create_job(&job(), &shards).map(drop)
    },
    |ledger| ledger.set_owners(&id(), &[(0, WorkerId::new("worker-1").ok())]).map(drop),
    |ledger| bind(ledger, 0),
    |ledger| ledger.add_checkpoint(&checkpoint()).map(drop),
    |ledger| {
        let rewind = OpenBranch { job: id(), from_row: 2, expected_branch: 0, parent: None };
        ledger.open_branch(&rewind, Nonce::from_bytes([4; 32])).map(drop)
    },
    |ledger| bind(ledger, 1),
    |ledger| {
        let halves = [CoordinateRange { start: 0, end: 512 }, CoordinateRange { start: 512, end: 1_024 }];
        ledger.replace_shards(&id(), &halves).map(drop)
    },
    |ledger| ledger.set_job_state(&id(), JobState::Finished).map(drop),
];

pub fn records() -> Vec<Vec<u8>> {
    let disk = Disk::begun();
    let mut before = rows_of(&disk.database());
    let after = |step: Step| {
        let ledger = open(&disk).expect("a ledger").with_clock(Clock::new(|| 1_790_000_000_000));
        step(&ledger).expect("a call that a ledger takes");
        rows_of(&disk.database())
    };
    let record = |step: &Step| {
        let after = after(*step);
        let changes = differences(&before, &after);
        before = after;
        log_record::encode(7, &changes).expect("changes are JSON").record
    };
    STEPS.iter().map(record).collect()
}

fn differences(before: &[Change], after: &[Change]) -> Vec<Change> {
    let is_gone = |Change(table, key, _): &&Change| !after.iter().any(|new| new.0 == *table && new.1 == *key);
    let gone =
        before.iter().filter(is_gone).map(|Change(table, key, _)| Change(table.clone(), key.clone(), None));
    gone.chain(after.iter().filter(|new| !before.contains(new)).cloned()).collect()
}
