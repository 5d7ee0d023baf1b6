//! A noise rank's shard: restored, made ahead, and asked for parts of rows. The same code as behind gRPC.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use noise_kernel::{History, JobKey};
use plan::Plan;
use proto::{Commitment, CoordinateRange, Result, ServiceError, model::LeaseGrant};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    limits::Limits,
    make::make_rows,
    marks::{Marks, Released},
    recipe::Recipe,
    replay::{Replay, piece_len},
    restore::restore,
    shard::Shard,
    snapshot::{self, Snapshot},
};

pub struct Owner {
    shard: Arc<Shard>,
    recipe: Recipe,
    source: Source,
    /// Goes on from one old row to the next without starting over.
    replay: Mutex<Replay>,
}

/// What a shard is restored with, whatever the branch.
#[derive(Clone)]
pub struct Source {
    pub plan: Arc<Plan>,
    pub key: JobKey,
    pub limits: Arc<Limits>,
    pub marks: Arc<Marks>,
    /// Of this launch.
    pub epoch: u64,
    /// How long a row may take.
    pub patience: Duration,
}

impl Owner {
    /// Restores the shard from the newest checkpoint that is whole, else from the key, and begins to make rows. Call
    /// within a runtime.
    pub async fn start(grant: LeaseGrant, source: Source) -> anyhow::Result<Arc<Self>> {
        let limits = &source.limits;
        let history = History::Auto { limit_bytes: limits.history_bytes };
        let recipe = Recipe::checked(&source.plan, &source.key, &grant)?.made_by(limits.backend, history)?;
        let (generator, window) = restore(&grant, &recipe, limits).await.context("restore the shard")?;
        let shard = Shard::new(grant);
        let history_bytes = generator.history_bytes() as u64;
        *shard.generator.lock().await = Some(generator);
        shard.ready(recipe.clone(), window, history_bytes);
        node::runtime::spawn(make_rows(shard.clone(), limits.clone()));
        Ok(Arc::new(Self { shard, recipe, source, replay: Mutex::default() }))
    }

    /// The same shard on another branch. Nothing may be asked of this one any more: its state goes first, since two may
    /// not fit.
    pub async fn turned(&self, grant: LeaseGrant) -> anyhow::Result<Arc<Self>> {
        self.shard.cancelled.cancel();
        self.shard.generator.lock().await.take();
        let branch = (grant.job.clone(), grant.branch());
        self.source.marks.see(self.source.epoch, vec![branch]).await?;
        Self::start(grant, self.source.clone()).await
    }

    pub fn grant(&self) -> &LeaseGrant {
        self.shard.grant()
    }

    /// Rows made beyond the highest that was asked for.
    pub fn rows_ahead(&self) -> u64 {
        self.shard.rows_ahead()
    }

    /// Bytes of a part of a row that is bound to `commitment`: the row's own memory where it is at hand. Noted in this
    /// rank's own record before it is given.
    pub async fn part(&self, row: u64, commitment: Commitment, range: CoordinateRange) -> Result<Bytes> {
        let grant = self.shard.grant();
        let released = Released { branch: grant.lineage.branch_of(row), row, commitment };
        self.source.marks.clone().note(grant.job.clone(), grant.branch(), vec![released]).await?;
        let made = self.shard.row(row, Instant::now() + self.source.patience).await?;
        self.shard.mark_released(row);
        match made {
            Some(made) => {
                let [from, to] = [range.start, range.end].map(|at| (at - grant.range.start) as usize * 4);
                Ok(made.bytes().slice(from..to))
            }
            None => self.replayed(row, range).await,
        }
    }

    /// The part was delivered: now the next rows are worth making.
    pub fn delivered(&self) {
        self.shard.served();
    }

    async fn replayed(&self, row: u64, range: CoordinateRange) -> Result<Bytes> {
        let mut replay = self.replay.lock().await;
        let mut values: Vec<f32> = Vec::new();
        let len = range.len() as usize;
        values.try_reserve_exact(len).map_err(|_| ServiceError::ResourceExhausted {
            what: "memory for a row that is drawn again".into(),
            limit: format!("{} bytes", 4 * len),
        })?;
        let mut start = range.start;
        while start < range.end {
            let end = (start + piece_len(&self.recipe)).min(range.end);
            let piece = CoordinateRange { start, end };
            values.extend(replay.row(&self.recipe, &self.source.limits, row, piece).await?);
            start = end;
        }
        Ok(crate::row::Row::new(values).bytes())
    }

    /// Writes the shard as it stands.
    pub async fn snapshot(&self, object: &str) -> Result<Snapshot> {
        snapshot::take(&self.shard, &self.source.limits, object).await
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shard.cancelled.cancel();
    }
}
