//! What workers keep on their own disks, compared with the ledger. A difference stops the job, or all jobs, at once.

use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use proto::model::{JobMark, WorkerRecord};
use proto::{JobId, Result, ServiceError, WorkerId};
use release::watermarks::{UnknownJob, check_not_stale};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::cluster::{HeardRecord, WatermarkVerdict, for_release};
use crate::coordinator::Coordinator;
use crate::metric_definitions::JOBS_CONTRADICTED;

/// The longest time between two looks, in a grace period, at which owners have come back.
const GRACE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The longest time that one request waits for what workers have on record: less than its answer may take.
const LONGEST_GRACE_WAIT: Duration = Duration::from_secs(20);

impl Coordinator {
    /// Takes in what a worker's heartbeat says of its record.
    pub fn accept_record(&self, worker: &WorkerId, record: &WorkerRecord) {
        let heard = self.cluster().accept_record(worker, record, false, Instant::now());
        self.report_heard(worker, record, &heard);
    }

    /// Logs what a worker's record says against the ledger, at most one line of each kind, and has its watermarks compared.
    pub fn report_heard(&self, worker: &WorkerId, record: &WorkerRecord, heard: &HeardRecord) {
        for (kind, message) in [
            (WatermarkVerdict::Above, "this worker has released more than the ledger knows"),
            (
                WatermarkVerdict::TooMany,
                "this worker reports more jobs than there is room for: not all are kept",
            ),
        ] {
            let mut of_kind =
                record.marks.iter().zip(&heard.verdicts).filter(|(_, verdict)| **verdict == kind);
            if let Some((JobMark { job, branch, next_row, .. }, _)) = of_kind.next() {
                error!(%worker, %job, branch, next_row, and_more = of_kind.count(), "{message}");
            }
        }
        if heard.is_given_up {
            warn!(%worker, "this worker reports watermarks without end, or none of this ledger: bindings do not wait for it \
                any more");
        }
        if heard.has_new_epoch || heard.verdicts.iter().any(|verdict| *verdict != WatermarkVerdict::Known) {
            self.trigger_watermark_check();
        }
    }

    /// Waits until every live worker has reported what it released, or has had the time to. Fails after
    /// [`LONGEST_GRACE_WAIT`], and names a worker that is still waited for.
    pub async fn wait_out_grace_period(&self, job: &JobId) -> Result<()> {
        let began = Instant::now();
        loop {
            let wait = self.cluster().grace_left(job, Instant::now());
            let Some(wait) = wait else { return Ok(()) };
            if began.elapsed() >= LONGEST_GRACE_WAIT {
                let witness = self.cluster().waited_for(job, Instant::now());
                let witness = witness.map_or_else(
                    || "workers that have not come back".to_owned(),
                    |it| format!("worker {it}"),
                );
                let what = format!(
                    "what {witness} released before (job {job} has waited {LONGEST_GRACE_WAIT:?} for its record, and nothing \
                     was written; ask again)"
                );
                return Err(ServiceError::Unavailable { what });
            }
            // An owner may come back earlier.
            sleep(wait.min(GRACE_POLL_INTERVAL)).await;
        }
    }

    /// Compares watermarks with the ledger as they arrive, until shutdown.
    pub async fn keep_watermarks_checked(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.watermark_check_triggered() => {}
            }
            self.check_watermarks().await;
        }
    }

    /// Compares all watermarks that have arrived with the ledger.
    pub async fn check_watermarks(&self) {
        let jobs = self.cluster().jobs_to_check();
        for job in jobs {
            let marks = self.cluster().watermarks_to_check(&job);
            let to_check = for_release(&marks);
            let name = job.clone();
            let checked = self
                .with_ledger(move |ledger| check_not_stale(ledger, &name, &to_check, UnknownJob::Skip))
                .await;
            match checked {
                Ok(()) => self.cluster().confirm_watermarks(&marks),
                Err(error) => self.stop_if_behind(&job, &error),
            }
        }
        let proof = self.cluster().epoch_proof();
        if let Some((worker, seen)) = proof
            && self.with_ledger(|ledger| ledger.id()).await.is_ok()
        {
            error!(%worker, seen, epoch = self.epoch(), "the ledger is an old copy: this worker has seen a coordinator of a \
                higher epoch on it. Nothing is bound any more");
        }
        self.record_contradictions();
    }

    /// Fails where the ledger is a copy, or a worker has proved that it is old. A coordinator that does not lead any more says that
    /// instead: then its own epoch is the old one.
    pub async fn check_not_contradicted(&self, job: &JobId) -> Result<()> {
        let Some(refusal) = self.cluster().ledger_doubt(job) else { return Ok(()) };
        self.with_ledger(|ledger| ledger.id()).await?;
        Err(refusal)
    }

    /// Fails where the ledger is a copy, or a worker has proved of any job that it is old: then it has lost charges too.
    pub async fn check_charges_known(&self) -> Result<()> {
        let Some(refusal) = self.cluster().budget_refusal() else { return Ok(()) };
        self.with_ledger(|ledger| ledger.id()).await?;
        Err(refusal)
    }

    /// As [`check_charges_known`](Self::check_charges_known), for a job that a data set may be charged for. Its holder does not
    /// learn the name of the other job.
    pub async fn check_charge_known(&self, job: &JobId) -> Result<()> {
        let Some(refusal) = self.cluster().budget_refusal() else { return Ok(()) };
        let job = job.clone();
        let charge = self.with_ledger(move |ledger| ledger.charge(&job)).await?;
        charge.map_or(Ok(()), |_| Err(without_name(refusal)))
    }

    /// Stops a job for good where the error says that the ledger knows less of it than a worker, or something else.
    pub fn stop_if_behind(&self, job: &JobId, error: &ServiceError) {
        if matches!(error, ServiceError::LedgerBehind { .. }) && self.cluster().stop_job(job, error) {
            error!(%job, %error, "the ledger contradicts what a worker released: nothing more is bound for this job");
            self.record_contradictions();
        }
    }

    fn record_contradictions(&self) {
        gauge!(JOBS_CONTRADICTED).set(self.cluster().contradicted_jobs() as f64);
    }
}

fn without_name(refusal: ServiceError) -> ServiceError {
    match refusal {
        ServiceError::LedgerBehind { known, witness, seen, .. } => {
            ServiceError::LedgerBehind { job: "(another)".to_owned(), known, witness, seen }
        }
        other => other,
    }
}
