//! Draws losses and weights, in antithetic pairs around one mean; each block of them has a ChaCha stream of its own.
//!
//! ```text
//! pair, record against none (weights P/R):
//!   pick a component (q', s) of the proposal R
//!   draw a set S: t = 0 (warm start: a random first free round);
//!     repeat t += Geometric(q'), take t, t += min_sep, until t ≥ n
//!   draw noise z; for x = s·m_S ± z:
//!     d_t = c_t·x/σ² for all t
//!     loss = ln r_0(d), weight = 1/Σ share·exp(ln ratio of the component − loss)
//! pair, none against record (weights Q/R):
//!   pick a shift λ; for x = −λ·m̄ ± z: loss = −ln r_0(d), weight = 1/Σ share·exp(−λ·m̄·x − λ²|m̄|²/2)
//! ```
//!
//! The products with the columns are linear, so those of the mean and of the noise are computed once for both samples.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::columns::Columns;
use super::join_rule::JoinRule;
use super::proposal::{Component, Pilot, Proposal, Shift};
use super::recursion::{Buffers, Tilt, longest, marginals};
use super::workspace::Workspace;
use crate::monte_carlo::Estimate;
use crate::monte_carlo::estimate::Moments;
use crate::monte_carlo::stream::{Draw, SAMPLES, uniform};
use crate::neighbouring::Direction;

/// Pairs of noise by which proposals find out where losses lie; the mean over them need only be right to a percent.
const PILOT_PAIRS: usize = 8;
/// The stream of the pilot noise: no block has an index as large.
const PILOT_STREAM: u64 = 1 << 62;

/// One problem at one σ, in units in which the noise has variance 1.
#[derive(Debug)]
pub struct Sampler<'a> {
    columns: &'a Columns,
    rule: JoinRule,
    sigma: f64,
    /// |c_t|²/σ².
    norms: Vec<f64>,
    own: Tilt,
    mean: Mean,
}

/// m̄, the mean of the m_S.
#[derive(Debug)]
struct Mean {
    /// m̄/σ.
    m: Vec<f64>,
    /// c_t·m̄/σ² of each round.
    products: Vec<f64>,
    /// |m̄|²/σ².
    norm: f64,
    /// Half the mean of |m_S|²/σ².
    half: f64,
}

/// Losses and weights of a block.
struct Block {
    losses: [f64; SAMPLES],
    weights: [f64; SAMPLES],
}

impl<'a> Sampler<'a> {
    pub fn new(columns: &'a Columns, rule: JoinRule, sigma: f64) -> Self {
        let n = columns.rounds();
        let norms: Vec<f64> = columns.norms().iter().map(|norm| norm / (sigma * sigma)).collect();
        let taken = marginals(rule, n);
        let mut m = vec![0.0; n];
        let mut products = vec![0.0; n];
        columns.sum(taken.iter().map(|p| p / sigma).enumerate(), &mut m);
        columns.products(&m, &mut products);
        products.iter_mut().for_each(|product| *product /= sigma);
        let norm = m.iter().map(|m| m * m).sum();
        let half = 0.5 * taken.iter().zip(&norms).map(|(p, norm)| p * norm).sum::<f64>();
        let own = Tilt::new(rule, 1.0, &norms);
        Self { columns, rule, sigma, norms, own, mean: Mean { m, products, norm, half } }
    }

    pub fn proposal(&self, order: Direction, epsilon: f64, draw: Draw) -> Proposal {
        let pilots = PilotNoise::new(self, draw);
        match order {
            Direction::Remove => {
                let longest = longest(&self.norms, self.rule.min_sep);
                Proposal::remove(self.rule, &self.norms, longest, epsilon, &pilots)
            }
            Direction::Add => Proposal::add(self.mean.norm, self.mean.half, epsilon, &pilots),
        }
    }

