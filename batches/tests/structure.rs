//! What holds of every batch, whatever the seed.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod common;

use std::collections::BTreeSet;

use batches::{BatchError, Batches, MAX_RECORDS, Partition, Population, Scheme, Seed, Users};
use common::{all, everything, participations, record_schemes, run, users};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_start_gives_the_same_batches(
        seed: u8, count in 0_u64..200, q in 0.01..1.0, start in 0_u64..30, cap: bool,
    ) {
        for (scheme, population) in everything(count, q, cap.then_some(5)) {
            let batches = run(&scheme, population.clone(), 30, seed);
            let whole = all(&batches);
            let later: Vec<_> = batches.rounds(start..30).unwrap().collect();
            prop_assert_eq!(&later, &whole[start as usize..], "{:?}", &scheme);
            prop_assert_eq!(&batches.batch(start).unwrap(), &whole[start as usize]);
            // A longer run begins with the same batches.
            let longer = run(&scheme, population, 45, seed);
            prop_assert_eq!(&longer.batch(start).unwrap(), &whole[start as usize]);
        }
    }

    #[test]
    fn batches_are_sorted_within_the_population_and_the_cap(
        seed: u8, count in 0_u64..200, q in 0.01..1.0, cap in 1_u64..40,
    ) {
        for (scheme, population) in everything(count, q, Some(cap)) {
            let records = match &population {
                Population::Records(records) => *records,
                Population::Users(users) => users.records(),
                Population::Owners(owners) => owners.records(),
            };
            for batch in all(&run(&scheme, population, 20, seed)) {
                prop_assert!(batch.ids.is_sorted_by(|a, b| a < b), "{:?}", &scheme);
                prop_assert!(batch.ids.last().is_none_or(|last| *last < records));
                prop_assert_eq!(batch.padding.is_some(), scheme.cap().is_some());
                if let (Some(padding), false) = (batch.padding, scheme.user_level()) {
                    prop_assert_eq!(batch.ids.len() as u64 + padding, cap);
                }
            }
        }
    }

    #[test]
    fn a_batch_too_large_is_cut_to_the_cap(seed: u8, cap in 1_u64..10) {
        // About 32 are sampled; fewer than ten with 6e-10.
        let scheme = |cap| Scheme::Poisson { sampling_probability: 0.5, cap };
        for batch in all(&run(&scheme(Some(cap)), Population::Records(64), 10, seed)) {
            prop_assert_eq!(batch.ids.len() as u64, cap);
        }
    }

    #[test]
    fn cyclic_poisson_keeps_records_in_their_group(seed: u8, bands in 1_u64..12, q in 0.01..1.0) {
        for partition in [Partition::Independent, Partition::EqualSplit] {
            let sampling_probability = q / bands as f64;
            let scheme = Scheme::CyclicPoisson { bands, sampling_probability, partition, cap: None };
            let batches = all(&run(&scheme, Population::Records(100), 60, seed));
            for rounds in participations(&batches, 100) {
                prop_assert!(rounds.windows(2).all(|pair| (pair[1] - pair[0]) % bands == 0), "{:?}", rounds);
            }
        }
    }

    #[test]
    fn balls_in_bins_take_one_slot_in_every_epoch(seed: u8, b in 1_u64..12, epochs in 1_u64..5) {
        let scheme = Scheme::BallsInBins { batches_per_epoch: b, cap: None };
        let batches = all(&run(&scheme, Population::Records(100), b * epochs, seed));
        for rounds in participations(&batches, 100) {
            let expected: Vec<u64> = (0..epochs).map(|epoch| rounds[0] + epoch * b).collect();
            prop_assert!(rounds[0] < b && rounds == expected, "{:?}", rounds);
        }
    }

    #[test]
    fn b_min_sep_keeps_its_distance(seed: u8, min_sep in 1_u64..12, q in 0.05..1.0, warm_start: bool) {
        let scheme = Scheme::BMinSep { min_sep, sampling_probability: q, warm_start, cap: None };
        let batches = all(&run(&scheme, Population::Records(60), 80, seed));
        for rounds in participations(&batches, 60) {
            prop_assert!(rounds.windows(2).all(|pair| pair[1] - pair[0] >= min_sep), "{:?}", rounds);
        }
    }

    #[test]
    fn random_allocation_gives_k_rounds_in_every_epoch(seed: u8, b in 1_u64..12, k in 1_u64..12) {
        let k = k.min(b);
        let scheme = Scheme::RandomAllocation { batches_per_epoch: b, participations: k, cap: None };
        let batches = all(&run(&scheme, Population::Records(60), 3 * b, seed));
        for rounds in participations(&batches, 60) {
            for epoch in 0..3 {
                let within = rounds.iter().filter(|&&round| round / b == epoch).count();
                prop_assert_eq!(within as u64, k);
            }
        }
    }

    #[test]
    fn fixed_order_and_equal_split_have_groups_of_one_size(seed: u8, count in 0_u64..100, b in 1_u64..12) {
        let fixed = Scheme::FixedOrder { min_sep: b };
        let cyclic = Scheme::CyclicPoisson {
            bands: b,
            sampling_probability: 1.0 / b as f64,
            partition: Partition::EqualSplit,
            cap: None,
        };
        for scheme in [fixed, cyclic] {
            let batches = all(&run(&scheme, Population::Records(count), 3 * b, seed));
            for (round, batch) in (0..).zip(&batches) {
                let size = count / b + u64::from(round % b < count % b);
                prop_assert_eq!(batch.ids.len() as u64, size, "{:?}", &scheme);
            }
            for rounds in participations(&batches, count) {
                prop_assert_eq!(&rounds, &[rounds[0], rounds[0] + b, rounds[0] + 2 * b]);
            }
        }
    }

    #[test]
    fn users_bring_what_they_may(seed: u8, group_size in 1_u64..7, q in 0.05..1.0) {
        let users = users(30);
        let bounds: Vec<(u64, u64)> = (0..30).scan(0, |start, user| {
            *start += user % 6;
            Some((*start - user % 6, user % 6))
        }).collect();
        let inner = Scheme::Poisson { sampling_probability: q, cap: None };
        let els = Scheme::Els { group_size, sampling_probability: q };
        let uls = Scheme::Uls { group_size, users: Box::new(inner) };
        for scheme in [els, uls] {
            let mut ever = vec![BTreeSet::new(); 30];
            for batch in all(&run(&scheme, Population::Users(users.clone()), 40, seed)) {
                let mut counts = [0; 30];
                for (id, user) in batch.ids.iter().zip(batch.users.unwrap()) {
                    let (start, size) = bounds[user as usize];
                    prop_assert!((start..start + size).contains(id), "{} of {}", id, user);
                    counts[user as usize] += 1;
                    ever[user as usize].insert(*id);
                }
                for (count, (_, size)) in counts.into_iter().zip(&bounds) {
                    let whole = size.min(&group_size);
                    prop_assert!(count <= *whole);
                    // User-level sampling takes as many as it may, or none.
                    prop_assert!(!scheme_is_uls(&scheme) || count == 0 || count == *whole);
                }
            }
            if !scheme_is_uls(&scheme) {
                // What was chosen once stays chosen.
                prop_assert!(ever.iter().all(|ids| ids.len() as u64 <= group_size));
            }
        }
    }
}

