//! What an account takes from a grid: the clip norm that integers are bounded by, the noise beside it, what a BLT's feedback
//! adds, and the probabilities with which the run leaves what is accounted for.

use super::coefficients::{GridBandRows, GridCoefficients};
use super::deviation::Deviations;
use super::setting::{Grid, Rounding};
use crate::PlanError;
use crate::error::require;

/// Least distance of the ends of 32 bits from 0, in standard deviations of a row; buffers of a BLT are bounded by as many.
pub(super) const DEVIATIONS: f64 = 13.0;

/// The largest number that a row of 32 bits holds.
const LARGEST_ROW: f64 = i32::MAX as f64;

/// Steps beyond its normal share that roundings inside of a tree may move a row by.
const TREE_STEPS: f64 = 64.0;

/// √(2·ln 1/β) of β = 2⁻¹²⁸, rounded up: the chance that dither moves integers further than ζ′ in one participation.
const DITHER_DEVIATIONS: f64 = 13.33;
/// ln of that β.
const LN_DITHER_FAILURE: f64 = -88.72;

/// A dither has this many bits at least, so its mean is right to this much.
const DITHER_GRAIN: f64 = 1.0 / (1u64 << 24) as f64;

/// Above what a handful of operations in binary64 can lose.
const UP: f64 = 1.0 + 1.0 / (1u64 << 50) as f64;

/// A job may rewind, and each branch has rows of its own that may fail: probabilities are for up to this many branches. No rule
/// stops a job from having more.
const BRANCHES: f64 = 65_536.0;

/// Largest probability of leaving the mechanism; a plan with more is refused.
pub const MAX_FAILURE: f64 = 1e-16;

/// The figures of a grid that accounts and statements are made of. Norms are in the gradient's own units.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GridFigures {
    /// s = σζ/γ, the noise's deviation in steps of the grid.
    pub scale: f64,
    /// ζ′ ≥ ζ: no contribution moves the rounded sum further, in the gradient's units.
    pub clip_norm: f64,
    /// s·γ/ζ′, rounded down: the σ of every account.
    pub noise_multiplier: f64,
    /// η, in steps: how far the feedback of a BLT in binary64 is from exact; 0 for mechanisms whose feedback is exact.
    pub feedback_error: f64,
    /// What η adds to the sensitivity per unit of ζ′ where nothing is amplified: 2η√(dT)·γ/ζ′.
    pub sensitivity_added: f64,
    /// Probability that a row leaves 32 bits.
    pub range_failure: f64,
    /// Probability that a BLT's buffer goes further than η was computed for.
    pub buffer_failure: f64,
    /// Probability that dither moves one unit's contributions further than ζ′.
    pub rounding_failure: f64,
}

impl GridFigures {
    /// Returns τ, the probability with which a run of up to 65,536 branches leaves the mechanism that is accounted for,
    /// whichever the data: δ grows by τ(1 + e^ε).
    #[must_use]
    pub fn failure(&self) -> f64 {
        (self.range_failure + self.buffer_failure + self.rounding_failure) * UP
    }
}

/// A run on the grid, as its figures depend on it.
pub(super) struct Run<'a> {
    pub grid: Grid,
    pub coefficients: &'a GridCoefficients,
    pub deviations: &'a Deviations,
    pub dimension: u64,
    pub iterations: u64,
    pub clip_norm: f64,
    pub scale: f64,
}

