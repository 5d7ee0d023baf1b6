//! Theorem 1 in rationals: rows of w = Mx + ω are rows of ω, moved by x. Ties are forced, and x depends on what was released.
//!
//! 10⁶ rows. Half to even in the place of half up is seen to fail.

use dice::Dice;

/// Numbers are multiples of 2⁻⁴, so that one in sixteen lies in the middle between two whole ones.
const STEPS: i128 = 16;

/// ⌊a/b + ½⌋ of b > 0, and to even instead where that is wanted.
fn round(a: i128, b: i128, half_to_even: bool) -> i128 {
    let up = (2 * a + b).div_euclid(2 * b);
    let is_tie = (2 * a + b).rem_euclid(2 * b) == 0;
    if half_to_even && is_tie && up % 2 != 0 { up - 1 } else { up }
}

/// A lower triangular matrix of multiples of 2⁻⁴, with a positive diagonal.
struct Triangle(Vec<Vec<i128>>);

impl Triangle {
    fn new(dice: &mut Dice, rows: usize, bands: usize) -> Self {
        let row = |t: usize, dice: &mut Dice| {
            let entry = |j: usize, dice: &mut Dice| match t - j {
                0 => 16 + dice.below(25) as i128,
                back if back < bands => dice.below(33) as i128 - 16,
                _ => 0,
            };
            (0..=t).map(|j| entry(j, dice)).collect()
        };
        Self((0..rows).map(|t| row(t, dice)).collect())
    }

    fn times(&self, t: usize, x: &[i128]) -> i128 {
        self.0[t].iter().zip(x).map(|(c, x)| c * x).sum()
    }
}

/// What is released after a row of noise in a real mechanism, to choose the next x from.
fn adaptive(dice: &mut Dice, released: &[i128]) -> i128 {
    let seen = released.last().copied().unwrap_or(0);
    match dice.below(3) {
        0 => seen.rem_euclid(7) - 3,
        1 => -seen,
        _ => dice.below(2_001) as i128 - 1_000,
    }
}

/// ω, in steps of 2⁻⁴.
fn noise(dice: &mut Dice, rows: usize) -> Vec<i128> {
    (0..rows).map(|_| dice.below(100_000) as i128 - 50_000).collect()
}

/// C fed back: n_t = R((ω_t − Σ C_tj n_j)/C_tt), ω in steps.
fn fed_back(c: &Triangle, noise: &[i128], rows: &[i128], even: bool) -> i128 {
    let t = rows.len();
    round(noise[t] - c.times(t, rows), c.0[t][t], even)
}

/// Whether what is released is a function of w = Cx + ω alone.
fn is_function_of_w(dice: &mut Dice, half_to_even: bool) -> bool {
    let rows = 14;
    let bands = 1 + dice.below(14) as usize;
    let c = Triangle::new(dice, rows, bands);
    let noise = noise(dice, rows);
    let mut n = Vec::new();
    let mut x = Vec::new();
    let mut y = Vec::new();
    for _ in 0..rows {
        n.push(fed_back(&c, &noise, &n, half_to_even));
        x.push(adaptive(dice, &y));
        y.push(n[n.len() - 1] + x[x.len() - 1]);
    }
    let w: Vec<i128> = (0..rows).map(|t| noise[t] + c.times(t, &x)).collect();
    let mut of_w = Vec::new();
    for _ in 0..rows {
        of_w.push(fed_back(&c, &w, &of_w, half_to_even));
    }
    of_w == y
}

#[test]
fn rows_fed_back_are_a_function_of_the_ideal_outputs() {
    let mut dice = Dice::new(41);
    assert!((0..72_000).all(|_| is_function_of_w(&mut dice, false)));
    let wrong = (0..2_000).filter(|_| !is_function_of_w(&mut dice, true)).count();
    println!("half to even: {wrong} of 2000 runs differ");
    assert!(wrong > 20, "half to even differs in {wrong} of 2000 runs: ties are too few");
}

