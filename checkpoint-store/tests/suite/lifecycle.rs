//! Checkpoints from their manifest to their deletion, and the sweep of what never became whole.

use std::{fs, os::unix::fs::PermissionsExt};

use checkpoint_store::CheckpointError;
use proto::{CheckpointRecord, piece_object};

use crate::checkpoint_objects::{folder, header, key, record, small, values};
use crate::{id, range};

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

#[tokio::test]
async fn a_manifest_is_written_once() {
    let place = folder();
    let (object, written) = small(&place.store).await;
    let whole = record(&[(object, range(0, 5), written.sha256)]);
    place.store.write_manifest(&whole).await.unwrap();
    place.store.write_manifest(&whole).await.unwrap();
    let other = CheckpointRecord { next_row: 8, ..whole.clone() };
    let error = place.store.write_manifest(&other).await.unwrap_err();
    assert!(matches!(error, CheckpointError::Store { .. }), "{error}");
    let kept = fs::read(place.file("j/1/manifest.json")).unwrap();
    assert_eq!(serde_json::from_slice::<CheckpointRecord>(&kept).unwrap(), whole);
}

#[tokio::test]
async fn a_sweep_leaves_whole_checkpoints_alone() {
    let place = folder();
    let write = async |checkpoint: u64, has_manifest: bool| {
        let object = piece_object(&id("j"), checkpoint, range(0, 5));
        let values = (values(4), vec![]);
        let written =
            place.store.write_shard(&object, header(range(0, 5), 4, 9), &key(), values).await.unwrap();
        let record = CheckpointRecord { id: checkpoint, ..record(&[(object, range(0, 5), written.sha256)]) };
        if has_manifest {
            place.store.write_manifest(&record).await.unwrap();
        }
    };
    for (checkpoint, has_manifest) in [(1, true), (2, false), (3, true), (4, false)] {
        write(checkpoint, has_manifest).await;
    }
    // Left by a process that was killed while it wrote; an object with another form of name; another job.
    fs::write(place.file("j/1/512-1024.shard#7"), "half").unwrap();
    fs::create_dir_all(place.file("j/9")).unwrap();
    fs::write(place.file("j/9/0-5.shard#1"), "half").unwrap();
    fs::write(place.file("j/notes.txt"), "").unwrap();
    fs::create_dir_all(place.file("jj/2")).unwrap();
    fs::write(place.file("jj/2/0-5.shard"), "").unwrap();

    let swept = place.store.sweep(&id("j"), |checkpoint| [1, 3].contains(&checkpoint)).await.unwrap();
    assert_eq!(swept, [2, 4]);
    let is_there = |name: &str| place.file(name).exists();
    for name in ["j/1/0-5.shard", "j/1/manifest.json", "j/3/manifest.json", "j/notes.txt", "jj/2/0-5.shard"] {
        assert!(is_there(name), "{name}");
    }
    for name in ["j/1/512-1024.shard#7", "j/2", "j/4", "j/9"] {
        assert!(!is_there(name), "{name}");
    }
    assert!(place.store.sweep(&id("none"), |_| true).await.unwrap().is_empty());
}
