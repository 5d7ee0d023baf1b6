//! Fuzzes every decoder of bytes from outside: `make fuzz` for minutes per decoder, `cargo nextest run --release -p
//! fuzz` for a slice.
//!
//! A target takes bytes and returns its outcome in words without numbers; an input with a new outcome is mutated
//! further. A target panics where accepted input breaks a rule.
//!
//! The engine is this crate's own, and it does not measure coverage. Bolero 0.13 was measured as a replacement
//! (README.md): its libFuzzer engine finds faults behind silent comparisons, which this engine misses, but needs a C++
//! compiler and an instrumented build of every dependency. Its engine for plain tests draws random bytes instead of
//! mutating seeds, so that the slice in every test run would find less.

pub mod engine;
pub mod figures;
pub mod mutate;
pub mod side_by_side;
pub mod targets;

// Decoders that are private to their crates, or behind a feature that needs more than Rust (`etcd`): the shipped files,
// compiled here unchanged.
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
    /// Runs one input and returns the outcome. Panics where it finds a fault.
    pub run: fn(&[u8]) -> String,
    /// Number of inputs in every test run; fewer for slow targets.
    pub slice: u64,
}

/// Returns the first words of an error, without numbers and quotations: both mostly repeat the input and would make every
/// outcome look new. A quotation ends at the next mark, even one inside it.
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
