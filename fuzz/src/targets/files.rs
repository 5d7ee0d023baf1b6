//! Files: ledgers, checkpoints, manifests, .npy files.

use std::{fs, path::Path};

use checkpoint_store::{CheckpointKey, CheckpointStore, ShardHeader};
use ledger::{JobRecord, JobState, Ledger, ShardRecord};
use proto::{
    CheckpointRecord, Commitment, CoordinateRange, ElementType, JobId, Lineage, Nonce, RowRange, piece_object,
};
use rustle::npy::{NpyReader, NpyWriter};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{Target, words};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "ledger", seeds: ledger_seeds, run: ledger, slice: 25 },
        Target { name: "checkpoint", seeds: checkpoint_seeds, run: checkpoint, slice: 400 },
        Target { name: "manifest", seeds: manifest_seeds, run: manifest, slice: 3_000 },
        Target { name: "npy", seeds: npy_seeds, run: npy, slice: 1_000 },
    ]
}

/// Returns a folder, in memory where the system has such: nothing here needs a disk.
pub(super) fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() };
    folder.expect("a folder")
}

fn job() -> JobId {
    JobId::new("job-1").expect("a valid name")
}

fn bound(row: u64) -> Commitment {
    Commitment::of_text(&format!("row {row}"))
}

const BOUND: u64 = 5;

fn ledger_seeds() -> Vec<Vec<u8>> {
    let folder = folder();
    let path = folder.path().join("ledger.redb");
    let record = JobRecord {
        job: job(),
        nonce: Nonce::from_bytes([3; 32]),
        plan_toml: "format = 1".into(),
        plan_digest: [1; 32],
        dimension: 1_024,
        layout_digest: [3; 32],
        iterations: 9,
        shards: 1,
        layout_epoch: 1,
        key_commitment: [2; 32],
        branch: 0,
        lineage: Lineage::of_job(Nonce::from_bytes([3; 32])),
        state: JobState::Running,
        mechanism: "identity".into(),
    };
    let range = CoordinateRange { start: 0, end: 1_024 };
    let shards = [ShardRecord { shard: 0, range, epoch: 1, owner: None }];
    {
        Ledger::init(&path, Nonce::from_bytes([1; 32])).expect("a new ledger");
        let ledger = Ledger::open(&path).expect("the new ledger");
        ledger.create_job(&record, &shards).expect("a job");
        for row in 0..BOUND {
            ledger.bind(&job(), 0, RowRange { start: row, end: row + 1 }, &[bound(row)]).expect("a binding");
        }
    }
    vec![fs::read(path).expect("the ledger's bytes")]
}

/// A ledger is refused and left unchanged, or it has all bound rows.
fn ledger(bytes: &[u8]) -> String {
    let folder = folder();
    let path = folder.path().join("ledger.redb");
    fs::write(&path, bytes).expect("a file");
    match Ledger::open(&path) {
        Ok(ledger) => {
            let found = ledger.bindings(&job(), 0, 0..BOUND);
            let whole: Vec<_> = (0..BOUND).map(|row| (row, bound(row))).collect();
            assert_eq!(found.ok(), Some(whole), "a damaged ledger lost a binding");
            "ok".into()
        }
        Err(error) => {
            assert!(fs::read(&path).is_ok_and(|left| left == bytes), "a refused ledger was changed");
            without(&folder, error)
        }
    }
}

/// Returns an error's words without the folder, which differs each time.
pub(super) fn without(folder: &TempDir, error: impl std::fmt::Display) -> String {
    words(error.to_string().replace(&folder.path().display().to_string(), ""))
}

pub(super) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

const RANGE: CoordinateRange = CoordinateRange { start: 512, end: 1_000 };

fn store(folder: &TempDir) -> CheckpointStore {
    CheckpointStore::open(&format!("file://{}", folder.path().display())).expect("a store")
}

fn seal() -> CheckpointKey {
    CheckpointKey::new(&[8; 32])
}

fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let folder = folder();
    let header = ShardHeader {
        job: job().to_string(),
        branch: 0,
        plan_digest: [1; 32],
        key_commitment: [2; 32],
        stream_version: 2,
        range: RANGE,
        next_row: 2,
        window_start: 1,
        block_state_len: 16,
        element: ElementType::F32,
    };
    let object = piece_object(&job(), 1, RANGE);
    let row = vec![1.0; RANGE.len() as usize];
    let values = (vec![0.5; 16], vec![row]);
    let written = runtime().block_on(store(&folder).write_shard(&object, header, &seal(), values));
    written.expect("a checkpoint");
    vec![fs::read(folder.path().join(object)).expect("its bytes")]
}

/// Corrects the digest of the bytes, so that the code after that check is reached.
fn checkpoint(bytes: &[u8]) -> String {
    let folder = folder();
    let object = piece_object(&job(), 1, RANGE);
    let path = folder.path().join(&object);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, bytes).expect("a file");
    let whole: [u8; 32] = Sha256::digest(bytes).into();
    let store = store(&folder);
    let read = runtime().block_on(async {
        let mut other = whole;
        other[0] ^= 1;
        let of_other = store.read_shard(&object, &other, &seal(), |_| Ok(())).await;
        assert!(of_other.is_err(), "bytes of another digest were taken");
        store.read_shard(&object, &whole, &seal(), |_| Ok(())).await
    });
    match read {
        Ok(read) => {
            assert_eq!(read.header.range, RANGE);
            let rows = read.header.next_row - read.header.window_start;
            assert_eq!(read.window.len() as u64, rows);
            assert!(read.window.iter().all(|row| row.len() as u64 == RANGE.len()));
            "ok".into()
        }
        Err(error) => words(error),
    }
}

fn manifest_seeds() -> Vec<Vec<u8>> {
    let piece = proto::model::CheckpointPiece {
        object: piece_object(&job(), 1, RANGE),
        range: RANGE,
        next_row: 4,
        sha256: [7; 32],
    };
    let record = CheckpointRecord {
        job: job(),
        id: 1,
        branch: 0,
        plan_digest: [1; 32],
        next_row: 4,
        bytes: 10,
        pieces: vec![piece],
    };
    vec![serde_json::to_vec(&record).expect("a manifest")]
}

fn manifest(bytes: &[u8]) -> String {
    match serde_json::from_slice::<CheckpointRecord>(bytes) {
        Ok(record) => {
            let text = serde_json::to_vec(&record).expect("a manifest");
            assert_eq!(serde_json::from_slice::<CheckpointRecord>(&text).ok().as_ref(), Some(&record));
            let _ = proto::pieces_for(&record, RANGE);
            "ok".into()
        }
        Err(error) => words(error),
    }
}

fn npy_seeds() -> Vec<Vec<u8>> {
    let folder = folder();
    let path = folder.path().join("rows.npy");
    let mut writer = NpyWriter::create(&path, 2, 3).expect("a file");
    writer.write(&[1.0; 6]).expect("room");
    writer.finish().expect("a file");
    vec![fs::read(path).expect("its bytes")]
}

fn npy(bytes: &[u8]) -> String {
    let folder = folder();
    let path = folder.path().join("rows.npy");
    fs::write(&path, bytes).expect("a file");
    match NpyReader::open(&path) {
        Ok(mut reader) => {
            let count = reader.rows.checked_mul(reader.coordinates).expect("a checked shape");
            assert!(count * 4 <= bytes.len() as u64, "more numbers than bytes");
            reader.read(&mut vec![0.0; count as usize]).expect("all numbers are there");
            "ok".into()
        }
        Err(error) => without(&folder, format!("{error:#}")),
    }
}
