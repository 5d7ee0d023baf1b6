//! Stored shards: whole and unaltered, or refused.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use ledger::{CheckpointRecord, CheckpointStore, LedgerError, ShardHeader, Written, piece_object};
use proto::{CoordinateRange, ElementType, model::CheckpointPiece};

use crate::{id, range};

struct Folder {
    folder: tempfile::TempDir,
    store: CheckpointStore,
}

fn folder() -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let store = CheckpointStore::open(&format!("file://{}/store", folder.path().display())).unwrap();
    Folder { folder, store }
}

impl Folder {
    fn file(&self, object: &str) -> PathBuf {
        self.folder.path().join("store").join(object)
    }
}

fn header(range: CoordinateRange, block_state_len: u64, window_start: u64) -> ShardHeader {
    ShardHeader {
        job: "j".to_owned(),
        branch: 3,
        plan_digest: [1; 32],
        key_commitment: [2; 32],
        stream_version: 1,
        range,
        next_row: 9,
        window_start,
        block_state_len,
        element: ElementType::F32,
    }
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32).sin()).collect()
}

/// One block of 4 state values and a window of 2 rows.
async fn small(store: &CheckpointStore) -> (String, Written) {
    let (range, row) = (range(0, 5), values(5));
    let object = piece_object(&id("j"), 1, range);
    let written = store.write_shard(&object, header(range, 4, 7), &values(4), &[&row, &row]).await.unwrap();
    (object, written)
}

fn is_refused(result: Result<ledger::ShardCheckpoint, LedgerError>) -> bool {
    matches!(result, Err(LedgerError::Checkpoint { .. }))
}

#[tokio::test]
async fn a_shard_reads_back_bit_for_bit() {
    let place = folder();
    // Sizes around the pieces that are converted at once (256 Ki values), and none.
    for (start, end, state, rows) in
        [(0, 512, 4, 0), (512, 1100, 3, 2), (0, 300_000, 0, 1), (0, 1_200_000, 2, 1)]
    {
        let range = range(start, end);
        let header = header(range, state, 9 - rows);
        let blocks = end.div_ceil(512) - start / 512;
        let mut state = values((blocks * state) as usize);
        if let Some(first) = state.first_mut() {
            *first = f32::from_bits(0x7fc0_1234);
        }
        let row = values((end - start) as usize);
        let window: Vec<&[f32]> = (0..rows).map(|_| row.as_slice()).collect();
        let object = piece_object(&id("j"), 4, range);
        let written = place.store.write_shard(&object, header.clone(), &state, &window).await.unwrap();
        assert_eq!(fs::metadata(place.file(&object)).unwrap().len(), written.bytes);

        let read = place.store.read_shard(&object, &written.sha256).await.unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(read.header, header);
        assert_eq!(bits(&read.state), bits(&state));
        assert_eq!(read.window.len() as u64, rows);
        assert!(read.window.iter().all(|found| bits(found) == bits(&row)));
        assert!(is_refused(place.store.read_shard(&object, &[0; 32]).await), "another object's hash");
    }
}

#[tokio::test]
async fn every_cut_and_every_flipped_bit_is_noticed() {
    let place = folder();
    let (object, written) = small(&place.store).await;
    let file = place.file(&object);
    let whole = fs::read(&file).unwrap();
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        assert!(is_refused(place.store.read_shard(&object, &written.sha256).await), "cut to {length}");
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&file, &flipped).unwrap();
            assert!(
                is_refused(place.store.read_shard(&object, &written.sha256).await),
                "bit {bit} of byte {at}"
            );
        }
    }
    fs::write(&file, [&whole[..], &[0]].concat()).unwrap();
    assert!(is_refused(place.store.read_shard(&object, &written.sha256).await), "one byte more");
    fs::write(&file, &whole).unwrap();
    place.store.read_shard(&object, &written.sha256).await.unwrap();
}

