//! What is to be kept, and which number is to be found for it.

use accounting::calibration::{self, Target};
use accounting::{Account, AccountingError, Event, calibrate_gaussian, pld};
use clap::{Args, ValueEnum};
use strategy::{Sensitivity, Strategy};

use super::open::{Numbers, Open};
use crate::commands::account::answer;
use crate::commands::account::sampled::Relation;
use crate::commands::errors::from_accounting;
use crate::output::{Answer, bad_use};

/// The promise to keep.
#[derive(Clone, Copy, Debug, Args)]
pub struct Goal {
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
    #[command(flatten)]
    relation: Relation,
    /// The parameter to find: the smallest noise multiplier, or the largest value of another parameter
    #[arg(long, value_enum, default_value_t = Find::NoiseMultiplier)]
    find: Find,
    /// σ, in units of the clip norm, when finding another parameter
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    noise_multiplier: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Find {
    NoiseMultiplier,
    /// Rounds, of sampled ones
    Iterations,
    /// Of sampled rounds
    SamplingProbability,
    /// Of one user, under zcdp and tree
    Participations,
}

impl Goal {
    /// The noise for a Gaussian mechanism.
    pub fn gaussian(&self, name: &'static str, zero_out: Sensitivity) -> anyhow::Result<Answer> {
        self.only(name, &[Find::NoiseMultiplier])?;
        self.not_given("--noise-multiplier", self.noise_multiplier.is_some())?;
        let moved = self.relation.moved(zero_out);
        let sigma = calibrate_gaussian(moved.value, self.epsilon, self.delta).map_err(from_accounting)?;
        let report = self.relation.report(zero_out, sigma, self.delta).map_err(from_accounting)?;
        Ok(answer(name, &report, self.relation))
    }

    /// Whether participations are asked for rather than noise.
    pub fn finds_participations(&self, name: &'static str) -> anyhow::Result<bool> {
        self.only(name, &[Find::NoiseMultiplier, Find::Participations])?;
        Ok(self.find == Find::Participations)
    }

    /// The most participations of one user that all the strategies allow; `known` is σ where no flag says it.
    pub fn participations(
        &self,
        name: &'static str,
        strategies: &[Strategy],
        (n, min_sep): (u64, u64),
        known: Option<f64>,
    ) -> anyhow::Result<Answer> {
        let sigma = self.noise_multiplier.or(known).ok_or_else(|| self.needed("--noise-multiplier"))?;
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

    /// Sampled rounds, with whichever of their numbers is asked for.
    pub fn sampled<S: Open>(&self, shape: &S) -> anyhow::Result<Answer> {
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

    fn found<S: Open>(&self, shape: &S) -> anyhow::Result<Numbers> {
        let sigma = self.noise_multiplier;
        let q = shape.sampling_probability();
        let rounds = shape.rounds();
        let flag = match self.find {
            Find::Iterations => ("--iterations", rounds.is_some()),
            Find::SamplingProbability => ("--sampling-probability", q.is_some()),
            Find::NoiseMultiplier | Find::Participations => ("--noise-multiplier", sigma.is_some()),
        };
        self.not_given(flag.0, flag.1)?;
        let known = |value: Option<f64>, flag: &str, open: Find| match value {
            Some(value) => Ok(value),
            None if self.find == open => Ok(1.0),
            None => Err(self.needed(flag)),
        };
        let numbers = Numbers {
            noise_multiplier: known(sigma, "--noise-multiplier", Find::NoiseMultiplier)?,
            sampling_probability: known(q, "--sampling-probability", Find::SamplingProbability)?,
            rounds: match rounds {
                Some(rounds) => rounds,
                None if self.find == Find::Iterations => 1,
                None => return Err(self.needed("--iterations")),
            },
        };
        let target = self.target();
        let event = |numbers: Numbers| -> Result<Event, AccountingError> { shape.event(numbers) };
        let numbers = match self.find {
            Find::Iterations => {
                let found = calibration::iterations(target, |rounds| event(Numbers { rounds, ..numbers }));
                Numbers { rounds: found.map_err(from_accounting)?, ..numbers }
            }
            Find::SamplingProbability => {
                // Searched as a share of the largest, which is what a group is sampled with.
                let at = |share: f64| Numbers { sampling_probability: share * shape.most(), ..numbers };
                let found = calibration::sampling_probability(target, |share| event(at(share)));
                at(found.map_err(from_accounting)?)
            }
            Find::NoiseMultiplier | Find::Participations => {
                let at = |noise_multiplier: f64| Numbers { noise_multiplier, ..numbers };
                at(calibration::noise_multiplier(target, |sigma| event(at(sigma)))
                    .map_err(from_accounting)?)
            }
        };
        Ok(numbers)
    }

    fn target(&self) -> Target {
        Target { epsilon: self.epsilon, delta: self.delta, neighbouring: self.relation.neighbouring() }
    }

    fn only(&self, name: &'static str, allowed: &[Find]) -> anyhow::Result<()> {
        if allowed.contains(&self.find) {
            return Ok(());
        }
        let allowed: Vec<String> = allowed.iter().map(|find| find.word()).collect();
        Err(bad_use(format!(
            "--find {} can't be had for {name}; allowed: {}",
            self.find.word(),
            allowed.join(", ")
        )))
    }

    fn not_given(&self, flag: &str, given: bool) -> anyhow::Result<()> {
        let text =
            || format!("{flag} is given, and --find {} is to find it; leave one away", self.find.word());
        if given { Err(bad_use(text())) } else { Ok(()) }
    }

    fn needed(&self, flag: &str) -> anyhow::Error {
        bad_use(format!("{flag} is needed by --find {}", self.find.word()))
    }
}

impl Find {
    fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
