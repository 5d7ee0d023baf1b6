//! What becomes of shards when they are granted, and granted anew.

use std::sync::mpsc;

use super::*;

fn url(folder: &tempfile::TempDir) -> String {
    format!("file://{}", folder.path().display())
}

/// A coordinator that is started anew may spell its store in another way.
#[tokio::test]
async fn another_name_of_the_store_costs_no_shard_and_is_used_from_then_on() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let of = |at: usize, epoch| LeaseGrant { epoch, store_url: url(&folders[at]), ..grant() };
    let worker = Worker::with(of(0, EPOCH), Duration::ZERO);
    worker.fetch(request(2)).await.unwrap();
    let shard = |epoch| worker.leases.shard(&job(), 1, epoch).unwrap().0;
    let begun = shard(EPOCH);
    for (id, at, epoch) in [(1, 1, EPOCH), (2, 2, EPOCH + 1)] {
        worker.lease(of(at, epoch), Duration::ZERO);
        assert!(Arc::ptr_eq(&begun, &shard(epoch)), "it was begun anew");
        assert!(!begun.cancelled.is_cancelled());
        let object = proto::piece_object(&job(), id, RANGE);
        worker.service.snapshot(&job(), 1, epoch, &object).await.unwrap();
        let is_there = folders.each_ref().map(|folder| folder.path().join(&object).exists());
        assert_eq!(is_there, [0, 1, 2].map(|folder| folder == at));
    }
}

struct NoPlan;

#[async_trait::async_trait]
impl PlanSource for NoPlan {
    async fn plan(&self, _: &JobId) -> Result<String> {
        Ok("no plan".to_owned())
    }
}

/// Checking a large plan takes seconds, in which no heartbeat would go out.
#[tokio::test]
async fn a_plan_is_read_on_the_pool() {
    let leases =
        Leases::new(Keyring::new(Some(key()), None), ReleaseLog::open(None).unwrap().into(), limits());
    let (release, held) = mpsc::channel::<()>();
    let pool = leases.limits.pool.clone();
    let busy = tokio::spawn(async move { pool.run(move || held.recv().is_err()).await });
    tokio::task::yield_now().await;
    let plans: Arc<dyn PlanSource> = Arc::new(NoPlan);
    let granted = GrantedLeases { leases: vec![grant()], ..GrantedLeases::default() };
    leases.apply(granted, verifier(), TTL, Instant::now(), &plans);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(leases.restoring(), 1, "it was read while all threads for such work were taken");
    drop(release);
    assert!(busy.await.unwrap().unwrap());
    tokio::time::timeout(TTL, async {
        while leases.restoring() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    assert!(leases.status()[0].message.contains("plan"), "{}", leases.status()[0].message);
}