#[tokio::test]
async fn a_header_that_does_not_fit_the_values_writes_nothing() {
    let place = folder();
    let range = range(0, 600);
    let object = piece_object(&id("j"), 1, range);
    let (state, row) = (values(8), values(600));
    let good = header(range, 4, 8);
    let other_range = ShardHeader { range: CoordinateRange { start: 0, end: 601 }, ..good.clone() };
    let other_job = ShardHeader { job: "../j".to_owned(), ..good.clone() };
    let backward = ShardHeader { window_start: 10, ..good.clone() };
    let huge = ShardHeader { block_state_len: u64::MAX, ..good.clone() };
    let long_window = ShardHeader { window_start: 0, ..good.clone() };
    for bad in [other_range, other_job, backward, huge, long_window] {
        place.store.write_shard(&object, bad, &state, &[&row]).await.unwrap_err();
    }
    place.store.write_shard(&object, good.clone(), &state[1..], &[&row]).await.unwrap_err();
    place.store.write_shard(&object, good.clone(), &state, &[&row[1..]]).await.unwrap_err();
    assert!(is_refused(place.store.read_shard(&object, &[0; 32]).await), "nothing is there");
    place.store.write_shard(&object, good, &state, &[&row]).await.unwrap();
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_refused() {
    let place = folder();
    fs::write(place.folder.path().join("secret"), "x").unwrap();
    for bad in [
        "../secret",
        "/etc/passwd",
        "j/../../secret",
        "j/1/../../../secret",
        "..%2fsecret",
        "j/1/0-5.shard#1",
    ] {
        let read = place.store.read_shard(bad, &[0; 32]).await;
        assert!(matches!(read, Err(LedgerError::Invalid { field: "object", .. })), "{bad}");
        let range = range(0, 5);
        let written = place.store.write_shard(bad, header(range, 0, 9), &[], &[]).await;
        assert!(matches!(written, Err(LedgerError::Invalid { field: "object", .. })), "{bad}");
        let piece = CheckpointPiece { object: bad.to_owned(), range, next_row: 0, sha256: [0; 32] };
        let record = CheckpointRecord { pieces: vec![piece], ..record(&[]) };
        assert!(place.store.write_manifest(&record).await.is_err(), "{bad}");
        assert!(place.store.delete_checkpoint(&record).await.is_err(), "{bad}");
    }
    assert!(place.folder.path().join("secret").exists());
}

#[test]
fn only_absolute_folders_are_stores() {
    for bad in
        ["", "/tmp/x", "s3://bucket/x", "file://host/x", "file://relative/x", "memory:///", "file:///x?y"]
    {
        let opened = CheckpointStore::open(bad).map(|_| ());
        assert!(matches!(opened, Err(LedgerError::Invalid { field: "store URL", .. })), "{bad}");
    }
}

fn record(pieces: &[(String, CoordinateRange, [u8; 32])]) -> CheckpointRecord {
    let piece = |(object, range, sha256): &(String, CoordinateRange, [u8; 32])| CheckpointPiece {
        object: object.clone(),
        range: *range,
        next_row: 9,
        sha256: *sha256,
    };
    CheckpointRecord {
        job: id("j"),
        id: 1,
        branch: 3,
        plan_digest: [1; 32],
        next_row: 9,
        bytes: 0,
        pieces: pieces.iter().map(piece).collect(),
    }
}

#[tokio::test]
async fn a_manifest_comes_last_and_goes_first() {
    let place = folder();
    let (object, written) = small(&place.store).await;
    let whole = record(&[(object.clone(), range(0, 5), written.sha256)]);
    let missing = piece_object(&id("j"), 1, range(5, 9));
    let half = record(&[(object.clone(), range(0, 5), written.sha256), (missing, range(5, 9), [0; 32])]);
    let manifest = place.file("j/1/manifest.json");
    place.store.write_manifest(&half).await.unwrap_err();
    assert!(!manifest.exists());

    place.store.write_manifest(&whole).await.unwrap();
    let read: CheckpointRecord = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    assert_eq!(read, whole);
    let mode = |name: &str| fs::metadata(place.file(name)).unwrap().permissions().mode() & 0o777;
    for (name, expected) in
        [("", 0o700), ("j", 0o700), ("j/1", 0o700), ("j/1/manifest.json", 0o600), (object.as_str(), 0o600)]
    {
        assert_eq!(mode(name), expected, "{name:?}");
    }

    place.store.delete_checkpoint(&whole).await.unwrap();
    assert!(!place.file("j").exists());
    place.store.delete_checkpoint(&whole).await.unwrap();
}

#[test]
fn what_is_secret_is_not_shown() {
    let state = ledger::ShardCheckpoint {
        header: header(range(0, 5), 1, 8),
        state: vec![0.123_456],
        window: vec![vec![0.654_321; 5]],
    };
    let shown = format!("{state:?}");
    assert!(!shown.contains("0.123") && !shown.contains("0.654"), "{shown}");
}

/// The coordinator and workers run these inside of spawned tasks.
#[allow(dead_code)]
fn futures_are_send(store: &CheckpointStore, record: &CheckpointRecord, header: ShardHeader) {
    fn is_send(_: impl Send) {}
    is_send(store.write_shard("", header, &[], &[]));
    is_send(store.read_shard("", &[0; 32]));
    is_send(store.write_manifest(record));
    is_send(store.delete_checkpoint(record));
}