fn scheme_is_uls(scheme: &Scheme) -> bool {
    matches!(scheme, Scheme::Uls { .. })
}

#[test]
fn nobody_and_one_alone() {
    for (scheme, population) in everything(0, 0.5, None) {
        assert!(all(&run(&scheme, population, 21, 1)).iter().all(|batch| batch.ids.is_empty()), "{scheme:?}");
    }
    for scheme in record_schemes(1.0, None) {
        let batches = all(&run(&scheme, Population::Records(1), 21, 1));
        let rounds = participations(&batches, 1).remove(0);
        let expected = match &scheme {
            Scheme::Poisson { .. } => 21,
            Scheme::CyclicPoisson { .. } => 7,
            Scheme::BMinSep { .. } => (21 - rounds[0]).div_ceil(4),
            Scheme::RandomAllocation { .. } => 6,
            _ => 3,
        };
        assert_eq!(rounds.len() as u64, expected, "{scheme:?}");
    }
}

#[test]
fn certain_and_all_but_impossible_samples() {
    for (q, size) in [(1.0, 1000), (1e-12, 0)] {
        let scheme = Scheme::Poisson { sampling_probability: q, cap: None };
        let batches = all(&run(&scheme, Population::Records(1000), 5, 2));
        assert!(batches.iter().all(|batch| batch.ids.len() == size), "{q}");
    }
    // Of 2^53 records at q = 2^-40 there are 8192 on average, 90.5 being one standard deviation.
    let scheme = Scheme::Poisson { sampling_probability: 2_f64.powi(-40), cap: None };
    let batch = run(&scheme, Population::Records(MAX_RECORDS), 1, 2).batch(0).unwrap();
    assert!(batch.ids.len().abs_diff(8192) < 453, "{}", batch.ids.len());
}

