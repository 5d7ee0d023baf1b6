//! `rustle plan optimize --amplify balls-in-bins`: optimizes C for random batches, and finds its noise multiplier.

use accounting::monte_carlo::SampleBudget;
use accounting::monte_carlo::optimize::{Effort, Goal, Optimization, optimize_balls_in_bins};
use clap::{Args, ValueEnum};
use strategy::Strategy;
use strategy::optimize::Target;

use super::make::RunArgs;
use crate::commands::cancel::Cancel;
use crate::commands::errors::from_accounting;
use crate::commands::monte_carlo::fresh_seed;
use crate::flag_of_field::of_planner;
use crate::output::{Answer, bad_use};
use crate::progress::Progress;
use crate::streams;

/// A sampling scheme whose amplification the search takes into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Amplify {
    /// Each record is in one of min-sep batches per epoch, for max-participations epochs
    BallsInBins,
}

#[derive(Clone, Debug, Args)]
pub struct AmplifyArgs {
    /// Sampling scheme to optimize for and to calibrate to (ε, δ) [default: none]
    #[arg(long, value_name = "SCHEME", value_enum, requires_all = ["epsilon", "delta"], conflicts_with = "noise_multiplier")]
    amplify: Option<Amplify>,
    /// ε to satisfy with --amplify, above 0
    #[arg(long, requires = "amplify", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// δ to satisfy with --amplify, strictly between 0 and 1
    #[arg(long, requires = "amplify", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Number of samples for the final σ
    #[arg(long, value_name = "N", requires = "amplify", default_value_t = SampleBudget::default().samples)]
    samples: u64,
    /// Number of samples for each step of the search
    #[arg(long, value_name = "N", requires = "amplify", default_value_t = Effort::default().samples)]
    search_samples: u64,
    /// Seed of the samples, not to be chosen by its result [default: random]
    #[arg(long, value_name = "S", requires = "amplify")]
    seed: Option<u64>,
}

/// A search by Monte Carlo, ready to run.
pub struct AmplifiedSearch {
    goal: Goal,
    /// δ of the guarantee: on a grid, a little more than the mechanism's.
    delta: f64,
    effort: Effort,
}

impl AmplifyArgs {
    /// Returns the search; `None` without `--amplify`. Error: bad use.
    pub fn search(&self, run: &RunArgs) -> anyhow::Result<Option<AmplifiedSearch>> {
        let (Some(Amplify::BallsInBins), Some(epsilon), Some(delta)) =
            (self.amplify, self.epsilon, self.delta)
        else {
            return Ok(None);
        };
        let batches = run.participation.min_sep;
        let epochs = run.participation.max_participations;
        if batches.checked_mul(epochs) != Some(run.iterations) {
            return Err(bad_use(format!(
                "--min-sep {batches} × --max-participations {epochs} (batches per epoch × epochs); allowed: {}, the \
                 iterations",
                run.iterations
            )));
        }
        let seed = self.seed.map_or_else(fresh_seed, Ok)?;
        let budget = SampleBudget { samples: self.samples, seed };
        let effort = Effort { samples: self.search_samples, budget, ..Effort::default() };
        let left = if run.grid.is_on_grid() { planner::delta_on_grid(epsilon, delta) } else { Ok(delta) };
        let goal = Goal { batches, epsilon, delta: left.map_err(of_planner)? };
        Ok(Some(AmplifiedSearch { goal, delta, effort }))
    }
}

impl AmplifiedSearch {
    /// Searches from the optimum without amplification.
    pub fn run(&self, start: &Strategy, target: &Target) -> anyhow::Result<Optimization> {
        let cancel = Cancel::on_ctrl_c();
        let spinner = Progress::spinner("optimizing");
        let found = optimize_balls_in_bins(start, target, self.goal, self.effort, &mut |progress| {
            spinner.set_message(format!(
                "search {}, RMSE about {:.4} (Ctrl-C ends the search with the best result so far)",
                progress.search, progress.loss
            ));
            cancel.flow()
        });
        found.map_err(from_accounting)
    }

    /// Adds the result and its guarantee to the answer.
    pub fn describe(&self, answer: Answer, found: &Optimization) -> Answer {
        let best = found.best();
        let verdict = best.calibrated.verdict;
        answer
            .with("amplification", "balls-in-bins")
            .with("batches_per_epoch", self.goal.batches)
            .with("epsilon", self.goal.epsilon)
            .with("delta", self.delta)
            .with("noise_multiplier_estimate", best.estimate)
            .with("release", verdict.releases())
            .with("delta_upper_bound", verdict.upper())
            .with("amplified_loss", best.loss())
            .with("amplified_loss_before", found.start.loss())
            .with("samples", self.effort.budget.samples)
            .with("search_samples", self.effort.samples)
            .with("seed", self.effort.budget.seed)
            .with("searches", found.searches)
    }
}

/// Warns where only the number of samples kept a better strategy from being chosen.
pub fn warn_of_few_samples(found: &Optimization) {
    if found.best() == &found.start && found.end.estimated_loss() < found.start.estimated_loss() {
        streams::note(format_args!(
            "warning: the plan has the strategy without amplification; the search found σ·error of {:.4} instead of \
             {:.4}, but more --samples are needed to show it",
            found.end.estimated_loss(),
            found.start.estimated_loss()
        ));
    }
}
