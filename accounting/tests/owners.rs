//! The sensitivity that an account takes for owners, against dense products over batches that were really drawn.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use batches::{Batches, Owners, Population, Scheme};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use strategy::{Participation, Strategy};

const ROUNDS: u64 = 7;

/// The largest norm of the columns of C that an owner's records add up, over many seeds, owners and records.
fn largest(matrix: &[Vec<f64>], (b, k, m): (u64, u64, u64)) -> f64 {
    let mut dice = ChaCha8Rng::seed_from_u64(b * 100 + k * 10 + m);
    let mut most = 0.0_f64;
    for seed in 0..200_u32 {
        // Each of these records is the first owner's and a second one's.
        let graph = (0..30).map(|record| (record, [0, 1 + dice.next_u64() % 40]));
        let scheme = Scheme::ContributionBound {
            batch_size: m,
            min_sep: b,
            max_participations: k,
            records_per_batch: m,
        };
        // Records of others in between let the first owner rest for any number of rounds.
        let others = (30..40).map(|record| (record, [100 + record, 100 + record]));
        let owners = Owners::new(graph.chain(others)).unwrap();
        let lists: BTreeMap<u64, Vec<u32>> =
            owners.iter().map(|(record, owners)| (record, owners.to_vec())).collect();
        let mut key = [0; 32];
        key[..4].copy_from_slice(&seed.to_le_bytes());
        let batches = Batches::new(scheme, Population::Owners(owners), ROUNDS, key).unwrap();
        let mut sums = BTreeMap::<u32, [f64; ROUNDS as usize]>::new();
        for batch in batches.rounds(0..ROUNDS).unwrap() {
            for id in batch.ids {
                for owner in &lists[&id] {
                    sums.entry(*owner).or_default()[batch.round as usize] += 1.0;
                }
            }
        }
        for records in sums.values() {
            let rows = matrix.iter().map(|row| row.iter().zip(records).map(|(c, u)| c * u).sum::<f64>());
            most = most.max(rows.map(|sum| sum * sum).sum::<f64>().sqrt());
        }
    }
    most
}

#[test]
fn no_owner_moves_more_than_the_sensitivity_and_some_owner_moves_as_much() {
    let coefficients = [1.0, 0.6, 0.35, 0.1];
    let matrix: Vec<Vec<f64>> = (0..ROUNDS as usize)
        .map(|row| {
            let entry = |column: usize| row.checked_sub(column).and_then(|lag| coefficients.get(lag));
            (0..ROUNDS as usize).map(|column| entry(column).copied().unwrap_or(0.0)).collect()
        })
        .collect();
    let c = Strategy::BandToeplitz { c: coefficients.to_vec(), column_normalised: false };
    for (b, k, m) in [(1, 1, 1), (2, 2, 1), (3, 2, 1), (2, 3, 1), (3, 3, 2), (2, 2, 3), (1, 3, 2)] {
        let rule = Participation::new(b, k).unwrap();
        let accounted = m as f64 * c.sensitivity(ROUNDS, rule).unwrap().value;
        let found = largest(&matrix, (b, k, m));
        assert!(found <= accounted * (1.0 + 1e-12), "b={b} k={k} m={m}: {found} above {accounted}");
        assert!(found >= accounted * (1.0 - 1e-9), "b={b} k={k} m={m}: {found} of {accounted} at most");
    }
}
