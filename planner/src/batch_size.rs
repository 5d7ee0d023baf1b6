//! Batch size and number of rounds for a data set and a number of gradients: the noise that each leaves.

use accounting::calibration::{self, Target};
use accounting::{Event, Neighbouring};
use rayon::prelude::*;
use serde::Serialize;

use crate::request::{Result, invalid};

/// Smallest batch that is tried.
const SMALLEST: u64 = 16;

/// The data, the compute and the guarantee of a run of Poisson-sampled batches with independent noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchSizeRequest {
    /// Number of records.
    pub dataset_size: u64,
    /// Number of gradients of one record that the run computes: batch size × rounds.
    pub gradients: u64,
    /// ε to satisfy, above 0.
    pub epsilon: f64,
    /// δ to satisfy, strictly between 0 and 1.
    pub delta: f64,
    /// The relation under which they hold.
    pub neighbouring: Neighbouring,
}

/// One batch size, with the noise that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BatchSizeEntry {
    /// Expected number of records in a batch.
    pub batch_size: u64,
    /// Number of rounds, ⌊gradients / batch size⌋.
    pub iterations: u64,
    /// Probability with which a record is in a batch.
    pub sampling_probability: f64,
    /// Smallest noise multiplier σ that satisfies (ε, δ).
    pub noise_multiplier: f64,
    /// σ / batch size: the noise of one round's mean gradient, in units of the clip norm.
    pub noise_batch_ratio: f64,
    /// σ / (batch size · √iterations): the noise of the mean of all rounds' mean gradients.
    pub noise_of_mean_update: f64,
}

/// Computes the noise of every batch size that is a power of two, from 16 to the number of records, in ascending order.
///
/// # Errors
/// [`crate::PlannerError::Invalid`] if the data set or the compute holds no batch of 16, and the errors of the account.
pub fn batch_sizes(request: &BatchSizeRequest) -> Result<Vec<BatchSizeEntry>> {
    let &BatchSizeRequest { dataset_size, gradients, epsilon, delta, neighbouring } = request;
    let most = dataset_size.min(gradients);
    if most < SMALLEST {
        let what = if dataset_size < SMALLEST { "dataset size" } else { "number of gradients" };
        return Err(invalid(what, most, format!("at least {SMALLEST}, the smallest batch that is tried")));
    }
    let sizes: Vec<u64> = (SMALLEST.ilog2()..=most.ilog2()).map(|log| 1 << log).collect();
    let entry = |batch_size: u64| {
        let iterations = gradients / batch_size;
        let sampling_probability = batch_size as f64 / dataset_size as f64;
        let target = Target { epsilon, delta, neighbouring };
        let noise_multiplier = calibration::noise_multiplier(target, |noise_multiplier| {
            Ok(Event::PoissonSampledGaussian { noise_multiplier, sampling_probability }.times(iterations))
        })?;
        let noise_batch_ratio = noise_multiplier / batch_size as f64;
        Ok(BatchSizeEntry {
            batch_size,
            iterations,
            sampling_probability,
            noise_multiplier,
            noise_batch_ratio,
            noise_of_mean_update: noise_batch_ratio / (iterations as f64).sqrt(),
        })
    };
    sizes.into_par_iter().map(entry).collect()
}

/// Returns the place of the smallest batch whose noise of the mean update is within a share of the least. It leaves the most
/// rounds to train with; a smaller one pays for its rounds with noise.
pub fn recommended_batch_size(entries: &[BatchSizeEntry], within: f64) -> Option<usize> {
    let least = entries.iter().map(|entry| entry.noise_of_mean_update).reduce(f64::min)?;
    entries.iter().position(|entry| entry.noise_of_mean_update <= least * (1.0 + within))
}

#[cfg(test)]
mod tests {
    use accounting::Account;

    use super::*;

    const REQUEST: BatchSizeRequest = BatchSizeRequest {
        dataset_size: 50_000,
        gradients: 500_000,
        epsilon: 4.0,
        delta: 1e-5,
        neighbouring: Neighbouring::ZeroOut,
    };

    #[test]
    fn every_entry_satisfies_the_guarantee_and_states_its_noise() {
        let entries = batch_sizes(&REQUEST).unwrap();
        let sizes: Vec<u64> = entries.iter().map(|entry| entry.batch_size).collect();
        assert_eq!(sizes, (4..=15).map(|log| 1 << log).collect::<Vec<u64>>());
        for entry in &entries {
            let BatchSizeEntry { batch_size, iterations, noise_multiplier, .. } = *entry;
            assert_eq!(iterations, 500_000 / batch_size);
            let sampling_probability = batch_size as f64 / 50_000.0;
            let event =
                Event::PoissonSampledGaussian { noise_multiplier, sampling_probability }.times(iterations);
            let epsilon = Account::new(&event, Neighbouring::ZeroOut).unwrap().epsilon(1e-5).unwrap();
            assert!((3.99..=4.0).contains(&epsilon), "{entry:?}: {epsilon}");
            let of_round = noise_multiplier / batch_size as f64;
            assert!((entry.noise_batch_ratio / of_round - 1.0).abs() < 1e-12, "{entry:?}");
            let of_mean = of_round / (iterations as f64).sqrt();
            assert!((entry.noise_of_mean_update / of_mean - 1.0).abs() < 1e-12, "{entry:?}");
        }
        // Larger batches have less noise in each round, whatever they cost in rounds.
        assert!(entries.windows(2).all(|two| two[1].noise_batch_ratio < two[0].noise_batch_ratio));
    }

    #[test]
    fn the_smallest_batch_within_a_share_of_the_least_noise_is_recommended() {
        let entries = batch_sizes(&REQUEST).unwrap();
        let noise = |place: usize| entries[place].noise_of_mean_update;
        let least = (0..entries.len()).map(noise).fold(f64::INFINITY, f64::min);
        let place = recommended_batch_size(&entries, 0.1).unwrap();
        assert!(noise(place) <= 1.1 * least && (0..place).all(|smaller| noise(smaller) > 1.1 * least));
        assert!(recommended_batch_size(&entries, 1.0).unwrap() < place);
        assert_eq!(recommended_batch_size(&[], 0.1), None);
    }

    #[test]
    fn too_little_data_or_compute_is_named() {
        for (dataset_size, gradients, named) in
            [(15, 1000, "dataset size is 15"), (1000, 15, "number of gradients is 15")]
        {
            let error = batch_sizes(&BatchSizeRequest { dataset_size, gradients, ..REQUEST }).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}
