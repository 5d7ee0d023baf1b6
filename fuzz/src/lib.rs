//! Every decoder of bytes that come from elsewhere, under inputs that nobody meant.
//!
//! A target takes bytes and says what became of them, in words without numbers: an input with words that were not
//! heard before is worth changing further. It panics where a rule is broken: what is accepted must be whole.

pub mod engine;
pub mod figures;
pub mod mutate;
pub mod side_by_side;
mod store;
pub mod targets;

// Decoders that their crates keep to themselves, or build with a feature that takes more than Rust (`etcd`): the
// files that ship, built here as they are.
#[allow(dead_code)]
#[path = "../../coordinator/src/cluster"]
mod of_the_coordinator {
    pub mod reports;
}
#[allow(dead_code)]
#[path = "../../ledger/src"]
mod of_the_ledger {
    pub mod change;
    pub mod field;
    pub mod hex_digest;
    #[path = "etcd/record.rs"]
    pub mod record;
    pub mod tables;
}
use of_the_ledger::{change, field, hex_digest, tables};

/// One decoder.
pub struct Target {
    pub name: &'static str,
    /// Valid inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Panics where it finds a fault; else what was said of the input.
    pub run: fn(&[u8]) -> String,
    /// Runs of one in the slice of every test: dear ones get few.
    pub slice: u64,
}

/// The first words of an error, without numbers and what stands between quotation marks: that is mostly the input's own,
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

/// `Ok` as one word.
pub fn outcome<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    result.map_or_else(words, |_| "ok".to_owned())
}

/// Which error, without what the input said: that would make every input look new.
fn refusal(error: &proto::ServiceError) -> String {
    match error {
        proto::ServiceError::InvalidArgument { field, .. } => format!("invalid {field}"),
        other => other.kind(),
    }
}
