//! Batches drawn at random under correlated noise, accounted for without samples: balls-in-bins and random allocation, any C ≥ 0.
//!
//! Records draw their batches on their own, so one pair stands for one record (Choquette-Choo et al. 2024, arXiv:2410.06266,
//! Lemma 3.2): P is the mean of N(m_S, σ²I) over the sets S of rounds that it may join, m_S = Σ_{t∈S} C[:, t], and Q = N(0, σ²I).
//! With X_S = x·m_S/σ², which under Q are Gaussian with the covariance K(S, S') = m_S·m_S'/σ²,
//!
//! ```text
//! W = P/Q = mean_S e^{X_S − K(S,S)/2},   δ_remove(ε) = E[(W − e^ε)₊],   δ_add(ε) = E[(1 − e^ε·W)₊]
//! ```
//!
//! # Larger products cost more
//!
//! Both integrands are convex in W, and the expectation of a convex function of W never falls when entries of K grow (Kahane's
//! convexity inequality: Kahane 1985, "Sur le chaos multiplicatif"). So any K̂ ≥ K, entry by entry, gives losses that dominate, in
//! both orders of the neighbours and in every composition. Where K̂ is κ off the diagonal and κ + d on it, over t sets,
//! X is a common N(0, κ) beside t independent N(0, d), and W is a product: **one Gaussian mechanism of μ² = κ composed with
//! one epoch of random allocation to t batches of independent noise of μ² = d** ([`allocation`](crate::allocation)).
//!
//! # Conditioning
//!
//! Neighbouring batches have large products, and κ has to be as large as any. Publishing something that is drawn independently of the
//! data can only cost more, as δ(mean_c P_c ‖ Q) ≤ mean_c δ(P_c ‖ Q). Draw a rotation c of the circle of b batches uniformly, and k
//! uniformly of t: then c + ⌊k·b/t⌋ mod b is a uniform batch, so the account may reveal c. What is left are t equally likely batches, no
//! two of which are nearer than ⌊b/t⌋ on the circle. Every t is a bound; the least of those that are tried is taken. t = 1 reveals the
//! batch.
//!
//! # Random allocation
//!
//! Batches drawn anew in each of E epochs: K(S, S') is the sum over pairs of epochs of column products. In one epoch the rest is as
//! above, on a line. Between epochs the last batches of one may be next to the first of another, so the account also reveals, for each
//! epoch, whether the batch is one of the last g − 1 (probability (g−1)/b). If it is, the epoch counts as a Gaussian mechanism of
//! μ² = D + 2R(1); if not, all products with later epochs are of columns at least g apart. With D the largest squared
//! norm of a column, R(g) the largest product of two columns at least g apart, and all in units of σ²,
//!
//! ```text
//! Gaussian of μ² = E·R(g) + 2(E−1)·R(g) + 2·Σ_{k≥2} (E−k)·R((k−1)b + 1)
//!   composed with E rounds, each   1 of ⌊(b−g+1)/g⌋ batches, μ² = D − R(g)    with probability 1 − (g−1)/b
//!                                  Gaussian of μ² = D + 2R(1)                 with probability (g−1)/b
//! ```
//!
//! # Rényi divergences
//!
//! At an integer order α, E\[W^α\] is the mean over α sets of e^{Σ_{j<k} K(S_j, S_k)}: [`RandomBatches::renyi`] sums it by a dynamic
//! programme (the idea of Schuchardt and Kalinin 2026, arXiv:2601.21636), over blocks of neighbouring batches and how many of the α
//! are in each. Products within a block, with the next block and with all others are rounded up to the largest of their kind, which
//! bounds the sum term by term. The reverse order has no such sum; its account is the one above. No figure is above that of the
//! Gaussian mechanism of a record whose rounds are known and have the largest products.

mod circle;
mod covers;
#[cfg(test)]
mod enumerated;
mod line;
mod orders;
mod reach;
mod sums;

use ndarray::Array2;
use strategy::Strategy;

use self::covers::Cover;
use self::reach::Reach;
use crate::error::{AccountingError, Result, not_negative, positive, probability};
use crate::gaussian;
use crate::monte_carlo::gram;
use crate::pld::{ACCURACY, Composition};

/// The question to an account.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Question {
    /// ε at a δ.
    AtDelta(f64),
    /// δ at an ε.
    AtEpsilon(f64),
}

/// An upper bound of ε or δ, and what it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// ε or δ, whichever the question is for.
    pub value: f64,
    /// The Rényi order, where the bound is that of one.
    pub order: Option<u32>,
    /// The batches among which the account leaves a record hidden, where the bound is that of losses.
    pub hidden_among: Option<u64>,
}

/// A strategy C ≥ 0 whose batches are drawn at random.
#[derive(Debug, Clone)]
pub struct RandomBatches {
    scheme: Scheme,
    batches: u64,
    epochs: u64,
    /// Largest products by distance: of all rounds of a record on the circle of batches, or of columns.
    reach: Reach,
}

#[derive(Debug, Clone)]
enum Scheme {
    /// One batch in all epochs, with the products of the moves of each.
    BallsInBins(Array2<f64>),
    /// One batch of each epoch, drawn anew.
    RandomAllocation,
}

