//! Shards restored from a checkpoint.

use super::*;

/// A checkpoint of the shard after three rows, and the grant that names it.
async fn checkpointed(folder: &tempfile::TempDir) -> LeaseGrant {
    let store_url = format!("file://{}", folder.path().display());
    let grant = LeaseGrant { store_url: store_url.clone(), ..grant() };
    let worker = Worker::with(grant.clone(), Duration::ZERO);
    worker.fetch(request(2)).await.unwrap();
    let object = proto::piece_object(&job(), 1, RANGE);
    let Snapshot { next_row, written, .. } =
        worker.service.snapshot(&job(), 1, EPOCH, &object).await.unwrap();
    assert!(next_row > 2);
    let piece = CheckpointPiece { object, range: RANGE, next_row, sha256: written.sha256 };
    LeaseGrant { pieces: vec![piece], ..grant }
}

#[tokio::test]
async fn a_checkpoint_is_taken_only_where_it_is_whole_and_of_this_very_noise() {
    let folder = tempfile::tempdir().unwrap();
    let good = checkpointed(&folder).await;
    let spec = GenerationSpec::for_grant(&plan(), &key(), &good).unwrap();
    let starts_at = async |grant: &LeaseGrant| restore(grant, &spec, &limits()).await.unwrap().0.next_row();
    assert_eq!(starts_at(&good).await, good.pieces[0].next_row);

    let rewound = Lineage::of_job(NONCE).rewound(0, 1, Nonce::from_bytes([6; 32]));
    let of_branch = LeaseGrant { lineage: rewound, ..good.clone() };
    let of_key = LeaseGrant { key_commitment: [9; 32], ..good.clone() };
    let of_plan = LeaseGrant { plan_digest: [9; 32], ..good.clone() };
    let mut of_bytes = good.clone();
    of_bytes.pieces[0].sha256 = [9; 32];
    let beyond = LeaseGrant { range: CoordinateRange { start: 512, end: 2_048 }, ..good.clone() };
    for (what, other) in
        [("branch", of_branch), ("key", of_key), ("plan", of_plan), ("bytes", of_bytes), ("range", beyond)]
    {
        assert_eq!(starts_at(&other).await, 0, "the checkpoint of another {what} was taken");
    }
}

#[tokio::test]
async fn a_restored_shard_goes_on_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let grant = checkpointed(&folder).await;
    let worker = Worker::with(LeaseGrant { next_row: 3, ..grant }, Duration::ZERO);
    for row in [7, 1, 3] {
        assert_eq!(worker.fetch(request(row)).await.unwrap(), expected(row, RANGE), "row {row}");
    }
}
