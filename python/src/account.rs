//! The accountant: events, and statements of plans and jobs.

use accounting::rewind::ReleasedRows;
use accounting::{Account, BatchCap, Event, Neighbouring};
use pyo3::prelude::*;
use report::{Job, Question, SamplingAssumption, Statement};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Refused, Result};
use crate::plans::Plan;

fn word<T: DeserializeOwned>(field: &str, word: &str, allowed: &str) -> Result<T> {
    let value = Value::String(word.to_owned());
    serde_json::from_value(value).map_err(|_| Refused::invalid(field, format!("{word:?}"), allowed))
}

pub fn neighbouring(name: &str) -> Result<Neighbouring> {
    word("neighbouring", name, "zero-out, add-remove, replace")
}

/// ε of an event at δ, by the exact or the numerical account that is known of it.
#[pyfunction]
pub fn event_epsilon(py: Python<'_>, event: &str, delta: f64, relation: &str) -> Result<f64> {
    let event: Event = serde_json::from_str(event)?;
    let relation = neighbouring(relation)?;
    py.detach(|| Ok(Account::new(&event, relation)?.epsilon(delta)?))
}

/// A plan's run as an event, JSON. `sampling_probability`: of cyclic Poisson batches, whose groups are drawn for each
/// record on its own.
#[pyfunction]
pub fn plan_event(py: Python<'_>, plan: &Plan, sampling_probability: Option<f64>) -> Result<String> {
    let sampling = match sampling_probability {
        None => accounting::Sampling::AnyOrder,
        Some(sampling_probability) => accounting::Sampling::CyclicPoisson {
            sampling_probability,
            partition: accounting::Partition::Independent,
            cap: None,
        },
    };
    let event = py.detach(|| report::event::for_plan(&plan.0, sampling))?;
    Ok(serde_json::to_string(&event)?)
}

/// How batches were formed: nothing more than the plan's participation, or one of these.
#[derive(FromPyObject)]
pub enum Batches {
    /// (q, "independent" or "equal-split", cap and public number of records) of cyclic Poisson sampling.
    CyclicPoisson(f64, String, Option<(u64, u64)>),
    /// (batches an epoch, samples, seed) of balls-in-bins.
    BallsInBins(u64, u64, u64),
    /// (min_sep, q, whether batches begin stationary, samples, seed) of b-min-sep.
    BMinSep(u64, f64, bool, u64, u64),
}

/// The statement of what a plan promises, or of what a job released (`job`: its report, which holds the plan), as
/// Markdown, HTML or JSON. `protected`: the neighbouring relation and the unit of privacy.
#[pyfunction]
pub fn statement(
    py: Python<'_>,
    plan: Option<&Plan>,
    job: Option<&str>,
    deltas: Vec<f64>,
    protected: (String, String),
    batches: Option<Batches>,
    format: &str,
) -> Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut question = match (plan, job) {
        (Some(plan), None) => Question::for_plan(plan.0.clone(), deltas, version),
        (None, Some(json)) => {
            let (job, plan, released): (Job, plan::Plan, ReleasedRows) = Job::read(json)?;
            let question = Question::for_plan(plan, deltas, version);
            Question { job: Some(job), released: Some(released), ..question }
        }
        _ => return Err(Refused::invalid("of", "a plan and a job, or neither", "one of them")),
    };
    question.neighbouring = neighbouring(&protected.0)?;
    question.unit = word("unit", &protected.1, "user, example, device, owner")?;
    question.assumed = assumed(batches)?;
    py.detach(|| {
        let statement = Statement::new(&question)?;
        match format {
            "markdown" => Ok(report::markdown(&statement)),
            "html" => Ok(report::html(&statement, &question)?),
            "json" => Ok(serde_json::to_string(&statement)?),
            other => Err(Refused::invalid("format", format!("{other:?}"), "markdown, html, json")),
        }
    })
}

fn assumed(batches: Option<Batches>) -> Result<SamplingAssumption> {
    Ok(match batches {
        None => SamplingAssumption::AnyOrder,
        Some(Batches::CyclicPoisson(sampling_probability, partition, cap)) => {
            SamplingAssumption::CyclicPoisson {
                sampling_probability,
                partition: word("partition", &partition, "independent, equal-split")?,
                cap: cap.map(|(batch_cap, dataset_size)| BatchCap { batch_cap, dataset_size }),
            }
        }
        Some(Batches::BallsInBins(batches_per_epoch, samples, seed)) => {
            SamplingAssumption::BallsInBins { batches_per_epoch, samples, seed }
        }
        Some(Batches::BMinSep(min_sep, sampling_probability, warm_start, samples, seed)) => {
            SamplingAssumption::BMinSep { min_sep, sampling_probability, warm_start, samples, seed }
        }
    })
}
