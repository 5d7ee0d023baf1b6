//! Damaged manifests. One says that a checkpoint is whole, to people and tools; what is restored, and by which hashes,
//! the ledger says. It is read in one place: where it is there already when it is to be written.

use std::fs;

use checkpoint_store::CheckpointError;

use crate::{
    checkpoint_objects::{folder, read, record, small},
    id, range,
};

/// Every flipped bit, every length that is too short, and one that is too long.
fn damages(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = (0..whole.len() * 8).map(|bit| {
        let mut flipped = whole.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
    flipped.chain(cut).chain([[whole, b"\n"].concat()])
}

#[tokio::test]
async fn a_damaged_manifest_is_never_taken_for_the_one_to_be_written() {
    let place = folder();
    let (object, written) = small(&place.store).await;
    let whole = record(&[(object.clone(), range(0, 5), written.sha256)]);
    place.store.write_manifest(&whole).await.unwrap();
    let manifest = place.file("j/1/manifest.json");
    let bytes = fs::read(&manifest).unwrap();
    let mut count = 0;
    for damaged in damages(&bytes) {
        fs::write(&manifest, &damaged).unwrap();
        let error = place.store.write_manifest(&whole).await;
        let error = error.expect_err(&String::from_utf8_lossy(&damaged));
        assert!(matches!(error, CheckpointError::Store { .. }), "{error}");
        assert_eq!(fs::read(&manifest).unwrap(), damaged, "it was written over");
        count += 1;
    }
    println!("{count} damaged manifests, {} bytes when whole: all refused", bytes.len());
    // The pieces are as good as before, by the ledger's hashes.
    read(&place.store, &object, &written.sha256).await.unwrap();
    fs::write(&manifest, &bytes).unwrap();
    place.store.write_manifest(&whole).await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_with_a_damaged_manifest_is_restored_kept_and_deleted_as_any_other() {
    let place = folder();
    let (object, written) = small(&place.store).await;
    let whole = record(&[(object.clone(), range(0, 5), written.sha256)]);
    place.store.write_manifest(&whole).await.unwrap();
    let manifest = place.file("j/1/manifest.json");
    // Well-formed, and of another job, other rows and other pieces.
    let misleading = fs::read_to_string(&manifest).unwrap().replace("\"j\"", "\"k\"").replace('9', "7");
    for damaged in ["", "{}", &misleading] {
        fs::write(&manifest, damaged).unwrap();
        read(&place.store, &object, &written.sha256).await.unwrap();
        assert!(place.store.sweep(&id("j"), |kept| kept == 1).await.unwrap().is_empty());
        read(&place.store, &object, &written.sha256).await.unwrap();
    }
    place.store.delete_checkpoint(&whole).await.unwrap();
    assert!(!place.file("j").exists());
}
