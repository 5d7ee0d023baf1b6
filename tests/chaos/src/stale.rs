//! Asks workers for rows under leases that they have lost. A worker may serve under a lease until its time is over;
//! after that, a single byte is a violation.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proto::{JobId, ReleasedRows, ServiceError, pb, pb::shards_client::ShardsClient};
use tokio::time::{Instant, sleep, timeout};

use crate::{Session, history::Violation, trainer};

const EVERY: Duration = Duration::from_millis(150);
const CALL_TIMEOUT: Duration = Duration::from_millis(700);
/// Times that one lost lease is tried: some while its worker is stopped, some after.
const TRIES: u32 = 12;

#[derive(Clone)]
struct Lease {
    job: JobId,
    shard: u32,
    epoch: u64,
    range: proto::CoordinateRange,
    endpoint: String,
    /// A row and its grant, from the time when the lease was valid.
    released: Option<(u64, ReleasedRows)>,
}

struct LostLease {
    lease: Lease,
    /// The time at which a higher epoch was seen.
    since: Instant,
    tries: u32,
}

/// Probes until the session is over; says how many were refused by a live worker.
pub async fn probe(session: Arc<Session>, lease_ttl: Duration) -> u64 {
    let mut current: BTreeMap<(JobId, u32), Lease> = BTreeMap::new();
    let mut lost: Vec<LostLease> = Vec::new();
    let mut refused: u64 = 0;
    while !session.is_over() {
        lost.extend(look(&session, &mut current).await);
        lost.retain(|lost| lost.tries < TRIES);
        let due = |lost: &&mut LostLease| lost.since.elapsed() > lease_ttl;
        for lost in lost.iter_mut().filter(due).take(4) {
            lost.tries += 1;
            refused += try_under(&session, &lost.lease).await;
        }
        // Those tried least come first.
        lost.sort_by_key(|lost| lost.tries);
        sleep(EVERY).await;
    }
    refused
}

/// Leases that have gone to another epoch since the last look.
async fn look(session: &Session, current: &mut BTreeMap<(JobId, u32), Lease>) -> Vec<LostLease> {
    let mut lost = Vec::new();
    for case in session.cases.open() {
        let Ok(Ok(routing)) = timeout(CALL_TIMEOUT, session.client.routing(&case.job)).await else {
            continue;
        };
        let released = session.history.acked_rows(&case.job).pop().map(|(row, acked)| (row, acked.released));
        for route in routing.routes {
            let key = (case.job.clone(), route.shard);
            let before = current.get(&key);
            // An old copy of the ledger, whose coordinator has no workers, may say anything.
            let is_served = route.endpoint.is_some();
            if let Some(before) = before.filter(|before| is_served && before.epoch > route.lease_epoch) {
                let old = before.epoch;
                let new = route.lease_epoch;
                let text = format!("{} shard {}: epoch fell from {old} to {new}", case.job, route.shard);
                session.history.violation(Violation::Stale, text);
            }
            if let Some(before) = before.filter(|before| before.epoch < route.lease_epoch) {
                lost.push(LostLease { lease: before.clone(), since: Instant::now(), tries: 0 });
                current.remove(&key);
            }
            if let Some(endpoint) = route.endpoint {
                let job = case.job.clone();
                let shard = route.shard;
                let epoch = route.lease_epoch;
                let range = route.range;
                let released = released.clone();
                current.insert(key, Lease { job, shard, epoch, range, endpoint, released });
            }
        }
    }
    lost
}

/// 1 for each refusal. With the grant of the lease's time, and with one of now.
async fn try_under(session: &Session, lease: &Lease) -> u64 {
    let Some((row, old)) = lease.released.clone() else { return 0 };
    let case = session.cases.open().into_iter().find(|case| case.job == lease.job);
    let acked = session.history.acked_rows(&lease.job).into_iter().find(|(bound, _)| *bound == row);
    let mut grants = vec![old];
    if let (Some(case), Some((_, acked))) = (case, acked)
        && let Ok(new) = trainer::bind(session, &case, row, acked.commitment).await
    {
        grants.push(new);
    }
    let mut refused = 0;
    for released in grants {
        match timeout(CALL_TIMEOUT, ask(lease, row, released)).await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(bytes)) => {
                let Lease { job, shard, epoch, endpoint, .. } = lease;
                let text =
                    format!("{bytes} bytes of {job} shard {shard} under lost epoch {epoch} of {endpoint}");
                session.history.violation(Violation::Stale, text);
            }
            Ok(Err(ServiceError::Unavailable { what })) if !what.contains("lease") => {}
            Ok(Err(_)) => refused += 1,
        }
    }
    refused
}

async fn ask(lease: &Lease, row: u64, released: ReleasedRows) -> Result<usize, ServiceError> {
    let gone = |error: tonic::transport::Error| ServiceError::Unavailable { what: error.to_string() };
    let mut worker = ShardsClient::connect(lease.endpoint.clone()).await.map_err(gone)?;
    let request = pb::FetchSliceRequest {
        job: lease.job.to_string(),
        branch: 0,
        shard: lease.shard,
        lease_epoch: lease.epoch,
        rows: Some(pb::RowRange { start: row, end: row + 1 }),
        range: Some(pb::CoordinateRange { start: lease.range.start, end: lease.range.end }),
        token: Some(released.token((row..row + 1).into())?.into()),
        deadline_ms: 300,
        ..pb::FetchSliceRequest::default()
    };
    let mut chunks = worker.fetch_slice(request).await?.into_inner();
    let mut bytes = 0;
    while let Some(chunk) = chunks.message().await? {
        bytes += chunk.data.len();
    }
    Ok(bytes)
}
