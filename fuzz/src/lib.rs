//! Every decoder of bytes that come from elsewhere, under inputs that nobody meant.
//!
//! A target takes bytes and says what became of them, in words without numbers: an input with words that were not
//! heard before is worth changing further. It panics where a rule is broken: what is accepted must be whole.

pub mod engine;
pub mod mutate;
pub mod targets;

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

/// The first words of an error, without numbers and quotations: what the input itself says is quoted or mostly comes
/// later, and would make every input look new.
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
