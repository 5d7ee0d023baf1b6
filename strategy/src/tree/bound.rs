//! An upper bound of a tree's squared sensitivity, in a few steps for each level, whatever n is.
//!
//! Take any allowed pattern, K participations at most, and let c_ν be those below node ν. A node of level l has 2^l
//! consecutive rounds below it at most, so that c_ν ≤ m = min(⌈2^l/b⌉, K). Nodes of one level have no round in common,
//! so Σ c_ν ≤ K over the N_l of them. Σ c_ν² is convex, and so at its largest in a corner of {0 ≤ c_ν ≤ m, Σ c_ν ≤ K}:
//! as many nodes as there are hold m, one holds the rest, and the others nothing. These sums are added up over
//! the levels. It is attained where every round is taken; elsewhere no pattern need be the worst on every level.

use super::Span;
use crate::participation::Participation;

/// No less than Σ_nodes count² of any pattern allowed by `rule` in a chain of trees.
pub(super) fn bound(spans: &[Span], rule: Participation) -> u128 {
    let rounds: u64 = spans.iter().map(|s| s.rounds).sum();
    let most = rule.in_rounds(rounds);
    (0..u64::BITS).map(|level| largest(nodes(spans, level), in_one(level, rule).min(most), most)).sum()
}

/// Nodes of a level that have a round below them.
fn nodes(spans: &[Span], level: u32) -> u64 {
    let of_span = |span: &Span| {
        if !span.completed {
            return span.rounds >> level;
        }
        // A completed span is a whole tree: its root is on the highest level.
        if level > span.rounds.next_power_of_two().ilog2() { 0 } else { span.rounds.div_ceil(1 << level) }
    };
    spans.iter().map(of_span).sum()
}

/// Participations in 2^level consecutive rounds.
fn in_one(level: u32, rule: Participation) -> u64 {
    rule.in_rounds(1 << level)
}

/// The largest Σ c² of `nodes` counts of at most `each`, `most` in all.
fn largest(nodes: u64, each: u64, most: u64) -> u128 {
    let full = nodes.min(most / each.max(1));
    let rest = if full < nodes { most - full * each } else { 0 };
    let squared = |count: u64| u128::from(count) * u128::from(count);
    u128::from(full) * squared(each) + squared(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pareto;
    use super::*;

    fn exact(spans: &[Span], rule: Participation) -> u128 {
        pareto::maximum(spans, rule, usize::MAX).unwrap().into()
    }

    #[test]
    fn it_is_attained_where_every_round_is_taken() {
        for n in 1..70 {
            for completed in [false, true] {
                let spans = [Span { rounds: n, completed }];
                let rule = Participation::new(1, n).unwrap();
                assert_eq!(bound(&spans, rule), exact(&spans, rule), "{n} {completed}");
            }
        }
    }

    #[test]
    fn it_is_near_where_many_rounds_are_taken() {
        for (n, gap, most) in [(3000, 2, 1500), (3000, 7, 400), (3001, 30, 100), (5000, 7, 90)] {
            let spans = [Span { rounds: n, completed: false }];
            let rule = Participation::new(gap, most).unwrap();
            let ratio = bound(&spans, rule) as f64 / exact(&spans, rule) as f64;
            assert!((1.0..1.1).contains(&ratio), "{n} {gap} {most}: {ratio}");
        }
    }

    #[test]
    fn it_never_overflows() {
        let spans = [Span { rounds: crate::tree::MAX_TREE, completed: false }];
        let rule = Participation::new(1, u64::MAX).unwrap();
        // Σ_l 2^(40−l)·2^(2l).
        assert_eq!(bound(&spans, rule), (1 << 81) - (1 << 40));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn it_is_never_below_the_exact_one(
            spans in prop::collection::vec((1_u64..90, any::<bool>()), 1..4),
            gap in 1_u64..30,
            most in 1_u64..40,
        ) {
            let spans: Vec<Span> =
                spans.into_iter().map(|(rounds, completed)| Span { rounds, completed }).collect();
            let rule = Participation::new(gap, most).unwrap();
            let bound = bound(&spans, rule);
            let exact = exact(&spans, rule);
            prop_assert!(bound >= exact && bound <= 3 * exact, "{bound} {exact}");
        }
    }
}
