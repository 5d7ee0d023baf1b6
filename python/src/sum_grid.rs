//! Sums on a plan's grid: how floating-point ones come to it, take integer noise, and go back.
//!
//! With v = sum·divide_by/γ, x is v rounded to an integer, y = x + n, and the sum becomes γ·y/divide_by in binary32. v is
//! exact: a product of two binary32 numbers fits binary64, and γ is a power of two. What is done to y is post-processing.

use plan::{Grid, Rounding};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::error::{Refused, Result};

/// The largest |x|: all that is computed with it stays exact in binary64.
const LARGEST: f64 = (1_u64 << 47) as f64;
/// The uniforms of dither are multiples of 2⁻³².
const DITHER_STEPS: f64 = (1_u64 << 32) as f64;

/// The grid of a session's sums.
#[derive(Clone, Copy, Debug)]
pub struct SumGrid {
    rounding: Rounding,
    /// γ, in the gradient's own units.
    step: f64,
}

/// How one sum comes to the grid.
#[derive(Clone)]
pub struct SumRounding {
    grid: SumGrid,
    divide_by: f32,
    /// The seed of the row's dither.
    seed: [u8; 32],
}

impl SumGrid {
    /// Returns the grid of a plan's sums.
    pub fn new(grid: Grid) -> Self {
        Self { rounding: grid.rounding, step: grid.step_size() }
    }

    /// Returns the rounding of one floating-point sum, with the seed that its row's dither is drawn from.
    ///
    /// # Errors
    /// A plan whose contributions are rounded before they are summed: a floating-point sum is none of these.
    pub fn rounding(self, divide_by: f32, seed: [u8; 32]) -> Result<SumRounding> {
        if self.rounding == Rounding::Contributions {
            let allowed = "an int64 sum of rustle.grid.contribution, passed to session.release_: grid.rounding is \
                           \"contributions\"";
            return Err(Refused::invalid("buffer", "a floating-point sum", allowed));
        }
        Ok(SumRounding { grid: self, divide_by, seed })
    }

    /// Checks a sum of integers before noise is added to it.
    ///
    /// # Errors
    /// A plan whose sums are dithered, and an integer beyond 2⁴⁷.
    pub fn check_integers(self, sum: &[i64]) -> Result<()> {
        if self.rounding == Rounding::Dithered {
            let allowed = "a float32 sum, passed to session.privatize_, which dithers it: grid.rounding is \"dithered\"";
            return Err(Refused::invalid("buffer", "a sum of integers", allowed));
        }
        match sum.iter().find(|x| x.unsigned_abs() > LARGEST as u64) {
            None => Ok(()),
            Some(x) => Err(Refused::invalid("buffer", x, "integers of absolute value up to 2^47")),
        }
    }
}

impl SumRounding {
    /// Checks a sum before anything is bound or changed.
    ///
    /// # Errors
    /// A value that is not finite, or more than 2⁴⁷ steps from 0.
    pub fn check(&self, sum: &[f32]) -> Result<()> {
        let fits = |value: f32| (-LARGEST..=LARGEST).contains(&self.in_steps(value));
        match sum.iter().find(|value| !fits(**value)) {
            None => Ok(()),
            Some(value) => {
                let largest = LARGEST * self.grid.step / f64::from(self.divide_by);
                let allowed = format!(
                    "finite values of absolute value up to {largest:e}, 2^47 steps of the plan's grid"
                );
                Err(Refused::invalid("buffer", value, allowed))
            }
        }
    }

    /// Rounds a part of the sum whose first coordinate is `first`, and adds its part of the row.
    pub fn release(&self, first: u64, sum: &mut [f32], row: &[i32]) {
        match self.grid.rounding {
            Rounding::Dithered => {
                let mut dither = ChaCha12Rng::from_seed(self.seed);
                dither.set_word_pos(u128::from(first));
                for (value, noise) in sum.iter_mut().zip(row) {
                    let x = dithered(self.in_steps(*value), dither.next_u32());
                    *value = self.to_float(x + f64::from(*noise));
                }
            }
            Rounding::Nearest | Rounding::Contributions => {
                for (value, noise) in sum.iter_mut().zip(row) {
                    let x = self.in_steps(*value).round_ties_even();
                    *value = self.to_float(x + f64::from(*noise));
                }
            }
        }
    }

    /// Returns v, exactly.
    fn in_steps(&self, value: f32) -> f64 {
        f64::from(value) * f64::from(self.divide_by) * self.grid.step.recip()
    }

    fn to_float(&self, y: f64) -> f32 {
        (y * self.grid.step / f64::from(self.divide_by)) as f32
    }
}

/// Returns ⌊v + u⌋ for u = `uniform`·2⁻³², exactly: with m = ⌊v·2³²⌋ it is ⌊(m + uniform)·2⁻³²⌋, since what m leaves of
/// v·2³² is below 1 and `uniform` is an integer. All of these are exact in binary64 for |v| up to 2⁴⁷.
fn dithered(v: f64, uniform: u32) -> f64 {
    let m = (v * DITHER_STEPS).floor();
    let whole = (m / DITHER_STEPS).floor();
    let rest = m - whole * DITHER_STEPS;
    if rest + f64::from(uniform) >= DITHER_STEPS { whole + 1.0 } else { whole }
}
