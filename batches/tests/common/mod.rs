//! Schemes of every kind, and runs of them.

use batches::{Batch, Batches, Partition, Population, Scheme, Users};

pub fn run(scheme: &Scheme, population: Population, iterations: u64, seed: u8) -> Batches {
    Batches::new(scheme.clone(), population, iterations, [seed; 32]).unwrap()
}

pub fn all(batches: &Batches) -> Vec<Batch> {
    batches.rounds(0..batches.iterations()).unwrap().collect()
}

/// The rounds that each of 0..count joins, in order.
pub fn participations(batches: &[Batch], count: u64) -> Vec<Vec<u64>> {
    let mut rounds = vec![Vec::new(); count as usize];
    for batch in batches {
        for &id in &batch.ids {
            rounds[id as usize].push(batch.round);
        }
    }
    rounds
}

/// Every record-level scheme, with numbers that leave remainders.
pub fn record_schemes(q: f64, cap: Option<u64>) -> Vec<Scheme> {
    let cyclic =
        |partition| Scheme::CyclicPoisson { bands: 3, sampling_probability: q / 3.0, partition, cap };
    let min_sep = |warm_start| Scheme::BMinSep { min_sep: 4, sampling_probability: q, warm_start, cap };
    vec![
        Scheme::Poisson { sampling_probability: q, cap },
        cyclic(Partition::Independent),
        cyclic(Partition::EqualSplit),
        Scheme::BallsInBins { batches_per_epoch: 7, cap },
        min_sep(false),
        min_sep(true),
        Scheme::RandomAllocation { batches_per_epoch: 7, participations: 2, cap },
        Scheme::FixedOrder { min_sep: 7 },
    ]
}

/// Users with 0 to 5 records, 3 of 6 on average.
pub fn users(count: u64) -> Users {
    Users::new((0..count).map(|user| user % 6)).unwrap()
}

/// Every scheme with a population that suits it.
pub fn everything(count: u64, q: f64, cap: Option<u64>) -> Vec<(Scheme, Population)> {
    let records = record_schemes(q, cap);
    let uls = records.iter().map(|scheme| {
        let scheme = Scheme::Uls { group_size: 2, users: Box::new(scheme.clone()) };
        (scheme, Population::Users(users(count)))
    });
    let els = Scheme::Els { group_size: 2, sampling_probability: q };
    let mut list: Vec<_> = uls.collect();
    list.push((els, Population::Users(users(count))));
    list.extend(records.into_iter().map(|scheme| (scheme, Population::Records(count))));
    list
}
