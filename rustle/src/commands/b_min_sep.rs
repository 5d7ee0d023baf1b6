//! `rustle account b-min-sep` and `rustle calibrate b-min-sep`: by Monte Carlo.

use std::path::PathBuf;

use accounting::monte_carlo::BMinSep;
use clap::Args;
use plan::Plan;

use super::errors::from_accounting;
use super::monte_carlo::{SamplesArgs, Shape};
use crate::commands::plan_file;
use crate::output::{Answer, bad_use};

/// A plan under b-min-sep sampling: a record that joins a round skips the next B−1.
#[derive(Clone, Debug, Args)]
pub struct BMinSepArgs {
    /// File of the plan; its C may have at most B bands
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Minimum distance j − i between two rounds i < j of one record
    #[arg(long, value_name = "B")]
    min_sep: u64,
    /// Probability with which an eligible record joins a round, in (0, 1]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: f64,
    /// Start from the stationary distribution, not with every record eligible
    #[arg(long)]
    warm_start: bool,
    #[command(flatten)]
    samples: SamplesArgs,
}

impl BMinSepArgs {
    pub fn new(
        plan: PathBuf,
        (min_sep, sampling_probability, warm_start): (u64, f64, bool),
        samples: SamplesArgs,
    ) -> Self {
        Self { plan, min_sep, sampling_probability, warm_start, samples }
    }
}

impl Shape for BMinSepArgs {
    const NAME: &'static str = "b-min-sep";
    type Mechanism = BMinSep;

    fn question(&self) -> anyhow::Result<(Plan, BMinSep)> {
        let plan = plan_file::read(&self.plan)?;
        let strategy = plan.sampled_strategy().map_err(bad_use)?;
        let Self { min_sep, sampling_probability, warm_start, .. } = *self;
        let mechanism = BMinSep::new(&strategy, plan.iterations(), min_sep, sampling_probability, warm_start)
            .map_err(from_accounting)?;
        Ok((plan, mechanism))
    }

    fn samples(&self) -> &SamplesArgs {
        &self.samples
    }

    fn describe(&self, answer: Answer) -> Answer {
        answer
            .with("min_sep", self.min_sep)
            .with("sampling_probability", self.sampling_probability)
            .with("warm_start", self.warm_start)
    }
}