    /// Estimates δ(ε) from a proposal made for this ε.
    pub fn delta(&self, proposal: &Proposal, epsilon: f64, draw: Draw) -> Estimate {
        let moments = self.blocks(proposal, draw, |block, count| {
            Moments::of_pairs(&block.losses[..count], &block.weights[..count], epsilon)
        });
        moments.into_iter().fold(Moments::default(), Moments::join).estimate(proposal.most(), draw)
    }

    /// Returns losses above zero with their weights.
    pub fn losses(&self, proposal: &Proposal, draw: Draw) -> Vec<(f64, f64)> {
        let kept = self.blocks(proposal, draw, |block, count| {
            let pairs = block.losses.iter().zip(&block.weights).take(count);
            pairs.filter(|(loss, _)| **loss > 0.0).map(|(l, w)| (*l, *w)).collect::<Vec<_>>()
        });
        kept.concat()
    }

    fn blocks<T: Send>(
        &self,
        proposal: &Proposal,
        draw: Draw,
        reduce: impl Fn(&Block, usize) -> T + Sync,
    ) -> Vec<T> {
        let one = |workspace: &mut Workspace, index: u64| {
            let (mut random, samples) = draw.begin(index);
            let mut block = Block { losses: [0.0; SAMPLES], weights: [0.0; SAMPLES] };
            for first in (0..samples).step_by(2) {
                self.draw_noise(&mut random, workspace);
                let pair = self.pair(proposal, &mut random, workspace);
                for (at, (loss, weight)) in pair.into_iter().enumerate() {
                    (block.losses[first + at], block.weights[first + at]) = (loss, weight);
                }
            }
            reduce(&block, samples)
        };
        (0..draw.blocks()).into_par_iter().map_init(|| Workspace::new(self.norms.len()), one).collect()
    }

    /// Draws noise and its products with the columns.
    fn draw_noise(&self, random: &mut ChaCha8Rng, workspace: &mut Workspace) {
        for y in &mut workspace.y {
            *y = StandardNormal.sample(random);
        }
        self.columns.products(&workspace.y, &mut workspace.noise);
        workspace.noise.iter_mut().for_each(|noise| *noise /= self.sigma);
    }

    /// Draws a set of rounds by a rule, and computes the products of its mean with the columns.
    fn draw_centre(&self, rule: JoinRule, random: &mut ChaCha8Rng, workspace: &mut Workspace) {
        rule.draw_set(self.norms.len(), random, &mut workspace.set);
        self.columns.sum(workspace.set.iter().map(|t| (*t, 1.0 / self.sigma)), &mut workspace.y);
        self.columns.products(&workspace.y, &mut workspace.centre);
        workspace.centre.iter_mut().for_each(|centre| *centre /= self.sigma);
    }

    /// Draws one pair; returns the loss and weight of both samples.
    fn pair(
        &self,
        proposal: &Proposal,
        random: &mut ChaCha8Rng,
        workspace: &mut Workspace,
    ) -> [(f64, f64); 2] {
        let chosen = proposal.pick(uniform(random.next_u64()));
        match proposal {
            Proposal::Remove { components, .. } => {
                let Component { tilt, .. } = &components[chosen];
                self.draw_centre(tilt.rule, random, workspace);
                [1.0, -1.0].map(|sign| {
                    let mean = workspace.centre.iter().map(|centre| tilt.s * centre);
                    let noise = workspace.noise.iter().map(|noise| sign * noise);
                    workspace
                        .d
                        .iter_mut()
                        .zip(mean.zip(noise))
                        .for_each(|(d, (mean, noise))| *d = mean + noise);
                    self.remove(components, &workspace.d, &mut workspace.buffers)
                })
            }
            Proposal::Add { shifts, .. } => {
                let lambda = shifts[chosen].lambda;
                let stray: f64 = self.mean.m.iter().zip(&workspace.y).map(|(m, y)| m * y).sum();
                [1.0, -1.0].map(|sign| {
                    let along = sign * stray - lambda * self.mean.norm;
                    let weight = self.shifted(shifts, along);
                    (
                        self.loss_of_shift(
                            lambda,
                            sign,
                            &workspace.noise,
                            &mut workspace.d,
                            &mut workspace.buffers,
                        ),
                        weight,
                    )
                })
            }
        }
    }

