//! Fuzzing of every decoder of bytes from outside.
//!
//! A target takes bytes and returns its outcome in words without numbers: an input with a new outcome is worth mutating
//! further. It panics where a rule is broken: what is accepted must be whole.

pub mod engine;
pub mod figures;
pub mod mutate;
pub mod side_by_side;
pub mod targets;

// Decoders that their crates keep to themselves, or build with a feature that takes more than Rust (`etcd`): the
// files that ship, built here as they are.
#[allow(dead_code)]
#[path = "../../coordinator/src/cluster"]
mod of_the_coordinator {
    pub mod reports;
}
/// One decoder.
pub struct Target {
    pub name: &'static str,
    /// Valid inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Panics where it finds a fault; otherwise returns the outcome.
    pub run: fn(&[u8]) -> String,
    /// Runs in the slice of every test run; slow targets get few.
    pub slice: u64,
}

/// Returns the first words of an error, without numbers and what stands between quotation marks: that is mostly the input's own,
/// and would make every input look new. A mark within a quotation ends it, which is near enough.
pub fn words(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    let unquoted = text.split(['`', '"']).step_by(2);
    unquoted
        .flat_map(|part| part.split(|c: char| !c.is_ascii_alphabetic()))
        .filter(|word| word.len() > 2)
        .take(5)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns `ok` or the first words of the error.
pub fn outcome<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    result.map_or_else(words, |_| "ok".to_owned())
}

/// Returns the kind of the error without text of the input, which would make every input look new.
fn refusal(error: &proto::ServiceError) -> String {
    match error {
        proto::ServiceError::InvalidArgument { field, .. } => format!("invalid {field}"),
        other => other.kind().to_owned(),
    }
}
