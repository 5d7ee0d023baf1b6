//! The charge for rewinds against brute force: every branch tree's stacked matrix, built plainly.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::rewind::{ReleasedBranch, ReleasedRows, charge};
use ndarray::Array2;
use proptest::prelude::*;
use strategy::{Dense, Participation, Strategy};

/// (index of the branch, row): what has a z of its own.
type Node = (usize, usize);

struct Draw(u64);

impl Draw {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, most: usize) -> usize {
        ((self.unit() * most as f64) as usize).min(most - 1)
    }
}

fn dense(n: usize, draw: &mut Draw) -> Dense {
    let positive = draw.below(2) == 0;
    let mut entry = |i: usize, j: usize| {
        if j > i {
            0.0
        } else if j == i {
            0.3 + draw.unit()
        } else if positive {
            draw.unit()
        } else {
            4.0 * draw.unit() - 2.0
        }
    };
    Dense::new(Array2::from_shape_fn((n, n), |(i, j)| entry(i, j))).unwrap()
}

fn branches(n: usize, draw: &mut Draw) -> ReleasedRows {
    let branches = (0..1 + draw.below(3)).map(|index| {
        let parent = (index > 0).then(|| draw.below(index) as u64);
        let from_row = if index == 0 { 0 } else { draw.below(n + 1) };
        let mut released = Vec::new();
        let mut at = from_row;
        while at < n && draw.below(3) > 0 {
            let start = at + draw.below(n - at);
            let end = start + 1 + draw.below(n - start);
            released.push((start as u64, end as u64));
            at = end + 1;
        }
        // Numbers may leave some out.
        ReleasedBranch { branch: index as u64, parent, from_row: from_row as u64, released }
    });
    ReleasedRows { branches: branches.collect() }
}

/// The branch whose z row `row` of `branch`'s lineage has.
fn owner(released: &ReleasedRows, branch: usize, row: usize) -> usize {
    let own = &released.branches[branch];
    match own.parent {
        Some(parent) if row < own.from_row as usize => owner(released, parent as usize, row),
        _ => branch,
    }
}

struct Stack {
    nodes: Vec<Node>,
    n: usize,
    released: ReleasedRows,
}

impl Stack {
    fn new(released: &ReleasedRows, n: usize) -> Self {
        let own = |(index, branch): (usize, &ReleasedBranch)| {
            (branch.from_row as usize..n).map(move |row| (index, row)).collect::<Vec<_>>()
        };
        let nodes = released.branches.iter().enumerate().flat_map(own).collect();
        Self { nodes, n, released: released.clone() }
    }

    fn at(&self, node: Node) -> usize {
        self.nodes.iter().position(|known| *known == node).unwrap()
    }

    fn lineage(&self, branch: usize, end: usize) -> Vec<usize> {
        (0..end).map(|row| self.at((owner(&self.released, branch, row), row))).collect()
    }

    /// Nodes whose row was released.
    fn out(&self) -> Vec<usize> {
        let rows = |(index, branch): (usize, &ReleasedBranch)| {
            let rows = branch.released.iter().flat_map(|rows| rows.0..rows.1);
            rows.map(|row| self.at((index, row as usize))).collect::<Vec<_>>()
        };
        self.released.branches.iter().enumerate().flat_map(rows).collect()
    }

    /// Row (B, t) of a lower triangular matrix, over all nodes.
    fn row(&self, matrix: &Array2<f64>, node: usize) -> Vec<f64> {
        let (branch, row) = self.nodes[node];
        let mut out = vec![0.0; self.nodes.len()];
        for (s, column) in self.lineage(branch, row + 1).into_iter().enumerate() {
            out[column] = matrix[[row, s]];
        }
        out
    }

    /// Every x of −1, 0 and 1 that obeys the rule along every lineage.
    fn contributions(&self, rule: Participation) -> Vec<Vec<f64>> {
        let lineages: Vec<_> =
            (0..self.released.branches.len()).map(|branch| self.lineage(branch, self.n)).collect();
        let obeys = |mask: u32| {
            lineages.iter().all(|lineage| {
                let rows: Vec<usize> = (0..self.n).filter(|row| mask >> lineage[*row] & 1 == 1).collect();
                rows.len() as u64 <= rule.max_participations
                    && rows.windows(2).all(|w| (w[1] - w[0]) as u64 >= rule.min_sep)
            })
        };
        let masks = (1_u32..1 << self.nodes.len()).filter(|mask| obeys(*mask));
        masks.flat_map(|mask| self.signed(mask)).collect()
    }

