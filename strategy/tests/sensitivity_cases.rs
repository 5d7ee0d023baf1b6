//! Sensitivities that are known, what is refused, and how often and how tightly the rest is bounded.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod common;
mod enumeration;

use std::time::Instant;

use common::{close, matrix};
use enumeration::{Lcg, allowed_sets, climbed, drawn, signed};
use ndarray::Array2;
use strategy::{Banded, Blt, Dense, Participation, Schema, Strategy, Tree, column_normalised, toeplitz};

fn toeplitz(c: &[f64]) -> Strategy {
    Strategy::BandToeplitz { c: c.to_vec(), column_normalised: false }
}

fn min_sep(b: u64, k: u64) -> Schema {
    Schema::MinSep(Participation::new(b, k).unwrap())
}

fn exactly(strategy: &Strategy, n: u64, schema: &Schema) -> f64 {
    let got = strategy.sensitivity_under(n, schema).unwrap();
    assert!(got.exact, "{got:?} of {} under {schema:?}", strategy.name());
    got.value
}

#[test]
fn the_counter_example_to_the_monotone_formula_is_exact() {
    // c = (1, 0, 1), b = 1, k = 2: (0, 1) gives 2, {0, 2} gives √6 with room for it, and √5 in three rounds.
    let c = toeplitz(&[1.0, 0.0, 1.0]);
    assert!(close(exactly(&c, 3, &min_sep(1, 2)), 5_f64.sqrt(), 1e-15));
    // The second column is whole from five rounds on.
    assert!(close(exactly(&c, 4, &min_sep(1, 2)), 5_f64.sqrt(), 1e-15));
    assert!(close(exactly(&c, 5, &min_sep(1, 2)), 6_f64.sqrt(), 1e-15));
    assert!(close(exactly(&c, 100_000, &min_sep(1, 2)), 6_f64.sqrt(), 1e-15));
    // Epochs of one round fix the pattern (0, 1): √3 in three rounds.
    let epochs = Schema::FixedEpoch { period: 1, epochs: 2 };
    assert!(close(exactly(&c, 3, &epochs), 3_f64.sqrt(), 1e-15));
    let sets = Schema::Sets([vec![0, 1], vec![1, 2]].into());
    assert!(close(exactly(&c, 3, &sets), 3_f64.sqrt(), 1e-15));
}

#[test]
fn signs_that_disagree_are_not_called_exact_without_proof() {
    // Three unit columns with X_ij = −2/5 each: signs reach 3.8, vectors at 120° 4.2, Σ|X| would be 5.4.
    let lower = |i: usize, j: usize| if i == j { 1.0 } else { -0.4 };
    let x = Array2::from_shape_fn((3, 3), |(i, j)| lower(i, j));
    let strategy = Strategy::Dense(Dense::new(reversed_cholesky(&x)).unwrap());
    for schema in [min_sep(1, 3), Schema::Sets([vec![0, 1, 2]].into())] {
        let got = strategy.sensitivity_under(3, &schema).unwrap();
        assert!(!got.exact && close(got.value.powi(2), 4.2, 1e-9), "{got:?}");
    }
}

/// Lower triangular C with CᵀC = X.
fn reversed_cholesky(x: &Array2<f64>) -> Array2<f64> {
    let n = x.nrows();
    let mut c = Array2::zeros((n, n));
    for i in (0..n).rev() {
        for j in (0..=i).rev() {
            let known: f64 = (i + 1..n).map(|r| c[[r, i]] * c[[r, j]]).sum();
            c[[i, j]] = if i == j { (x[[i, i]] - known).sqrt() } else { (x[[i, j]] - known) / c[[i, i]] };
        }
    }
    c
}

#[test]
fn a_column_normalised_run_is_judged_by_its_last_rounds() {
    let mut draw = Lcg(17);
    for case in 0..300 {
        let p = 2 + draw.below(6) as usize;
        let c: Vec<f64> = (0..p).map(|i| if i == 0 { 0.1 + draw.unit() } else { draw.unit() }).collect();
        let rule = Participation::new(1 + draw.below(p as u64 - 1), 2 + draw.below(4)).unwrap();
        let n = 1 + draw.below(50);
        let whole = column_normalised::columns(&c, n).unwrap().sensitivity(n, rule).unwrap();
        let got = column_normalised::sensitivity(&c, n, rule).unwrap();
        assert!(
            whole.exact && got.exact && close(got.value, whole.value, 1e-12),
            "{case}: {got:?} {whole:?}"
        );
    }
}

