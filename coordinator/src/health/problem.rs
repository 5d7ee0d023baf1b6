//! One thing that is wrong.

use std::time::SystemTime;

use node::process::timestamp::rfc3339;
use proto::JobId;
use serde_json::{Value, json};
use tokio::time::Instant;

/// How bad a problem is, by the words of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Rows are served and bound all the same; something will fail unless a person looks at it. Amber.
    Warning,
    /// Rows are not served or not bound, or will not be within two days. Red.
    Critical,
}

impl Severity {
    /// Returns the severity's name in `/status` and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One thing that is wrong, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// The problem's name: scripts compare it.
    pub kind: &'static str,
    /// The job, worker or file that it is about; empty where there is only one.
    pub subject: String,
    /// The job, if it is one job's: only callers who may see the job see the problem.
    pub job: Option<JobId>,
    pub what: String,
    /// When it began; `None` until [`super::HealthMonitor::date`] has dated it.
    pub since: Option<Instant>,
    pub next_step: String,
}

impl Problem {
    /// Creates a problem that begins when it is first seen.
    pub fn new(severity: Severity, kind: &'static str, what: String, next_step: impl Into<String>) -> Self {
        let next_step = next_step.into();
        Self { severity, kind, subject: String::new(), job: None, what, since: None, next_step }
    }

    /// Returns it as a problem of one job.
    pub fn of_job(self, job: &JobId) -> Self {
        Self { subject: job.to_string(), job: Some(job.clone()), ..self }
    }

    /// Returns it as a problem of what is so named.
    pub fn about(self, subject: impl ToString) -> Self {
        Self { subject: subject.to_string(), ..self }
    }

    /// Returns it as a problem that began then, if that is known.
    pub fn began(self, since: impl Into<Option<Instant>>) -> Self {
        Self { since: since.into(), ..self }
    }

    /// Returns the problem as `/status` has it. `since` is in UTC, by this process's clock.
    pub fn to_json(&self, now: Instant) -> Value {
        json!({
            "severity": self.severity.as_str(),
            "kind": self.kind,
            "job": self.job,
            "what": self.what,
            "since": self.since.map(|since| wall_time(now, since)),
            "next_step": self.next_step,
        })
    }
}

/// Returns a moment in UTC, by this process's clock.
pub fn wall_time(now: Instant, moment: Instant) -> String {
    let ago = now.duration_since(moment);
    rfc3339(SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH))
}
