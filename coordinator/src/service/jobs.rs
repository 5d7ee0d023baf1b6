//! Creating, listing, finishing and destroying jobs.

use accounting::Event;
use ledger::{Created, JobRecord, JobState, Ledger, LedgerError};
use node::process::rng;
use plan::Plan;
use proto::model::{BudgetedAccount, CreateJob, PlacementHint};
use proto::{CoordinateRange, JobId, Result, RowRange, ServiceError, pb, tiling};
use release::budget::{self, Admission};
use release::job::JobDefinition;
use tokio::time::Instant;
use tracing::info;

use super::tenants::charged_account;
use crate::cluster::JobView;
use crate::coordinator::Coordinator;
use crate::plan_summary::PlanSummary;

/// Placement hints of one job: as many as a job can have shards.
const MAX_HINTS: usize = 4096;

impl Coordinator {
    /// Creates a job, or returns it if it exists with the same definition.
    pub async fn create_job(&self, request: CreateJob) -> Result<pb::Job> {
        let request = CreateJob { account: charged_account(request.account)?, ..request };
        if request.account.is_none() && self.settings().require_data_set {
            let allowed = "a data set whose budget pays for the job: this coordinator requires one";
            return Err(ServiceError::invalid("account.data_set", "missing", allowed));
        }
        let Checked { request, plan, event } = checked_plan(request).await?;
        let dimension = release::job::dimension(request.dimension, &plan)?;
        // A job that is there may have been created under other quotas.
        if self.cluster().job(&request.job).is_err() {
            self.quotas().check_plan(&request.job, plan.iterations())?;
        }
        if request.account.is_some() {
            self.check_may_be_charged(&request.job).await?;
        }
        let budgeted = request.account.clone().zip(event);
        for _ in 0..budget::ATTEMPTS {
            let admission = self.admission(&request.job, budgeted.as_ref()).await?;
            if let Some(job) = self.create_admitted(&request, &plan, dimension, admission).await? {
                return Ok(job);
            }
        }
        let data_set = budgeted.map_or_else(String::new, |(account, _)| account.data_set.into());
        Err(LedgerError::DataSetChanged { data_set }.into())
    }

    /// Composes what the job costs with all other charges, which may take seconds: without the lock of changes, which
    /// failover needs too.
    async fn admission(
        &self,
        job: &JobId,
        budgeted: Option<&(BudgetedAccount, Event)>,
    ) -> Result<Option<Admission>> {
        let Some((account, event)) = budgeted.cloned() else { return Ok(None) };
        let job = job.clone();
        self.with_ledger(move |ledger| budget::admit(ledger, &job, &account, &event)).await.map(Some)
    }

    /// Creates the job, charged for as it was admitted; `None` where the data set has changed since.
    async fn create_admitted(
        &self,
        request: &CreateJob,
        plan: &Plan,
        dimension: u64,
        admission: Option<Admission>,
    ) -> Result<Option<pb::Job>> {
        let _change = self.lock_changes().await;
        let CreateJob { job, plan_toml, key_commitment, shards, .. } = request;
        let shards = shards.unwrap_or_else(|| self.shards_to_choose(job, dimension));
        let nonce = rng::nonce().map_err(ServiceError::internal)?;
        let text = plan_toml.clone();
        let definition =
            release::job::define(job.clone(), plan, text, dimension, *key_commitment, shards, nonce)?;
        let JobDefinition { record, shards } = definition.clone();
        let view = JobView::new(record, shards, PlanSummary::new(plan, dimension)?);
        let create = move |ledger: &Ledger| match admission {
            None => ledger.create_job(&definition.record, &definition.shards).map(Some),
            Some(admission) => match budget::create_admitted(ledger, &definition, &admission) {
                Err(LedgerError::DataSetChanged { .. }) => Ok(None),
                outcome => outcome.map(Some),
            },
        };
        let Some(created) = self.with_ledger(create).await? else { return Ok(None) };
        match created {
            Created::Existing => info!(%job, "job exists with this definition"),
            Created::New => {
                info!(%job, dimension, shards = view.shards.len(), "job created");
                self.cluster().add_job(view);
                self.trigger_reconcile();
            }
        }
        self.job_message(job).map(Some)
    }

    /// Waits for what workers know before a data set is charged for a new job. Fails where that contradicts the ledger.
    async fn check_may_be_charged(&self, job: &JobId) -> Result<()> {
        if self.cluster().job(job).is_ok() {
            return Ok(());
        }
        self.wait_out_grace_period(job, Instant::now()).await?;
        self.check_charges_known().await
    }

    /// Returns the number of shards for a request that names none: one for each live worker, or as many as the job has
    /// if it exists.
    fn shards_to_choose(&self, job: &JobId, dimension: u64) -> u32 {
        let cluster = self.cluster();
        if let Ok(view) = cluster.job(job)
            && view.record.dimension == dimension
        {
            return view.record.shards;
        }
        let live = cluster.members.all_live(Instant::now()).count().max(1) as u64;
        live.min(tiling::most_shards(dimension)) as u32
    }

