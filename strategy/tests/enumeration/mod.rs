//! Random strategies and the sets of rounds that schemas allow, for brute force.
#![allow(dead_code)]

use ndarray::Array2;
use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;
use strategy::{Banded, Blt, Dense, Schema, Strategy, Tree};

use crate::common::{Matrix, patterns};

/// A small generator of its own, so that statistics are the same in every run.
pub struct Lcg(pub u64);

impl Lcg {
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, most: u64) -> u64 {
        ((self.unit() * most as f64) as u64).min(most - 1)
    }

    pub fn signed(&mut self, size: f64) -> f64 {
        size * (2.0 * self.unit() - 1.0)
    }
}

/// Any mechanism with a matrix, good for `n` rounds, with signs or without.
pub fn any_strategy(n: usize) -> impl Generator<Value = Strategy> {
    (0_u64..9, any::<u64>()).prop_map(move |(kind, seed)| drawn(kind, n, &mut Lcg(seed)))
}

pub fn drawn(kind: u64, n: usize, draw: &mut Lcg) -> Strategy {
    let positive = draw.below(3) == 0;
    let p = 1 + draw.below(6) as usize;
    let entry = |draw: &mut Lcg| {
        let x = draw.signed(0.9);
        if positive { x.abs() } else { x }
    };
    let column = |draw: &mut Lcg, lead: f64| -> Vec<f64> {
        std::iter::once(lead).chain((1..p).map(|_| entry(draw))).collect()
    };
    match kind {
        0 => Strategy::Identity,
        1 => {
            let theta = (0..3).map(|_| 0.01 + 0.99 * draw.unit()).collect();
            let omega = (0..3).map(|_| 0.01 + 0.6 * draw.unit()).collect();
            Strategy::Blt(Blt::new(theta, omega).unwrap())
        }
        2 => Strategy::BandToeplitz { c: column(draw, 0.7), column_normalised: false },
        3 => Strategy::BandToeplitz { c: column(draw, 0.7), column_normalised: true },
        4 => {
            let raw: Vec<f64> = (0..n)
                .flat_map(|_| {
                    let lead = 0.2 + draw.unit();
                    column(draw, lead)
                })
                .collect();
            Strategy::BandMf(Banded::new(Array2::from_shape_vec((n, p.min(n)), raw).unwrap()).unwrap())
        }
        5 => Strategy::BandInverse { s: column(draw, 1.0).iter().map(|s| s * 0.9).collect() },
        6 => Strategy::BandInverseSqrt { bands: p },
        7 => Strategy::LambdaCgd { lambda: 0.99 * draw.unit() },
        _ => {
            let mut c = Array2::zeros((n, n));
            for i in 0..n {
                for j in 0..=i {
                    c[[i, j]] = if i == j { 0.2 + draw.unit() } else { entry(draw) };
                }
            }
            Strategy::Dense(Dense::new(c).unwrap())
        }
    }
}

/// The sets of rounds below `n` that `schema` allows; not all subsets of them, as they never are worse.
pub fn allowed_sets(n: usize, schema: &Schema) -> Vec<Vec<usize>> {
    match schema {
        Schema::Single => (0..n).map(|i| vec![i]).collect(),
        Schema::FixedEpoch { period, epochs } => (0..n.min(*period as usize))
            .map(|i| (i..n).step_by(*period as usize).take(*epochs as usize).collect())
            .collect(),
        Schema::MinSep(rule) => patterns(n, *rule),
        Schema::Sets(sets) => sets.iter().map(|s| s.iter().map(|r| *r as usize).collect()).collect(),
    }
}

fn gram(c: &Matrix, set: &[usize]) -> Matrix {
    let product = |i: &usize, j: &usize| c.iter().map(|row| row[*i] * row[*j]).sum::<f64>();
    set.iter().map(|i| set.iter().map(|j| product(i, j)).collect()).collect()
}

/// max ‖C u‖² over u in {−1, 0, 1} on the set: signs and leaving rounds out.
pub fn signed(c: &Matrix, set: &[usize]) -> f64 {
    let x = gram(c, set);
    let k = set.len();
    let mut best = 0.0_f64;
    for code in 0..3_usize.pow(k as u32) {
        let u: Vec<f64> = (0..k).map(|i| (code / 3_usize.pow(i as u32) % 3) as f64 - 1.0).collect();
        let value = (0..k).map(|i| u[i] * (0..k).map(|j| x[i][j] * u[j]).sum::<f64>()).sum();
        best = best.max(value);
    }
    best
}

/// A large Σ X_ij⟨u_i, u_j⟩ with unit vectors u_i in four dimensions, by turning one at a time.
pub fn climbed(c: &Matrix, set: &[usize]) -> f64 {
    let x = gram(c, set);
    let k = set.len();
    let mut draw = Lcg(k as u64);
    let mut u: Vec<[f64; 4]> = (0..k).map(|_| std::array::from_fn(|_| draw.signed(1.0))).collect();
    let pull = |u: &[[f64; 4]], i: usize| -> [f64; 4] {
        std::array::from_fn(|a| (0..k).filter(|j| *j != i).map(|j| x[i][j] * u[j][a]).sum())
    };
    for _ in 0..60 {
        for i in 0..k {
            let p = pull(&u, i);
            let length = p.iter().map(|p| p * p).sum::<f64>().sqrt();
            let norm = u[i].iter().map(|p| p * p).sum::<f64>().sqrt();
            u[i] = if length > 1e-12 { p.map(|p| p / length) } else { u[i].map(|v| v / norm) };
        }
    }
    (0..k).map(|i| x[i][i] + pull(&u, i).iter().zip(&u[i]).map(|(p, v)| p * v).sum::<f64>()).sum()
}

/// One row for each node of a tree's complete blocks, with a one for each real round below it.
pub fn node_matrix(tree: &Tree, n: usize) -> Matrix {
    let mut rows = Vec::new();
    let mut start = 0;
    for span in tree.spans(n as u64).unwrap() {
        let real = span.rounds as usize;
        let leaves = if span.completed { real.next_power_of_two() } else { real };
        let mut size = 1;
        while size <= leaves {
            for first in (0..=leaves - size).step_by(size) {
                let below = |t: usize| t >= first && t < first + size && t < real;
                rows.push((0..n).map(|t| f64::from(u8::from(t >= start && below(t - start)))).collect());
            }
            size *= 2;
        }
        start += real;
    }
    rows
}
