//! The life of jobs.

use ledger::{Created, JobRecord, JobState, ShardRecord};
use plan::Plan;
use proto::model::{CreateJob, PlacementHint};
use proto::{CoordinateRange, JobId, Lineage, Result, RowRange, ServiceError, pb};
use tokio::time::Instant;
use tracing::info;

use crate::cluster::JobView;
use crate::coordinator::Coordinator;
use crate::plan_facts::PlanFacts;
use crate::split;

impl Coordinator {
    pub async fn create_job(&self, request: CreateJob) -> Result<pb::Job> {
        let (request, plan) = checked_plan(request).await?;
        let dimension = dimension_of(&request, &plan)?;
        let _change = self.changes.lock().await;
        let shards = match request.shards {
            Some(shards) => shards,
            None => self.shards_to_choose(&request.job, dimension),
        };
        let record = JobRecord {
            job: request.job,
            plan_digest: plan.digest(),
            dimension,
            iterations: plan.iterations(),
            mechanism: plan.mechanism().name().to_owned(),
            key_commitment: request.key_commitment,
            branch: 0,
            lineage: Lineage::default(),
            shards,
            layout_epoch: 0,
            state: JobState::Running,
            plan_toml: request.plan_toml,
        };
        let job = record.job.clone();
        let shards = first_shards(&record)?;
        let view = JobView::new(record.clone(), shards.clone(), PlanFacts::of(&plan, dimension)?);
        match self.with_ledger(move |ledger| ledger.create_job(&record, &shards)).await? {
            Created::Same => info!(%job, "job exists with this definition"),
            Created::New => {
                info!(%job, dimension, shards = view.shards.len(), "job created");
                self.cluster().add_job(view);
                self.nudge.notify_one();
            }
        }
        self.job_message(&job)
    }

    /// One for each live worker; where the job exists, as many as it has.
    fn shards_to_choose(&self, job: &JobId, dimension: u64) -> u32 {
        let cluster = self.cluster();
        if let Ok(view) = cluster.job(job)
            && view.record.dimension == dimension
        {
            return view.record.shards;
        }
        let live = cluster.members.all_live(Instant::now()).count().max(1) as u64;
        live.min(split::most_shards(dimension)) as u32
    }

    pub fn list_jobs(&self) -> Vec<pb::Job> {
        self.cluster().jobs().map(JobView::to_message).collect()
    }

    pub async fn finish_job(&self, job: JobId) -> Result<pb::Job> {
        let _change = self.changes.lock().await;
        let record = self.set_state(&job, JobState::Finished).await?;
        info!(%job, "job finished");
        let mut cluster = self.cluster();
        let view = cluster.job_mut(&job)?;
        view.record = record;
        Ok(view.to_message())
    }

    /// From the moment the ledger has it, nothing of the job is released; the rest is tidying up.
    pub async fn destroy_job(&self, job: JobId) -> Result<pb::DestroyJobResponse> {
        {
            let _change = self.changes.lock().await;
            let record = self.set_state(&job, JobState::Destroyed).await?;
            let mut cluster = self.cluster();
            cluster.replace(record, Vec::new())?;
            let view = cluster.job_mut(&job)?;
            view.checkpoints.clear();
        }
        self.nudge.notify_one();
        let name = job.clone();
        let released = self.with_ledger(move |ledger| ledger.released(&name)).await?;
        let rows_released =
            released.iter().flat_map(|branch| &branch.released).map(RowRange::len).sum::<u64>();
        let (deleted, left) = self.delete_checkpoints(&job).await;
        info!(%job, rows_released, deleted, left, "job destroyed");
        let mut message = format!(
            "job {job} is destroyed: none of its {} released rows can be fetched or recomputed by this cluster any \
             more. Delete the job's key to make that final; as long as it exists, whoever holds it can recompute all \
             of them.",
            rows_released
        );
        if left > 0 {
            message.push_str(&format!(
                " {left} checkpoints could not be deleted: destroy the job again, or delete them by hand."
            ));
        }
        Ok(pb::DestroyJobResponse { rows_released, checkpoints_deleted: deleted, message })
    }

