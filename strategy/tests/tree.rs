//! Tree sensitivities and errors against published rows and brute force.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use std::cmp::Ordering;

use proptest::prelude::*;
use strategy::tree::{MAX_TREE, Span, sensitivity_squared};
use strategy::{Participation, Strategy, Tree};

/// (name, rounds, MinS as printed, participations, ρ at noise multiplier 7): McMahan, Xu, Zhang (2024), Table 4, and
/// Xu et al. (2023) Tables 1 and 2. min_sep (j − i) is the printed MinS + 1.
const PUBLISHED: [(&str, u64, u64, u64, f64); 20] = [
    ("NWP de-DE", 930, 212, 4, 0.48),
    ("NWP en-GB", 980, 226, 4, 0.48),
    ("NWP fr-FR", 1280, 180, 5, 0.89),
    ("NWP it-IT", 1620, 303, 5, 0.71),
    ("NWP pt-PT", 530, 54, 8, 1.86),
    ("NWP es-ES", 1900, 526, 3, 0.35),
    ("NWP es-ES*", 1750, 349, 4, 0.52),
    ("NWP en-US", 2800, 371, 7, 1.31),
    ("NWP en-US*", 1360, 622, 2, 0.25),
    ("NWP pt-BR", 3600, 909, 3, 0.45),
    ("NWP en-IN", 1290, 170, 6, 1.14),
    ("NWP es-MX", 1980, 343, 5, 0.64),
    ("NWP es-AR", 640, 90, 5, 0.84),
    ("OTF de-DE", 1170, 206, 5, 0.89),
    ("OTF en-GB", 1220, 206, 5, 0.89),
    ("OTF es-ES", 1280, 197, 5, 0.89),
    ("OTF fr-FR", 1300, 290, 4, 0.61),
    ("OTF it-IT", 1360, 188, 5, 0.89),
    ("OTF ru-RU", 870, 327, 3, 0.32),
    ("OTF pt-PT", 430, 54, 7, 0.99),
];

#[test]
fn all_published_rows() {
    for (name, n, printed, most, rho) in PUBLISHED {
        let rule = Participation::new(printed + 1, most).unwrap();
        let value = Strategy::Tree(Tree::default()).sensitivity(n, rule).unwrap();
        assert!(value.exact);
        let got = value.value.powi(2) / 98.0;
        // Printed to two digits, mostly rounded up.
        assert!(got <= rho + 0.005 && got > rho - 0.01, "{name}: {got} against {rho}");
    }
}

#[test]
fn known_squares() {
    let square = |n, gap, most, completed| {
        exact(&[Span { rounds: n, completed }], Participation::new(gap, most).unwrap())
    };
    assert_eq!(square(530, 55, 8, false), 182);
    assert_eq!(square(430, 55, 7, false), 97);
    assert_eq!(square(1170, 207, 5, false), 87);
    assert_eq!(square(1000, 100, 5, false), 82);
    assert_eq!(square(1000, 100, 5, true), 107);
}

/// The exact value, for cases small enough to be searched.
fn exact(spans: &[Span], rule: Participation) -> u64 {
    let found = sensitivity_squared(spans, rule).unwrap();
    assert!(found.exact);
    found.value.try_into().unwrap()
}

/// Every subset of rounds, every node: what the definition says.
fn brute_force(spans: &[Span], rule: Participation) -> u64 {
    let n: u64 = spans.iter().map(|s| s.rounds).sum();
    let mut best = 0;
    'pattern: for mask in 0_u32..1 << n {
        if u64::from(mask.count_ones()) > rule.max_participations {
            continue;
        }
        let rounds: Vec<u64> = (0..n).filter(|r| mask >> r & 1 == 1).collect();
        if rounds.windows(2).any(|w| w[1] - w[0] < rule.min_sep) {
            continue 'pattern;
        }
        let mut start = 0;
        let mut total = 0;
        for span in spans {
            let size = if span.completed { span.rounds.next_power_of_two() } else { span.rounds };
            let here: Vec<u64> = rounds
                .iter()
                .filter(|r| (start..start + span.rounds).contains(*r))
                .map(|r| r - start)
                .collect();
            for level in 0..10 {
                for node in 0..size >> level {
                    let below = here.iter().filter(|r| **r >> level == node).count() as u64;
                    total += below * below;
                }
            }
            start += span.rounds;
        }
        best = best.max(total);
    }
    best
}

