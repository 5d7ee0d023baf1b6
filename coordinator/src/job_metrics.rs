//! Metrics of single jobs for Prometheus, written at each scrape, so that a job that is gone leaves none behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proto::JobId;

use crate::coordinator::Coordinator;
use crate::metric_definitions as metric;
use crate::privacy_meter::{JobHistory, PrivacyCost};

/// Reads a metric's value off a job's history; `None` if it is not known.
type ReadValue = fn(&JobHistory) -> Option<f64>;

const ROWS: [(&str, ReadValue); 2] = [
    (metric::JOB_ROWS_BOUND, |history| Some(history.rows_bound as f64)),
    (metric::JOB_ROWS_PLANNED, |history| Some(history.iterations as f64)),
];

const RHOS: [(&str, ReadValue); 2] = [
    (metric::JOB_RHO_SPENT, |history| spent(history).map(|cost| cost.rho)),
    (metric::JOB_RHO_PLANNED, |history| planned(history).map(|cost| cost.rho)),
];

const EPSILONS: [(&str, ReadValue); 2] = [
    (metric::JOB_EPSILON_SPENT, |history| spent(history).map(|cost| cost.epsilon)),
    (metric::JOB_EPSILON_PLANNED, |history| planned(history).map(|cost| cost.epsilon)),
];

fn spent(history: &JobHistory) -> Option<PrivacyCost> {
    history.spent_and_planned().map(|(spent, _)| spent)
}

fn planned(history: &JobHistory) -> Option<PrivacyCost> {
    history.spent_and_planned().map(|(_, planned)| planned)
}

impl Coordinator {
    /// Returns the metrics of all metered jobs and of all data sets: of none while the ledger may be an older copy, which
    /// has lost charges.
    pub fn series(&self) -> String {
        let is_behind = self.cluster().budget_refusal().is_some();
        let budgets = if is_behind { String::new() } else { self.budget_meter().series() };
        self.job_metrics() + &budgets
    }

    fn adopted_jobs(&self) -> BTreeSet<JobId> {
        let cluster = self.cluster();
        let adopted = cluster.jobs().filter(|view| view.adopted.is_some());
        adopted.map(|view| view.record.job.clone()).collect()
    }

    /// Returns the metrics of all metered jobs, in Prometheus' text format. A job of which the ledger knows less than was
    /// released has no cost here.
    pub fn job_metrics(&self) -> String {
        let mut jobs = self.privacy_meter().histories();
        let mut text = String::new();
        ROWS.iter()
            .for_each(|(name, read)| write_metric(&mut text, name, "", &jobs, |_, history| read(history)));
        let behind = self.cluster().jobs_behind();
        jobs.retain(|job, _| !behind.contains(job));
        RHOS.iter()
            .for_each(|(name, read)| write_metric(&mut text, name, "", &jobs, |_, history| read(history)));
        let delta = format!(",delta=\"{:e}\"", self.settings().report_delta);
        EPSILONS.iter().for_each(|(name, read)| {
            write_metric(&mut text, name, &delta, &jobs, |_, history| read(history))
        });
        let adopted = self.adopted_jobs();
        let is_adopted = |job: &JobId, _: &JobHistory| Some(f64::from(u8::from(adopted.contains(job))));
        write_metric(&mut text, metric::JOB_ADOPTED, "", &jobs, is_adopted);
        text
    }
}

/// Names of jobs need no escaping: letters, digits, dots, dashes and underscores. Writing to a String can't fail.
fn write_metric(
    text: &mut String,
    name: &str,
    labels: &str,
    jobs: &BTreeMap<JobId, JobHistory>,
    read: impl Fn(&JobId, &JobHistory) -> Option<f64>,
) {
    let defined = metric::JOB_DEFINITIONS.iter().find(|definition| definition.name == name);
    let meaning = defined.map_or("", |definition| definition.description);
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} gauge");
    for (job, value) in jobs.iter().filter_map(|(job, history)| Some((job, read(job, history)?))) {
        let _ = writeln!(text, "{name}{{training_job=\"{job}\"{labels}}} {value}");
    }
}
