//! The privacy curve of a run, which figures and charts are read off.

use accounting::monte_carlo::{BMinSep, BallsInBins, Pair, SampleBudget};
use accounting::pld::Profile;
use accounting::{Account, AccountKind, Event, MatrixMechanism, Neighbouring, failure, gaussian, summary};
use plan::Plan;

use crate::bands::bands;
use crate::error::{ReportError, Result};
use crate::event;
use crate::figures::{AtDelta, FALSE_POSITIVE_RATE, Figures};
use crate::question::{Question, SamplingAssumption, invalid};

/// The curve ε(δ) of a run, by one of three accounts. `failure` is the probability with which the run leaves the mechanism.
pub enum PrivacyCurve {
    /// The exact curve of N(0, 1) against N(μ, 1).
    Gaussian { mu: f64, failure: f64 },
    /// The curve of the privacy-loss distributions of sampled rounds.
    Rounds { profile: Profile, failure: f64 },
    /// The curve by Monte Carlo, point by point.
    Sampled { mechanism: Box<dyn Pair>, noise_multiplier: f64, samples: SampleBudget, failure: f64 },
}

impl PrivacyCurve {
    /// Returns the curve of a run without amplification; `sensitivity` is per unit clip norm under zeroing out.
    pub fn gaussian(plan: &Plan, sensitivity: f64, neighbouring: Neighbouring) -> Self {
        let mu = neighbouring.factor() * sensitivity / plan.accounted_noise_multiplier();
        Self::Gaussian { mu, failure: plan.failure_probability() }
    }

    /// Returns the curve of the first `rounds` rows under the assumed sampling; `None` where none is assumed.
    pub fn amplified(question: &Question, rounds: u64) -> Result<Option<Self>> {
        let plan = &question.plan;
        match question.assumed {
            SamplingAssumption::AnyOrder => Ok(None),
            SamplingAssumption::CyclicPoisson { .. } => {
                let sampling = question.assumed.in_event();
                let run = event::run_of(plan, sampling)?;
                // The curve adds the probability of failure itself.
                let run = MatrixMechanism { iterations: rounds, failure_probability: 0.0, ..run };
                let account = Account::new(&Event::MatrixMechanism(run), question.neighbouring)?;
                let failure = plan.failure_probability();
                Ok(Some(Self::Rounds { profile: account.profile()?, failure }))
            }
            SamplingAssumption::BallsInBins { batches_per_epoch, samples, seed } => {
                accepted(AccountKind::BallsInBins, question.neighbouring, "zero-out, for balls-in-bins")?;
                if !plan.iterations().is_multiple_of(batches_per_epoch) {
                    let allowed = format!("a divisor of {}, the plan's rows", plan.iterations());
                    return Err(invalid("batches per epoch", batches_per_epoch, allowed));
                }
                // The mechanism is that of the rounded coefficients that run.
                let strategy = plan.sampled_strategy()?;
                let mechanism = BallsInBins::new(&strategy, rounds, batches_per_epoch)?;
                Ok(Some(Self::sampled(plan, mechanism, SampleBudget { samples, seed })))
            }
            SamplingAssumption::RandomAllocation { batches_per_epoch, participations } => {
                let event = allocated(plan, rounds, batches_per_epoch, participations)?;
                let account = Account::new(&event, question.neighbouring)?;
                let failure = plan.failure_probability();
                Ok(Some(Self::Rounds { profile: account.profile()?, failure }))
            }
            SamplingAssumption::BMinSep { min_sep, sampling_probability, warm_start, samples, seed } => {
                accepted(AccountKind::BMinSep, question.neighbouring, "zero-out, for b-min-sep")?;
                let strategy = plan.sampled_strategy()?;
                let mechanism = BMinSep::new(&strategy, rounds, min_sep, sampling_probability, warm_start)?;
                Ok(Some(Self::sampled(plan, mechanism, SampleBudget { samples, seed })))
            }
        }
    }

    fn sampled(plan: &Plan, mechanism: impl Pair + 'static, samples: SampleBudget) -> Self {
        let noise_multiplier = plan.accounted_noise_multiplier();
        let failure = plan.failure_probability();
        Self::Sampled { mechanism: Box::new(mechanism), noise_multiplier, samples, failure }
    }

