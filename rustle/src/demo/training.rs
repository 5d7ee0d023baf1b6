//! One training run: batches in a fixed order, sums of clipped gradients, noise on every sum, momentum.
//!
//! An example takes part in steps i, i+b, i+2b, …, where b is `batches_per_epoch`. The run's participation is therefore
//! exactly min_sep = b and max_participations = `epochs`, as its plan must state.

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};

use super::digits::{Digits, Example};
use super::model::{Model, PARAMETERS};

/// The hyperparameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Steps b of an epoch, and the plan's `min_sep`.
    pub batches_per_epoch: usize,
    /// Uses k of each example, and the plan's `max_participations`.
    pub epochs: usize,
    /// L2 bound on each example's gradient, the plan's `clip_norm`.
    pub clip_norm: f64,
    pub learning_rate: f32,
    pub momentum: f32,
}

/// One setting for all mechanisms, under which each of them learns. It is not the best for any of them.
impl Default for Config {
    fn default() -> Self {
        Self { batches_per_epoch: 10, epochs: 20, clip_norm: 1.0, learning_rate: 0.0625, momentum: 0.9 }
    }
}

impl Config {
    /// Returns the number of steps n, the plan's `iterations`.
    pub fn steps(&self) -> usize {
        self.batches_per_epoch * self.epochs
    }
}

/// The step for which noise is requested.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The row, from 0.
    pub index: u64,
    /// [`batch_digest`] of the examples summed, for a `declared` commitment.
    pub batch: [u8; 32],
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct TrainingResult {
    pub test_accuracy: f64,
    #[cfg(test)]
    pub model: Model,
}

/// Trains once. `seed` decides which examples share a batch. `noise` adds row [`Step::index`] to the sum of clipped
/// gradients, in the units of that sum. Its error ends the run.
pub fn train(
    digits: &Digits,
    seed: u64,
    config: Config,
    noise: &mut impl FnMut(Step, &mut [f64]) -> Result<()>,
) -> Result<TrainingResult> {
    let batches = batches(&digits.train, seed, config.batches_per_epoch)?;
    // Batches differ by at most one example. Dividing by a constant keeps their sizes out of the result.
    let batch_size = digits.train.len() as f32 / config.batches_per_epoch as f32;
    let mut model = Model::default();
    let mut velocity = vec![0.0_f32; PARAMETERS];
    let mut sum = vec![0.0_f64; PARAMETERS];
    for step in 0..config.steps() {
        let batch = &batches[step % batches.len()];
        sum.fill(0.0);
        for example in batch {
            model.add_clipped_gradient(example, config.clip_norm, &mut sum);
        }
        let index = step as u64;
        noise(Step { index, batch: batch_digest(index, config.clip_norm, batch) }, &mut sum)?;
        for ((weight, velocity), noisy) in model.weights.iter_mut().zip(&mut velocity).zip(&sum) {
            *velocity = config.momentum * *velocity + *noisy as f32 / batch_size;
            *weight -= config.learning_rate * *velocity;
        }
    }
    Ok(TrainingResult {
        test_accuracy: model.accuracy(&digits.test),
        #[cfg(test)]
        model,
    })
}

/// Distributes the examples, in an order drawn from `seed`, over `count` batches in turn.
fn batches(examples: &[Example], seed: u64, count: usize) -> Result<Vec<Vec<&Example>>> {
    ensure!(
        (1..=examples.len()).contains(&count),
        "{count} batches per epoch; allowed: 1 to {}",
        examples.len()
    );
    let mut order: Vec<&Example> = examples.iter().collect();
    order.sort_by_cached_key(|example| order_key(seed, example.id));
    Ok((0..count).map(|first| order.iter().skip(first).step_by(count).copied().collect()).collect())
}

/// Returns the sort key of an example. A hash shuffles equally on every platform, and its values never change.
fn order_key(seed: u64, id: u32) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"rustle demo order\0");
    hash.update(seed.to_le_bytes());
    hash.update(id.to_le_bytes());
    hash.finalize().into()
}