    /// Returns all jobs, by name.
    pub fn list_jobs(&self) -> Vec<pb::Job> {
        let now = Instant::now();
        let cluster = self.cluster();
        cluster.jobs().map(|view| cluster.message_of(now, view)).collect()
    }

    /// Finishes a job: no more rows are bound, and those bound are still served.
    pub async fn finish_job(&self, job: JobId) -> Result<pb::Job> {
        self.check_tenant(&job).await?;
        let _change = self.lock_changes().await;
        let record = self.set_state(&job, JobState::Finished).await?;
        info!(%job, "job finished");
        let mut cluster = self.cluster();
        cluster.job_mut(&job)?.record = record;
        Ok(cluster.message_of(Instant::now(), cluster.job(&job)?))
    }

    /// Destroys a job. Once the ledger has recorded it nothing of the job is released; the rest is tidying up.
    pub async fn destroy_job(&self, job: JobId) -> Result<pb::DestroyJobResponse> {
        self.check_tenant(&job).await?;
        {
            let _change = self.lock_changes().await;
            let record = self.set_state(&job, JobState::Destroyed).await?;
            let mut cluster = self.cluster();
            cluster.replace(record, Vec::new())?;
            let view = cluster.job_mut(&job)?;
            view.checkpoints.clear();
        }
        self.trigger_reconcile();
        let name = job.clone();
        let released = self.with_ledger(move |ledger| ledger.released(&name)).await?;
        let rows_released =
            released.iter().flat_map(|branch| &branch.released).map(RowRange::len).sum::<u64>();
        let (deleted, left) = self.delete_checkpoints(&job).await;
        info!(%job, rows_released, deleted, left, "job destroyed");
        let mut message = format!(
            "job {job} is destroyed: none of its {} released rows can be fetched or recomputed by this cluster any \
             more. Delete the job's key to make that final; as long as it exists, its holder can recompute all of \
             them.",
            rows_released
        );
        if left > 0 {
            message.push_str(&format!(
                " {left} checkpoints could not be deleted: destroy the job again, or delete them by hand."
            ));
        }
        Ok(pb::DestroyJobResponse { rows_released, checkpoints_deleted: deleted, message })
    }

    /// Records a job's state. Call with the changes locked until memory agrees.
    async fn set_state(&self, job: &JobId, state: JobState) -> Result<JobRecord> {
        let name = job.clone();
        // Where a worker may know of rows that this ledger does not, nothing is given back to a budget.
        let keeps_charge = {
            let cluster = self.cluster();
            let is_waiting = cluster.grace_left(job, Instant::now()).is_some();
            is_waiting || !cluster.watermarks_to_check(job).is_empty() || cluster.refusal(job).is_some()
        };
        self.with_ledger(move |ledger| ledger.end_job(&name, state, keeps_charge)).await
    }

    /// Replaces a job's placement hints.
    pub fn set_placement_hints(&self, job: &JobId, hints: Vec<PlacementHint>) -> Result<pb::Job> {
        let mut cluster = self.cluster();
        let view = cluster.job_mut(job)?;
        if hints.len() > MAX_HINTS {
            return Err(ServiceError::invalid("hints", hints.len(), format!("at most {MAX_HINTS}")));
        }
        if let Some(beyond) = hints.iter().find(|hint| hint.range.end > view.record.dimension) {
            let CoordinateRange { start, end } = beyond.range;
            let dimension = view.record.dimension;
            return Err(ServiceError::RangeBeyondDimension { start, end, dimension });
        }
        view.hints = hints;
        let message = cluster.message_of(Instant::now(), cluster.job(job)?);
        drop(cluster);
        self.trigger_reconcile();
        Ok(message)
    }

    /// Returns a job's plan.
    pub fn plan_of(&self, job: &JobId) -> Result<pb::JobPlan> {
        let cluster = self.cluster();
        let record = &cluster.job(job)?.record;
        Ok(pb::JobPlan { plan_toml: record.plan_toml.clone(), plan_digest: record.plan_digest.to_vec() })
    }
}

/// Reads the request's plan, on a blocking thread: that computes all of its coefficients.
async fn checked_plan(request: CreateJob) -> Result<Checked> {
    let read = node::process::blocking::run(move || {
        let plan = read_plan(&request)?;
        let event = request.account.as_ref().map(|account| budget::planned_event(&plan, account));
        Ok(Checked { event: event.transpose()?, request, plan })
    });
    read.await.map_err(ServiceError::internal)?
}

/// A request whose plan is one.
struct Checked {
    request: CreateJob,
    plan: Plan,
    /// The event that a data set is charged for, where the request names one.
    event: Option<Event>,
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