    /// Returns [`Self::amplified`] where any number of rounds has an account; Monte Carlo needs whole epochs.
    pub fn of_rounds(question: &Question, rounds: u64) -> Result<Option<Self>> {
        match question.assumed {
            SamplingAssumption::CyclicPoisson { .. } if rounds > 0 => Self::amplified(question, rounds),
            _ => Ok(None),
        }
    }

    /// Returns ε at one δ.
    pub fn epsilon(&self, delta: f64) -> Result<AtDelta> {
        let with_failure = |failure, own: &dyn Fn(f64) -> accounting::Result<f64>| -> Result<AtDelta> {
            let epsilon = failure::at_delta(delta, failure, own, |epsilon| *epsilon)?;
            Ok(AtDelta { delta, epsilon, delta_upper_bound: None })
        };
        match self {
            Self::Gaussian { mu, .. } if *mu == 0.0 => with_failure(0.0, &|_| Ok(0.0)),
            Self::Gaussian { mu, failure } => with_failure(*failure, &|delta| gaussian::epsilon(delta, *mu)),
            Self::Rounds { profile, failure } => with_failure(*failure, &|delta| profile.epsilon(delta)),
            Self::Sampled { mechanism, noise_multiplier, samples, failure } => {
                let found = mechanism.epsilon(*noise_multiplier, delta, *samples)?;
                let bound = failure::delta(found.epsilon, *failure, found.delta.upper(delta))?;
                Ok(AtDelta { delta, epsilon: found.epsilon, delta_upper_bound: Some(bound) })
            }
        }
    }

    /// Returns the true positive rate of the best test; `None` by Monte Carlo, where only some ε are known.
    pub fn power(&self, false_positive_rate: f64) -> Result<Option<f64>> {
        Ok(match self {
            Self::Gaussian { mu, failure } => {
                Some(gaussian::true_positive_rate(false_positive_rate + failure, *mu)? + failure)
            }
            Self::Rounds { profile, failure } => {
                Some(summary::true_positive_rate(profile, false_positive_rate + failure)? + failure)
            }
            Self::Sampled { .. } => None,
        })
    }

    /// Returns the figures at several δ.
    pub fn figures(&self, deltas: &[f64]) -> Result<Figures> {
        let guarantees = deltas.iter().map(|delta| self.epsilon(*delta)).collect::<Result<Vec<_>>>()?;
        let rho = match self {
            Self::Gaussian { mu, .. } => Some(mu * mu / 2.0),
            _ => None,
        };
        let mu = match self {
            Self::Gaussian { mu, .. } => *mu,
            _ => largest_mu(&guarantees)?,
        };
        let true_positive_rate = self.power(FALSE_POSITIVE_RATE)?;
        Ok(Figures { guarantees, rho, mu, true_positive_rate, false_positive_rate: FALSE_POSITIVE_RATE })
    }
}

/// Describes rounds of independent noise under random allocation. A last epoch that is cut short counts as a whole one.
fn allocated(plan: &Plan, rounds: u64, batches_per_epoch: u64, participations: u64) -> Result<Event> {
    if bands(plan) != Some(1) {
        let allowed = "identity under random allocation, whose account is that of independent noise";
        return Err(invalid("mechanism", plan.mechanism().name(), allowed));
    }
    let noise_multiplier = plan.accounted_noise_multiplier() / plan.accounted_column_norm()?;
    let epochs = rounds.div_ceil(batches_per_epoch.max(1));
    Ok(Event::RandomAllocation { noise_multiplier, batches_per_epoch, participations }.times(epochs))
}

fn accepted(account: AccountKind, relation: Neighbouring, allowed: &'static str) -> Result<()> {
    if account.accepts(relation) { Ok(()) } else { Err(invalid("neighbouring", relation.name(), allowed)) }
}

/// Returns μ of the Gaussian mechanism that costs as much at the worst of these (ε, δ).
fn largest_mu(guarantees: &[AtDelta]) -> Result<f64> {
    guarantees.iter().try_fold(0.0, |most: f64, at| {
        let mu = gaussian::largest_mu(at.epsilon, at.delta).map_err(ReportError::from)?;
        Ok(most.max(mu))
    })
}
