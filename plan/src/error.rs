//! The faults a plan can have, named so that the person who wrote it can mend it.

use std::fmt::Display;
use std::path::PathBuf;

/// A plan that can't be used. Every message names the field, the value found and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file can't be read.
    #[error("plan file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The text is not TOML, or a field is unknown, missing or of the wrong type; the message shows line and column.
    #[error("plan: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A field holds a value that isn't allowed.
    #[error("plan field `{field}` is {value}; allowed: {allowed}")]
    Field {
        /// The field, as a path of names and indexes.
        field: String,
        /// Its value.
        value: String,
        /// The values it may have.
        allowed: String,
    },
    /// A field that this mechanism needs isn't there.
    #[error("plan field `{field}` is missing; allowed: {allowed}")]
    Missing {
        /// The field, as a path of names.
        field: String,
        /// The values it may have.
        allowed: String,
    },
    /// Rows of `f32` were asked of a plan on a grid. A row of integers that becomes `f32` on its way, or is added to a sum
    /// that is not on the grid, loses what the plan's account says.
    #[error(
        "grid_rows_are_integers: the plan has [grid], so its rows are integers of 32 bits, and rows of f32 were \
         requested; allowed: a plan without [grid] (`--float`), or a cluster and `rustle fetch`, which serve integers"
    )]
    GridRows,
    /// The plan can't be written as TOML.
    #[error("plan can't be written as TOML: {0}")]
    Write(#[from] toml::ser::Error),
}

impl PlanError {
    pub(crate) fn field(field: impl Display, value: impl Display, allowed: impl Display) -> Self {
        Self::Field { field: field.to_string(), value: value.to_string(), allowed: allowed.to_string() }
    }

    pub(crate) fn missing(field: impl Display, allowed: impl Display) -> Self {
        Self::Missing { field: field.to_string(), allowed: allowed.to_string() }
    }
}

/// Returns `Ok` where `allowed_here` holds, else the error that names field, value and allowed values.
pub(crate) fn require(
    allowed_here: bool,
    field: impl Display,
    value: impl Display,
    allowed: impl Display,
) -> Result<(), PlanError> {
    if allowed_here { Ok(()) } else { Err(PlanError::field(field, value, allowed)) }
}
