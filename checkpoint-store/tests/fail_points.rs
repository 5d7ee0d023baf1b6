//! A checkpoint that fails or stops at any durable step leaves the one before, and nothing that a sweep does not end.
//! `cargo nextest run -p checkpoint-store --features failpoints`
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{fs, path::Path};

use checkpoint_store::{CheckpointError, CheckpointKey, CheckpointStore, Result, ShardHeader};
use fail::FailScenario;
use proto::{CheckpointRecord, CoordinateRange, ElementType, JobId, model::CheckpointPiece, piece_object};

const WRITING: [&str; 6] = [
    "checkpoint::piece::begin",
    "checkpoint::piece::part",
    "checkpoint::piece::finish",
    "checkpoint::piece::end",
    "checkpoint::manifest::begin",
    "checkpoint::manifest::end",
];
const DELETING: [&str; 2] = ["checkpoint::delete::begin", "checkpoint::delete::piece"];
const RANGES: [CoordinateRange; 2] =
    [CoordinateRange { start: 0, end: 512 }, CoordinateRange { start: 512, end: 700 }];

fn job() -> JobId {
    JobId::new("j").unwrap()
}

fn key() -> CheckpointKey {
    CheckpointKey::new(&[3; 32])
}

fn header(range: CoordinateRange) -> ShardHeader {
    ShardHeader {
        job: "j".to_owned(),
        branch: 0,
        plan_digest: [1; 32],
        key_commitment: [2; 32],
        stream_version: 1,
        range,
        next_row: 4,
        window_start: 4,
        block_state_len: 512,
        element: ElementType::F32,
    }
}

/// Writes the pieces, then the manifest, in the coordinator's order.
async fn write(store: &CheckpointStore, id: u64) -> Result<CheckpointRecord> {
    let mut pieces = Vec::new();
    for range in RANGES {
        let object = piece_object(&job(), id, range);
        let values = (vec![id as f32; 512], vec![]);
        let written = store.write_shard(&object, header(range), &key(), values).await?;
        pieces.push(CheckpointPiece { object, range, next_row: 4, sha256: written.sha256 });
    }
    let record =
        CheckpointRecord { job: job(), id, branch: 0, plan_digest: [1; 32], next_row: 4, bytes: 0, pieces };
    store.write_manifest(&record).await.map(|()| record)
}

async fn assert_whole(store: &CheckpointStore, record: &CheckpointRecord) {
    for piece in &record.pieces {
        let read = store.read_shard(&piece.object, &piece.sha256, &key(), |_| Ok(())).await.unwrap();
        assert!(read.state.iter().all(|value| *value == record.id as f32));
    }
}

fn folders(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("j")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn open(root: &Path) -> CheckpointStore {
    CheckpointStore::open(&format!("file://{}", root.display())).unwrap().with_sizes(1024, 256)
}

#[tokio::test]
async fn an_error_at_any_step_leaves_the_checkpoint_before() {
    let scenario = FailScenario::setup();
    for point in WRITING {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let first = write(&store, 1).await.unwrap();
        fail::cfg(point, "return(no space left on device)").unwrap();
        let error = write(&store, 2).await.unwrap_err();
        assert!(
            matches!(&error, CheckpointError::Store { reason, .. } if reason.contains("no space")),
            "{error}"
        );
        fail::remove(point);
        let drafts = fs::read_dir(folder.path().join("j/2"));
        let drafts = drafts.map(|files| files.filter(|file| is_draft(file.as_ref().unwrap())).count());
        assert_eq!(drafts.unwrap_or(0), 0, "{point}: a draft is left");
        store.sweep(&job(), |id| id == 1).await.unwrap();
        assert_eq!(folders(folder.path()), ["1"], "{point}");
        assert_whole(&store, &first).await;
        assert_whole(&store, &write(&store, 3).await.unwrap()).await;
    }
    scenario.teardown();
}

fn is_draft(file: &fs::DirEntry) -> bool {
    file.file_name().to_string_lossy().contains('#')
}

/// A stop has the effect of a kill: nothing after the point runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_at_any_step_leaves_the_checkpoint_before() {
    let scenario = FailScenario::setup();
    for point in WRITING {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let first = write(&store, 1).await.unwrap();
        fail::cfg(point, "panic").unwrap();
        let stopped = tokio::spawn({
            let store = store.clone();
            async move { write(&store, 2).await.map(|_| ()) }
        });
        assert!(stopped.await.unwrap_err().is_panic(), "{point}");
        fail::remove(point);
        // What a new process does first.
        let store = open(folder.path());
        store.sweep(&job(), |id| id == 1).await.unwrap();
        assert_whole(&store, &first).await;
        assert_whole(&store, &write(&store, 3).await.unwrap()).await;
    }
    scenario.teardown();
}

#[tokio::test]
async fn a_deletion_that_stops_can_be_done_again() {
    let scenario = FailScenario::setup();
    for point in DELETING {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let first = write(&store, 1).await.unwrap();
        let second = write(&store, 2).await.unwrap();
        fail::cfg(point, "1*return->off").unwrap();
        store.delete_checkpoint(&first).await.unwrap_err();
        let manifest = folder.path().join("j/1/manifest.json");
        assert_eq!(manifest.exists(), point == DELETING[0], "the manifest goes first");
        store.delete_checkpoint(&first).await.unwrap();
        fail::remove(point);
        assert_eq!(folders(folder.path()), ["2"]);
        assert_whole(&store, &second).await;
    }
    scenario.teardown();
}
