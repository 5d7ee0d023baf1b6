//! `rustle account random-allocation`: each record in k of the t batches of an epoch, drawn anew in every epoch.

use accounting::{AccountingError, Event, allocation};
use clap::Args;

use crate::commands::errors::from_accounting;
use crate::output::Answer;

/// Epochs of batches that each record draws on its own.
#[derive(Clone, Copy, Debug, Args)]
pub struct RandomAllocation {
    /// Number of batches per epoch
    #[arg(long, value_name = "T")]
    pub batches_per_epoch: u64,
    /// Number of batches of an epoch that each record joins
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub selected: u64,
    /// Number of epochs; batches are drawn anew in each
    #[arg(long, value_name = "E", value_parser = clap::value_parser!(u64).range(1..))]
    pub epochs: u64,
}

impl RandomAllocation {
    pub fn event(&self, noise_multiplier: f64) -> Event {
        let Self { batches_per_epoch, selected, epochs } = *self;
        Event::RandomAllocation { noise_multiplier, batches_per_epoch, participations: selected }
            .times(epochs)
    }

    /// Adds a lower bound of ε, where one is known.
    pub fn with_lower_bound(&self, sigma: f64, delta: Option<f64>, answer: Answer) -> anyhow::Result<Answer> {
        let Some(delta) = delta.filter(|_| sigma >= allocation::LEAST_NOISE) else {
            return Ok(answer);
        };
        match allocation::epsilon_at_least(sigma, self.batches_per_epoch, self.selected, self.epochs, delta) {
            Ok(lower) => Ok(answer.with("epsilon_lower", lower)),
            // So much noise, or so many batches, that nothing is said from below.
            Err(AccountingError::OutOfReach { .. }) => Ok(answer),
            Err(error) => Err(from_accounting(error)),
        }
    }

    pub fn describe(&self, answer: Answer) -> Answer {
        answer
            .with("batches_per_epoch", self.batches_per_epoch)
            .with("selected", self.selected)
            .with("epochs", self.epochs)
    }
}
