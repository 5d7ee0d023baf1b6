//! `rustle plan optimize --amplify balls-in-bins`: C made for batches drawn at random, and the σ to run it with.

use std::time::Duration;

use accounting::monte_carlo::SampleBudget;
use accounting::monte_carlo::optimize::{Effort, Goal, Optimization, optimize_balls_in_bins};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use strategy::Strategy;
use strategy::optimize::Target;

use super::make::RunArgs;
use crate::commands::cancel::Cancel;
use crate::commands::errors::from_accounting;
use crate::commands::monte_carlo::fresh_seed;
use crate::output::{Answer, bad_use};

/// How batches are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Amplify {
    /// Each record in one batch, drawn at random, of every epoch: min-sep is the batches per epoch and
    /// max-participations the epochs
    BallsInBins,
}

#[derive(Clone, Debug, Args)]
pub struct AmplifyArgs {
    /// Batches are drawn at random: optimise for the σ that they need at --epsilon and --delta, and plan with it
    #[arg(long, value_name = "HOW", value_enum, requires_all = ["epsilon", "delta"], conflicts_with = "noise_multiplier")]
    amplify: Option<Amplify>,
    #[arg(long, value_name = "X", requires = "amplify", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    #[arg(long, value_name = "X", requires = "amplify", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Samples for the final σ
    #[arg(long, value_name = "N", requires = "amplify", default_value_t = SampleBudget::default().samples)]
    samples: u64,
    /// Samples of each step of the search
    #[arg(long, value_name = "N", requires = "amplify", default_value_t = Effort::default().samples)]
    search_samples: u64,
    /// Seed of the samples [default: random]; a seed chosen for its result voids the guarantee
    #[arg(long, value_name = "S", requires = "amplify")]
    seed: Option<u64>,
}

/// What is asked of samples.
pub struct Asked {
    question: Goal,
    effort: Effort,
}

impl AmplifyArgs {
    /// None where nothing is drawn at random. Error: bad use.
    pub fn asked(&self, run: &RunArgs) -> anyhow::Result<Option<Asked>> {
        let (Some(Amplify::BallsInBins), Some(epsilon), Some(delta)) =
            (self.amplify, self.epsilon, self.delta)
        else {
            return Ok(None);
        };
        let batches = run.participation.min_sep;
        let epochs = run.participation.max_participations;
        if batches.checked_mul(epochs) != Some(run.iterations) {
            return Err(bad_use(format!(
                "--min-sep {batches} × --max-participations {epochs}, batches per epoch and epochs; allowed: {}, the \
                 iterations",
                run.iterations
            )));
        }
        let seed = self.seed.map_or_else(fresh_seed, Ok)?;
        let budget = SampleBudget { samples: self.samples, seed };
        let effort = Effort { samples: self.search_samples, budget, ..Effort::default() };
        Ok(Some(Asked { question: Goal { batches, epsilon, delta }, effort }))
    }
}

impl Asked {
    /// From the optimum without amplification.
    pub fn search(&self, start: &Strategy, target: &Target) -> anyhow::Result<Optimization> {
        let cancel = Cancel::on_ctrl_c();
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        let found = optimize_balls_in_bins(start, target, self.question, self.effort, &mut |progress| {
            bar.set_message(format!(
                "search {}, RMSE about {:.4} (Ctrl-C ends it with the best so far)",
                progress.search, progress.loss
            ));
            cancel.flow()
        });
        bar.finish_and_clear();
        found.map_err(from_accounting)
    }

    pub fn describe(&self, answer: Answer, found: &Optimization) -> Answer {
        let best = found.best();
        let verdict = best.calibrated.verdict;
        answer
            .with("amplification", "balls-in-bins")
            .with("batches_per_epoch", self.question.batches)
            .with("epsilon", self.question.epsilon)
            .with("delta", self.question.delta)
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

/// Says where only the number of samples kept a better strategy from being taken.
pub fn warn_of_few_samples(found: &Optimization) {
    if found.best() == &found.start && found.end.estimated_loss() < found.start.estimated_loss() {
        eprintln!(
            "warning: the strategy is the one without amplification: that of the search would need σ·error of {:.4} \
             instead of {:.4}, but so few --samples can't show it",
            found.end.estimated_loss(),
            found.start.estimated_loss()
        );
    }
}
