//! What one job and one caller may add to the ledger, to the checkpoints and to the log: rates, which refill, and totals,
//! which an operator raises. Nothing is written for a request that is refused.

mod durable;
mod rates;
mod settings;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use node::admission::KeyedRates;
use node::auth::ClientKey;
use proto::{JobId, Result, ServiceError};
use tokio::time::Instant;

pub use durable::{DurableTotals, branch_bytes, rows_bytes};
pub use rates::Rate;
use rates::{RatePair, in_ms};
pub use settings::{QuotaArgs, QuotaSettings};

const DAY: f64 = 86_400.0;

/// Who makes a request, as quotas count it.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    /// The caller; `None` for the coordinator itself.
    pub client: Option<ClientKey>,
    /// Operators repair what others have used up: their calls are not counted.
    pub is_operator: bool,
}

/// What every job and caller has left.
#[derive(Debug)]
pub struct Quotas {
    settings: QuotaSettings,
    branches: RatePair,
    checkpoints: RatePair,
    placements: RatePair,
    log_lines: RatePair,
    /// Bytes that each caller adds to the ledger.
    bytes_of_callers: KeyedRates<ClientKey>,
    /// Rows of each job that are being bound.
    under_way: Mutex<HashMap<JobId, u64>>,
}

impl Quotas {
    /// Returns quotas of which nothing is used.
    pub fn new(settings: QuotaSettings) -> Self {
        Self {
            branches: RatePair::new(settings.branches_per_minute),
            checkpoints: RatePair::new(settings.checkpoints_per_minute),
            placements: RatePair::new(settings.placements_per_minute),
            log_lines: RatePair::new(settings.log_lines_per_minute),
            bytes_of_callers: KeyedRates::new(settings.caller_bytes_per_day as f64 / DAY, DAY),
            under_way: Mutex::default(),
            settings,
        }
    }

    fn of(&self, rate: Rate) -> &RatePair {
        match rate {
            Rate::Branches => &self.branches,
            Rate::Checkpoints => &self.checkpoints,
            Rate::Placements => &self.placements,
            Rate::LogLines => &self.log_lines,
        }
    }

    /// Takes one of the job's and the caller's rate, or nothing.
    pub fn take(&self, requester: &Requester, job: &JobId, rate: Rate) -> Result<()> {
        if requester.is_operator {
            return Ok(());
        }
        self.of(rate)
            .take(requester.client.as_ref(), job, now())
            .map_err(|refusal| refusal.into_error(rate, job))
    }

    /// Takes bytes that the caller adds to the ledger.
    pub fn take_bytes(&self, requester: &Requester, bytes: u64) -> Result<()> {
        let Some(client) = requester.client.as_ref().filter(|_| !requester.is_operator) else {
            return Ok(());
        };
        self.bytes_of_callers.take(client, bytes as f64, now()).map_err(|wait| ServiceError::QuotaExceeded {
            what: "bytes that this caller adds to the ledger in a day".to_owned(),
            limit: node::config::units::show_bytes(self.settings.caller_bytes_per_day),
            remedy: "an operator may raise --max-caller-bytes-per-day".to_owned(),
            retry_after_ms: Some(in_ms(wait)),
        })
    }

    fn give_bytes_back(&self, requester: &Requester, bytes: u64) {
        if let Some(client) = requester.client.as_ref().filter(|_| !requester.is_operator) {
            self.bytes_of_callers.give_back(client, bytes as f64, now());
        }
    }

    /// Admits up to `rows` more rows of a job, of which the ledger has `totals`.
    pub fn admit_rows(
        self: &Arc<Self>,
        requester: &Requester,
        job: &JobId,
        totals: DurableTotals,
        rows: u64,
    ) -> Result<RowsPermit> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let others = under_way.get(job).copied().unwrap_or(0);
        let with_all =
            DurableTotals { rows: totals.rows.saturating_add(others).saturating_add(rows), ..totals };
        if rows > 0 {
            with_all.check(&self.settings, job)?;
            self.take_bytes(requester, rows_bytes(rows))?;
            under_way.insert(job.clone(), others + rows);
        }
        Ok(RowsPermit {
            quotas: self.clone(),
            requester: requester.clone(),
            job: job.clone(),
            rows,
            newly: 0,
        })
    }

    /// Checks that a job, of which the ledger has `totals`, may open one branch more.
    pub fn check_branch(&self, job: &JobId, totals: DurableTotals) -> Result<()> {
        DurableTotals { branches: totals.branches + 1, ..totals }.check(&self.settings, job)
    }
}

/// The right to bind some rows. What of them was bound before is given back when it is dropped.
#[derive(Debug)]
pub struct RowsPermit {
    quotas: Arc<Quotas>,
    requester: Requester,
    job: JobId,
    rows: u64,
    newly: u64,
}

impl RowsPermit {
    /// Notes the number of rows that were not bound before.
    pub fn bound(&mut self, newly: u64) {
        self.newly = newly;
    }
}

impl Drop for RowsPermit {
    fn drop(&mut self) {
        let mut under_way = self.quotas.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        match under_way.get(&self.job).map_or(0, |rows| rows.saturating_sub(self.rows)) {
            0 => under_way.remove(&self.job),
            rows => under_way.insert(self.job.clone(), rows),
        };
        drop(under_way);
        let unused = self.rows.saturating_sub(self.newly);
        if unused > 0 {
            self.quotas.give_bytes_back(&self.requester, rows_bytes(unused));
        }
    }
}

/// The runtime's time, which tests set.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}
