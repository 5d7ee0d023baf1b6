//! Blocks of samples: each has a ChaCha stream of its own, so no number depends on threads.

use ndarray::Array2;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::add::Shift;
use super::remove::Mixture;
use super::scaled::Scaled;
use crate::neighbouring::Direction;

/// Samples of a block: L·w is one small matrix product.
pub(super) const SAMPLES: usize = 128;
/// Samples weighed side by side, in registers.
pub(super) const LANES: usize = 8;
pub(super) type Lanes = [f64; LANES];

/// Which numbers are drawn: what is searched with must not be what is then verified with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Search,
    Verify,
}

/// Where samples of one direction are drawn for one ε.
#[derive(Debug)]
pub(super) enum Proposal<'a> {
    Remove(Box<Mixture<'a>>),
    Add(Shift<'a>),
}

/// Losses and weights of a block, and what they are of: one sample a column, batches × [`SAMPLES`].
#[derive(Debug)]
pub(super) struct Block {
    pub losses: [f64; SAMPLES],
    pub weights: [f64; SAMPLES],
    /// v.
    pub v: Array2<f64>,
    /// L·w/σ.
    noise: Array2<f64>,
    w: Array2<f64>,
}

impl Block {
    fn new(batches: usize) -> Self {
        let zeros = || Array2::zeros((batches, SAMPLES));
        Self { losses: [0.0; SAMPLES], weights: [0.0; SAMPLES], v: zeros(), noise: zeros(), w: zeros() }
    }

    fn draw(&mut self, scaled: &Scaled, random: &mut ChaCha8Rng) {
        for w in self.w.as_slice_mut().unwrap_or_default() {
            *w = StandardNormal.sample(random);
        }
        scaled.correlate(self.w.view(), self.noise.view_mut());
    }

    /// v = noise + mean(j, sample).
    fn move_by(&mut self, mean: impl Fn(usize, usize) -> f64) {
        let rows = self.v.rows_mut().into_iter().zip(self.noise.rows());
        for (j, (mut row, noise)) in rows.enumerate() {
            let pairs = row.iter_mut().zip(noise);
            pairs.enumerate().for_each(|(sample, (v, noise))| *v = noise + mean(j, sample));
        }
    }
}

/// How many samples, from which random numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub samples: u64,
    pub seed: u64,
    pub purpose: Purpose,
}

impl<'a> Proposal<'a> {
    pub fn new(scaled: &'a Scaled, direction: Direction, epsilon: f64) -> Self {
        match direction {
            Direction::Remove => Self::Remove(Box::new(Mixture::new(scaled, epsilon))),
            Direction::Add => Self::Add(Shift::new(scaled, epsilon)),
        }
    }

    /// B: what (1 − e^{ε−loss})₊ times the weight can't exceed, ε being the one that the proposal was made for.
    pub fn most(&self, epsilon: f64) -> f64 {
        match self {
            Self::Remove(mixture) => mixture.most(epsilon),
            Self::Add(shift) => shift.most(),
        }
    }

    /// Adds the means that this proposal draws around to the block's noise, and weighs the sums.
    fn weigh(&self, scaled: &Scaled, random: &mut ChaCha8Rng, block: &mut Block) {
        match self {
            Self::Remove(mixture) => {
                let mut means = [(0, 0.0, 0.0); SAMPLES];
                for mean in &mut means {
                    let (s, lambda) = mixture.pick(uniform(random.next_u64()));
                    *mean = (below(random.next_u64(), scaled.batches()), s, lambda);
                }
                block.move_by(|j, sample| {
                    let (i, s, lambda) = means[sample];
                    s * scaled.gram[[j, i]] + lambda * scaled.mean_row[j]
                });
            }
            Self::Add(shift) => block.move_by(|j, _| -shift.lambda * scaled.mean_row[j]),
        }
        for first in (0..SAMPLES).step_by(LANES) {
            let (losses, weights) = match self {
                Self::Remove(mixture) => mixture.weigh_lanes(block.v.view(), first),
                Self::Add(shift) => shift.weigh_lanes(block.v.view(), first),
            };
            block.losses[first..first + LANES].copy_from_slice(&losses);
            block.weights[first..first + LANES].copy_from_slice(&weights);
        }
    }
}

/// What `reduce` makes of every block and its number of samples, for each proposal, in order. Proposals share the
/// noise: the products L·w are most of the cost, and no figure compares one proposal with another.
pub(super) fn blocks<T: Send, const K: usize>(
    scaled: &Scaled,
    proposals: [&Proposal<'_>; K],
    draw: Draw,
    reduce: impl Fn(&Block, usize) -> T + Sync,
) -> Vec<[T; K]> {
    let count = draw.samples.div_ceil(SAMPLES as u64);
    let one = |block: &mut Block, index: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(draw.seed);
        random.set_stream(u64::from(draw.purpose == Purpose::Verify) << 63 | index);
        block.draw(scaled, &mut random);
        let left = (draw.samples - index * SAMPLES as u64).min(SAMPLES as u64);
        proposals.map(|proposal| {
            proposal.weigh(scaled, &mut random, block);
            reduce(block, left as usize)
        })
    };
    (0..count).into_par_iter().map_init(|| Block::new(scaled.batches()), one).collect()
}

/// In [0, 1), 53 bits.
fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 * (-53.0_f64).exp2()
}

/// In 0…count−1.
fn below(bits: u64, count: usize) -> usize {
    ((u128::from(bits) * count as u128) >> 64) as usize
}
