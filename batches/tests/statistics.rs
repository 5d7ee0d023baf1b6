//! What holds of batches on average: probabilities within five standard deviations, places by χ².

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod common;

use batches::{Partition, Population, Scheme, Users};
use common::{all, participations, run};

/// Five standard deviations of χ² above its mean.
fn chi_limit(degrees: f64) -> f64 {
    degrees + 5.0 * (2.0 * degrees).sqrt()
}

fn chi(counts: &[f64], expected: impl Fn(usize) -> f64) -> f64 {
    counts.iter().enumerate().map(|(at, count)| (count - expected(at)).powi(2) / expected(at)).sum()
}

fn near(what: &str, count: f64, throws: f64, p: f64) {
    let off = (count - throws * p) / (throws * p * (1.0 - p)).sqrt();
    assert!(off.abs() < 5.0, "{what}: {count} of {throws} at {p}, {off} standard deviations off");
}

#[test]
fn poisson_records_join_as_often_as_they_should_and_alike() {
    let count = 300;
    let iterations = 4000;
    for q in [0.003, 0.05, 0.5, 0.97] {
        let scheme = Scheme::Poisson { sampling_probability: q, cap: None };
        let rounds = participations(&all(&run(&scheme, Population::Records(count), iterations, 1)), count);
        let joined: Vec<f64> = rounds.iter().map(|rounds| rounds.len() as f64).collect();
        near("in all", joined.iter().sum(), (count * iterations) as f64, q);
        let spread = iterations as f64 * q * (1.0 - q);
        let chi: f64 = joined.iter().map(|x| (x - iterations as f64 * q).powi(2) / spread).sum();
        assert!(chi < chi_limit(count as f64), "{q}: {chi}");
        // Neighbours join independently of each other.
        let batches = all(&run(&scheme, Population::Records(2), 100_000, 2));
        let both = batches.iter().filter(|batch| batch.ids.len() == 2).count();
        near("both", both as f64, 100_000.0, q * q);
    }
}

#[test]
fn a_cap_cuts_anybody_alike() {
    let scheme = Scheme::Poisson { sampling_probability: 0.5, cap: Some(4) };
    let rounds = participations(&all(&run(&scheme, Population::Records(20), 20_000, 3)), 20);
    let counts: Vec<f64> = rounds.iter().map(|rounds| rounds.len() as f64).collect();
    let mean = counts.iter().sum::<f64>() / 20.0;
    assert!(chi(&counts, |_| mean) < chi_limit(19.0), "{counts:?}");
}

#[test]
fn cyclic_poisson_samples_a_group_with_p_times_q() {
    let bands = 5;
    let q = 0.06;
    let count = 2000;
    let iterations = 500;
    for partition in [Partition::Independent, Partition::EqualSplit] {
        let scheme = Scheme::CyclicPoisson { bands, sampling_probability: q, partition, cap: None };
        let batches = all(&run(&scheme, Population::Records(count), iterations, 4));
        let rounds = participations(&batches, count);
        // Every record's rounds: one hundred chances at 0.3.
        let total: usize = rounds.iter().map(Vec::len).sum();
        near("in all", total as f64, (count * iterations / bands) as f64, q * bands as f64);
        // Groups, as seen from the rounds that records join.
        let mut groups = [0.0; 5];
        rounds.iter().for_each(|rounds| groups[(rounds[0] % bands) as usize] += 1.0);
        let off = chi(&groups, |_| (count / bands) as f64);
        match partition {
            Partition::EqualSplit => assert_eq!(off, 0.0),
            Partition::Independent => assert!(off > 0.0 && off < chi_limit(4.0), "{groups:?}"),
        }
    }
}

#[test]
fn slots_are_drawn_alike() {
    let count = 20_000;
    let schemes = [
        (Scheme::BallsInBins { batches_per_epoch: 13, cap: None }, 1.0),
        (Scheme::RandomAllocation { batches_per_epoch: 13, participations: 4, cap: None }, 4.0),
    ];
    for (scheme, joins) in schemes {
        let batches = all(&run(&scheme, Population::Records(count), 26, 5));
        for epoch in 0..2 {
            let sizes: Vec<f64> =
                batches[13 * epoch..13 * (epoch + 1)].iter().map(|batch| batch.ids.len() as f64).collect();
            // Of subsets of size k places vary less than alone, so the limit is a bound.
            let off = chi(&sizes, |_| count as f64 * joins / 13.0);
            assert!(off > 0.0 && off < chi_limit(12.0), "{sizes:?}");
        }
        // Both epochs the same for balls in bins; drawn anew, a record is in one slot twice with k/13.
        let again = batches[0].ids.iter().filter(|id| batches[13].ids.binary_search(id).is_ok()).count();
        let first = batches[0].ids.len();
        if joins == 1.0 {
            assert_eq!(again, first)
        } else {
            near("again", again as f64, first as f64, 4.0 / 13.0)
        }
    }
}