    /// Returns the loss ln P/Q and the weight P/proposal.
    fn remove(&self, components: &[Component], d: &[f64], buffers: &mut Buffers) -> (f64, f64) {
        let loss = self.own.ln_ratio(d, buffers);
        let is_own = |tilt: &Tilt| tilt.s == 1.0 && tilt.rule.q == self.rule.q;
        let mut sum = 0.0;
        for Component { tilt, share } in components {
            let ratio = if is_own(tilt) { loss } else { tilt.ln_ratio(d, buffers) };
            sum += share * (ratio - loss).exp();
        }
        (loss, 1.0 / sum)
    }

    /// Returns the loss ln Q/P at x = −λ·m̄ ± noise.
    fn loss_of_shift(
        &self,
        lambda: f64,
        sign: f64,
        noise: &[f64],
        d: &mut [f64],
        buffers: &mut Buffers,
    ) -> f64 {
        let products = self.mean.products.iter().zip(noise);
        d.iter_mut().zip(products).for_each(|(d, (mean, noise))| *d = sign * noise - lambda * mean);
        -self.own.ln_ratio(d, buffers)
    }

    /// Returns the weight Q/proposal where m̄·x/σ² is `along`.
    fn shifted(&self, shifts: &[Shift; 2], along: f64) -> f64 {
        let density = |shift: &Shift| {
            shift.share * (-shift.lambda * along - 0.5 * shift.lambda * shift.lambda * self.mean.norm).exp()
        };
        1.0 / shifts.iter().map(density).sum::<f64>()
    }
}

/// The pilot run: the same few pairs of noise for every parameter that a proposal tries.
struct PilotNoise<'a> {
    sampler: &'a Sampler<'a>,
    seed: u64,
    noise: Vec<Vec<f64>>,
}

impl<'a> PilotNoise<'a> {
    fn new(sampler: &'a Sampler<'a>, draw: Draw) -> Self {
        let mut pilots = Self { sampler, seed: draw.seed, noise: Vec::new() };
        let mut random = pilots.random();
        let mut workspace = Workspace::new(sampler.norms.len());
        for _ in 0..PILOT_PAIRS {
            sampler.draw_noise(&mut random, &mut workspace);
            pilots.noise.push(workspace.noise.clone());
        }
        pilots
    }

    fn random(&self) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(PILOT_STREAM);
        random
    }

    fn mean_of(&self, mut pair: impl FnMut(&[f64], f64) -> f64) -> f64 {
        let losses = self.noise.iter().map(|noise| pair(noise, 1.0) + pair(noise, -1.0));
        losses.sum::<f64>() / (2 * PILOT_PAIRS) as f64
    }
}

impl Pilot for PilotNoise<'_> {
    fn of_tilt(&self, q: f64, s: f64) -> f64 {
        let sampler = self.sampler;
        let mut random = self.random();
        let mut workspace = Workspace::new(sampler.norms.len());
        let rule = JoinRule { q, ..sampler.rule };
        self.mean_of(|noise, sign| {
            if sign > 0.0 {
                sampler.draw_centre(rule, &mut random, &mut workspace);
            }
            let samples = workspace.centre.iter().zip(noise);
            workspace
                .d
                .iter_mut()
                .zip(samples)
                .for_each(|(d, (centre, noise))| *d = s * centre + sign * noise);
            sampler.own.ln_ratio(&workspace.d, &mut workspace.buffers)
        })
    }

    fn of_shift(&self, lambda: f64) -> f64 {
        let mut workspace = Workspace::new(self.sampler.norms.len());
        self.mean_of(|noise, sign| {
            self.sampler.loss_of_shift(lambda, sign, noise, &mut workspace.d, &mut workspace.buffers)
        })
    }
}
