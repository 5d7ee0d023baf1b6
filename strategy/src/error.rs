//! The one error type of the crate. Every error names the parameter, its value and what is allowed.

use thiserror::Error;

/// The reason why a strategy could not be built, evaluated or optimized.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StrategyError {
    /// A parameter or argument outside its range.
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: String,
        /// The values it may have.
        allowed: String,
    },
    /// The mechanism is not of the form C⁻¹Z with one noise row per round.
    #[error("{mechanism} has no square strategy matrix C, so it has no rows of C or of its inverse")]
    NoMatrix {
        /// The mechanism's name.
        mechanism: &'static str,
    },
    /// A first column describes only a Toeplitz matrix.
    #[error(
        "C of this {mechanism} plan is not Toeplitz, so one column does not describe it; read its rows instead"
    )]
    NotToeplitz {
        /// The mechanism's name.
        mechanism: &'static str,
    },
    /// There is no optimizer for this mechanism in this setting.
    #[error("{mechanism} cannot be optimized here: {why}")]
    NotOptimizable {
        /// The mechanism's name.
        mechanism: &'static str,
        /// The reason.
        why: String,
    },
}

/// The crate's result type.
pub type Result<T> = std::result::Result<T, StrategyError>;

/// Builds [`StrategyError::Invalid`].
pub(crate) fn invalid(
    what: &'static str,
    value: impl std::fmt::Display,
    allowed: impl Into<String>,
) -> StrategyError {
    StrategyError::Invalid { what, value: value.to_string(), allowed: allowed.into() }
}

/// Largest number of rounds for which a whole column is held in memory (1 GiB of f64).
pub const MAX_SERIES: u64 = 1 << 27;

/// Checks that `n` rounds is at least one and that a column of `n` numbers fits in memory.
pub(crate) fn series_length(n: u64) -> Result<usize> {
    if n == 0 || n > MAX_SERIES {
        return Err(invalid("iterations", n, format!("1 to {MAX_SERIES}")));
    }
    usize::try_from(n).map_err(|_| invalid("iterations", n, "what fits in this machine's usize"))
}

/// Checks that the columns of a band matrix fit in memory.
pub(crate) fn check_numbers(n: u64, bands: usize) -> Result<()> {
    let numbers = n.saturating_mul(bands as u64);
    if numbers > MAX_SERIES {
        return Err(invalid("iterations × bands", numbers, format!("up to {MAX_SERIES}")));
    }
    Ok(())
}

/// Checks that every number is finite, naming the first that is not.
pub(crate) fn all_finite(what: &'static str, values: &[f64]) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(i) => Err(invalid(what, format!("{} at index {i}", values[i]), "finite numbers")),
        None => Ok(()),
    }
}
