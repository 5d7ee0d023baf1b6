//! What can be wrong with a plan, named so that the person who wrote it can mend it.

use std::fmt::Display;
use std::path::PathBuf;

/// A plan that can't be used. Every message names the field, the value found and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file can't be read.
    #[error("plan file {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// Not TOML, or a field is unknown, missing or of the wrong type; the text shows line and column.
    #[error("plan: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A field holds a value that isn't allowed.
    #[error("plan field `{field}` is {value}; allowed: {allowed}")]
    Field { field: String, value: String, allowed: String },
    /// A field that this mechanism needs isn't there.
    #[error("plan field `{field}` is missing; allowed: {allowed}")]
    Missing { field: String, allowed: String },
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

/// `Ok` where `allowed_here` holds, else the error that names field, value and what is allowed.
pub(crate) fn require(
    allowed_here: bool,
    field: impl Display,
    value: impl Display,
    allowed: impl Display,
) -> Result<(), PlanError> {
    if allowed_here { Ok(()) } else { Err(PlanError::field(field, value, allowed)) }
}
