//! Series of single jobs for Prometheus, made at each scrape: a job that is gone leaves none behind.

use std::collections::BTreeMap;
use std::fmt::Write;

use proto::JobId;

use crate::coordinator::Coordinator;
use crate::metric_definitions as metric;
use crate::privacy_meter::{Cost, Watched};

/// A job's value, and labels beyond its name.
type Of = fn(&Watched) -> Option<f64>;

const SERIES: [(&str, Of); 4] = [
    (metric::JOB_ROWS_BOUND, |watched| Some(watched.rows_bound as f64)),
    (metric::JOB_ROWS_PLANNED, |watched| Some(watched.iterations as f64)),
    (metric::JOB_RHO_SPENT, |watched| spent(watched).map(|cost| cost.rho)),
    (metric::JOB_RHO_PLANNED, |watched| planned(watched).map(|cost| cost.rho)),
];

const EPSILONS: [(&str, Of); 2] = [
    (metric::JOB_EPSILON_SPENT, |watched| spent(watched).map(|cost| cost.epsilon)),
    (metric::JOB_EPSILON_PLANNED, |watched| planned(watched).map(|cost| cost.epsilon)),
];

fn spent(watched: &Watched) -> Option<Cost> {
    watched.spent_and_planned().map(|(spent, _)| spent)
}

fn planned(watched: &Watched) -> Option<Cost> {
    watched.spent_and_planned().map(|(_, planned)| planned)
}

impl Coordinator {
    /// In Prometheus' text format.
    pub fn job_metrics(&self) -> String {
        let jobs = self.watch.snapshot();
        let mut text = String::new();
        SERIES.iter().for_each(|(name, of)| write_metric(&mut text, name, "", &jobs, *of));
        let delta = format!(",delta=\"{:e}\"", self.settings.report_delta);
        EPSILONS.iter().for_each(|(name, of)| write_metric(&mut text, name, &delta, &jobs, *of));
        text
    }
}

/// Names of jobs need no escaping: letters, digits, dots, dashes and underscores. Writing to a String can't fail.
fn write_metric(text: &mut String, name: &str, labels: &str, jobs: &BTreeMap<JobId, Watched>, of: Of) {
    let defined = metric::JOB_DEFINITIONS.iter().find(|definition| definition.name == name);
    let meaning = defined.map_or("", |definition| definition.description);
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} gauge");
    for (job, value) in jobs.iter().filter_map(|(job, watched)| Some((job, of(watched)?))) {
        let _ = writeln!(text, "{name}{{training_job=\"{job}\"{labels}}} {value}");
    }
}
