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

#[cfg(test)]
mod tests {
    #[test]
    fn words_are_an_errors_own() {
        let of = |text: &str| super::words(text);
        assert_eq!(of("unknown field `größe`, expected one of `a`, `b`"), "unknown field expected one");
        assert_eq!(of("row 17 of \"job\" is beyond 2048 rows"), "row beyond rows");
        assert_eq!(of("an `open end"), "");
    }
}
