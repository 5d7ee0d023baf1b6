//! Stored shards: whole and unaltered, or refused.

use std::{fs, path::PathBuf};

use checkpoint_store::{
    CheckpointError, CheckpointKey, CheckpointStore, ShardCheckpoint, ShardHeader, WrittenShard,
};
use proto::{
    CheckpointRecord, CoordinateRange, ElementType, InvalidValue, model::CheckpointPiece, piece_object,
};

use crate::{id, range};

pub(crate) struct Folder {
    folder: tempfile::TempDir,
    pub(crate) store: CheckpointStore,
}

pub(crate) fn folder() -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let store = CheckpointStore::open(&format!("file://{}/store", folder.path().display())).unwrap();
    Folder { folder, store }
}

pub(crate) fn key() -> CheckpointKey {
    CheckpointKey::new(&[3; 32])
}

pub(crate) async fn read(
    store: &CheckpointStore,
    object: &str,
    sha256: &[u8; 32],
) -> Result<ShardCheckpoint, CheckpointError> {
    store.read_shard(object, sha256, &key(), |_| Ok(())).await
}

impl Folder {
    pub(crate) fn file(&self, object: &str) -> PathBuf {
        self.folder.path().join("store").join(object)
    }
}

pub(crate) fn header(range: CoordinateRange, block_state_len: u64, window_start: u64) -> ShardHeader {
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

pub(crate) fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i as f32).sin()).collect()
}

/// Writes a shard of one block of 20 state values and a window of 2 rows, in segments of 64 bytes.
pub(crate) async fn small(store: &CheckpointStore) -> (String, WrittenShard) {
    let range = range(0, 5);
    let rows = vec![values(5); 2];
    let object = piece_object(&id("j"), 1, range);
    let store = store.clone().with_sizes(100, 64);
    let written = store.write_shard(&object, header(range, 20, 7), &key(), (values(20), rows)).await.unwrap();
    (object, written)
}

fn is_refused(result: Result<ShardCheckpoint, CheckpointError>) -> bool {
    matches!(result, Err(CheckpointError::Unusable { .. }))
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
        let window = vec![row.clone(); rows as usize];
        let object = piece_object(&id("j"), 4, range);
        let written =
            place.store.write_shard(&object, header.clone(), &key(), (state.clone(), window)).await.unwrap();
        assert_eq!(fs::metadata(place.file(&object)).unwrap().len(), written.bytes);

        let got = read(&place.store, &object, &written.sha256).await.unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(got.header, header);
        assert_eq!(bits(&got.state), bits(&state));
        assert_eq!(got.window.len() as u64, rows);
        assert!(got.window.iter().all(|found| bits(found) == bits(&row)));
        assert!(is_refused(read(&place.store, &object, &[0; 32]).await), "another object's hash");
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
        assert!(is_refused(read(&place.store, &object, &written.sha256).await), "cut to {length}");
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            fs::write(&file, &flipped).unwrap();
            assert!(is_refused(read(&place.store, &object, &written.sha256).await), "bit {bit} of byte {at}");
        }
    }
    fs::write(&file, [&whole[..], &[0]].concat()).unwrap();
    assert!(is_refused(read(&place.store, &object, &written.sha256).await), "one byte more");
    fs::write(&file, &whole).unwrap();
    read(&place.store, &object, &written.sha256).await.unwrap();
}

