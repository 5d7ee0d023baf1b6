//! Routing and binding.

use client::{Route, Routing};
use metrics::{counter, histogram};
use proto::model::Bind;
use proto::{JobId, ReleaseToken, Result};
use tokio::time::Instant;

use crate::cluster::{Cluster, JobView, Member, ShardView};
use crate::coordinator::Coordinator;
use crate::metric_definitions::{BIND_SECONDS, BINDINGS_REFUSED, ROWS_BOUND};
use crate::release::Releaser;

impl Coordinator {
    pub fn routing(&self, job: &JobId) -> Result<Routing> {
        let cluster = self.cluster();
        let view = cluster.job(job)?;
        if !view.is_served() {
            return Err(view.wrong_state("running or finished, to be routed"));
        }
        Ok(routing_of(&cluster, view, Instant::now()))
    }

    /// Durable when it returns; one token a row.
    pub async fn bind(&self, bind: Bind) -> Result<Vec<ReleaseToken>> {
        let began = Instant::now();
        let bound = self.try_to_bind(bind).await;
        match &bound {
            Ok(_) => histogram!(BIND_SECONDS).record(began.elapsed()),
            Err(error) => counter!(BINDINGS_REFUSED, "kind" => error.kind()).increment(1),
        }
        bound
    }

    async fn try_to_bind(&self, bind: Bind) -> Result<Vec<ReleaseToken>> {
        Releaser::check(&bind)?;
        let (job, branch, rows) = (bind.job.clone(), bind.branch, bind.rows);
        let releaser = self.releaser.clone();
        let mark = self.cluster().mark_to_check(&job)?;
        let released = self.with_ledger(move |ledger| releaser.release(ledger, &bind, mark.as_ref())).await?;
        counter!(ROWS_BOUND).increment(released.newly);
        self.cluster().rows_were_bound(&job, branch, rows.end, released.newly);
        Ok(released.tokens)
    }
}

fn routing_of(cluster: &Cluster, view: &JobView, now: Instant) -> Routing {
    let record = &view.record;
    let route = |shard: &ShardView| {
        let member = holder(cluster, shard, now);
        Route {
            shard: shard.record.shard,
            range: shard.record.range,
            lease_epoch: shard.record.epoch,
            endpoint: member.map(|member| member.endpoint.clone()),
            local: member.and_then(|member| member.local.clone()),
        }
    };
    Routing {
        job: record.job.clone(),
        branch: record.branch,
        dimension: record.dimension,
        iterations: record.iterations,
        routes: view.shards.iter().map(route).collect(),
    }
}

/// `None` unless the process that holds the lease lives and has said that the shard is ready.
fn holder<'a>(cluster: &'a Cluster, shard: &ShardView, now: Instant) -> Option<&'a Member> {
    let member = cluster.members.live(shard.record.owner.as_ref()?, now)?;
    (shard.is_ready && shard.holder == Some(member.incarnation)).then_some(member)
}
