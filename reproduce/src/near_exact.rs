//! RMSE of prefix sums at an ε, by noise without sampling, under cyclic Poisson sampling and under balls-in-bins
//! batches: Choquette-Choo et al. (2024), Figures 2, 3 and 5.

use std::ops::ControlFlow;

use accounting::calibrate_gaussian;
use accounting::monte_carlo::optimize::{CalibratedStrategy, Effort, Goal, optimize_balls_in_bins};
use accounting::monte_carlo::{BallsInBins, Pair, SampleBudget};
use plot::{Axis, Chart};
use strategy::optimize::{Family, Objective, Target};
use strategy::{Participation, Strategy};

use crate::curves::Curves;
use crate::item::{Cell, Findings, Table, claims};
use crate::work::{Loss, Work, normalised};

const BATCHES: u64 = 128;
const EPOCHS: u64 = 16;
pub const DELTA: f64 = 1e-5;
const EPSILONS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Samples of every σ that a page shows; its standard error is far below a percent.
pub const SAMPLING: SampleBudget = SampleBudget { samples: 1 << 17, seed: 1 };

/// How often a record takes part, in n = batches·epochs rounds.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub batches: u64,
    pub epochs: u64,
}

const RUN: Run = Run { batches: BATCHES, epochs: EPOCHS };

impl Run {
    pub fn n(self) -> u64 {
        self.batches * self.epochs
    }

    pub fn rule(self) -> Participation {
        Participation { min_sep: self.batches, max_participations: self.epochs }
    }

    pub fn target(self) -> Target {
        Target::new(self.n(), self.rule(), Objective::Rms)
    }

    /// RMSE without sampling, of the strategy with the least loss.
    pub fn unamplified(self, strategy: &Strategy, epsilon: f64) -> anyhow::Result<f64> {
        Ok(calibrate_gaussian(self.target().loss(strategy)?, epsilon, DELTA)?)
    }

    /// RMSE under balls-in-bins batches, σ as the mean of the samples has it.
    pub fn bins(self, strategy: &Strategy, epsilon: f64) -> anyhow::Result<f64> {
        let mechanism = BallsInBins::new(strategy, self.n(), self.batches)?;
        Ok(mechanism.noise_multiplier(epsilon, DELTA, SAMPLING)? * self.target().error(strategy)?)
    }

    /// RMSE under cyclic Poisson sampling with as many expected participations.
    pub fn poisson(self, work: &Work, bands: u64, epsilon: f64) -> anyhow::Result<f64> {
        let sigma = work.amplified_noise((epsilon, DELTA), self.n(), self.epochs, bands)?;
        Ok(sigma * work.column_normalised_error(self.n(), bands)?)
    }

    /// The strategy with this many bands and the least error without amplification.
    pub fn banded(self, work: &Work, bands: u64) -> anyhow::Result<Strategy> {
        if bands <= self.batches {
            return normalised(work, self.n(), bands);
        }
        let family = Family::BandToeplitz { bands: bands as usize };
        Ok(work.optimised(family, self.n(), self.rule(), Loss::Rms)?.strategy.clone())
    }

    /// The strategy of a family made for balls-in-bins batches, from the one made without amplification.
    pub fn optimised(
        self,
        work: &Work,
        family: Family,
        epsilon: f64,
        samples: u64,
    ) -> anyhow::Result<CalibratedStrategy> {
        let start = work.optimised(family, self.n(), self.rule(), Loss::Rms)?;
        let question = Goal { batches: self.batches, epsilon, delta: DELTA };
        let effort = Effort { samples, budget: SAMPLING, restarts: 1, ..Effort::default() };
        let found =
            optimize_balls_in_bins(&start.strategy, &self.target(), question, effort, &mut |progress| {
                work.report(&format!("ε = {epsilon}, search {}: {:.4}", progress.search, progress.loss));
                ControlFlow::Continue(())
            })?;
        Ok(found.end)
    }
}

/// How much less than `before` each value is, in percent.
fn less(after: &[f64], before: &[f64]) -> Vec<f64> {
    after.iter().zip(before).map(|(after, before)| 100.0 * (1.0 - after / before)).collect()
}

/// One number for each ε.
fn over_epsilons(mut number: impl FnMut(f64) -> anyhow::Result<f64>) -> anyhow::Result<Vec<f64>> {
    EPSILONS.iter().map(|epsilon| number(*epsilon)).collect()
}

/// A panel's title and its lines by name.
type Panel<'a> = (&'a str, &'a [(&'a str, Vec<f64>)]);