#[test]
fn virtual_rounds_do_not_delay_the_next_tree() {
    // Five rounds filled up to eight, then another tree: one user may take part in every real round.
    let spans = [Span { rounds: 5, completed: true }, Span { rounds: 3, completed: false }];
    for gap in 1..4 {
        let rule = Participation::new(gap, 8).unwrap();
        assert_eq!(exact(&spans, rule), brute_force(&spans, rule));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn matches_brute_force(
        spans in prop::collection::vec((1_u64..9, any::<bool>()), 1..3),
        gap in 1_u64..8,
        most in 1_u64..18,
    ) {
        let spans: Vec<Span> = spans.into_iter().map(|(rounds, completed)| Span { rounds, completed }).collect();
        let rule = Participation::new(gap, most).unwrap();
        prop_assert_eq!(exact(&spans, rule), brute_force(&spans, rule));
    }

    #[test]
    fn one_long_tree_matches_brute_force(rounds in 1_u64..14, completed: bool, gap in 1_u64..6, most in 1_u64..7) {
        let spans = [Span { rounds, completed }];
        let rule = Participation::new(gap, most).unwrap();
        prop_assert_eq!(exact(&spans, rule), brute_force(&spans, rule));
    }

    #[test]
    fn errors_match_the_sum_over_rounds(n in 1_u64..200, cut in 1_u64..200, completion: bool) {
        let tree = Tree::new(vec![cut], completion).unwrap();
        let node = |l: u32| f64::from(1 << l) / f64::from((2 << l) - 1);
        let prefix = |t: u64| (0..20).filter(|l| t >> l & 1 == 1).map(node).sum::<f64>();
        let rows: Vec<f64> = (1..=n)
            .map(|t| {
                let read = if completion { cut.next_power_of_two() } else { cut };
                // The last round before the restart is served the filled tree's root.
                match t.cmp(&cut) {
                    Ordering::Less => prefix(t),
                    Ordering::Equal => prefix(if n > cut { read } else { cut }),
                    Ordering::Greater => prefix(read) + prefix(t - cut),
                }
            })
            .collect();
        let errors = Strategy::Tree(tree).errors(n).unwrap();
        let rms = (rows.iter().sum::<f64>() / n as f64).sqrt();
        let max = rows.iter().copied().fold(0.0, f64::max).sqrt();
        prop_assert!((errors.rms - rms).abs() < 1e-12 * rms);
        prop_assert!((errors.max - max).abs() < 1e-12 * max);
        prop_assert!((errors.last - rows.last().unwrap().sqrt()).abs() < 1e-12 * max);
    }
}

#[test]
fn table_3_streaming_tree() {
    // the streaming bottom-up tree gives max 27.27 and rms 19.28.
    let rule = Participation::new(342, 6).unwrap();
    let tree = Strategy::Tree(Tree::default());
    assert!((tree.max_loss(2052, rule).unwrap() - 27.27).abs() < 0.005);
    assert!((tree.rms_loss(2052, rule).unwrap() - 19.28).abs() < 0.005);
}

/// A plan of ten lines may ask for any of these: what can't be searched has a bound, and says so.
#[test]
fn many_participations_in_a_long_tree_have_a_bound() {
    let tree = Tree::default();
    for (n, gap, most) in
        [(1 << 20, 1, 1 << 20), (100_000, 1, 100_000), (MAX_TREE, 1, u64::MAX), (1 << 30, 3, 1 << 20)]
    {
        let found = tree.sensitivity(n, Participation::new(gap, most).unwrap()).unwrap();
        assert!(!found.exact, "{n} {gap} {most}");
    }
    // Every round taken: 2^(20−l) nodes of 2^l participations on each level.
    let all = tree.sensitivity(1 << 20, Participation::new(1, 1 << 20).unwrap()).unwrap();
    let squared: f64 = (0..=20).map(|level| f64::from(20 + level).exp2()).sum();
    assert_eq!(all.value, squared.sqrt());
    // Few enough participations are still exact.
    for (n, gap, most) in
        [(1 << 20, 1 << 14, 64), (100_000, 1000, 100), (1000, 1, 1000), (MAX_TREE, 1 << 36, 9)]
    {
        let found = tree.sensitivity(n, Participation::new(gap, most).unwrap()).unwrap();
        assert!(found.exact, "{n} {gap} {most}");
    }
}

#[test]
fn bad_restarts_are_refused() {
    assert!(Tree::new(vec![0], false).is_err());
    assert!(Tree::new(vec![5, 5], false).is_err());
    assert!(Tree::default().errors(0).is_err());
}
