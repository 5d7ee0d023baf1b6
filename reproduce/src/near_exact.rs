//! What the figures of papers/003 share: RMSE of prefix sums at an ε, by noise without sampling, under cyclic Poisson
//! sampling and under balls-in-bins batches.

use std::ops::ControlFlow;

use accounting::calibrate_gaussian;
use accounting::monte_carlo::optimise::{Effort, Noised, Question, optimise};
use accounting::monte_carlo::{BallsInBins, Pair, Sampling};
use plot::{Axis, Chart, Lines, Series};
use strategy::optimize::{Family, Objective, Target};
use strategy::{Participation, Strategy};

use super::item::{Cell, Table};
use super::work::{Loss, Work, normalised};

pub const BATCHES: u64 = 128;
pub const EPOCHS: u64 = 16;
pub const N: u64 = BATCHES * EPOCHS;
pub const DELTA: f64 = 1e-5;
pub const EPSILONS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Samples of every σ that a page shows; its standard error is far below a percent.
pub const SAMPLING: Sampling = Sampling { samples: 1 << 17, seed: 1 };

/// How often a record takes part, in n = batches·epochs rounds.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub batches: u64,
    pub epochs: u64,
}

pub const RUN: Run = Run { batches: BATCHES, epochs: EPOCHS };

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
    ) -> anyhow::Result<Noised> {
        let start = work.optimised(family, self.n(), self.rule(), Loss::Rms)?;
        let question = Question { batches: self.batches, epsilon, delta: DELTA };
        let effort = Effort { samples, sampling: SAMPLING, restarts: 1, ..Effort::default() };
        let found = optimise(&start.strategy, &self.target(), question, effort, &mut |progress| {
            work.says(&format!("ε = {epsilon}, search {}: {:.4}", progress.search, progress.loss));
            ControlFlow::Continue(())
        })?;
        Ok(found.end)
    }
}

/// How much less than `before`, in percent.
pub fn less(after: f64, before: f64) -> f64 {
    100.0 * (1.0 - after / before)
}

/// One line of percentages over ε a way.
pub fn percent_table(title: &str, ways: &[(&str, Vec<f64>)]) -> Table {
    let header = std::iter::once("ε").chain(ways.iter().map(|way| way.0));
    let mut table = Table::new(title, header);
    table.rows = EPSILONS
        .iter()
        .enumerate()
        .map(|(i, epsilon)| {
            let numbers = ways.iter().map(|(_, percent)| Cell::number(percent[i], 1));
            std::iter::once(Cell::number(*epsilon, 0)).chain(numbers).collect()
        })
        .collect();
    table
}

pub fn percent_chart(title: &str, ways: &[(&str, Vec<f64>)]) -> Chart {
    let line = |(name, percent): &(&str, Vec<f64>)| {
        let points = EPSILONS.iter().zip(percent).map(|(epsilon, p)| (*epsilon, (*p).into()));
        Series::new(*name, points.collect())
    };
    Chart::Lines(Lines {
        title: title.into(),
        x: Axis::log("ε"),
        y: Axis::linear("less RMSE, %"),
        series: ways.iter().map(line).collect(),
    })
}

/// One number for each ε.
pub fn over_epsilons(mut of: impl FnMut(f64) -> anyhow::Result<f64>) -> anyhow::Result<Vec<f64>> {
    EPSILONS.iter().map(|epsilon| of(*epsilon)).collect()
}
