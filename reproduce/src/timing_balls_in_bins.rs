//! The time to optimise C for balls-in-bins batches: Choquette-Choo et al. (2024), Figure 4.

use std::time::Instant;

use accounting::monte_carlo::{BallsInBins, Pair, SampleBudget};
use strategy::optimize::Family;

use crate::item::{Cell, Claim, Findings, Table, claims};
use crate::near_exact::{DELTA, Run, SAMPLING};
use crate::timing::timed;
use crate::work::{Loss, Work};

const EPSILON: f64 = 1.0;
/// Steps of gradient descent that were published, and those that are timed here.
const STEPS: f64 = 300.0;
const TIMED_STEPS: u32 = 3;
const EPOCHS: [u64; 3] = [16, 32, 64];
const BATCHES: [u64; 3] = [32, 64, 128];
const SAMPLES: [u64; 2] = [1 << 17, 1 << 20];
/// Samples with which whole optimisations are timed: with more of them one takes as much longer as its steps do.
const WHOLE: u64 = SAMPLES[0];
/// Seconds as published, by samples, batches and epochs; infinite where memory ran out.
const PUBLISHED_SECONDS: [[[f64; 3]; 3]; 2] = [
    [[376.88, 384.44, 311.55], [383.19, 323.56, 658.95], [389.37, 770.18, 3594.55]],
    [[374.33, 394.50, 468.48], [525.25, 664.23, 804.56], [1060.45, 1435.47, f64::INFINITY]],
];

/// Choquette-Choo et al. (2024), Figure 4: how long it takes to make C for balls-in-bins batches.
pub fn balls_in_bins(work: &Work) -> anyhow::Result<Findings> {
    let mut tables = Vec::new();
    // Whether each setting takes less than was published, as a whole and in as many steps.
    let mut whole_faster = Vec::new();
    let mut steps_faster = Vec::new();
    for (samples, published) in SAMPLES.iter().zip(PUBLISHED_SECONDS) {
        let mut rows = Vec::new();
        for (batches, row) in BATCHES.iter().zip(published) {
            for (epochs, theirs) in EPOCHS.iter().zip(row) {
                let name = format!("{epochs} × {batches}");
                work.report(&format!("{name}, {samples} samples"));
                let (whole, step) =
                    whole_and_step(work, Run { batches: *batches, epochs: *epochs }, *samples)?;
                whole_faster.extend(whole.map(|seconds| seconds < theirs));
                steps_faster.push(STEPS * step < theirs);
                let theirs = if theirs.is_finite() { Cell::Once(theirs) } else { "out of memory".into() };
                rows.push(vec![
                    name.into(),
                    theirs,
                    whole.map_or("–".into(), Cell::Once),
                    Cell::Once(STEPS * step),
                ]);
            }
        }
        let header = ["epochs × batches", "300 steps, V100", "whole, here", "300 steps, here"];
        tables.push(Table::new(format!("{samples} samples a step"), header, rows));
    }
    let count = |faster: &[bool]| faster.iter().filter(|faster| **faster).count();
    let faster = |all: &[bool]| (count(all), all.len());
    let (whole, all_whole) = faster(&whole_faster);
    let (steps, all_steps) = faster(&steps_faster);
    let claims: Vec<Claim> = claims![
        whole == all_whole =>
            "a whole optimisation takes less than what was published in {whole} of {all_whole} settings";
        steps == all_steps => "as many steps here take less in {steps} of {all_steps} settings";
    ];
    Ok(Findings { claims, tables, ..Findings::default() })
}

/// Seconds of a whole optimisation and of one step of gradient descent.
fn whole_and_step(work: &Work, run: Run, samples: u64) -> anyhow::Result<(Option<f64>, f64)> {
    let family = Family::Blt { buffers: 3 };
    let mut whole = None;
    if samples == WHOLE {
        whole = Some(timed(1, || run.optimised(work, family, EPSILON, samples))?.median);
    }
    let start = work.optimised(family, run.n(), run.rule(), Loss::Rms)?;
    let sampling = SampleBudget { samples, ..SAMPLING };
    let mechanism = BallsInBins::new(&start.strategy, run.n(), run.batches)?;
    let mut sigma = mechanism.noise_multiplier(EPSILON, DELTA, sampling)?;
    let begun = Instant::now();
    for _ in 0..TIMED_STEPS {
        // As far away as a step may bring it.
        let again = BallsInBins::new(&start.strategy, run.n(), run.batches)?;
        (sigma, _) = again.noise_and_slope(1.01 * sigma, EPSILON, DELTA, sampling)?;
    }
    Ok((whole, begun.elapsed().as_secs_f64() / f64::from(TIMED_STEPS)))
}