#[test]
fn a_rising_blt_is_exact() {
    let blt = Strategy::Blt(Blt::new(vec![0.9, 0.8], vec![0.7, 0.7]).unwrap());
    for (n, b, k) in [(12, 1, 4), (12, 3, 3), (11, 2, 6)] {
        let schema = min_sep(b, k);
        let sets = allowed_sets(n, &schema);
        let truth = sets.iter().map(|s| signed(&matrix(&blt, n), s)).fold(0.0, f64::max).sqrt();
        assert!(close(exactly(&blt, n as u64, &schema), truth, 1e-13));
        let epochs = Schema::FixedEpoch { period: b, epochs: k };
        assert!(close(exactly(&blt, n as u64, &epochs), truth, 1e-13));
    }
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let refused = |schema: Schema| Strategy::Identity.sensitivity_under(10, &schema).unwrap_err().to_string();
    assert_eq!(
        refused(Schema::FixedEpoch { period: 0, epochs: 1 }),
        "period is 0; allowed: 1 or more (the rounds of an epoch)"
    );
    assert_eq!(refused(Schema::FixedEpoch { period: 1, epochs: 0 }), "epochs is 0; allowed: 1 or more");
    assert_eq!(refused(Schema::Sets([].into())), "number of participation sets is 0; allowed: 1 or more");
    let empty = refused(Schema::Sets([vec![1], vec![]].into()));
    assert_eq!(empty, "participation set is empty at index 1; allowed: one round or more");
    let late = refused(Schema::Sets([vec![1, 10]].into()));
    assert_eq!(late, "participation set is round 10 in set 0; allowed: rounds 0 to 9");
    let twice = refused(Schema::Sets([vec![1, 1]].into()));
    assert_eq!(
        twice,
        "participation set is round 1 right after round 1 in set 0; allowed: each round once, ascending"
    );
    assert!(refused(Schema::Sets([vec![3, 2]].into())).contains("round 2 right after round 3"));
    let zero = Participation { min_sep: 0, max_participations: 1 };
    assert!(Strategy::Identity.sensitivity_under(10, &Schema::MinSep(zero)).is_err());
    assert!(Strategy::Identity.sensitivity_under(0, &Schema::Single).is_err());
}

#[test]
fn participations_beyond_the_run_are_refused_only_where_asked() {
    let rule = Participation::new(400, 5).unwrap();
    assert!(rule.fits(1601).is_ok());
    let message = rule.fits(1600).unwrap_err().to_string();
    assert_eq!(
        message,
        "participation is k = 5 with b = 400 in n = 1600 rounds; allowed: (k−1)·b < n is needed: k up to 4"
    );
    let huge = Participation::new(u64::MAX, u64::MAX).unwrap();
    assert!(huge.fits(u64::MAX).is_err());
    assert_eq!(Strategy::Identity.sensitivity(1600, rule).unwrap().value, 2.0);
    let beyond = Schema::FixedEpoch { period: u64::MAX, epochs: u64::MAX };
    assert_eq!(exactly(&Strategy::Identity, 1600, &beyond), 1.0);
}

#[test]
fn a_tree_by_epochs_never_exceeds_min_sep() {
    for n in [100, 1000, 2052] {
        let tree = Strategy::Tree(Tree::new(vec![n / 3], true).unwrap());
        for (b, k) in [(7, 5), (100, 6), (1, 8)] {
            let epochs = exactly(&tree, n, &Schema::FixedEpoch { period: b, epochs: k });
            assert!(epochs <= exactly(&tree, n, &min_sep(b, k)));
        }
    }
}

#[test]
fn what_is_too_much_to_list_is_bounded_by_min_sep() {
    let tree = Strategy::Tree(Tree::default());
    let n = 1 << 30;
    let b = 1 << 29;
    let got = tree.sensitivity_under(n, &Schema::FixedEpoch { period: b, epochs: 2 }).unwrap();
    let listed = Schema::Sets((0..20).map(|i| vec![i * 1000, i * 1000 + b]).collect());
    assert!(!got.exact && got.value >= exactly(&tree, n, &listed));
}

#[test]
fn the_majorant_begins_where_it_is_told() {
    assert_eq!(toeplitz::majorant(&[1.0, -0.2, 0.5, -0.7, 0.1], 2), [1.0, 0.2, 0.7, 0.7, 0.1]);
    assert_eq!(toeplitz::majorant(&[1.0, -0.2, 0.5], 9), [1.0, 0.2, 0.5]);
}

/// Random Toeplitz-like numbers that decay, with signs or all positive.
fn rough(p: usize, positive: bool, seed: u64) -> Vec<f64> {
    let mut draw = Lcg(seed);
    let entry = |i: usize| {
        let x = draw.signed(1.0) / (1.0 + i as f64 / 4.0);
        if positive { x.abs() } else { x }
    };
    std::iter::once(1.0).chain((1..p).map(entry)).collect()
}

