//! Per-row errors of any strategy on any workload: the norms of the rows of B = A·C⁻¹.
//!
//! Each pair of strategy and workload takes the shortest way it allows: a series where both are Toeplitz, a state
//! carried from round to round where C⁻¹ has a small one, the covariance recursion where C and A⁻¹ are banded, and
//! otherwise one impulse at a time, O(n²) rounds.

use super::{Strategy, streaming_inverse};
use crate::column_normalised;
use crate::covariance;
use crate::error::{Result, StrategyError, invalid, series_length};
use crate::participation::Errors;
use crate::scaled::Base;
use crate::state_space::{StateSpace, banded_inverse_errors};
use crate::workload::{InverseBands, Momentum, Workload, decode};

/// Most rounds of a pair of strategy and workload whose errors are found one impulse at a time.
pub const MAX_STREAMED: u64 = 1 << 14;

impl Strategy {
    /// Returns the errors over `n` rounds for a workload, in the units of its rows times σζ.
    ///
    /// # Errors
    /// [`StrategyError::Invalid`] for unusable parameters, workload or number of rounds;
    /// [`StrategyError::NoMatrix`] for a tree on anything but prefix sums.
    pub fn errors_on(&self, n: u64, workload: &Workload) -> Result<Errors> {
        match workload {
            Workload::Prefix => self.errors(n),
            _ if let Self::Blt(blt) = self
                && let Some(poles) = workload.poles() =>
            {
                workload.check(n)?;
                blt.errors_with(n, &poles)
            }
            _ => Ok(Errors::of_rows(&self.row_errors_squared(n, workload)?)),
        }
    }

    /// Returns Σ_j B[t, j]² for every row t of B = A·C⁻¹, n numbers in units of (σζ)².
    ///
    /// # Errors
    /// Fails as [`Self::errors_on`] does.
    pub fn row_errors_squared(&self, n: u64, workload: &Workload) -> Result<Vec<f64>> {
        self.validate()?;
        workload.check(n)?;
        let rounds = series_length(n)?;
        if let Self::Tree(tree) = self {
            return match workload {
                Workload::Prefix => tree.row_errors_squared(n),
                _ => Err(StrategyError::NoMatrix { mechanism: self.name() }),
            };
        }
        if let (Self::BandToeplitz { c, column_normalised: true }, Workload::Prefix) = (self, workload) {
            return column_normalised::row_errors_squared(c, n);
        }
        if let (Self::Scaled(scaled), Workload::Prefix) = (self, workload) {
            return scaled.row_errors_squared(n);
        }
        if self.is_toeplitz()
            && let Some(decoder) = decode(workload, &self.c_inverse_column(n)?)
        {
            return Ok(running_squares(&decoder));
        }
        if let Workload::Momentum(momentum) = workload
            && let Some(squared) = self.by_state(momentum, n)?
        {
            return Ok(squared);
        }
        if let Some(d) = workload.inverse_bands()
            && let Some(squared) = self.by_covariance(&d, n)?
        {
            return Ok(squared);
        }
        self.by_impulses(rounds, workload)
    }

    /// Returns whether one column describes C.
    #[must_use]
    pub fn is_toeplitz(&self) -> bool {
        !matches!(
            self,
            Self::Tree(_)
                | Self::BandMf(_)
                | Self::Dense(_)
                | Self::Scaled(_)
                | Self::BandToeplitz { column_normalised: true, .. }
        )
    }

    /// The errors where C⁻¹ has a small state and learning rates change; elsewhere a series or bands are shorter.
    fn by_state(&self, momentum: &Momentum, n: u64) -> Result<Option<Vec<f64>>> {
        let rounds = series_length(n)?;
        if let Self::Blt(blt) = self {
            let state = StateSpace::new(blt.theta(), blt.omega(), momentum);
            return Ok(Some(state.row_errors_squared(rounds)));
        }
        Ok(self.inverse_bands(n)?.map(|s| banded_inverse_errors(&s, momentum, rounds)))
    }

    fn by_covariance(&self, d: &InverseBands, n: u64) -> Result<Option<Vec<f64>>> {
        let rounds = series_length(n)?;
        let columns = match self {
            Self::BandMf(banded) => {
                let rounds = banded.rounds(n)?;
                return Ok(Some(covariance::row_errors(banded.columns().view(), d, rounds)));
            }
            Self::BandToeplitz { c, column_normalised: true } => column_normalised::columns(c, n)?,
            Self::Scaled(scaled) if matches!(scaled.base(), Base::BandToeplitz { .. }) => {
                scaled.columns(n)?
            }
            Self::BandToeplitz { .. } | Self::BandSqrt { .. } | Self::Identity => {
                crate::toeplitz::columns(&self.bands(n)?, n)?
            }
            _ => return Ok(None),
        };
        Ok(Some(covariance::row_errors(columns.columns().view(), d, rounds)))
    }

    /// Column by column of B: what one unit of z_j does to every later row.
    fn by_impulses(&self, rounds: usize, workload: &Workload) -> Result<Vec<f64>> {
        if rounds as u64 > MAX_STREAMED {
            let allowed = format!("1 to {MAX_STREAMED} for {} on this workload", self.name());
            return Err(invalid("iterations", rounds, allowed));
        }
        let mut squared = vec![0.0; rounds];
        for j in 0..rounds {
            let mut noise = streaming_inverse::rounds(self, rounds)?;
            let mut queries = workload.rounds();
            for (t, squared) in squared.iter_mut().enumerate() {
                let b = queries.next(noise.next(if t == j { 1.0 } else { 0.0 }));
                if t >= j {
                    *squared += b * b;
                }
            }
        }
        Ok(squared)
    }
}

/// e_t² = Σ_{i≤t} b_i² of a Toeplitz decoder.
fn running_squares(decoder: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    decoder
        .iter()
        .map(|b| {
            sum += b * b;
            sum
        })
        .collect()
}