impl Run<'_> {
    pub fn figures(&self) -> Result<GridFigures, PlanError> {
        let gamma = self.grid.step_size();
        let clip_norm = self.accounted_clip_norm();
        let numbers = self.dimension as f64 * self.iterations as f64;
        let rows = BRANCHES * numbers;
        let feedback_error = self.feedback_error();
        let dithered = self.grid.rounding == Rounding::Dithered;
        let figures = GridFigures {
            scale: self.scale,
            clip_norm,
            noise_multiplier: divided_down(self.scale * gamma, clip_norm),
            feedback_error,
            sensitivity_added: 2.0 * feedback_error * numbers.sqrt() * gamma / clip_norm * UP,
            range_failure: 2.0 * rows * normal_tail(self.distance()),
            buffer_failure: 2.0 * rows * self.deviations.buffers.len() as f64 * normal_tail(DEVIATIONS),
            // Batches that are drawn at random may hold a unit in every round.
            rounding_failure: if dithered {
                BRANCHES * self.iterations as f64 * LN_DITHER_FAILURE.exp()
            } else {
                0.0
            },
        };
        let failure = figures.failure();
        let allowed = format!("at most {MAX_FAILURE:e}; fewer coordinates or rounds");
        require(
            failure <= MAX_FAILURE,
            "grid.step",
            format!("one with a failure probability of {failure:e}"),
            allowed,
        )?;
        let eta = feedback_error;
        require(
            eta <= 0.5,
            "grid.step",
            format!("one with η = {eta:e}"),
            "one with η at most 0.5: a larger step",
        )?;
        Ok(figures)
    }

    /// ζ′, rounded up. Lengths below are in steps until the last line.
    fn accounted_clip_norm(&self) -> f64 {
        let gamma = self.grid.step_size();
        let moved = self.clip_norm / gamma * (1.0 + self.grid.summing_error);
        let d = self.dimension as f64;
        let steps = match self.grid.rounding {
            Rounding::Contributions => return self.clip_norm,
            // Each integer moves by at most 1 more than what it was rounded from.
            Rounding::Nearest => moved + d.sqrt(),
            // By Hoeffding's bound on Σ D_i², of which each has its mean within δ_i² + ¼ and a range of 2|δ_i| + 1.
            Rounding::Dithered => {
                let spread = DITHER_DEVIATIONS * (moved + d.sqrt() / 2.0);
                let grain = DITHER_GRAIN * (2.0 * d.sqrt() * moved + d);
                (moved * moved + d / 4.0 + spread + grain).sqrt()
            }
        };
        steps * UP * gamma
    }

    /// The distance of the ends of 32 bits, in standard deviations of a row, past all that rounding may add to it.
    pub fn distance(&self) -> f64 {
        let deviation = self.deviations.row;
        let least = match self.coefficients {
            GridCoefficients::Banded(banded) => match &banded.rows {
                GridBandRows::Toeplitz { scale, .. } => *scale,
                GridBandRows::PerRow { scales, .. } => scales.iter().copied().fold(f64::INFINITY, f64::min),
            },
            _ => self.scale,
        };
        // A half of a step in each row, through C⁻¹: its sum of magnitudes is at most √T times its norm.
        let rounding = (self.iterations as f64).sqrt() * deviation * (self.scale / least) + TREE_STEPS;
        (LARGEST_ROW - rounding) / (self.scale * deviation)
    }

    /// η of a BLT: every rounding of a buffer decays with it, and each of the J + 1 roundings of the sum counts in full.
    fn feedback_error(&self) -> f64 {
        let GridCoefficients::Blt { theta, omega, .. } = self.coefficients else { return 0.0 };
        let rounds = self.iterations as f64;
        // Of 13 deviations, and what half a step and η in each row may add.
        let reach = |deviation: f64| deviation * (DEVIATIONS * self.scale + rounds.sqrt()) + 1.0;
        let mut error = 0.0;
        let mut total = 0.0;
        for ((theta, omega), deviation) in theta.iter().zip(omega).zip(&self.deviations.buffers) {
            let decays = rounds.min(1.0 / (1.0 - theta.abs()));
            error += omega.abs() * half_place(2.0 * reach(*deviation)) * decays;
            total += omega.abs() * reach(*deviation);
        }
        (error + (theta.len() + 1) as f64 * half_place(2.0 * total)) * UP
    }
}

/// Half of the spacing of binary64 just below the power of two that is not below `value`.
fn half_place(value: f64) -> f64 {
    (value.log2().ceil() - 54.0).exp2()
}

/// An upper bound of 1 − Φ(x), x > 0.
fn normal_tail(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (x * std::f64::consts::TAU.sqrt())
}

/// The largest binary64 whose product with `divisor` is at most `value`.
fn divided_down(value: f64, divisor: f64) -> f64 {
    let nearest = value / divisor;
    // One rounding: the sign of the remainder is exact.
    if nearest.mul_add(divisor, -value) > 0.0 { nearest.next_down() } else { nearest }
}
