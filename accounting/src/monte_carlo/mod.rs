//! Monte Carlo accounts of batches drawn at random under correlated noise: balls-in-bins for any C ≥ 0, b-min-sep for
//! banded C ≥ 0 (Choquette-Choo et al. 2024, arXiv:2410.06266).
//!
//! Records draw their rounds independently of each other, so one pair stands for one record: P is a mixture of
//! N(m_S, σ²I) over the sets S of rounds that it may take, m_S = Σ_{t∈S} C[:, t], and Q = N(0, σ²I). The pair dominates
//! where C ≥ 0 (Lemma 3.2, whose proof asks of S only that it doesn't depend on the data). Neighbours differ by one record
//! zeroed out.
//!
//! **No cap on batches.** Under a cap records don't draw their rounds independently: who joins a full batch pushes another
//! record out, even one who is zeroed out, so a sum may move by 2 where the pair says 1. No account of that is known here;
//! [`AccountKind`](crate::AccountKind) says which batches have one.
//!
//! [`BallsInBins`] and [`BMinSep`] draw the losses of a pair; the methods of [`Pair`] answer for both.
//!
//! # Algorithm
//!
//! With Y(x) = ln P(x)/Q(x), δ(ε) = E_P\[(1 − e^{ε−Y})₊\] in one order of the neighbours and E_Q\[(1 − e^{ε+Y})₊\] in the
//! other. Losses near ε are rare under P and Q, so samples come from a proposal R made for ε, weighted by P/R or Q/R:
//!
//! ```text
//! delta(σ, ε, budget):
//!   R = proposal(ε)                            mixture of P's own kind, or shifted noise (remove, add)
//!   for each block of samples, from its own ChaCha stream:
//!     for each antithetic pair x = centre ± noise drawn from R:
//!       term = mean over both of (1 − e^{ε−loss(x)})₊ · weight(x)        every term lies in [0, B]
//!   return mean and standard error of the terms
//!
//! epsilon(σ, δ, budget):   sort the losses of samples; the ε at which their mean falls to δ; repeat with a proposal
//!                          made for that ε until it settles
//! calibrate(ε, δ, budget): secant search for σ on common random numbers, aimed a margin below δ
//! verify(σ, ε, δ, budget): on fresh samples, release only if an upper confidence bound of δ is at most δ
//! ```
//!
//! The figures are estimates with a standard error. Only [`Pair::verify`] decides what may be *promised*: it draws
//! samples that no search has used.
//!
//! Samples come from ChaCha streams by seed and block, bit for bit the same with any number of threads on one processor;
//! another instruction set may round the matrix product another way.

mod add;
mod b_min_sep;
mod balls_in_bins;
mod block;
mod budget;
mod calibrate;
mod centre;
mod estimate;
mod exp;
mod figures;
mod gradient;
pub(crate) mod gram;
mod lanes;
pub mod optimize;
mod pair;
mod remove;
mod scaled;
mod stream;
mod verdict;

pub use b_min_sep::{BMinSep, MAX_ROUNDS};
pub use balls_in_bins::BallsInBins;
pub use budget::{MAX_SAMPLES, MIN_SAMPLES, SampleBudget};
pub use estimate::Estimate;
pub use figures::{Delta, Epsilon};
pub use gram::{MAX_BATCHES, MAX_ROWS};
pub use pair::Pair;
pub use verdict::{Calibration, Verdict};
