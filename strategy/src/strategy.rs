//! One enum over all mechanisms, the crate's main entry.
//!
//! What needs to know every mechanism lies in the modules below this one; the modules beside it know one mechanism
//! or method each and never this enum.

mod columns;
mod row_errors;
mod row_range;
mod rows;
mod schemas;
mod streaming_inverse;

pub use row_errors::MAX_STREAMED;

use crate::banded::Banded;
use crate::blt::Blt;
use crate::dense::Dense;
use crate::error::{Result, all_finite, invalid, series_length};
use crate::kind::MechanismKind;
use crate::participation::{Errors, Participation, Sensitivity};
use crate::scaled::{Base, Scaled};
use crate::sensitivity::Schema;
use crate::series::{band_inverse_sqrt, band_sqrt, check_leading};
use crate::tree::Tree;
use crate::{banded_inverse, column_normalised, toeplitz};

/// A correlated-noise mechanism: the noise added in round t is σζ·(C⁻¹Z)_t (or a tree's residual noise).
///
/// Rounds count from 0; `n` is always the number of rounds of the run. All workloads are prefix sums. Errors
/// are in units of σζ, sensitivities per unit clip norm, participations satisfy **j − i ≥ min_sep**.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Strategy {
    /// C = 1: independent noise, as in DP-SGD.
    Identity,
    /// Binary tree with Honaker's streaming estimate.
    Tree(Tree),
    /// Buffered linear Toeplitz (McMahan, Xu, Zhang 2024).
    Blt(Blt),
    /// C = LtToep(c), optionally with every column scaled to norm one, the last ones included.
    BandToeplitz {
        /// First column of C, zero beyond its end.
        c: Vec<f64>,
        /// True where every column is divided by its norm.
        column_normalised: bool,
    },
    /// General bands, one column of p numbers per round (McKenna 2024).
    BandMf(Banded),
    /// The first `bands` coefficients of the square root of prefix sums (BSR).
    BandSqrt {
        /// Number of bands of C.
        bands: usize,
    },
    /// C⁻¹ = LtToep(s).
    BandInverse {
        /// First column of C⁻¹, zero beyond its end.
        s: Vec<f64>,
    },
    /// C⁻¹ has the first `bands` coefficients of the inverse square root of prefix sums (BISR).
    BandInverseSqrt {
        /// Number of bands of C⁻¹.
        bands: usize,
    },
    /// C⁻¹ = LtToep(1, −λ), 0 ≤ λ < 1.
    LambdaCgd {
        /// λ, at least 0 and below 1.
        lambda: f64,
    },
    /// Any lower triangular C, for small n.
    Dense(Dense),
    /// A BLT or a banded Toeplitz matrix whose columns are scaled from one stretch of rounds to the next.
    Scaled(Scaled),
}

/// Most bands of the closed-form strategies.
pub const MAX_BANDS: usize = 1 << 24;

impl Strategy {
    /// Returns the mechanism's name, as configurations spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns which of the mechanisms this is.
    #[must_use]
    pub fn kind(&self) -> MechanismKind {
        match self {
            Self::Identity => MechanismKind::Identity,
            Self::Tree(_) => MechanismKind::Tree,
            Self::Blt(_) => MechanismKind::Blt,
            Self::BandToeplitz { .. } => MechanismKind::BandToeplitz,
            Self::BandMf(_) => MechanismKind::BandMf,
            Self::BandSqrt { .. } => MechanismKind::BandSqrt,
            Self::BandInverse { .. } => MechanismKind::BandInverse,
            Self::BandInverseSqrt { .. } => MechanismKind::BandInverseSqrt,
            Self::LambdaCgd { .. } => MechanismKind::LambdaCgd,
            Self::Dense(_) => MechanismKind::Dense,
            Self::Scaled(scaled) => match scaled.base() {
                Base::BandToeplitz { .. } => MechanismKind::BandToeplitz,
                Base::Blt(_) => MechanismKind::Blt,
            },
        }
    }