/// R(Bω) with a real B = C⁻¹: B(ω + Cx) = Bω + x. C has a unit diagonal in whole numbers, so that B is whole.
#[test]
fn rows_of_an_inverse_are_a_function_of_the_ideal_outputs() {
    let mut dice = Dice::new(42);
    for _ in 0..2_000 {
        let rows = 10;
        let c: Vec<Vec<i128>> = (0..rows)
            .map(|t| (0..=t).map(|j| if j == t { 1 } else { dice.below(5) as i128 - 2 }).collect())
            .collect();
        // B ω solves C v = ω.
        let solved = |w: &[i128]| {
            let mut v: Vec<i128> = Vec::new();
            for t in 0..rows {
                v.push(w[t] - v.iter().zip(&c[t]).map(|(v, c)| v * c).sum::<i128>());
            }
            v
        };
        let rounded = |w: &[i128]| solved(w).into_iter().map(|v| round(v, STEPS, false)).collect::<Vec<_>>();
        let noise = noise(&mut dice, rows);
        let n = rounded(&noise);
        let mut x = Vec::new();
        let mut y = Vec::new();
        for row in &n {
            x.push(adaptive(&mut dice, &y));
            y.push(row + x[x.len() - 1]);
        }
        let w: Vec<i128> = (0..rows)
            .map(|t| noise[t] + STEPS * c[t].iter().zip(&x).map(|(c, x)| c * x).sum::<i128>())
            .collect();
        assert_eq!(rounded(&w), y);
    }
}

/// A branch from row t₀ on has noise of its own and the rows before as its past; all branches' rows are one mechanism.
#[test]
fn rows_of_a_rewound_job_are_a_function_of_the_ideal_outputs() {
    let mut dice = Dice::new(43);
    for _ in 0..5_000 {
        let rows = 12;
        let c = Triangle::new(&mut dice, rows, 5);
        let from = dice.below(rows as u64) as usize;
        let noises = [noise(&mut dice, rows), noise(&mut dice, rows)];
        let mut n = Vec::new();
        let mut x = Vec::new();
        let mut y = Vec::new();
        let mut of_w: Vec<i128> = Vec::new();
        let mut released = Vec::new();
        for noise in &noises {
            // The second branch keeps what lies before row t₀.
            for rows in [&mut n, &mut x, &mut y, &mut of_w] {
                rows.truncate(from);
            }
            while n.len() < rows {
                n.push(fed_back(&c, noise, &n, false));
                x.push(adaptive(&mut dice, &released));
                y.push(n[n.len() - 1] + x[x.len() - 1]);
                released.push(y[y.len() - 1]);
                let mut w = noise.clone();
                w[n.len() - 1] += c.times(n.len() - 1, &x);
                of_w.push(fed_back(&c, &w, &of_w, false));
            }
            assert_eq!(of_w, y);
        }
    }
}

/// One tree of 2^levels leaves, some of them virtual: each row is the difference of estimates of prefixes.
fn tree_rows(nodes: &dyn Fn(usize, usize) -> i128, levels: usize, rows: usize) -> Vec<i128> {
    let mut kept = vec![0i128; levels + 1];
    let mut served = 0;
    let mut out = Vec::new();
    for leaf in 0..1usize << levels {
        let mut carry = nodes(0, leaf);
        let ones = (leaf.trailing_ones() as usize).min(levels);
        for level in 1..=ones {
            let lower = kept[level - 1] + carry;
            kept[level - 1] = 0;
            // Any whole function of the difference; this one is Honaker's weight, to nearest.
            let weight = (1i128 << level, (1i128 << (level + 1)) - 1);
            carry = lower + round(weight.0 * (nodes(level, leaf >> level) - lower), weight.1, true);
        }
        kept[ones] = carry;
        // The last row completes the tree: its leaves that have no rows are summed into it.
        if leaf + 1 < rows || leaf + 1 == 1 << levels {
            let prefix: i128 = kept.iter().sum();
            out.push(prefix - served);
            served = prefix;
        }
    }
    out
}

#[test]
fn rows_of_trees_that_are_completed_and_restarted_are_a_function_of_the_ideal_outputs() {
    let mut dice = Dice::new(44);
    for _ in 0..3_000 {
        // Trees one after the other; each restarts, and x continues.
        let mut y: Vec<i128> = Vec::new();
        for _ in 0..3 {
            let levels = dice.below(4) as usize;
            let rows = 1 + dice.below(1 << levels) as usize;
            let all: Vec<Vec<i128>> = (0..=levels).map(|l| noise(&mut dice, 1 << (levels - l))).collect();
            let n = tree_rows(&|l, i| round(all[l][i], STEPS, false), levels, rows);
            let mut x = Vec::new();
            let before = y.len();
            for row in &n {
                x.push(adaptive(&mut dice, &y));
                y.push(row + x[x.len() - 1]);
            }
            let sum = |l: usize, i: usize| -> i128 { x.iter().skip(i << l).take(1 << l).sum() };
            let of_w = tree_rows(&|l, i| round(all[l][i] + STEPS * sum(l, i), STEPS, false), levels, rows);
            assert_eq!(of_w, y[before..]);
        }
    }
}
