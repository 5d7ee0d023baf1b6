//! For how long a worker has a job's key.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;

#[tokio::test]
async fn a_key_ends_with_the_last_shard_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job.key");
    let keyring = Keyring::new(None, Some(dir.path().to_owned()));
    let leases = Leases::new(keyring, ReleaseLog::open(None).unwrap().into(), limits());
    let regions = Regions::new(CpuPool::new(1).unwrap(), 0);
    let service = NoiseService::new(worker_id(), leases.clone(), regions, proto::MIN_CHUNK_BYTES);
    let worker = Worker { leases, service };
    let plans: Arc<dyn PlanSource> = Arc::new(ThePlan);
    for is_cleared in [true, false] {
        fs::write(&path, KEY).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        worker.lease(grant(), Duration::ZERO);
        worker.fetch(request(0)).await.unwrap();
        fs::remove_file(&path).unwrap();
        // Of a job that is held the key stays: a shard more needs no file.
        worker.lease(LeaseGrant { shard: 2, ..grant() }, Duration::ZERO);
        worker.fetch(FetchSlice { shard: 2, ..request(0) }).await.unwrap();
        if is_cleared {
            worker.leases.clear()
        } else {
            _ = worker.leases.apply(GrantedLeases::default(), verifier(), TTL, Instant::now(), &plans)
        }
        worker.lease(grant(), Duration::ZERO);
        let refused = worker.fetch(request(0)).await.map(|values| values.len());
        assert_eq!(refused.unwrap_err().kind(), "not_found", "cleared: {is_cleared}");
        worker.leases.clear();
    }
}