impl RandomBatches {
    /// Builds the account of `n` rounds in which each record is in one of `batches` batches, the same in every epoch.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless the batches, 1 to 4,096, divide `n` and C ≥ 0.
    pub fn balls_in_bins(strategy: &Strategy, n: u64, batches: u64) -> Result<Self> {
        let products = gram::gram(strategy, n, batches)?;
        let reach = Reach::on_circle(&products);
        Ok(Self { scheme: Scheme::BallsInBins(products), batches, epochs: n / batches, reach })
    }

    /// Builds the account of `n` rounds in which each record joins one of `batches` batches of each epoch, drawn anew in each.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless the batches divide `n`, C ≥ 0, and `n` is at most 131,072 for a Toeplitz C and 4,096 for
    /// another.
    pub fn random_allocation(strategy: &Strategy, n: u64, batches: u64) -> Result<Self> {
        if batches == 0 || n == 0 || !n.is_multiple_of(batches) {
            let allowed = "whole epochs: a multiple of the batches per epoch, above zero";
            return Err(AccountingError::Invalid { what: "iterations", value: n as f64, allowed });
        }
        let reach = Reach::of_columns(strategy, n)?;
        Ok(Self { scheme: Scheme::RandomAllocation, batches, epochs: n / batches, reach })
    }

    /// Bounds ε or δ by losses that dominate, given what the account reveals.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless σ > 0 and the question's number is in its range.
    pub fn conditional(&self, noise_multiplier: f64, question: Question) -> Result<Bound> {
        self.least(noise_multiplier, question, Side::Both)
    }

    /// Bounds ε or δ by Rényi divergences of integer orders with the record against without it, and by losses in the reverse order.
    ///
    /// # Errors
    /// Those of [`Self::conditional`], and [`AccountingError::OutOfReach`] where even order 2 is more than f64 holds.
    pub fn renyi(&self, noise_multiplier: f64, question: Question) -> Result<Bound> {
        let sigma = checked(noise_multiplier, question)?;
        let remove = orders::least(&self.ln_moments(sigma), question)?;
        let add = self.least(sigma, question, Side::Add)?;
        let worse = if add.value > remove.value { add } else { remove };
        let known = self.known(sigma, question)?;
        if known < worse.value {
            return Ok(Bound { value: known, order: None, hidden_among: Some(1) });
        }
        Ok(worse)
    }

    /// Bounds ε or δ by the Gaussian mechanism of a record whose rounds are known and have the largest products.
    fn known(&self, sigma: f64, question: Question) -> Result<f64> {
        let norm_squared = match self.scheme {
            Scheme::BallsInBins(_) => self.reach.at(0),
            Scheme::RandomAllocation => {
                let apart = |k: u64| (self.epochs - k) as f64 * self.reach.at((k - 1) * self.batches + 1);
                self.epochs as f64 * self.reach.at(0) + 2.0 * (1..self.epochs).map(apart).sum::<f64>()
            }
        };
        let mu = norm_squared.sqrt() / sigma;
        match question {
            Question::AtDelta(delta) => gaussian::epsilon(delta, mu),
            Question::AtEpsilon(epsilon) => gaussian::delta(epsilon, mu),
        }
    }

    /// Returns bounds of ln E\[W^α\], one list for each size of block, at α = 0, 1, 2, ….
    fn ln_moments(&self, sigma: f64) -> Vec<Vec<f64>> {
        match &self.scheme {
            Scheme::BallsInBins(products) => circle::on_circle(&products.mapv(|p| p / (sigma * sigma))),
            Scheme::RandomAllocation => {
                line::on_line(&self.reach, sigma * sigma, self.batches as usize, self.epochs as usize)
            }
        }
    }

    /// Returns the least bound of some covers.
    fn least(&self, noise_multiplier: f64, question: Question, side: Side) -> Result<Bound> {
        let sigma = checked(noise_multiplier, question)?;
        let cover = |gap: u64| match self.scheme {
            Scheme::BallsInBins(_) => Cover::of_circle(&self.reach, sigma, self.batches, gap),
            Scheme::RandomAllocation => Cover::of_line(&self.reach, sigma, (self.batches, self.epochs), gap),
        };
        let floor = |cover: &Cover| match question {
            _ if cover.common == 0.0 => Ok(0.0),
            Question::AtDelta(delta) => gaussian::epsilon(delta, cover.common.sqrt()),
            Question::AtEpsilon(epsilon) => gaussian::delta(epsilon, cover.common.sqrt()),
        };
        let figure = |cover: &Cover| {
            let profile = cover.profile()?;
            match (side, question) {
                (Side::Both, Question::AtDelta(delta)) => profile.epsilon(delta),
                (Side::Both, Question::AtEpsilon(epsilon)) => profile.delta(epsilon),
                (Side::Add, question) => of_composition(&profile.add, question),
            }
        };
        let (value, cover) = covers::search(self.batches, cover, floor, figure)?;
        Ok(Bound { value, order: None, hidden_among: Some(cover.hidden_among) })
    }
}

/// The orders of the neighbours that a bound is for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Both,
    Add,
}

fn of_composition(losses: &Composition, question: Question) -> Result<f64> {
    Ok(match question {
        Question::AtDelta(delta) => losses.epsilon(delta, ACCURACY)?.value,
        Question::AtEpsilon(epsilon) => losses.delta(epsilon, ACCURACY)?.value,
    })
}

fn checked(noise_multiplier: f64, question: Question) -> Result<f64> {
    match question {
        Question::AtDelta(delta) => probability("delta", delta)?,
        Question::AtEpsilon(epsilon) => not_negative("epsilon", epsilon)?,
    };
    positive("noise multiplier", noise_multiplier)
}
