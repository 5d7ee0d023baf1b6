//! An authorised trainer that does to its own job whatever it may, as fast as it can: it rewinds, binds, streams slowly, has
//! checkpoints written, and asks for other workers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use client::{Client, Connections};
use node::auth::Role;
use plan::Mechanism;
use proto::{Commitment, JobId, ReleasedRows, Result, RowRange, ServiceError, pb};
use tests::{TestCluster, flags, job, small_plan};
use tokio::{runtime::Runtime, task::JoinSet};
use tokio_stream::StreamExt;

use crate::{
    ITERATIONS,
    attacks::{ATTACKS, AttackTarget, BEGUN},
    secured_by,
};

const TENANT: &str = "tenant";
const DIMENSION: u64 = 400_000;
const SHARDS: u32 = 16;
/// Rows bound at once.
const ROWS: u64 = 4_096;
/// The rows that it may have: a worker keeps some 100 bytes of each in memory.
const MAX_ROWS: &str = "1000000";

/// Starts the cluster of the honest job, and the attacker's job beside that.
pub fn shared_cluster() -> TestCluster {
    let cluster =
        secured_by(|options| options.coordinator_flags.extend(flags(&["--max-job-rows", MAX_ROWS])));
    cluster.create(&job(TENANT), &small_plan(Mechanism::Identity, ITERATIONS), DIMENSION, SHARDS).unwrap();
    cluster.wait_ready(&job(TENANT));
    cluster
}

/// Starts attackers, all with the certificate of their job.
pub fn tenant(against: &AttackTarget<'_>, runtime: &Runtime, count: usize) -> JoinSet<()> {
    let connections =
        Connections::dialing(against.cluster.cluster.dialing(&Role::Job(TENANT.into())).unwrap());
    let _inside = runtime.enter();
    let client = Client::with_connections(&against.cluster.cluster.url(), connections.clone()).unwrap();
    let trainer = Arc::new(Trainer { client, connections, job: job(TENANT), drawn: AtomicU64::new(0) });
    let mut attackers = JoinSet::new();
    for number in 0..count {
        let trainer = trainer.clone();
        attackers.spawn(async move {
            loop {
                BEGUN.fetch_add(1, Ordering::Relaxed);
                let _refused = trainer.attack(number).await;
                ATTACKS.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
    }
    attackers
}

struct Trainer {
    client: Client,
    connections: Connections,
    job: JobId,
    /// Commitments drawn, no two alike.
    drawn: AtomicU64,
}

impl Trainer {
    async fn attack(&self, number: usize) -> Result<()> {
        match number % 5 {
            0 => self.rewind().await,
            1 => self.bind(ROWS).await.map(drop),
            2 => self.client.jobs().checkpoint(&self.job).await.map(drop),
            3 => self.ask_for_other_workers(number).await,
            _ => self.read_slowly().await,
        }
    }

    async fn branch(&self) -> Result<u64> {
        Ok(self.client.jobs().get(&self.job).await?.branch)
    }

    async fn rewind(&self) -> Result<()> {
        let branch = self.branch().await?;
        self.client.jobs().rewind(&self.job, 0, branch).await.map(drop)
    }

    async fn bind(&self, rows: u64) -> Result<(u64, RowRange, ReleasedRows)> {
        let branch = self.branch().await?;
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        let start = drawn * ROWS % (ITERATIONS - ROWS);
        let rows = RowRange::new(start, start + rows)?;
        let commitments = vec![Commitment::of_text(&format!("attack {drawn}")); rows.len() as usize];
        let released = self.client.bind(&self.job, branch, rows, &commitments).await?;
        Ok((branch, rows, released))
    }

    async fn ask_for_other_workers(&self, number: usize) -> Result<()> {
        let range = Some(pb::CoordinateRange { start: 0, end: DIMENSION });
        let hints = vec![pb::PlacementHint { range, near: format!("host-{number}") }];
        self.client.jobs().place(&self.job, hints).await.map(drop)
    }

    /// Takes one chunk of a row of every shard, and no more for a while.
    async fn read_slowly(&self) -> Result<()> {
        let (branch, rows, released) = self.bind(1).await?;
        let routing = self.client.routing(&self.job).await?;
        let mut held = Vec::new();
        for route in routing.routes {
            let (Some(endpoint), Some(worker)) = (route.endpoint, route.worker) else { continue };
            let request = pb::FetchSliceRequest {
                job: self.job.to_string(),
                branch,
                shard: route.shard,
                lease_epoch: route.lease_epoch,
                rows: Some(rows.into()),
                range: Some(route.range.into()),
                token: Some(released.token(rows)?.into()),
                ..pb::FetchSliceRequest::default()
            };
            let mut shards = self.connections.shards(&endpoint, &worker)?;
            let mut chunks = shards.fetch_slice(request).await.map_err(ServiceError::from)?.into_inner();
            let _first = chunks.next().await;
            held.push(chunks);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}