/// Percentages over ε, as tables and charts with these titles.
fn percentages(panels: [Panel<'_>; 2]) -> (Vec<Table>, Vec<Chart>) {
    let panel = |(title, ways): (&str, &[(&str, Vec<f64>)])| {
        let mut curves = Curves::new(EPSILONS);
        ways.iter().for_each(|(name, percent)| curves.add(*name, percent.iter().copied()));
        let table = curves.table(title, "ε", Cell::whole, 1);
        (table, curves.chart(title, Axis::log("ε"), Axis::linear("less RMSE, %")))
    };
    panels.map(panel).into_iter().unzip()
}

/// Figure 2: what two ways to draw batches gain over none, C given.
pub fn strategy_given(work: &Work) -> anyhow::Result<Findings> {
    /// (balls-in-bins, Poisson)
    fn gains(work: &Work, strategy: &Strategy, bands: u64) -> anyhow::Result<[(&'static str, Vec<f64>); 2]> {
        let none = over_epsilons(|epsilon| RUN.unamplified(strategy, epsilon))?;
        work.report(&format!("{bands} bands, balls-in-bins"));
        let bins = over_epsilons(|epsilon| RUN.bins(strategy, epsilon))?;
        work.report(&format!("{bands} bands, Poisson sampling"));
        let poisson = over_epsilons(|epsilon| RUN.poisson(work, bands, epsilon))?;
        Ok([("balls-in-bins", less(&bins, &none)), ("Poisson", less(&poisson, &none))])
    }
    let plain = gains(work, &Strategy::Identity, 1)?;
    let banded = gains(work, &RUN.banded(work, 64)?, 64)?;
    let ahead = |[(_, bins), (_, poisson)]: &[(&str, Vec<f64>); 2]| -> Vec<f64> {
        bins.iter().zip(poisson).map(|(bins, poisson)| bins - poisson).collect()
    };
    let plain_ahead = ahead(&plain);
    let ahead = ahead(&banded);
    let last = EPSILONS.len() - 1;
    let (tables, charts) = percentages([
        ("less RMSE than without sampling, %: C = I", &plain),
        ("less RMSE than without sampling, %: 64 bands", &banded),
    ]);
    let [a, b, c, d, e] = ahead[..] else { anyhow::bail!("five ε") };
    let claims = claims![
        plain_ahead[0].abs() < 5.0 => "{:.1} points apart at ε = 1", plain_ahead[0].abs();
        plain_ahead[last - 1] < -5.0 => "{:.1} points more at ε = 8", -plain_ahead[last - 1];
        ahead[..last].iter().all(|points| *points > 0.0) =>
            "ahead by {a:.1}, {b:.1}, {c:.1}, {d:.1} and {e:.1} points";
    ];
    Ok(Findings { claims, tables, charts, ..Findings::default() })
}

/// RMSE and the number of bands it takes, the least of all up to `most`.
fn least(rmse_of: impl Fn(u64) -> anyhow::Result<f64>, most: u64) -> anyhow::Result<(f64, u64)> {
    let mut best = (f64::INFINITY, 0);
    for bands in (0..).map(|power| 1 << power).take_while(|bands| *bands <= most) {
        let rmse = rmse_of(bands)?;
        if rmse < best.0 {
            best = (rmse, bands);
        }
    }
    Ok(best)
}

/// Figure 3: the best number of bands for each way, and C made for balls-in-bins batches.
pub fn strategy_made(work: &Work) -> anyhow::Result<Findings> {
    /// Most bands that Poisson sampling gains anything with, and those of the strategy without sampling.
    const MOST_SAMPLED: u64 = 64;
    const UNSAMPLED: u64 = 256;
    /// Samples of each step of a search.
    const SEARCH: u64 = 1 << 16;
    let plain = RUN.banded(work, UNSAMPLED)?;
    let none = over_epsilons(|epsilon| RUN.unamplified(&plain, epsilon))?;
    let mut bins = Vec::new();
    let mut poisson = Vec::new();
    for epsilon in EPSILONS {
        work.report(&format!("bands at ε = {epsilon}"));
        bins.push(least(|bands| RUN.bins(&RUN.banded(work, bands)?, epsilon), UNSAMPLED)?);
        poisson.push(least(|bands| RUN.poisson(work, bands, epsilon), MOST_SAMPLED)?);
    }
    let made =
        |family| over_epsilons(|epsilon| Ok(RUN.optimised(work, family, epsilon, SEARCH)?.estimated_loss()));
    let toeplitz = made(Family::BandToeplitz { bands: 256 })?;
    let blt = made(Family::Blt { buffers: 3 })?;
    let rmse = |all: &[(f64, u64)]| all.iter().map(|best| best.0).collect::<Vec<_>>();
    let bins_rmse = rmse(&bins);
    let poisson_rmse = rmse(&poisson);
    let fixed = [("balls-in-bins", less(&bins_rmse, &none)), ("Poisson", less(&poisson_rmse, &none))];
    let free = [
        ("Toeplitz", less(&toeplitz, &poisson_rmse)),
        ("BLT of 3 buffers", less(&blt, &poisson_rmse)),
        ("bands, balls-in-bins", less(&bins_rmse, &poisson_rmse)),
    ];
    let number = |value| Cell::number(value, 3);
    let row = |i: usize| {
        let first = [Cell::whole(EPSILONS[i]), number(none[i]), number(bins[i].0), bins[i].1.into()];
        let second = [number(poisson[i].0), poisson[i].1.into(), number(toeplitz[i]), number(blt[i])];
        first.into_iter().chain(second).collect()
    };
    let header = ["ε", "none", "bins", "bands", "Poisson", "bands", "Toeplitz", "BLT"];
    let chosen = Table::new("RMSE in units of the clip norm", header, (0..EPSILONS.len()).map(row));
    let (mut tables, charts) = percentages([
        ("less RMSE than 256 bands without sampling, %", &fixed),
        ("less RMSE than the best bands under Poisson sampling, %", &free),
    ]);
    tables.push(chosen);
    let most = free[..2].iter().flat_map(|way| &way.1).copied().fold(f64::NEG_INFINITY, f64::max);
    let [a, b, c] = [0, 1, 2].map(|i| fixed[1].1[i] - fixed[0].1[i]);
    let last = fixed[1].1[4];
    let fewest = fixed[0].1.iter().copied().fold(f64::INFINITY, f64::min);
    let claims = claims![
        [a, b, c].iter().all(|points| *points > 0.0) => "by {a:.1}, {b:.1} and {c:.1} points";
        last < 0.0 => "{last:.1} % less RMSE";
        fixed[0].1.iter().all(|gain| *gain > 0.0) => "at least {fewest:.1} %";
        most > 5.0 => "up to {most:.1} %";
    ];
    Ok(Findings { claims, tables, charts, ..Findings::default() })
}

/// Figure 5: with how few samples C can be made.
pub fn fewer_samples(work: &Work) -> anyhow::Result<Findings> {
    const EPSILONS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
    const POWERS: [u32; 5] = [9, 11, 13, 15, 17];
    let mut more = Vec::new();
    for epsilon in EPSILONS {
        let rmse = POWERS.map(|power| {
            work.report(&format!("ε = {epsilon}, 2^{power} samples"));
            let made = RUN.optimised(work, Family::Blt { buffers: 3 }, epsilon, 1 << power)?;
            Ok(made.estimated_loss())
        });
        let rmse = rmse.into_iter().collect::<anyhow::Result<Vec<f64>>>()?;
        let most = rmse[POWERS.len() - 1];
        more.push(rmse.into_iter().map(|one| 100.0 * (one / most - 1.0)).collect::<Vec<_>>());
    }
    let title = "more RMSE than with 2¹⁷ samples a step, %";
    let mut by_epsilon = Curves::new(EPSILONS);
    for (i, power) in POWERS.iter().enumerate() {
        by_epsilon.add(format!("2^{power}"), more.iter().map(|percent| percent[i]));
    }
    let mut by_samples = Curves::new(POWERS.map(|power| f64::from(power).exp2()));
    for (epsilon, percent) in EPSILONS.iter().zip(&more) {
        by_samples.add(format!("ε = {epsilon}"), percent.iter().copied());
    }
    let few = more[..3].iter().map(|percent| percent[0]).fold(f64::NEG_INFINITY, f64::max);
    let worst = more[3][0];
    Ok(Findings {
        claims: claims![
            few < 2.0 => "at most {few:.2} % more RMSE";
            (5.0..15.0).contains(&worst) => "{worst:.2} % more";
        ],
        tables: vec![by_epsilon.table(title, "ε", |epsilon| Cell::number(epsilon, 1), 2)],
        charts: vec![by_samples.chart(title, Axis::log("samples a step"), Axis::linear("more RMSE, %"))],
        ..Findings::default()
    })
}