    /// Call with `changes` held, until memory says the same.
    async fn set_state(&self, job: &JobId, state: JobState) -> Result<JobRecord> {
        let name = job.clone();
        self.with_ledger(move |ledger| ledger.set_job_state(&name, state)).await
    }

    pub fn set_placement_hints(&self, job: &JobId, hints: Vec<PlacementHint>) -> Result<pb::Job> {
        const MOST: usize = 4096;
        let mut cluster = self.cluster();
        let view = cluster.job_mut(job)?;
        if hints.len() > MOST {
            return Err(ServiceError::invalid("hints", hints.len(), format!("at most {MOST}")));
        }
        if let Some(beyond) = hints.iter().find(|hint| hint.range.end > view.record.dimension) {
            let CoordinateRange { start, end } = beyond.range;
            let dimension = view.record.dimension;
            return Err(ServiceError::RangeBeyondDimension { start, end, dimension });
        }
        view.hints = hints;
        let message = view.to_message();
        drop(cluster);
        self.nudge.notify_one();
        Ok(message)
    }

    pub fn plan_of(&self, job: &JobId) -> Result<pb::JobPlan> {
        let cluster = self.cluster();
        let record = &cluster.job(job)?.record;
        Ok(pb::JobPlan { plan_toml: record.plan_toml.clone(), plan_digest: record.plan_digest.to_vec() })
    }
}

/// Reading a plan computes all of its coefficients: not on the asynchronous threads.
async fn checked_plan(request: CreateJob) -> Result<(CreateJob, Plan)> {
    let read = node::process::blocking::run(move || read_plan(&request).map(|plan| (request, plan)));
    read.await.map_err(ServiceError::internal)?
}

fn read_plan(request: &CreateJob) -> Result<Plan> {
    let plan = Plan::from_toml_str(&request.plan_toml).map_err(|error| match error {
        plan::PlanError::Field { field, value, allowed } => {
            ServiceError::InvalidArgument { field, value, allowed }
        }
        plan::PlanError::Missing { field, allowed } => ServiceError::invalid(field, "missing", allowed),
        other => ServiceError::invalid("plan_toml", "not a plan", format!("a valid plan.toml ({other})")),
    })?;
    match request.plan_digest {
        Some(expected) if expected != plan.digest() => Err(ServiceError::PlanDigestMismatch {
            expected: hex::encode(expected),
            actual: hex::encode(plan.digest()),
        }),
        _ => Ok(plan),
    }
}

fn dimension_of(request: &CreateJob, plan: &Plan) -> Result<u64> {
    let in_plan = plan.layout().map(plan::Layout::dimension);
    let allowed = format!("1 to {}", plan::Layout::MAX_DIMENSION);
    match (request.dimension, in_plan) {
        (Some(asked), Some(in_plan)) if asked != in_plan => Err(ServiceError::invalid(
            "dimension",
            asked,
            format!("{in_plan}, as in the plan's layout, or 0"),
        )),
        (Some(asked), None) if asked > plan::Layout::MAX_DIMENSION => {
            Err(ServiceError::invalid("dimension", asked, allowed))
        }
        (Some(dimension), _) | (None, Some(dimension)) => Ok(dimension),
        (None, None) => {
            Err(ServiceError::invalid("dimension", 0, format!("{allowed}; the plan has no layout")))
        }
    }
}

fn first_shards(record: &JobRecord) -> Result<Vec<ShardRecord>> {
    let ranges = split::ranges(record.dimension, record.shards)?.into_iter();
    Ok(ranges.zip(0..).map(|(range, shard)| ShardRecord { shard, range, epoch: 0, owner: None }).collect())
}
