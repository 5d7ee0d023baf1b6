//! Simulated jobs: each binds its rows one after another, in step.

use std::time::{Duration, Instant};

use anyhow::Context;
use client::{Client, from_status};
use futures::{StreamExt, TryStreamExt, stream};
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{Commitment, JobId, RowRange, pb};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at};

use super::latency::{Times, phase};
use super::{Args, Setting};

/// Of each job: a thousand of them are 10¹² coordinates.
const DIMENSION: u64 = 1_000_000_000;
const CREATING_AT_ONCE: usize = 16;

pub struct Trainers(JoinSet<Times>);

pub async fn create(setting: &Setting, args: &Args) -> anyhow::Result<Vec<JobId>> {
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        // More rows than are ever asked for.
        iterations: 100_000,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: Participation { min_sep: 1000, max_participations: 100 },
        mechanism: Mechanism::LambdaCgd { lambda: 0.9 },
        layout: None,
        grid: None,
    })?;
    let plan_toml = plan.to_toml_string()?;
    let creating = (0..args.jobs).map(|index| {
        let request = pb::CreateJobRequest {
            job: format!("job-{index}"),
            plan_toml: plan_toml.clone(),
            dimension: DIMENSION,
            shards: args.shards,
            key_commitment: super::fleet::key_of(&format!("job-{index}")).commitment().to_vec(),
            plan_digest: vec![],
            account: None,
        };
        async move {
            let job = JobId::new(request.job.clone())?;
            let mut jobs = setting.connection(index).jobs(&setting.coordinator)?;
            let created = jobs.create_job(request).await.map_err(from_status);
            created.with_context(|| format!("create {job}"))?;
            anyhow::Ok(job)
        }
    });
    stream::iter(creating).buffered(CREATING_AT_ONCE).try_collect().await
}

impl Trainers {
    pub fn start(setting: &Setting, jobs: Vec<JobId>, step: Duration) -> Self {
        let mut tasks = JoinSet::new();
        for (index, job) in jobs.into_iter().enumerate() {
            tasks.spawn(train(setting.clone(), index, job, step));
        }
        Self(tasks)
    }

    pub async fn stop(mut self) -> anyhow::Result<Times> {
        let mut all = Times::default();
        while let Some(times) = self.0.join_next().await {
            all.add(times.context("a simulated job")?);
        }
        Ok(all)
    }
}

async fn train(setting: Setting, index: usize, job: JobId, step: Duration) -> Times {
    let mut times = Times::default();
    let client = match Client::with_connections(&setting.coordinator, setting.connection(index)) {
        Ok(client) => client,
        Err(error) => {
            times.refused(error);
            return times;
        }
    };
    let mut ticks = interval_at(tokio::time::Instant::now() + phase(index, step), step);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for row in 0.. {
        let due = tokio::select! {
            biased;
            () = setting.stop.cancelled() => break,
            due = ticks.tick() => due.into_std(),
        };
        let called = Instant::now();
        let counts = setting.counts();
        let rows = RowRange { start: row, end: row + 1 };
        let commitment = Commitment::of_text(&format!("step {row}"));
        match client.bind(&job, 0, rows, &[commitment]).await {
            Ok(_) if counts => times.answered(due, called),
            Ok(_) => {}
            Err(error) => times.refused(error),
        }
    }
    times
}
