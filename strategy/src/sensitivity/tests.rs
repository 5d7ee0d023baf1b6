//! Each method alone against all patterns; whole strategies are in `strategy/tests/sensitivity_*.rs`.

use super::gram::Gram;
use super::overlaps::Overlaps;
use super::{chain, majorant, search, spaced, spaced_squared};

/// Numbers in −1…1, or 0…1, that look random and never change.
fn column(p: usize, seed: u64, positive: bool) -> Vec<f64> {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        if positive { x.abs() } else { x }
    };
    (0..p).map(|i| if i == 0 { 0.8 } else { draw() }).collect()
}

fn patterns(n: usize, gap: usize, count: usize) -> Vec<Vec<usize>> {
    (1_u32..1 << n)
        .map(|mask| (0..n).filter(|r| mask >> r & 1 == 1).collect::<Vec<_>>())
        .filter(|p| p.len() <= count && p.windows(2).all(|w| w[1] - w[0] >= gap))
        .collect()
}

fn of(gram: &Gram, pattern: &[usize]) -> Overlaps {
    Overlaps::new(pattern, gram.reach(), |i, j| gram.at(i, j))
}

/// Σ|X_ij| over a pattern.
fn weight(gram: &Gram, pattern: &[usize]) -> f64 {
    pattern.iter().flat_map(|i| pattern.iter().map(|j| gram.at(*i, *j).abs())).sum()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs()
}

/// (n, c, gap, count) with overlapping columns.
fn cases() -> impl Iterator<Item = (usize, Vec<f64>, usize, usize)> {
    (0_u64..200).filter_map(|seed| {
        let n = 5 + seed as usize % 8;
        let p = 2 + seed as usize % 6;
        let gap = 1 + seed as usize / 7 % 4;
        let count = 2 + seed as usize / 3 % 4;
        let p = p.min(n);
        (gap < p).then(|| (n, column(p, seed, seed % 3 == 0), gap, count))
    })
}

#[test]
fn the_chain_finds_the_heaviest_pattern() {
    for (n, c, gap, count) in cases() {
        let gram = Gram::toeplitz(&c, n);
        let truth = patterns(n, gap, count).iter().map(|p| weight(&gram, p)).fold(0.0, f64::max);
        let (value, pattern) = chain::heaviest(&gram, n, gap, count).unwrap();
        assert!(near(value, truth), "{value} {truth}");
        assert!(near(weight(&gram, &pattern), value) && pattern.len() <= count, "{pattern:?}");
        assert!(pattern.windows(2).all(|w| w[1] - w[0] >= gap), "{pattern:?}");
    }
}

#[test]
fn a_long_run_is_a_stationary_one() {
    for (_, c, gap, count) in cases() {
        let n = count * c.len();
        let long = Gram::stationary(&c);
        let short = Gram::toeplitz(&c, n);
        let (value, pattern) = chain::heaviest(&long, n, gap, count).unwrap();
        assert!(near(value, chain::heaviest(&short, n, gap, count).unwrap().0));
        assert!(near(weight(&long, &pattern), value) && *pattern.last().unwrap() < n);
    }
}

#[test]
fn a_search_bounds_whatever_its_budget() {
    for (n, c, gap, count) in cases() {
        let gram = Gram::toeplitz(&c, n);
        let tried: Vec<_> = patterns(n, gap, count).iter().map(|p| of(&gram, p).bracket()).collect();
        let lower = tried.iter().map(|b| b.lower).fold(0.0, f64::max);
        let upper = tried.iter().map(|b| b.upper).fold(0.0, f64::max);
        for anchored in [false, true] {
            for budget in [0, 1, 50, 200, 1000, 5000] {
                let got = search::branch_and_bound(&gram, n, gap, count, anchored, budget).unwrap();
                assert!(got.upper >= lower * (1.0 - 1e-12), "{budget}: {got:?} below {lower}");
            }
            let got = search::branch_and_bound(&gram, n, gap, count, anchored, search::BUDGET).unwrap();
            assert!(got.upper <= upper * (1.0 + 1e-12), "{got:?} above {upper}");
            assert!(got.lower <= lower * (1.0 + 1e-12), "{got:?} attains more than {lower}");
        }
    }
}

#[test]
fn the_spaced_bound_is_one_and_no_worse_than_the_whole_majorant() {
    for (n, c, gap, count) in cases() {
        let gram = Gram::toeplitz(&c, n);
        let truth = patterns(n, gap, count).iter().map(|p| of(&gram, p).bracket().lower).fold(0.0, f64::max);
        let rule = crate::Participation::new(gap as u64, count as u64).unwrap();
        let count = rule.in_rounds(n as u64) as usize;
        let bound = spaced::spaced_bound(&c, &majorant(&c, gap), n, gap, count);
        assert!(bound >= truth * (1.0 - 1e-12), "{bound} {truth}");
        assert!(bound <= spaced_squared(&majorant(&c, 0), n, gap, count) * (1.0 + 1e-12));
        let falling = majorant(&c, gap);
        let exact = spaced::spaced_bound(&falling, &falling, n, gap, count);
        assert!(near(exact, spaced_squared(&falling, n, gap, count)));
    }
}

#[test]
fn a_gram_matrix_is_that_of_its_columns() {
    let c = column(4, 9, false);
    let gram = Gram::toeplitz(&c, 7);
    let entry = |r: usize, j: usize| if r >= j { c.get(r - j).copied().unwrap_or(0.0) } else { 0.0 };
    for i in 0..7 {
        for j in 0..7 {
            let product: f64 = (0..7).map(|r| entry(r, i) * entry(r, j)).sum();
            assert!((gram.at(i, j) - product).abs() < 1e-14, "({i}, {j})");
        }
    }
}
