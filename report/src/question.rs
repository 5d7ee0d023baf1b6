//! What a statement is asked for.

use accounting::rewind::Released;
use accounting::{Neighbouring, Partition};
use plan::Plan;
use serde::Serialize;

use crate::error::{ReportError, Result};
use crate::job::Job;
use crate::participation::{covering, under};

/// Whose contributions the sensitivity bounds: what is clipped to the clip norm in every round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    #[default]
    User,
    Example,
    Device,
}

/// What is assumed of how batches were formed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Assumed {
    /// Anyhow, within the plan's participation: nothing is amplified.
    #[default]
    AnyOrder,
    /// As many groups as C has bands, independent of the data, sampled in turn at average rate q.
    CyclicPoisson { sampling_probability: f64, partition: Partition },
    /// Each unit in one batch of every epoch, drawn once; accounted for by Monte Carlo.
    BallsInBins { batches_per_epoch: u64, samples: u64, seed: u64 },
    /// Each unit joins at random and then rests: rounds i < j of it satisfy j − i ≥ min_sep. By Monte Carlo.
    BMinSep { min_sep: u64, sampling_probability: f64, warm_start: bool, samples: u64, seed: u64 },
}

/// What to state.
#[derive(Debug, Clone)]
pub struct Question {
    pub plan: Plan,
    /// At least one; the first is the one that headlines use.
    pub deltas: Vec<f64>,
    pub neighbouring: Neighbouring,
    pub unit: Unit,
    pub assumed: Assumed,
    /// What has been released; `None` for a plan that has not run.
    pub released: Option<Released>,
    pub job: Option<Job>,
    /// Of the program that states it.
    pub version: String,
}

impl Question {
    /// Of a plan that has not run, for users zeroed out, batches being formed anyhow.
    #[must_use]
    pub fn of_plan(plan: Plan, deltas: Vec<f64>, version: impl Into<String>) -> Self {
        Self {
            plan,
            deltas,
            neighbouring: Neighbouring::ZeroOut,
            unit: Unit::User,
            assumed: Assumed::AnyOrder,
            released: None,
            job: None,
            version: version.into(),
        }
    }

    /// The same of the plan under a participation that the assumed batches keep; only its digest is another's.
    pub(crate) fn covered(&self) -> Result<Self> {
        let plan = under(&self.plan, covering(&self.plan, self.assumed))?;
        Ok(Self { plan, ..self.clone() })
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.plan.accounted_noise_multiplier() <= 0.0 {
            return Err(ReportError::NoNoise);
        }
        let outside = |delta: &&f64| !(**delta > 0.0 && **delta < 1.0);
        let allowed = "strictly between 0 and 1";
        match self.deltas.iter().find(outside) {
            _ if self.deltas.is_empty() => Err(invalid("delta", "not given", allowed)),
            Some(delta) => Err(invalid("delta", delta, allowed)),
            None => Ok(()),
        }
    }
}

pub(crate) fn invalid(
    what: &'static str,
    value: impl std::fmt::Display,
    allowed: impl Into<String>,
) -> ReportError {
    ReportError::Invalid { what, value: value.to_string(), allowed: allowed.into() }
}
