//! Sensitivities under every schema against all sets of rounds, all signs, and climbing vectors.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod common;
mod enumeration;

use common::{close, matrix};
use enumeration::{Lcg, allowed_sets, any_strategy, climbed, node_matrix, signed};
use proptest::prelude::*;
use strategy::{Participation, Schema, Sensitivity, Strategy, Tree};

const N: usize = 12;

/// A schema over `n` rounds, drawn from a seed.
fn any_schema(n: usize, seed: u64) -> Schema {
    let mut draw = Lcg(seed);
    match draw.below(4) {
        0 => Schema::Single,
        1 => Schema::FixedEpoch { period: 1 + draw.below(6), epochs: 1 + draw.below(6) },
        2 => Schema::MinSep(Participation::new(1 + draw.below(5), 1 + draw.below(6)).unwrap()),
        _ => {
            let set = |draw: &mut Lcg| -> Vec<u64> {
                let kept: Vec<u64> = (0..n as u64).filter(|_| draw.below(2) == 0).take(7).collect();
                if kept.is_empty() { vec![draw.below(n as u64)] } else { kept }
            };
            Schema::Sets((0..3).map(|_| set(&mut draw)).collect())
        }
    }
}

/// `value` bounds what signs and vectors reach, and is what signs reach where it is called exact.
fn check(got: Sensitivity, c: &common::Matrix, n: usize, schema: &Schema) -> Result<(), TestCaseError> {
    let sets = allowed_sets(n, schema);
    let truth = sets.iter().map(|set| signed(c, set)).fold(0.0, f64::max).sqrt();
    prop_assert!(got.value >= truth * (1.0 - 1e-12), "{} is below {truth} under {schema:?}", got.value);
    if got.exact {
        prop_assert!(close(got.value, truth, 1e-11), "{} called exact, truth {truth}, {schema:?}", got.value);
    }
    let reached = sets.iter().map(|set| climbed(c, set)).fold(0.0, f64::max).sqrt();
    prop_assert!(got.value >= reached * (1.0 - 1e-11), "{} is below {reached} by vectors", got.value);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_mechanism_and_schema(strategy in any_strategy(N), n in 1..=N, seeds in prop::array::uniform8(any::<u64>())) {
        let c = matrix(&strategy, n);
        for seed in seeds {
            let schema = any_schema(n, seed);
            check(strategy.sensitivity_under(n as u64, &schema).unwrap(), &c, n, &schema)?;
        }
    }

    #[test]
    fn trees_are_exact(
        n in 1..=N,
        restarts in prop::collection::btree_set(1..N as u64, 0..3),
        completion in any::<bool>(),
        seeds in prop::array::uniform8(any::<u64>()),
    ) {
        let tree = Tree::new(restarts.into_iter().collect(), completion).unwrap();
        let c = node_matrix(&tree, n);
        for seed in seeds {
            let schema = any_schema(n, seed);
            let got = Strategy::Tree(tree.clone()).sensitivity_under(n as u64, &schema).unwrap();
            prop_assert!(got.exact);
            check(got, &c, n, &schema)?;
        }
    }

    #[test]
    fn columns_that_do_not_overlap_are_exact(strategy in any_strategy(N), n in 1..=N, more in 0..4_u64, k in 1..6_u64) {
        let reach = match &strategy {
            Strategy::BandToeplitz { c, .. } => c.len() as u64,
            Strategy::BandMf(banded) => banded.bands() as u64,
            _ => N as u64,
        };
        let rule = Participation::new(reach + more, k).unwrap();
        let epochs = Schema::FixedEpoch { period: reach + more, epochs: k };
        for schema in [Schema::MinSep(rule), epochs] {
            let got = strategy.sensitivity_under(n as u64, &schema).unwrap();
            prop_assert!(got.exact, "{schema:?} with {reach} bands");
            check(got, &matrix(&strategy, n), n, &schema)?;
        }
    }

    #[test]
    fn non_negative_toeplitz_that_fall_from_min_sep_on_are_exact(
        mut c in prop::collection::vec(0.0..1.0_f64, 2..N),
        n in 2..=N,
        gap in 1_u64..4,
        k in 1_u64..6,
    ) {
        // Anything before index b, falling from there on.
        c[0] += 0.01;
        let from = (gap as usize).min(c.len());
        c[from..].sort_by(|a, b| b.total_cmp(a));
        let strategy = Strategy::BandToeplitz { c, column_normalised: false };
        let schema = Schema::MinSep(Participation::new(gap, k).unwrap());
        let got = strategy.sensitivity_under(n as u64, &schema).unwrap();
        prop_assert!(got.exact);
        check(got, &matrix(&strategy, n), n, &schema)?;
    }

    #[test]
    fn non_negative_columns_are_exact(strategy in any_strategy(N), n in 1..=N, seeds in prop::array::uniform4(any::<u64>())) {
        let c = matrix(&strategy, n);
        prop_assume!(c.iter().flatten().all(|x| *x >= 0.0));
        for seed in seeds {
            let schema = any_schema(n, seed);
            let got = strategy.sensitivity_under(n as u64, &schema).unwrap();
            prop_assert!(got.exact, "{strategy:?} {schema:?}");
        }
    }

    #[test]
    fn rows_alone(strategy in any_strategy(N), n in 1..=N, seeds in prop::array::uniform8(any::<u64>())) {
        let c = matrix(&strategy, n);
        for seed in seeds {
            let mut draw = Lcg(seed);
            let start = draw.below(n as u64);
            let rows = start..start + 1 + draw.below(n as u64 - start);
            let rule = Participation::new(1 + draw.below(5), 1 + draw.below(5)).unwrap();
            let cut = c[rows.start as usize..rows.end as usize].to_vec();
            let got = strategy.sensitivity_of_rows(n as u64, rows, rule).unwrap();
            check(got, &cut, n, &Schema::MinSep(rule))?;
        }
    }

    #[test]
    fn non_negative_rows_are_exact(strategy in any_strategy(N), n in 2..=N, start in 0..N as u64, gap in 1..5_u64) {
        prop_assume!(matrix(&strategy, n).iter().flatten().all(|x| *x >= 0.0));
        let rule = Participation::new(gap, 4).unwrap();
        let got = strategy.sensitivity_of_rows(n as u64, start.min(n as u64 - 1)..n as u64, rule).unwrap();
        prop_assert!(got.exact, "{strategy:?} {start} {gap}");
    }

    #[test]
    fn rows_of_trees_are_bounded_by_their_nodes(
        n in 1..=N,
        restarts in prop::collection::btree_set(1..N as u64, 0..3),
        completion in any::<bool>(),
        seeds in prop::array::uniform8(any::<u64>()),
    ) {
        let tree = Tree::new(restarts.into_iter().collect(), completion).unwrap();
        let nodes = node_matrix(&tree, n);
        for seed in seeds {
            let mut draw = Lcg(seed);
            let start = draw.below(n as u64);
            let rows = start..start + 1 + draw.below(n as u64 - start);
            let rule = Participation::new(1 + draw.below(5), 1 + draw.below(5)).unwrap();
            // A node is read from the last of its rounds on, virtual ones belonging to the round before them.
            let last = |node: &Vec<f64>| node.iter().rposition(|x| *x != 0.0).map_or(0, |round| round as u64);
            let read: Vec<_> = nodes.iter().filter(|node| rows.contains(&last(node))).cloned().collect();
            let got = Strategy::Tree(tree.clone()).sensitivity_of_rows(n as u64, rows, rule).unwrap();
            check(Sensitivity { exact: got.exact && start == 0, ..got }, &read, n, &Schema::MinSep(rule))?;
        }
    }
}

#[test]
fn rows_outside_the_run_are_named() {
    let rule = Participation::single();
    for rows in [3..3, 0..11, 9..12] {
        let shown = format!("{}..{}", rows.start, rows.end);
        let error = Strategy::Identity.sensitivity_of_rows(10, rows, rule).unwrap_err().to_string();
        assert!(error.contains(&shown) && error.contains("a < b ≤ 10"), "{error}");
    }
}