    fn signed(&self, mask: u32) -> Vec<Vec<f64>> {
        let taken: Vec<usize> = (0..self.nodes.len()).filter(|node| mask >> node & 1 == 1).collect();
        let with = |signs: u32| {
            let mut x = vec![0.0; self.nodes.len()];
            for (i, node) in taken.iter().enumerate() {
                x[*node] = if signs >> i & 1 == 1 { -1.0 } else { 1.0 };
            }
            x
        };
        (0..1_u32 << (taken.len() - 1)).map(with).collect()
    }
}

fn product(row: &[f64], x: &[f64]) -> f64 {
    row.iter().zip(x).map(|(a, b)| a * b).sum()
}

/// xᵀ(N Nᵀ)⁻¹x by Cholesky: how far released rows can be distance apart, in units of σζ.
fn distance_squared(noise: &[Vec<f64>], x: &[f64]) -> f64 {
    let size = noise.len();
    let mut lower = vec![vec![0.0; size]; size];
    let mut solved = vec![0.0; size];
    for i in 0..size {
        for j in 0..=i {
            let rest: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            let value = product(&noise[i], &noise[j]) - rest;
            lower[i][j] = if i == j { value.sqrt() } else { value / lower[j][j] };
        }
        solved[i] = (x[i] - product(&lower[i][..i], &solved[..i])) / lower[i][i];
    }
    product(&solved, &solved)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_contribution_exceeds_the_charge(n in 2..=4_usize, gap in 1..4_u64, k in 1..4_u64, seed in any::<u64>()) {
        let mut draw = Draw(seed);
        let dense = dense(n, &mut draw);
        let released = branches(n, &mut draw);
        let rule = Participation::new(gap, k).unwrap();
        let charge = charge(&Strategy::Dense(dense.clone()), n as u64, rule, &released).unwrap();
        let stack = Stack::new(&released, n);
        // What was released, and all that it stands on; the last branch to its end.
        let mut seen = stack.lineage(released.branches.len() - 1, n);
        for node in stack.out() {
            seen.extend(stack.lineage(stack.nodes[node].0, stack.nodes[node].1 + 1));
        }
        seen.sort_unstable();
        seen.dedup();
        let rows: Vec<_> = seen.iter().map(|node| stack.row(dense.matrix(), *node)).collect();
        let out = stack.out();
        let inverse = dense.inverse();
        let noise: Vec<_> = out.iter().map(|node| stack.row(&inverse, *node)).collect();
        for x in stack.contributions(rule) {
            let stacked: f64 = rows.iter().map(|row| product(row, &x).powi(2)).sum();
            prop_assert!(stacked.sqrt() <= charge.total().value * (1.0 + 1e-9), "{stacked} {charge:?} {released:?}");
            let moved: Vec<f64> = out.iter().map(|node| x[*node]).collect();
            let distance = distance_squared(&noise, &moved).sqrt();
            prop_assert!(distance <= charge.so_far().value * (1.0 + 1e-9), "{distance} {charge:?} {released:?}");
        }
    }
}

fn branch(branch: u64, parent: Option<u64>, from_row: u64, released: &[(u64, u64)]) -> ReleasedBranch {
    ReleasedBranch { branch, parent, from_row, released: released.to_vec() }
}

/// Row 1 is behind the released row of the branch that left after it, though the last branch released nothing there.
#[test]
fn a_skipped_row_behind_an_abandoned_branch_is_charged_for() {
    let rule = Participation::new(2, 2).unwrap();
    let branches =
        vec![branch(0, None, 0, &[(0, 1)]), branch(1, Some(0), 2, &[(2, 3)]), branch(2, Some(0), 4, &[])];
    let charge = charge(&Strategy::Identity, 4, rule, &ReleasedRows { branches }).unwrap();
    let rows: Vec<_> = charge.abandoned.iter().map(|rows| (rows.branch, rows.rows)).collect();
    assert_eq!((charge.reached, rows), (2, vec![(1, (2, 3))]));
}