#[test]
fn draws_are_unrelated_under_another_scheme_population_or_seed() {
    let scheme = |q| Scheme::Poisson { sampling_probability: q, cap: None };
    let ids = |q, count, seed| run(&scheme(q), Population::Records(count), 1, seed).batch(0).unwrap().ids;
    let first = ids(0.1, 1000, 1);
    for other in [ids(0.1000001, 1000, 1), ids(0.1, 1001, 1), ids(0.1, 1000, 2)] {
        let both = first.iter().filter(|id| other.contains(id)).count();
        assert!(both < 35, "{both} of about 100 in both, where 10 would be by chance");
    }
}

#[test]
fn bad_numbers_are_named() {
    let poisson = |q| Scheme::Poisson { sampling_probability: q, cap: None };
    let cyclic = |bands, sampling_probability| Scheme::CyclicPoisson {
        bands,
        sampling_probability,
        partition: Partition::Independent,
        cap: None,
    };
    let uls = |group_size, inner| Scheme::Uls { group_size, users: Box::new(inner) };
    let records = Population::Records(10);
    let people = || Population::Users(users(5));
    let cases = [
        (poisson(0.0), records.clone(), "sampling probability is 0; allowed: 2^-40"),
        (poisson(f64::NAN), records.clone(), "sampling probability is NaN"),
        (poisson(1.1), records.clone(), "sampling probability is 1.1"),
        (poisson(1e-13), records.clone(), "2^-40"),
        (poisson(0.5), Population::Records(u64::MAX), "population is 18446744073709551615"),
        (poisson(0.5), people(), "samples records"),
        (Scheme::Poisson { sampling_probability: 0.5, cap: Some(0) }, records.clone(), "cap is 0"),
        (cyclic(0, 0.1), records.clone(), "bands is 0"),
        (cyclic(8, 0.2), records.clone(), "bands times sampling probability is 1.6; allowed: at most 1"),
        (Scheme::BallsInBins { batches_per_epoch: 0, cap: None }, records.clone(), "batches per epoch is 0"),
        (Scheme::FixedOrder { min_sep: 1 << 33 }, records.clone(), "min-sep is 8589934592"),
        (
            Scheme::RandomAllocation { batches_per_epoch: 4, participations: 5, cap: None },
            records.clone(),
            "participations is 5",
        ),
        (Scheme::Els { group_size: 0, sampling_probability: 0.5 }, people(), "group size is 0"),
        (Scheme::Els { group_size: 1, sampling_probability: 0.5 }, records.clone(), "each user owns"),
        (uls(1, poisson(2.0)), people(), "sampling probability is 2"),
        (uls(1, uls(1, poisson(0.5))), people(), "must be of records"),
    ];
    for (scheme, population, part) in cases {
        let error = Batches::new(scheme.clone(), population, 5, [0; 32]).err().unwrap().to_string();
        assert!(error.contains(part), "{scheme:?}: {error}");
    }
    let batches = Batches::new(poisson(0.5), records.clone(), 5, [0; 32]).unwrap();
    assert!(matches!(
        batches.rounds(3..6).err(),
        Some(BatchError::Rounds { start: 3, end: 6, iterations: 5 })
    ));
    assert!(batches.batch(5).is_err() && batches.batch(u64::MAX).is_err());
    assert_eq!(batches.rounds(5..5).unwrap().count(), 0);
    assert!(Batches::new(poisson(0.5), records, 0, [0; 32]).is_err());
    assert!(Users::new([MAX_RECORDS, 1]).is_err() && Users::new([u64::MAX, u64::MAX]).is_err());
}

#[test]
fn seeds_are_not_shown() {
    let seed = Seed::from_bytes(&[0xab; 32]).unwrap();
    assert_eq!(format!("{seed:?}"), "Seed(secret)");
    assert_eq!(Seed::from_bytes(&[0xab; 31]).unwrap_err(), BatchError::SeedLength { got: 31 });
}
