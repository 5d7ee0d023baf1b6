//! Bounds over owner graphs, against every owner's rounds counted one by one.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use batches::{
    AccountKind, Batch, Batches, Neighbouring, Owners, Participation, Population, SamplingLaw, Scheme, Unit,
};
use common::{all, participations, run};
use proptest::prelude::*;

/// A graph as a list: records and their owners.
type Graph = Vec<(u64, Vec<u64>)>;

/// Records with scattered numbers, each with one to four of `owners`.
fn graphs() -> impl Strategy<Value = Graph> {
    (1_u64..12).prop_flat_map(|owners| {
        prop::collection::vec(prop::collection::vec(0..owners, 1..5), 0..40)
            .prop_map(|list| (0..).map(|i| 5 * i + i % 3).zip(list).collect())
    })
}

fn bound(batch_size: u64, min_sep: u64, max_participations: u64, records_per_batch: u64) -> Scheme {
    Scheme::ContributionBound { batch_size, min_sep, max_participations, records_per_batch }
}

fn of(graph: &Graph) -> Population {
    Population::Owners(Owners::new(graph.iter().cloned()).unwrap())
}

/// How many records each owner has in each round.
fn counts(graph: &Graph, batches: &[Batch]) -> BTreeMap<u64, BTreeMap<u64, u64>> {
    let owners: BTreeMap<u64, BTreeSet<u64>> =
        graph.iter().map(|(record, owners)| (*record, owners.iter().copied().collect())).collect();
    let mut found = BTreeMap::<u64, BTreeMap<u64, u64>>::new();
    for batch in batches {
        for id in &batch.ids {
            for owner in &owners[id] {
                *found.entry(*owner).or_default().entry(batch.round).or_default() += 1;
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_owner_exceeds_the_bound_in_any_window(
        graph in graphs(), seed: u8, size in 1_u64..6, b in 1_u64..6, k in 1_u64..5, m in 1_u64..4,
    ) {
        let run = run(&bound(size, b, k, m), of(&graph), 15, seed);
        let batches = all(&run);
        let counts = counts(&graph, &batches);
        for rounds in counts.values() {
            prop_assert!(rounds.len() as u64 <= k);
            prop_assert!(rounds.values().all(|records| *records <= m));
            for first in 0..15 {
                let within = rounds.keys().filter(|round| (first..first + b).contains(*round)).count();
                prop_assert!(within <= 1, "{:?}", rounds);
            }
        }
        for batch in &batches {
            prop_assert!(batch.ids.is_sorted_by(|one, other| one < other));
            prop_assert_eq!(batch.ids.len() as u64 + batch.padding.unwrap(), size);
        }
        let statistics = run.owner_statistics().unwrap().unwrap();
        let drawn = statistics.drawn.unwrap();
        prop_assert_eq!(drawn.max_participations, counts.values().map(|of| of.len() as u64).max().unwrap_or(0));
        let most = counts.values().flat_map(|of| of.values().copied()).max().unwrap_or(0);
        prop_assert_eq!(drawn.records_per_batch, most);
        prop_assert!(drawn.min_sep.is_none_or(|least| least >= b));
        let kept: BTreeSet<u64> = batches.iter().flat_map(|batch| batch.ids.iter().copied()).collect();
        prop_assert_eq!((statistics.records, statistics.kept), (graph.len() as u64, kept.len() as u64));
        let sums = statistics.by_degree.iter().fold([0, 0], |sums, of| [sums[0] + of.records, sums[1] + of.kept]);
        prop_assert_eq!(sums, [graph.len() as u64, kept.len() as u64]);
    }

    #[test]
    fn a_batch_is_short_only_where_no_other_record_may_join(
        graph in graphs(), seed: u8, size in 1_u64..6, b in 1_u64..6, k in 1_u64..5, m in 1_u64..4,
    ) {
        let batches = all(&run(&bound(size, b, k, m), of(&graph), 15, seed));
        for (round, batch) in batches.iter().enumerate() {
            if batch.padding == Some(0) {
                continue;
            }
            let past = counts(&graph, &batches[..=round]);
            let may = |owner: &u64| {
                let Some(rounds) = past.get(owner) else { return true };
                let (last, records) = rounds.last_key_value().unwrap();
                let here = *last == round as u64;
                if here { *records < m } else { (rounds.len() as u64) < k && round as u64 - last >= b }
            };
            for (record, owners) in &graph {
                let left_out = !batch.ids.contains(record) && owners.iter().all(may);
                prop_assert!(!left_out, "{} in round {}", record, round);
            }
        }
    }

    #[test]
    fn sampled_records_are_few_of_each_owner(graph in graphs(), seed: u8, most in 1_u64..5) {
        let scheme = Scheme::Els { group_size: most, sampling_probability: 1.0 };
        let run = run(&scheme, of(&graph), 3, seed);
        let batches = all(&run);
        prop_assert!(batches.windows(2).all(|pair| pair[0].ids == pair[1].ids));
        let found = counts(&graph, &batches[..1]);
        let of_owner = |owner: &u64| found.get(owner).map_or(0, |rounds| rounds[&0]);
        prop_assert!(found.keys().all(|owner| of_owner(owner) <= most));
        for (record, owners) in &graph {
            let left_out = !batches[0].ids.contains(record) && owners.iter().all(|owner| of_owner(owner) < most);
            prop_assert!(!left_out, "{}", record);
        }
        let statistics = run.owner_statistics().unwrap().unwrap();
        prop_assert_eq!(statistics.kept, batches[0].ids.len() as u64);
        prop_assert_eq!(statistics.most_records, found.keys().map(of_owner).max().unwrap_or(0));
        prop_assert_eq!(statistics.drawn, None);
        // Sampled with a smaller probability, they are some of the same.
        let rare = Scheme::Els { group_size: most, sampling_probability: 0.3 };
        let rare = Batches::new(rare, of(&graph), 5, [seed; 32]).unwrap();
        let kept = rare.owner_statistics().unwrap().unwrap().kept as usize;
        let ever: BTreeSet<u64> = all(&rare).into_iter().flat_map(|batch| batch.ids).collect();
        prop_assert!(ever.len() <= kept);
    }

    #[test]
    fn any_start_gives_the_same_batches(graph in graphs(), seed: u8, start in 0_u64..12) {
        for scheme in [bound(3, 2, 3, 1), Scheme::Els { group_size: 2, sampling_probability: 0.5 }] {
            let batches = run(&scheme, of(&graph), 12, seed);
            let later: Vec<Batch> = batches.rounds(start..12).unwrap().collect();
            prop_assert_eq!(&later, &all(&batches)[start as usize..]);
        }
    }
}

#[test]
fn records_are_all_used_before_one_is_used_again() {
    // Owners who share nothing: the bound is that of a fixed order.
    let graph: Graph = (0..24).map(|record| (record, vec![record])).collect();
    let batches = all(&run(&bound(4, 6, 3, 1), of(&graph), 30, 7));
    for rounds in participations(&batches, 24) {
        assert_eq!(rounds, [rounds[0], rounds[0] + 6, rounds[0] + 12]);
    }
    assert!(batches[18..].iter().all(|batch| batch.ids.is_empty()));
}

#[test]
fn events_name_the_owner_and_the_bound() {
    let graph = || of(&vec![(3, vec![0, 1]), (8, vec![1])]);
    let event = run(&bound(2, 4, 5, 3), graph(), 10, 1).event();
    let rule =
        SamplingLaw::AnyOrder { min_sep: 4, max_participations: 3, iterations: 10, records_per_batch: 3 };
    assert_eq!(
        (&event.sampling, event.unit, event.account),
        (&rule, Unit::Owner, AccountKind::AnyOrderPublicSize)
    );
    assert_eq!(event.neighbouring, [Neighbouring::ZeroOut, Neighbouring::Replace]);
    let drawn = Participation { min_sep: 4, max_participations: 3, records_per_batch: 3 };
    assert_eq!(event.participation(), drawn);
    let els = |group_size| Scheme::Els { group_size, sampling_probability: 0.25 };
    for group_size in [1, 6] {
        let event = run(&els(group_size), graph(), 10, 1).event();
        assert_eq!((event.unit, event.public_population), (Unit::Owner, true));
        assert!(!event.neighbouring.contains(&Neighbouring::AddRemove));
    }
    assert_eq!(run(&els(6), graph(), 10, 1).event().account, AccountKind::UserLevel);
}

#[test]
fn what_has_no_bound_is_refused() {
    let graph = || of(&vec![(3, vec![0, 1]), (8, vec![1])]);
    let refused =
        |scheme: Scheme, population| Batches::new(scheme, population, 5, [0; 32]).err().unwrap().to_string();
    for scheme in common::record_schemes(0.5, None) {
        let error = refused(scheme.clone(), graph());
        assert!(error.starts_with(scheme.name()) && error.contains("allowed"), "{error}");
        let users = Scheme::Uls { group_size: 2, users: Box::new(scheme) };
        assert!(refused(users, graph()).contains("several owners"));
    }
    assert!(refused(bound(2, 1, 1, 1), Population::Records(4)).contains("owners of each record"));
    assert!(
        refused(bound(2, 1, 1, 1), Population::Users(common::users(4))).contains("owners of each record")
    );
    assert!(refused(bound(0, 1, 1, 1), graph()).contains("batch size is 0"));
    assert!(refused(bound(1, 0, 1, 1), graph()).contains("min-sep is 0"));
    assert!(refused(bound(1, 1, 0, 1), graph()).contains("max-participations is 0"));
    assert!(refused(bound(1, 1, 1, 0), graph()).contains("records per batch is 0"));
    let nested = Scheme::Uls { group_size: 1, users: Box::new(bound(1, 1, 1, 1)) };
    assert!(refused(nested, Population::Users(common::users(4))).contains("must be of records"));
}

#[test]
fn batches_over_owners_are_what_they_were() {
    let graph: Graph = (0..30).map(|i| (2 * i, vec![i % 7, (i * i) % 11])).collect();
    let ids = |scheme: &Scheme| -> Vec<Vec<u64>> {
        all(&run(scheme, of(&graph), 4, 42)).into_iter().map(|batch| batch.ids).collect()
    };
    let found = [ids(&bound(3, 2, 2, 1)), ids(&Scheme::Els { group_size: 3, sampling_probability: 0.4 })];
    assert_eq!(format!("{found:?}"), GOLDEN);
}

const GOLDEN: &str = "[[[6, 24, 26], [0], [50, 52, 54], [0, 2]], \
                      [[18, 26], [14, 18, 26, 34, 36, 38, 44, 46], [28], [18, 20, 36, 44]]]";