#[test]
fn independent_noise_pays_for_every_lineage() {
    let rule = Participation::new(2, 2).unwrap();
    let branches = vec![
        branch(0, None, 0, &[(0, 10)]),
        branch(3, Some(0), 4, &[(4, 9)]),
        branch(4, Some(3), 7, &[(7, 8)]),
    ];
    let charge = charge(&Strategy::Identity, 20, rule, &ReleasedRows { branches }).unwrap();
    let rows: Vec<_> = charge.abandoned.iter().map(|rows| (rows.branch, rows.rows)).collect();
    assert_eq!(rows, [(0, (4, 10)), (3, (7, 9))]);
    assert_eq!(charge.reached, 8);
    // Twice a lineage: rows 4..10 see both, 7..9 one, the kept rows both.
    assert!((charge.total().value.powi(2) - 5.0).abs() < 1e-12, "{charge:?}");
    assert!(!charge.total().exact && charge.planned.exact);
}

#[test]
fn a_straight_job_costs_what_its_plan_does() {
    let blt = strategy::Blt::new(vec![0.9, 0.3], vec![0.2, 0.1]).unwrap();
    let rule = Participation::new(10, 4).unwrap();
    let strategy = Strategy::Blt(blt);
    let all = strategy.sensitivity(100, rule).unwrap();
    for rows in [0, 1, 37, 100] {
        let charge = charge(&strategy, 100, rule, &ReleasedRows::straight(rows)).unwrap();
        assert_eq!((charge.total(), charge.reached), (all, rows));
        assert!(charge.so_far().value <= all.value && (rows > 0 || charge.so_far().value == 0.0));
    }
}

/// Row 1 was skipped, and what row 2 says of row 0 goes through it: far more than rows 0 and 2 alone would cost.
#[test]
fn skipped_rows_are_charged_for() {
    let c = Array2::from_shape_vec((3, 3), vec![1.0, 0.0, 0.0, -10.0, 1.0, 0.0, 0.0, 1.0, 1.0]).unwrap();
    let dense = Dense::new(c).unwrap();
    let rule = Participation::new(1, 3).unwrap();
    let branches = vec![branch(0, None, 0, &[(0, 1), (2, 3)]), branch(1, Some(0), 0, &[])];
    let released = ReleasedRows { branches };
    let charge = charge(&Strategy::Dense(dense.clone()), 3, rule, &released).unwrap();
    assert_eq!(charge.abandoned[0].rows, (0, 3));
    let stack = Stack::new(&released, 3);
    let noise: Vec<_> = stack.out().iter().map(|node| stack.row(&dense.inverse(), *node)).collect();
    let distance = distance_squared(&noise, &[1.0, 1.0]).sqrt();
    let released_rows_alone = f64::from(2).sqrt();
    assert!(
        distance > 5.0 * released_rows_alone && distance <= charge.so_far().value,
        "{distance} {charge:?}"
    );
}

#[test]
fn what_no_job_can_have_released_is_named() {
    let rule = Participation::single();
    let fine = || branch(0, None, 0, &[(0, 5)]);
    for (branches, said) in [
        (vec![], "no branch"),
        (vec![branch(0, Some(1), 0, &[])], "branch 0: parent 1"),
        (vec![branch(0, None, 2, &[])], "branch 0: from_row 2"),
        (vec![fine(), branch(1, Some(7), 2, &[])], "branch 1: parent 7; allowed: a branch before it (0)"),
        (vec![fine(), branch(1, None, 2, &[])], "branch 1: parent none"),
        (vec![fine(), branch(0, Some(0), 2, &[])], "after branch 0"),
        (vec![fine(), branch(1, Some(0), 11, &[])], "from_row 11; allowed: at most 10"),
        (vec![fine(), branch(1, Some(0), 3, &[(2, 4)])], "2..4; allowed: within 3..10"),
        (vec![branch(0, None, 0, &[(0, 4), (3, 6)])], "3..6; allowed: within 4..10"),
        (vec![branch(0, None, 0, &[(4, 4)])], "4..4"),
        (vec![branch(0, None, 0, &[(4, 11)])], "4..11"),
    ] {
        let error =
            charge(&Strategy::Identity, 10, rule, &ReleasedRows { branches }).unwrap_err().to_string();
        assert!(error.contains(said), "{error} should say {said}");
    }
}

#[test]
fn the_coordinators_words_are_read() {
    let text = r#"{"branches": [
        {"branch": 0, "parent": null, "from_row": 0, "released": [[0, 7]], "rows_bound": 7},
        {"branch": 1, "parent": 0, "from_row": 5, "released": [[5, 6], [8, 9]]}]}"#;
    let released: ReleasedRows = serde_json::from_str(text).unwrap();
    assert_eq!(released.rows(), 9);
    assert_eq!(released.branches[1], branch(1, Some(0), 5, &[(5, 6), (8, 9)]));
}
