//! What is asked of an account: ε at a δ or δ at an ε, and the relation under which it holds.

use accounting::{Account, Event, Report, failure, gaussian, pld, zcdp};
use clap::Args;
use strategy::Sensitivity;

use super::sampled::Relation;
use crate::commands::errors::from_accounting;
use crate::output::{Answer, bad_use};

#[derive(Clone, Copy, Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    pub query: Query,
    #[command(flatten)]
    pub relation: Relation,
}

/// One of the two numbers of a guarantee; the other is computed.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Query {
    /// δ at which ε is computed, strictly between 0 and 1
    #[arg(long, allow_negative_numbers = true)]
    pub delta: Option<f64>,
    /// ε at which δ is computed, at least 0
    #[arg(long, allow_negative_numbers = true)]
    pub epsilon: Option<f64>,
}

impl Ask {
    /// Reports a Gaussian mechanism of a sensitivity under zeroing out.
    pub fn report(self, zero_out: Sensitivity, noise_multiplier: f64) -> anyhow::Result<Report> {
        self.report_of_run(zero_out, noise_multiplier, 0.0)
    }

    /// Reports a run that leaves this mechanism with a probability of at most `failure`, whichever the data.
    pub fn report_of_run(
        self,
        zero_out: Sensitivity,
        noise_multiplier: f64,
        failure: f64,
    ) -> anyhow::Result<Report> {
        let Sensitivity { value: sensitivity, exact } = self.relation.moved(zero_out);
        let rho = zcdp::rho(sensitivity, noise_multiplier).map_err(from_accounting)?;
        let (epsilon, delta) = match (self.query.epsilon, self.query.delta) {
            (Some(epsilon), _) if rho == 0.0 => {
                (epsilon, failure::delta(epsilon, failure, 0.0).map_err(from_accounting)?)
            }
            (Some(epsilon), _) => {
                let delta = gaussian::delta(epsilon, sensitivity / noise_multiplier);
                let delta = delta.and_then(|delta| failure::delta(epsilon, failure, delta));
                (epsilon, delta.map_err(from_accounting)?)
            }
            (None, Some(delta)) => {
                let own = |delta| zcdp::gaussian_epsilon(rho, delta);
                let epsilon = failure::at_delta(delta, failure, own, |epsilon| *epsilon);
                (epsilon.map_err(from_accounting)?, delta)
            }
            (None, None) => return Err(neither()),
        };
        Ok(Report { epsilon, delta, rho, noise_multiplier, sensitivity, exact })
    }

    /// Adds ε, δ, and ρ where there is one, of an event to an answer. `grid_spacing` is added where the bound on memory made
    /// the grid, and so the figure, coarser than usual.
    pub fn of_event(self, event: &Event, answer: Answer) -> anyhow::Result<Answer> {
        let account = Account::new(event, self.relation.neighbouring()).map_err(from_accounting)?;
        let (epsilon, delta, spacing) = match (self.query.epsilon, self.query.delta) {
            (Some(epsilon), _) => (epsilon, account.delta(epsilon).map_err(from_accounting)?, None),
            (None, Some(delta)) => {
                let figure = account.epsilon_figure(delta, pld::ACCURACY).map_err(from_accounting)?;
                (figure.value, delta, figure.coarsened.then_some(figure.spacing))
            }
            (None, None) => return Err(neither()),
        };
        let answer = answer.with("epsilon", epsilon).with("delta", delta);
        let answer = match account.rho() {
            Some(rho) => answer.with("rho", rho),
            None => answer,
        };
        let answer = answer.with("neighbouring", self.relation.name());
        Ok(match spacing {
            Some(spacing) => answer.with("grid_spacing", spacing),
            None => answer,
        })
    }
}

/// Answers for sampled rounds.
pub fn sampled_answer(name: &'static str, sigma: f64, event: &Event, ask: Ask) -> anyhow::Result<Answer> {
    let answer = ask.of_event(event, Answer::new().with("account", name))?;
    Ok(answer.with("noise_multiplier", sigma))
}

fn neither() -> anyhow::Error {
    bad_use("--delta and --epsilon are missing; allowed: one of them")
}
