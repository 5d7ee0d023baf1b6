//! The (ε, δ) to satisfy, and the parameter to find for it.

use accounting::calibration::{self, Target};
use accounting::{Account, AccountingError, Event, Report, calibrate_gaussian, pld};
use clap::{Args, ValueEnum};
use plan::{Grid, Plan};
use strategy::{Sensitivity, Strategy};

use super::open::{OpenScheme, SchemeNumbers};
use crate::commands::account::answer;
use crate::commands::account::sampled::Relation;
use crate::commands::conditional_flags;
use crate::commands::errors::from_accounting;
use crate::flag_of_field::of_planner;
use crate::output::{Answer, bad_use};

/// Least ε of a search: below it each step takes seconds.
const LEAST_EPSILON: f64 = 1e-9;

/// The flags of every calibration.
#[derive(Clone, Copy, Debug, Args)]
pub struct Goal {
    /// ε to satisfy, above 0
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ to satisfy, strictly between 0 and 1
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
    #[command(flatten)]
    relation: Relation,
    /// Parameter to find
    #[arg(long, value_enum, default_value_t = Find::NoiseMultiplier)]
    find: Find,
    /// Noise multiplier σ, in units of the clip norm, to find another parameter
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    noise_multiplier: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Find {
    /// Smallest noise multiplier σ
    NoiseMultiplier,
    /// Largest number of rounds; poisson, user-level and band-mf only
    Iterations,
    /// Largest sampling probability; poisson, user-level and band-mf only
    SamplingProbability,
    /// Largest number of participations of one user; plan and tree only
    Participations,
}

impl Goal {
    /// Finds the noise multiplier of a Gaussian mechanism.
    pub fn gaussian(&self, name: &'static str, zero_out: Sensitivity) -> anyhow::Result<Answer> {
        self.only(name, &[Find::NoiseMultiplier])?;
        self.refuse_given("--noise-multiplier", self.noise_multiplier.is_some())?;
        let moved = self.relation.moved(zero_out);
        let sigma = calibrate_gaussian(moved.value, self.epsilon, self.delta).map_err(from_accounting)?;
        let report = self.relation.report(zero_out, sigma, self.delta).map_err(from_accounting)?;
        Ok(answer(name, &report, self.relation))
    }

    /// Finds the noise multiplier of a plan whose rows are on a grid, with a step of its own: more than a plan of floats takes, by
    /// what the grid costs.
    pub fn on_grid(&self, name: &'static str, plan: &Plan, grid: Grid) -> anyhow::Result<Answer> {
        self.only(name, &[Find::NoiseMultiplier])?;
        self.refuse_given("--noise-multiplier", self.noise_multiplier.is_some())?;
        self.relation.check_plan(plan)?;
        let factor = self.relation.neighbouring().factor();
        let found = planner::calibrate_on_grid(plan.spec(), grid, (self.epsilon, self.delta), factor);
        let found = found.map_err(of_planner)?;
        let moved = self.relation.moved(found.accounted_sensitivity().map_err(bad_use)?);
        let accounted = found.accounted_noise_multiplier();
        let report = Report::of_run(moved, accounted, found.failure_probability(), self.delta);
        let report =
            Report { noise_multiplier: found.noise_multiplier(), ..report.map_err(from_accounting)? };
        Ok(answer(name, &report, self.relation).with("noise_multiplier_accounted", accounted))
    }

    /// Returns whether the parameter to find is the number of participations. Error: neither that nor the noise.
    pub fn finds_participations(&self, name: &'static str) -> anyhow::Result<bool> {
        self.only(name, &[Find::NoiseMultiplier, Find::Participations])?;
        Ok(self.find == Find::Participations)
    }

    /// Finds the largest number of participations of one user that every strategy allows. `known` is σ where no flag
    /// sets it.
    pub fn participations(
        &self,
        name: &'static str,
        strategies: &[Strategy],
        (n, min_sep): (u64, u64),
        known: Option<f64>,
    ) -> anyhow::Result<Answer> {
        let sigma = self.noise_multiplier.or(known).ok_or_else(|| self.missing("--noise-multiplier"))?;
        let most = |strategy: &Strategy| {
            calibration::participations(self.target(), strategy, n, min_sep, sigma).map_err(from_accounting)
        };
        let found = strategies.iter().map(most).collect::<anyhow::Result<Vec<_>>>()?;
        let found = found.into_iter().min().unwrap_or(0);
        let rule = strategy::Participation::new(min_sep, found).map_err(bad_use)?;
        let worst = |strategy: &Strategy| strategy.sensitivity(n, rule).map_err(bad_use);
        let costs = strategies.iter().map(worst).collect::<anyhow::Result<Vec<_>>>()?;
        let largest = costs.into_iter().max_by(|a, b| a.value.total_cmp(&b.value));
        let largest = largest.unwrap_or(Sensitivity { value: 0.0, exact: true });
        let report = self.relation.report(largest, sigma, self.delta).map_err(from_accounting)?;
        Ok(answer(name, &report, self.relation)
            .with("max_participations", found)
            .with("min_sep", min_sep)
            .with("iterations", n))
    }