#[test]
fn every_place_in_a_fixed_order_is_equally_likely() {
    // Over seeds: record 0 of ten in three slots of sizes 4, 3 and 3, and whether record 1 shares its slot.
    let scheme = Scheme::FixedOrder { min_sep: 3 };
    let runs = 9000;
    let mut slots = [0.0; 3];
    let mut shared = 0.0;
    for number in 0..runs {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&u64::to_le_bytes(number));
        let batches = batches::Batches::new(scheme.clone(), Population::Records(10), 3, seed).unwrap();
        let rounds = participations(&all(&batches), 10);
        slots[rounds[0][0] as usize] += 1.0;
        shared += f64::from(u8::from(rounds[0] == rounds[1]));
    }
    assert!(chi(&slots, |slot| [0.4, 0.3, 0.3][slot] * runs as f64) < chi_limit(2.0), "{slots:?}");
    near("shared", shared, runs as f64, 0.4 * 3.0 / 9.0 + 0.6 * 2.0 / 9.0);
}

#[test]
fn b_min_sep_is_stationary_when_warm_and_full_when_cold() {
    let count = 40_000;
    let min_sep = 5;
    let q = 0.2_f64;
    let rate = q / (1.0 + q * (min_sep - 1) as f64);
    let scheme = |warm_start| Scheme::BMinSep { min_sep, sampling_probability: q, warm_start, cap: None };
    for batch in all(&run(&scheme(true), Population::Records(count), 20, 6)) {
        near(&format!("warm round {}", batch.round), batch.ids.len() as f64, count as f64, rate);
    }
    let cold = all(&run(&scheme(false), Population::Records(count), 20, 6));
    for (round, p) in [(0, q), (1, q * (1.0 - q)), (2, q * (1.0 - q).powi(2))] {
        near(&format!("cold round {round}"), cold[round].ids.len() as f64, count as f64, p);
    }
    // Distances: b − 1 rounds of rest, then a coin a round.
    let rounds = participations(&all(&run(&scheme(true), Population::Records(500), 2000, 7)), 500);
    let gaps: Vec<u64> =
        rounds.iter().flat_map(|rounds| rounds.windows(2).map(|pair| pair[1] - pair[0] - min_sep)).collect();
    let mut counts = [0.0; 20];
    gaps.iter().for_each(|&gap| counts[gap.min(19) as usize] += 1.0);
    let expected = |gap: usize| {
        let tail = (1.0 - q).powi(gap as i32);
        gaps.len() as f64 * if gap == 19 { tail } else { tail * q }
    };
    assert!(chi(&counts, expected) < chi_limit(19.0), "{counts:?}");
}

#[test]
fn users_records_are_drawn_alike() {
    // 500 users of 6 records each, groups of 2.
    let population = || Population::Users(Users::new([6; 500]).unwrap());
    let poisson = Scheme::Poisson { sampling_probability: 0.1, cap: None };
    let uls = Scheme::Uls { group_size: 2, users: Box::new(poisson) };
    let batches = all(&run(&uls, population(), 400, 8));
    let mut places = [0.0; 6];
    batches.iter().flat_map(|batch| &batch.ids).for_each(|id| places[(id % 6) as usize] += 1.0);
    let total: f64 = places.iter().sum();
    near("users", total / 2.0, 500.0 * 400.0, 0.1);
    assert!(chi(&places, |_| total / 6.0) < chi_limit(5.0), "{places:?}");

    let els = Scheme::Els { group_size: 2, sampling_probability: 0.1 };
    let batches = all(&run(&els, population(), 400, 9));
    let rounds = participations(&batches, 3000);
    // Of each six records exactly two are ever seen (0.9^400 is 5e-19).
    let seen: Vec<usize> = (0..3000).filter(|&id| !rounds[id].is_empty()).collect();
    assert_eq!(seen.len(), 1000);
    assert!((0..500).all(|user| seen[2 * user] / 6 == user && seen[2 * user + 1] / 6 == user));
    let mut places = [0.0; 6];
    seen.iter().for_each(|id| places[id % 6] += 1.0);
    assert!(chi(&places, |_| 1000.0 / 6.0) < chi_limit(5.0), "{places:?}");
    near("records", rounds.iter().map(Vec::len).sum::<usize>() as f64, 1000.0 * 400.0, 0.1);
}
