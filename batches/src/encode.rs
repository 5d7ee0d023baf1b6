//! The digest that keys are bound to, over scheme and population as 64-bit words. It is frozen: any change would change
//! all batches.

use sha2::{Digest, Sha256};

use crate::population::Population;
use crate::scheme::{Partition, Scheme};

/// Returns SHA-256 over the little-endian words of scheme and population.
pub(crate) fn digest(scheme: &Scheme, population: &Population) -> [u8; 32] {
    let mut hash = Sha256::new();
    for word in scheme_words(scheme) {
        hash.update(word.to_le_bytes());
    }
    match population {
        Population::Records(records) => [0, *records].iter().for_each(|word| hash.update(word.to_le_bytes())),
        Population::Users(users) => {
            hash.update(1_u64.to_le_bytes());
            users.starts().iter().for_each(|word| hash.update(word.to_le_bytes()));
        }
        Population::Owners(graph) => {
            hash.update(2_u64.to_le_bytes());
            for (record, owners) in graph.iter() {
                [record, owners.len() as u64].iter().for_each(|word| hash.update(word.to_le_bytes()));
                owners.iter().for_each(|owner| hash.update(u64::from(*owner).to_le_bytes()));
            }
        }
    }
    hash.finalize().into()
}

/// Returns one number for the kind, then every field in order: no two schemes have the same words.
fn scheme_words(scheme: &Scheme) -> Vec<u64> {
    // A cap of 0 is refused elsewhere, so 0 stands for no cap.
    let cap = scheme.cap().unwrap_or(0);
    match scheme {
        Scheme::Poisson { sampling_probability, .. } => vec![1, sampling_probability.to_bits(), cap],
        Scheme::CyclicPoisson { bands, sampling_probability, partition, .. } => {
            let partition = match partition {
                Partition::EqualSplit => 0,
                Partition::Independent => 1,
            };
            vec![2, *bands, sampling_probability.to_bits(), partition, cap]
        }
        Scheme::BallsInBins { batches_per_epoch, .. } => vec![3, *batches_per_epoch, cap],
        Scheme::BMinSep { min_sep, sampling_probability, warm_start, .. } => {
            vec![4, *min_sep, sampling_probability.to_bits(), u64::from(*warm_start), cap]
        }
        Scheme::RandomAllocation { batches_per_epoch, participations, .. } => {
            vec![5, *batches_per_epoch, *participations, cap]
        }
        Scheme::FixedOrder { min_sep } => vec![6, *min_sep],
        Scheme::Els { group_size, sampling_probability } => {
            vec![7, *group_size, sampling_probability.to_bits()]
        }
        Scheme::ContributionBound { batch_size, min_sep, max_participations, records_per_batch } => {
            vec![9, *batch_size, *min_sep, *max_participations, *records_per_batch]
        }
        Scheme::Uls { group_size, users } => {
            let mut words = vec![8, *group_size];
            words.extend(scheme_words(users));
            words
        }
    }
}