/// The time that large cases take, and their results; only that there is a result is asserted.
#[test]
fn large_runs_answer() {
    let n = 100_000;
    let report = |name: String, strategy: Strategy, n: u64, schema: Schema| {
        let start = Instant::now();
        let got = strategy.sensitivity_under(n, &schema).unwrap();
        println!("{name:<44} {:>9.3} ms  {got:?}", start.elapsed().as_secs_f64() * 1e3);
        assert!(got.value.is_finite() && got.value > 0.0);
    };
    for (p, b, k) in
        [(32, 32, 10), (32, 16, 10), (32, 8, 10), (32, 4, 10), (32, 1, 10), (32, 1, 4), (400, 100, 10)]
    {
        for positive in [true, false] {
            let c = rough(p, positive, 5);
            let name = format!("toeplitz p={p} b={b} k={k} positive={positive}");
            report(name, toeplitz(&c), n, min_sep(b, k));
            if b >= 8 && p < 100 {
                let strategy = Strategy::BandToeplitz { c, column_normalised: true };
                report(format!("  column-normalised, positive={positive}"), strategy, n, min_sep(b, k));
            }
        }
    }
    let s: Vec<f64> = [1.0, -0.6, 0.2, -0.3].to_vec();
    report("band-inverse p=4, all of n".into(), Strategy::BandInverse { s: s.clone() }, n, min_sep(100, 10));
    report(
        "  by epochs".into(),
        Strategy::BandInverse { s },
        n,
        Schema::FixedEpoch { period: 100, epochs: 10 },
    );
    let slow = vec![1.0, -0.5, -0.3, -0.1999];
    report("band-inverse, slow decay".into(), Strategy::BandInverse { s: slow }, n, min_sep(100, 10));
    let mut draw = Lcg(3);
    let columns = Array2::from_shape_fn((2052, 32), |(_, i)| if i == 0 { 1.0 } else { draw.signed(0.5) });
    let banded = Strategy::BandMf(Banded::new(columns).unwrap());
    report("band-mf n=2052 p=32 b=16 k=6".into(), banded.clone(), 2052, min_sep(16, 6));
    report("  by epochs".into(), banded, 2052, Schema::FixedEpoch { period: 16, epochs: 128 });
    let mut c = Array2::zeros((512, 512));
    c.indexed_iter_mut()
        .filter(|((i, j), _)| j <= i)
        .for_each(|((i, j), x)| *x = if i == j { 1.0 } else { draw.signed(0.1) });
    report("dense n=512 b=100 k=5".into(), Strategy::Dense(Dense::new(c).unwrap()), 512, min_sep(100, 5));
    let tree = Strategy::Tree(Tree::default());
    report("tree n=1e5 by epochs of 1000".into(), tree, n, Schema::FixedEpoch { period: 1000, epochs: 100 });
}

/// The share of each kind that is exact, and the distance of the others from the best signs and vectors.
#[test]
fn how_exact_random_cases_are() {
    let names = ["", "", "toeplitz", "column-normalised", "band-mf", "band-inverse", "", "", "dense"];
    let n = 10;
    for kind in [2, 3, 4, 5, 8] {
        let mut cases = 0;
        let mut exact = 0;
        let mut gaps = Vec::new();
        let mut vectors = Vec::new();
        let mut draw = Lcg(kind);
        while cases < 150 {
            let strategy = drawn(kind, n, &mut draw);
            let schema = min_sep(1 + draw.below(3), 2 + draw.below(4));
            let c = matrix(&strategy, n);
            if c.iter().flatten().all(|x| *x >= 0.0) {
                continue;
            }
            let got = strategy.sensitivity_under(n as u64, &schema).unwrap();
            cases += 1;
            if got.exact {
                exact += 1;
                continue;
            }
            let sets = allowed_sets(n, &schema);
            gaps.push(got.value / sets.iter().map(|s| signed(&c, s)).fold(0.0, f64::max).sqrt());
            vectors.push(got.value / sets.iter().map(|s| climbed(&c, s)).fold(0.0, f64::max).sqrt());
        }
        let middle = |v: &mut Vec<f64>| {
            v.sort_by(f64::total_cmp);
            (v.get(v.len() / 2).copied().unwrap_or(1.0), v.last().copied().unwrap_or(1.0))
        };
        println!(
            "{:<18} {cases} with signs: {:>5.1} % exact; bound / signs {:.4?}, bound / vectors {:.4?} (median, most)",
            names[kind as usize],
            100.0 * f64::from(exact) / f64::from(cases),
            middle(&mut gaps),
            middle(&mut vectors),
        );
        assert!(exact > 0);
    }
}