    /// Returns the number of bands of C or of C⁻¹, or of BLT buffers; `None` for a mechanism without such a number.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::Blt(blt) => Some(blt.buffers()),
            Self::BandToeplitz { c, .. } => Some(c.len()),
            Self::BandMf(banded) => Some(banded.bands()),
            Self::BandSqrt { bands } | Self::BandInverseSqrt { bands } => Some(*bands),
            Self::BandInverse { s } => Some(s.len()),
            Self::Scaled(scaled) => match scaled.base() {
                Base::BandToeplitz { c, .. } => Some(c.len()),
                Base::Blt(blt) => Some(blt.buffers()),
            },
            Self::Identity | Self::Tree(_) | Self::LambdaCgd { .. } | Self::Dense(_) => None,
        }
    }

    /// Checks the parameters that the variants hold bare; the others are checked where they are built.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] naming the parameter.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::BandToeplitz { c, .. } => positive_lead("c", c),
            Self::BandInverse { s } => positive_lead("s", s),
            Self::BandSqrt { bands } | Self::BandInverseSqrt { bands }
                if !(1..=MAX_BANDS).contains(bands) =>
            {
                Err(invalid("bands", bands, format!("1 to {MAX_BANDS}")))
            }
            Self::LambdaCgd { lambda } if !(0.0..1.0).contains(lambda) => {
                Err(invalid("lambda", lambda, "0 ≤ lambda < 1"))
            }
            _ => Ok(()),
        }
    }

    /// Returns sens(C) per unit clip norm over `n` rounds, for participations with j − i ≥ `min_sep` (McMahan, Xu,
    /// Zhang 2024, eq. 6). Each mechanism's module has its method.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for unusable parameters, rule or number of rounds.
    pub fn sensitivity(&self, n: u64, rule: Participation) -> Result<Sensitivity> {
        self.validate()?;
        match self {
            Self::Tree(tree) => tree.sensitivity(n, rule),
            Self::Blt(blt) => blt.sensitivity(n, rule),
            Self::BandMf(banded) => banded.sensitivity(n, rule),
            Self::Dense(dense) => dense.sensitivity(n, rule),
            Self::Scaled(scaled) => scaled.sensitivity(n, rule),
            Self::BandToeplitz { c, column_normalised: true } => column_normalised::sensitivity(c, n, rule),
            Self::BandToeplitz { c, .. } => toeplitz::sensitivity(c, n, rule),
            // 1, λ, λ², … is the BLT of one buffer that decays by λ.
            Self::LambdaCgd { lambda } if *lambda > 0.0 => {
                Blt::new(vec![*lambda], vec![*lambda])?.sensitivity(n, rule)
            }
            _ => match self.inverse_bands(n)? {
                Some(s) => banded_inverse::sensitivity(&s, n, rule),
                None => toeplitz::sensitivity(&self.bands(n)?, n, rule),
            },
        }
    }

    /// Returns sens(C) per unit clip norm over `n` rounds for a user whose rounds follow `schema`.
    ///
    /// [`Sensitivity::exact`] is false where the value is an upper bound of the sensitivity. Schemas that
    /// name the rounds cost one product of columns for each pair of rounds of a set that overlap.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for unusable parameters, schema or number of rounds.
    pub fn sensitivity_under(&self, n: u64, schema: &Schema) -> Result<Sensitivity> {
        self.validate()?;
        schema.check(n)?;
        match schema {
            Schema::Single => self.sensitivity(n, Participation::single()),
            Schema::MinSep(rule) => self.sensitivity(n, *rule),
            Schema::FixedEpoch { period, epochs } => schemas::fixed_epoch(self, n, *period, *epochs),
            Schema::Sets(sets) => schemas::sets(self, n, sets),
        }
    }

    /// Returns RmsError, MaxError and the last round's error over `n` rounds for prefix sums, in units of σζ.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for unusable parameters or number of rounds.
    pub fn errors(&self, n: u64) -> Result<Errors> {
        self.validate()?;
        match self {
            Self::Tree(tree) => tree.errors(n),
            Self::Blt(blt) => blt.errors(n),
            Self::BandMf(banded) => banded.errors(n),
            Self::Dense(dense) => dense.errors(n),
            Self::Scaled(scaled) => scaled.errors(n),
            Self::BandToeplitz { c, column_normalised: true } => column_normalised::errors(c, n),
            Self::BandToeplitz { c, .. } => toeplitz::errors(c, n),
            _ => match self.inverse_bands(n)? {
                Some(s) => banded_inverse::errors(&s, n),
                None => toeplitz::errors(&self.bands(n)?, n),
            },
        }
    }

    /// Returns RmsError over `n` rounds, in units of σζ, not squared.
    ///
    /// # Errors
    /// Fails as [`Self::errors`] does.
    pub fn rms_error(&self, n: u64) -> Result<f64> {
        Ok(self.errors(n)?.rms)
    }

    /// Returns MaxError over `n` rounds, in units of σζ, not squared.
    ///
    /// # Errors
    /// Fails as [`Self::errors`] does.
    pub fn max_error(&self, n: u64) -> Result<f64> {
        Ok(self.errors(n)?.max)
    }

    /// Returns RmsLoss = RmsError · sens(C), not squared (McMahan, Xu, Zhang 2024, eq. 10).
    ///
    /// # Errors
    /// Fails as [`Self::errors`] and [`Self::sensitivity`] do.
    pub fn rms_loss(&self, n: u64, rule: Participation) -> Result<f64> {
        Ok(self.rms_error(n)? * self.sensitivity(n, rule)?.value)
    }

    /// Returns MaxLoss = MaxError · sens(C), not squared (McMahan, Xu, Zhang 2024, eq. 9).
    ///
    /// # Errors
    /// Fails as [`Self::errors`] and [`Self::sensitivity`] do.
    pub fn max_loss(&self, n: u64, rule: Participation) -> Result<f64> {
        Ok(self.max_error(n)? * self.sensitivity(n, rule)?.value)
    }

    /// Returns the number of floats of state a server keeps per coordinate between rounds of a run of `n`: buffers of
    /// a BLT, p−1 past rows of a banded C, levels of a tree plus the previous prefix; none where z is drawn again.
    #[must_use]
    pub fn state_slots(&self, n: u64) -> usize {
        let most = usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
        match self {
            Self::Blt(blt) => blt.buffers(),
            Self::Tree(tree) => tree.state_slots(n),
            Self::BandToeplitz { c, .. } => c.len().saturating_sub(1).min(most),
            Self::BandMf(banded) => banded.bands() - 1,
            Self::Scaled(scaled) => match scaled.base() {
                Base::BandToeplitz { c, .. } => c.len().saturating_sub(1).min(most),
                Base::Blt(blt) => blt.buffers(),
            },
            Self::BandSqrt { bands } => bands.saturating_sub(1).min(most),
            Self::Identity
            | Self::BandInverse { .. }
            | Self::BandInverseSqrt { .. }
            | Self::LambdaCgd { .. }
            | Self::Dense(_) => 0,
        }
    }

    /// The diagonals of C within `n` rounds, for strategies given by them.
    pub(crate) fn bands(&self, n: u64) -> Result<Vec<f64>> {
        let most = series_length(n)?;
        match self {
            Self::BandToeplitz { c, .. } => Ok(c[..c.len().min(most)].to_vec()),
            Self::BandSqrt { bands } => Ok(band_sqrt(*bands.min(&most))),
            _ => Ok(vec![1.0]),
        }
    }

    /// The diagonals of C⁻¹ within `n` rounds; `None` for strategies that are not given by them.
    pub(crate) fn inverse_bands(&self, n: u64) -> Result<Option<Vec<f64>>> {
        let most = series_length(n)?;
        Ok(match self {
            Self::BandInverse { s } => Some(s[..s.len().min(most)].to_vec()),
            Self::BandInverseSqrt { bands } => Some(band_inverse_sqrt(*bands.min(&most))),
            Self::LambdaCgd { lambda } => Some(vec![1.0, -lambda]),
            _ => None,
        })
    }
}

fn positive_lead(what: &'static str, values: &[f64]) -> Result<()> {
    all_finite(what, values)?;
    check_leading(values)?;
    if values[0] <= 0.0 {
        return Err(invalid("leading coefficient", values[0], "above zero"));
    }
    Ok(())
}