    /// Finds the noise multiplier of an event that depends on nothing else.
    pub fn noise(&self, name: &'static str, event: impl Fn(f64) -> Event) -> anyhow::Result<Answer> {
        self.check()?;
        self.only(name, &[Find::NoiseMultiplier])?;
        self.refuse_given("--noise-multiplier", self.noise_multiplier.is_some())?;
        let sigma = calibration::noise_multiplier(self.target(), |sigma| Ok(event(sigma)))
            .map_err(from_accounting)?;
        let account = Account::new(&event(sigma), self.relation.neighbouring()).map_err(from_accounting)?;
        let reached = account.epsilon(self.delta).map_err(from_accounting)?;
        Ok(Answer::new()
            .with("account", name)
            .with("epsilon", reached)
            .with("delta", self.delta)
            .with("noise_multiplier", sigma)
            .with("neighbouring", self.relation.name()))
    }

    /// Finds one number of sampled rounds.
    pub fn sampled<S: OpenScheme>(&self, shape: &S) -> anyhow::Result<Answer> {
        self.check()?;
        self.only(S::NAME, &[Find::NoiseMultiplier, Find::Iterations, Find::SamplingProbability])?;
        let numbers = self.found(shape)?;
        let event = shape.event(numbers).map_err(from_accounting)?;
        let account = Account::new(&event, self.relation.neighbouring()).map_err(from_accounting)?;
        let reached = account.epsilon_figure(self.delta, pld::ACCURACY).map_err(from_accounting)?.value;
        let answer = Answer::new()
            .with("account", S::NAME)
            .with("epsilon", reached)
            .with("delta", self.delta)
            .with("noise_multiplier", numbers.noise_multiplier)
            .with("neighbouring", self.relation.name());
        Ok(shape.describe(numbers, answer))
    }

    fn found<S: OpenScheme>(&self, shape: &S) -> anyhow::Result<SchemeNumbers> {
        let sigma = self.noise_multiplier;
        let q = shape.sampling_probability();
        let rounds = shape.rounds();
        let flag = match self.find {
            Find::Iterations => ("--iterations", rounds.is_some()),
            Find::SamplingProbability => ("--sampling-probability", q.is_some()),
            Find::NoiseMultiplier | Find::Participations => ("--noise-multiplier", sigma.is_some()),
        };
        self.refuse_given(flag.0, flag.1)?;
        let known = |value: Option<f64>, flag: &str, open: Find| match value {
            Some(value) => Ok(value),
            None if self.find == open => Ok(1.0),
            None => Err(self.missing(flag)),
        };
        let numbers = SchemeNumbers {
            noise_multiplier: known(sigma, "--noise-multiplier", Find::NoiseMultiplier)?,
            sampling_probability: known(q, "--sampling-probability", Find::SamplingProbability)?,
            rounds: match rounds {
                Some(rounds) => rounds,
                None if self.find == Find::Iterations => 1,
                None => return Err(self.missing("--iterations")),
            },
        };
        let target = self.target();
        let event = |numbers: SchemeNumbers| -> Result<Event, AccountingError> { shape.event(numbers) };
        let numbers = match self.find {
            Find::Iterations => {
                let found =
                    calibration::iterations(target, |rounds| event(SchemeNumbers { rounds, ..numbers }));
                SchemeNumbers { rounds: found.map_err(from_accounting)?, ..numbers }
            }
            Find::SamplingProbability => {
                // The search runs over shares of the largest value; a share is the probability of one group.
                let at = |share: f64| SchemeNumbers {
                    sampling_probability: share * shape.largest_probability(),
                    ..numbers
                };
                let found = calibration::sampling_probability(target, |share| event(at(share)));
                at(found.map_err(from_accounting)?)
            }
            Find::NoiseMultiplier | Find::Participations => {
                let at = |noise_multiplier: f64| SchemeNumbers { noise_multiplier, ..numbers };
                at(calibration::noise_multiplier(target, |sigma| event(at(sigma)))
                    .map_err(from_accounting)?)
            }
        };
        Ok(numbers)
    }

    /// Refuses an ε for which the search would take hours.
    fn check(&self) -> anyhow::Result<()> {
        if (0.0..LEAST_EPSILON).contains(&self.epsilon) && self.epsilon > 0.0 {
            let epsilon = self.epsilon;
            return Err(bad_use(format!(
                "--epsilon is {epsilon:e}; allowed: {LEAST_EPSILON:e} or more; were --epsilon and --delta swapped?"
            )));
        }
        Ok(())
    }

    fn target(&self) -> Target {
        Target { epsilon: self.epsilon, delta: self.delta, neighbouring: self.relation.neighbouring() }
    }

    fn only(&self, name: &'static str, allowed: &[Find]) -> anyhow::Result<()> {
        if allowed.contains(&self.find) {
            return Ok(());
        }
        let allowed: Vec<String> = allowed.iter().map(|find| find.word()).collect();
        Err(bad_use(format!("--find is {}; allowed for {name}: {}", self.find.word(), allowed.join(", "))))
    }

    fn refuse_given(&self, flag: &str, is_given: bool) -> anyhow::Result<()> {
        let text =
            || format!("{flag} is given, and --find {} computes it; omit one of them", self.find.word());
        if is_given { Err(bad_use(text())) } else { Ok(()) }
    }

    fn missing(&self, flag: &str) -> anyhow::Error {
        conditional_flags::missing(flag, &format!("--find {}", self.find.word()))
    }
}

impl Find {
    fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
