//! Blocks of balls-in-bins samples, each from a ChaCha stream of its own.
//!
//! Samples come in pairs around one mean, with noise L·w and −L·w. A pair costs one draw and one product, and where
//! one of its losses is small the other is large. Only pairs are independent: their means lie in [0, B] as terms do, so
//! standard errors and bounds are those of pairs.

use ndarray::{Array2, Axis};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::add::Shift;
use super::centre::Centre;
use super::lanes::{LANES, Lanes, Scratch, count};
use super::remove::Mixture;
use super::scaled::Scaled;
use super::stream::{Draw, PAIRS, SAMPLES, below, uniform};
use crate::neighbouring::Direction;

/// Stands for −∞ in the padding, where 0·∞ would be NaN.
const PADDING: f64 = -1e290;
/// Number of stretches of blocks whose sums are kept: fixed, so that no sum depends on threads.
const STRETCHES: u64 = 32;

/// The distribution that samples of one direction are drawn from for one ε.
#[derive(Debug)]
pub(super) enum Proposal<'a> {
    Remove(Box<Mixture<'a>>),
    Add(Shift<'a>),
}

/// The losses and weights of a block, with the samples.
#[derive(Debug)]
pub(super) struct Block {
    pub losses: [f64; SAMPLES],
    pub weights: [f64; SAMPLES],
    /// v of each sample in turn, [`PADDING`] after the b numbers up to a whole lane.
    v: Vec<Lanes>,
    /// L·w/σ, pairs × batches.
    noise: Array2<f64>,
    w: Array2<f64>,
    scratch: Scratch,
}

impl Block {
    fn new(batches: usize) -> Self {
        let zeros = || Array2::zeros((PAIRS, batches));
        let v = vec![[PADDING; LANES]; SAMPLES * count(batches)];
        let scratch = Scratch::new(batches);
        Self { losses: [0.0; SAMPLES], weights: [0.0; SAMPLES], v, noise: zeros(), w: zeros(), scratch }
    }

    fn draw(&mut self, scaled: &Scaled, random: &mut ChaCha8Rng) {
        for w in self.w.as_slice_mut().unwrap_or_default() {
            *w = StandardNormal.sample(random);
        }
        scaled.correlate(self.w.view(), self.noise.view_mut());
    }

    /// Returns v of one sample.
    pub fn v(&self, sample: usize) -> &[Lanes] {
        let lanes = self.v.len() / SAMPLES;
        &self.v[sample * lanes..][..lanes]
    }
}

impl<'a> Proposal<'a> {
    pub fn new(scaled: &'a Scaled, direction: Direction, epsilon: f64) -> Self {
        match direction {
            Direction::Remove => Self::Remove(Box::new(Mixture::new(scaled, epsilon))),
            Direction::Add => Self::Add(Shift::new(scaled, epsilon)),
        }
    }

    /// Returns B, which (1 − e^{ε−loss})₊ times the weight can't exceed at the ε that the proposal was made for.
    pub fn most(&self, epsilon: f64) -> f64 {
        match self {
            Self::Remove(mixture) => mixture.most(epsilon),
            Self::Add(shift) => shift.most(),
        }
    }

    fn centre(&self, batches: usize, random: &mut ChaCha8Rng) -> Centre {
        match self {
            Self::Remove(mixture) => {
                let (s, lambda) = mixture.pick(uniform(random.next_u64()));
                Centre { batch: below(random.next_u64(), batches), s, lambda }
            }
            Self::Add(shift) => Centre { batch: 0, s: 0.0, lambda: -shift.lambda },
        }
    }

    /// Returns the loss and weight of one sample.
    fn weigh(&self, v: &[Lanes], mean: f64, scratch: &mut Scratch) -> (f64, f64) {
        match self {
            Self::Remove(mixture) => mixture.weigh(v, mean, scratch),
            Self::Add(shift) => shift.weigh(v, mean, scratch),
        }
    }

    /// Puts both samples of every pair around a centre drawn from this proposal.
    fn fill(&self, scaled: &Scaled, random: &mut ChaCha8Rng, block: &mut Block) {
        let b = scaled.batches();
        let lanes = count(b);
        let rows = block.noise.axis_iter(Axis(0)).zip(block.v.chunks_exact_mut(2 * lanes));
        for (pair, (noise, v)) in rows.enumerate() {
            let noise = noise.to_slice().unwrap_or_default();
            let centre = self.centre(b, random);
            let (plus, minus) = v.split_at_mut(lanes);
            scaled.around(centre, noise, plus.as_flattened_mut(), minus.as_flattened_mut());
            let mean = scaled.mean_at(centre);
            let stray = noise.iter().sum::<f64>() / b as f64;
            for (sample, (v, mean)) in
                [(&*plus, mean + stray), (&*minus, mean - stray)].into_iter().enumerate()
            {
                let at = 2 * pair + sample;
                (block.losses[at], block.weights[at]) = self.weigh(v, mean, &mut block.scratch);
            }
        }
    }
}

/// Applies `reduce` to every block and its number of samples, for each proposal; returns the results in order. Proposals
/// share the noise: the products L·w are much of the cost, and no figure compares one proposal with another.
pub(super) fn blocks<T: Send, const K: usize>(
    scaled: &Scaled,
    proposals: [&Proposal<'_>; K],
    draw: Draw,
    reduce: impl Fn(&Block, usize) -> T + Sync,
) -> Vec<[T; K]> {
    let one = |block: &mut Block, index: u64| {
        let (mut random, samples) = draw.begin(index);
        block.draw(scaled, &mut random);
        proposals.map(|proposal| {
            proposal.fill(scaled, &mut random, block);
            reduce(block, samples)
        })
    };
    (0..draw.blocks()).into_par_iter().map_init(|| Block::new(scaled.batches()), one).collect()
}

/// Sums over stretches of blocks, in order, for sums that are too large to be kept for each block. Stretches depend on the
/// number of samples alone.
pub(super) fn stretches<T: Send>(
    scaled: &Scaled,
    proposal: &Proposal<'_>,
    draw: Draw,
    zero: impl Fn() -> T + Sync,
    add: impl Fn(&mut T, &Block, usize) + Sync,
) -> Vec<T> {
    let count = draw.blocks();
    let length = count.div_ceil(STRETCHES);
    let one = |block: &mut Block, stretch: u64| {
        let mut sum = zero();
        for index in stretch * length..count.min((stretch + 1) * length) {
            let (mut random, samples) = draw.begin(index);
            block.draw(scaled, &mut random);
            proposal.fill(scaled, &mut random, block);
            add(&mut sum, block, samples);
        }
        sum
    };
    (0..STRETCHES).into_par_iter().map_init(|| Block::new(scaled.batches()), one).collect()
}