#[tokio::test]
async fn a_header_that_does_not_fit_the_values_writes_nothing() {
    let place = folder();
    let range = range(0, 600);
    let object = piece_object(&id("j"), 1, range);
    let state = values(8);
    let row = values(600);
    let good = header(range, 4, 8);
    let other_range = ShardHeader { range: CoordinateRange { start: 0, end: 601 }, ..good.clone() };
    let other_job = ShardHeader { job: "../j".to_owned(), ..good.clone() };
    let backward = ShardHeader { window_start: 10, ..good.clone() };
    let huge = ShardHeader { block_state_len: u64::MAX, ..good.clone() };
    let long_window = ShardHeader { window_start: 0, ..good.clone() };
    let write = |header: &ShardHeader, state: &[f32], row: &[f32]| {
        let store = place.store.clone();
        let object = object.clone();
        let header = header.clone();
        let values = (state.to_vec(), vec![row.to_vec()]);
        async move { store.write_shard(&object, header, &key(), values).await }
    };
    for bad in [other_range, other_job, backward, huge, long_window] {
        write(&bad, &state, &row).await.unwrap_err();
    }
    write(&good, &state[1..], &row).await.unwrap_err();
    write(&good, &state, &row[1..]).await.unwrap_err();
    assert!(is_refused(read(&place.store, &object, &[0; 32]).await), "nothing is there");
    write(&good, &state, &row).await.unwrap();
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
        let read = read(&place.store, bad, &[0; 32]).await;
        assert!(matches!(read, Err(CheckpointError::Invalid(InvalidValue { field: "object", .. }))), "{bad}");
        let range = range(0, 5);
        let written = place.store.write_shard(bad, header(range, 0, 9), &key(), (vec![], vec![])).await;
        assert!(
            matches!(written, Err(CheckpointError::Invalid(InvalidValue { field: "object", .. }))),
            "{bad}"
        );
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
        ["", "/tmp/x", "http://bucket/x", "file://host/x", "file://relative/x", "memory:///", "file:///x?y"]
    {
        let opened = CheckpointStore::open(bad).map(|_| ());
        assert!(
            matches!(opened, Err(CheckpointError::Invalid(InvalidValue { field: "store URL", .. }))),
            "{bad}"
        );
    }
}

pub(crate) fn record(pieces: &[(String, CoordinateRange, [u8; 32])]) -> CheckpointRecord {
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
async fn another_key_or_another_object_under_the_name_is_refused() {
    let place = folder();
    let (object, written) = small(&place.store).await;
    let other = CheckpointKey::new(&[4; 32]);
    let error = place.store.read_shard(&object, &written.sha256, &other, |_| Ok(())).await.unwrap_err();
    assert!(error.to_string().contains("another key"), "{error}");
    let check = |header: &ShardHeader| Err(format!("is of plan {}", header.plan_digest[0]));
    let error = place.store.read_shard(&object, &written.sha256, &key(), check).await.unwrap_err();
    assert!(error.to_string().contains("is of plan 1"), "{error}");
    // Well sealed by the same key, and still not what the manifest vouches for.
    let (_, again) = small(&place.store).await;
    assert_ne!(written.sha256, again.sha256, "one key and nonce for two objects");
    assert!(is_refused(read(&place.store, &object, &written.sha256).await));
    read(&place.store, &object, &again.sha256).await.unwrap();
}

#[tokio::test]
async fn no_window_of_8_bytes_of_the_values_is_stored() {
    let place = folder();
    let range = range(0, 700);
    let row = values(700);
    let object = piece_object(&id("j"), 1, range);
    let state: Vec<f32> = (0..64).map(|i| (i as f32).cos()).collect();
    let secret = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let secrets: std::collections::HashSet<Vec<u8>> = [secret(&state), secret(&row), key_bytes()]
        .iter()
        .flat_map(|bytes| bytes.windows(8).map(<[u8]>::to_vec).collect::<Vec<_>>())
        .collect();
    let values = (state, vec![row; 2]);
    place.store.write_shard(&object, header(range, 32, 7), &key(), values).await.unwrap();
    let stored = fs::read(place.file(&object)).unwrap();
    let hits = stored.windows(8).filter(|window| secrets.contains(*window)).count();
    assert_eq!(hits, 0, "of {} windows", stored.len() - 7);
}

fn key_bytes() -> Vec<u8> {
    vec![3; 32]
}

#[test]
fn what_is_secret_is_not_shown() {
    let state = checkpoint_store::ShardCheckpoint {
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
    is_send(store.write_shard("", header, &key(), (vec![], vec![])));
    is_send(store.read_shard("", &[0; 32], &key(), |_| Ok(())));
    is_send(store.sweep(&record.job, |_| true));
    is_send(store.write_manifest(record));
    is_send(store.delete_checkpoint(record));
}
