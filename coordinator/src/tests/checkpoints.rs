//! Checkpoints of many jobs, and a store that other coordinators write to as well.

use std::sync::Arc;

use checkpoint_store::CheckpointStore;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::checkpointing::interval::Schedule;

fn with_store(folder: &TempDir, schedule: Schedule) -> Coordinator {
    let settings = Settings { checkpoint_schedule: schedule, ..Settings::in_folder(folder.path()).unwrap() };
    let ledger = ledger_in(folder);
    Coordinator::open(ledger, settings, Connections::new(), FatalStop::new(CancellationToken::new())).unwrap()
}

/// A checkpoint that never gets its turn stands for one whose worker never answers or whose store hangs.
#[tokio::test(start_paused = true)]
async fn a_job_whose_checkpoint_hangs_holds_up_no_other() {
    let folder = TempDir::new().unwrap();
    let coordinator = Arc::new(with_store(&folder, Schedule::Every(Duration::from_secs(1))));
    let hangs = JobId::new("a").unwrap();
    let goes_on = JobId::new("b").unwrap();
    for name in [&hangs, &goes_on] {
        coordinator.create_job(CreateJob { job: name.clone(), ..create(4096, 1) }).await.unwrap();
        coordinator.bind_now(Bind { job: name.clone(), ..bind(0..1, "x") }).await.unwrap();
    }
    let attempted = |name: &JobId| coordinator.cluster().job(name).unwrap().last_attempt;
    let before = attempted(&goes_on);
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(coordinator.clone().keep_checkpointing(stop.clone()));
    // By now the deletion at the start has ended.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let _turn = coordinator.turn_to_checkpoint(&hangs).await.unwrap();
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    keeping.await.unwrap();
    assert!(attempted(&goes_on) > before, "a checkpoint of it has been tried");
}

#[tokio::test]
async fn what_a_successor_writes_is_not_swept() {
    let folder = TempDir::new().unwrap();
    let coordinator = with_store(&folder, Schedule::Never);
    coordinator.create_job(create(512, 1)).await.unwrap();
    let store = CheckpointStore::open(coordinator.store_url()).unwrap();
    let root = coordinator.store_url().strip_prefix("file://").unwrap().to_owned();
    let object = |epoch: u64| format!("{root}/job/{}/0-512.shard", (epoch << 24) + 1);
    for epoch in [coordinator.epoch(), coordinator.epoch() + 1] {
        let path = std::path::PathBuf::from(object(epoch));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"a piece").unwrap();
    }
    coordinator.delete_unlisted(&store, &job()).await;
    let is_there = |epoch: u64| std::path::Path::new(&object(epoch)).exists();
    assert!(!is_there(coordinator.epoch()), "its own, which no entry names");
    assert!(is_there(coordinator.epoch() + 1));
}
