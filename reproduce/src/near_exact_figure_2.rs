//! papers/003, Figure 2: what two ways to draw batches gain over none, C given.

use strategy::Strategy;

use super::item::{Claim, Found, Item, Source};
use super::near_exact::{
    DELTA, EPSILONS, N, RUN, SAMPLING, less, over_epsilons, percent_chart, percent_table,
};
use super::work::Work;

pub const ITEM: Item = Item {
    name: "near-exact-figure-2",
    source: Source::NearExact,
    title: "Figure 2: less RMSE by drawing batches at random, C given",
    shows: "For C = I both ways gain alike at small ε, and Poisson sampling far more at larger ε. For 64 bands \
            balls-in-bins gains more than Poisson sampling until ε = 16. Its numbers are in pictures that the text has \
            lost.",
    timed: false,
    make,
};

const BANDS: u64 = 64;

/// Percentages over ε under balls-in-bins and under Poisson sampling.
struct Gains {
    bins: Vec<f64>,
    poisson: Vec<f64>,
}

impl Gains {
    fn of(work: &Work, strategy: &Strategy, bands: u64) -> anyhow::Result<Self> {
        let none = over_epsilons(|epsilon| RUN.unamplified(strategy, epsilon))?;
        let gains = |all: Vec<f64>| all.iter().zip(&none).map(|(one, none)| less(*one, *none)).collect();
        work.says(&format!("{bands} bands, balls-in-bins"));
        let bins = gains(over_epsilons(|epsilon| RUN.bins(strategy, epsilon))?);
        work.says(&format!("{bands} bands, Poisson sampling"));
        let poisson = gains(over_epsilons(|epsilon| RUN.poisson(work, bands, epsilon))?);
        Ok(Self { bins, poisson })
    }

    fn named(&self) -> [(&'static str, Vec<f64>); 2] {
        [("balls-in-bins", self.bins.clone()), ("Poisson", self.poisson.clone())]
    }

    fn ahead(&self) -> Vec<f64> {
        self.bins.iter().zip(&self.poisson).map(|(bins, poisson)| bins - poisson).collect()
    }
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let plain = Gains::of(work, &Strategy::Identity, 1)?;
    let banded = Gains::of(work, &RUN.banded(work, BANDS)?, BANDS)?;
    let plain_ahead = plain.ahead();
    let ahead = banded.ahead();
    let last = EPSILONS.len() - 1;
    let titles =
        ["less RMSE than without sampling, %: C = I", "less RMSE than without sampling, %: 64 bands"];
    Ok(Found {
        setting: format!(
            "n = {N}, 16 epochs of 128 batches; δ = {DELTA:e} and the ε are ours, as the text gives neither here. σ under \
             balls-in-bins is the estimate of {} samples, as the paper's is. The 64 bands are the Toeplitz column best for \
             one participation, every column scaled to norm one.",
            SAMPLING.samples
        ),
        claims: vec![
            Claim::new(
                "C = I: both gain alike at small ε",
                format!("{:.1} points apart at ε = 1", plain_ahead[0].abs()),
                plain_ahead[0].abs() < 5.0,
            ),
            Claim::new(
                "C = I: Poisson sampling gains far more at larger ε",
                format!("{:.1} points more at ε = 8", -plain_ahead[last - 1]),
                plain_ahead[last - 1] < -5.0,
            ),
            Claim::new(
                "64 bands: balls-in-bins gains more until ε = 16",
                format!("ahead by {:.1}, {:.1}, {:.1}, {:.1} and {:.1} points", ahead[0], ahead[1], ahead[2], ahead[3], ahead[4]),
                ahead[..last].iter().all(|points| *points > 0.0),
            ),
        ],
        tables: vec![percent_table(titles[0], &plain.named()), percent_table(titles[1], &banded.named())],
        remarks: vec![
            "What was published can't be held against these numbers, only against the claims: the pictures are not in \
             the text."
                .into(),
        ],
        charts: vec![percent_chart(titles[0], &plain.named()), percent_chart(titles[1], &banded.named())],
    })
}