/// Identifies the clipped sum of one step without computing it, by the step, the clip norm and the examples in order.
/// Within one process, the weights follow from the steps before. That process's nonce is added to the digest where the
/// commitment is made.
pub fn batch_digest(step: u64, clip_norm: f64, batch: &[&Example]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"rustle demo batch\0");
    hash.update(step.to_le_bytes());
    hash.update(clip_norm.to_bits().to_le_bytes());
    hash.update((batch.len() as u64).to_le_bytes());
    batch.iter().for_each(|example| hash.update(example.id.to_le_bytes()));
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn silent(_: Step, _: &mut [f64]) -> Result<()> {
        Ok(())
    }

    #[test]
    fn learns_without_noise() {
        let digits = Digits::load().unwrap();
        for seed in 0..3 {
            let trained = train(&digits, seed, Config::default(), &mut silent).unwrap();
            assert!(trained.test_accuracy > 0.93, "seed {seed}: {}", trained.test_accuracy);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_weights() {
        let digits = Digits::load().unwrap();
        let run = |seed| train(&digits, seed, Config::default(), &mut silent).unwrap().model.weights;
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn every_example_is_in_one_batch() {
        let digits = Digits::load().unwrap();
        let batches = batches(&digits.train, 3, 10).unwrap();
        let ids: HashSet<u32> = batches.iter().flatten().map(|example| example.id).collect();
        assert_eq!(ids.len(), digits.train.len());
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), digits.train.len());
        assert!(batches.iter().all(|batch| (144..=145).contains(&batch.len())));
    }

    #[test]
    fn every_step_requests_its_own_row_once() {
        let digits = Digits::load().unwrap();
        let config = Config::default();
        let mut requested = Vec::new();
        let mut noise = |step: Step, sum: &mut [f64]| {
            assert_eq!(sum.len(), PARAMETERS);
            requested.push(step);
            Ok(())
        };
        train(&digits, 0, config, &mut noise).unwrap();
        assert!(requested.iter().map(|step| step.index).eq(0..config.steps() as u64));
        let digests: HashSet<[u8; 32]> = requested.iter().map(|step| step.batch).collect();
        assert_eq!(digests.len(), config.steps());
    }

    #[test]
    fn a_digest_depends_on_all_of_its_inputs() {
        let digits = Digits::load().unwrap();
        let batch: Vec<&Example> = digits.train.iter().take(4).collect();
        let swapped = vec![batch[1], batch[0], batch[2], batch[3]];
        let digests = HashSet::from([
            batch_digest(0, 1.0, &batch),
            batch_digest(1, 1.0, &batch),
            batch_digest(0, 0.5, &batch),
            batch_digest(0, 1.0, &batch[..3]),
            batch_digest(0, 1.0, &swapped),
        ]);
        assert_eq!(digests.len(), 5);
    }

    #[test]
    fn noise_is_on_the_sum_and_its_failure_ends_the_run() {
        let digits = Digits::load().unwrap();
        let config = Config { epochs: 1, momentum: 0.0, batches_per_epoch: 1, ..Config::default() };
        let quiet = train(&digits, 0, config, &mut silent).unwrap().model.weights;
        let mut shift = |_: Step, sum: &mut [f64]| {
            sum.iter_mut().for_each(|value| *value += 1442.0);
            Ok(())
        };
        let noisy = train(&digits, 0, config, &mut shift).unwrap().model.weights;
        for (quiet, noisy) in quiet.iter().zip(&noisy) {
            assert!((quiet - noisy - config.learning_rate).abs() < 1e-4);
        }
        let mut refuse = |step: Step, _: &mut [f64]| {
            ensure!(step.index < 3, "row {} is not to be had", step.index);
            Ok(())
        };
        let error = train(&digits, 0, Config::default(), &mut refuse).unwrap_err();
        assert_eq!(error.to_string(), "row 3 is not to be had");
    }

    #[test]
    fn too_many_batches_are_refused() {
        let digits = Digits::load().unwrap();
        let config = Config { batches_per_epoch: 1443, ..Config::default() };
        let error = train(&digits, 0, config, &mut silent).unwrap_err().to_string();
        assert!(error.contains("1443") && error.contains("1 to 1442"), "{error}");
    }
}
