//! Values as people write them on the command line: spans of numbers, and numbers of bytes.

use std::ops::Range;
use std::str::FromStr;

/// `a..b` as the command line takes it: a, a+1, …, b−1; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span(pub Range<u64>);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: a..b with a < b, such as 0..8";
        let (start, end) = text.split_once("..").ok_or_else(|| allowed.to_owned())?;
        let number =
            |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}; {allowed}"));
        let start = number(start)?;
        let end = number(end)?;
        if start < end { Ok(Self(start..end)) } else { Err(format!("the range is empty; {allowed}")) }
    }
}

/// A number of bytes, as in 64MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = node::config::units::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        node::config::units::parse_bytes(text).map(Self)
    }
}

/// To three digits, in powers of 1024.
impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let steps = (0..4).take_while(|step| self.0 >> (10 * (step + 1)) > 0).count();
        let value = self.0 as f64 / (1_u64 << (10 * steps)) as f64;
        match steps {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.*} {}", if value < 10.0 { 2 } else { 1 }, UNITS[steps]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes() {
        assert_eq!("16GiB".parse(), Ok(Bytes(16 << 30)));
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (10 << 30, "10.0 GiB"), (1 << 45, "32.0 TiB")]
        {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn spans() {
        assert_eq!("3..8".parse(), Ok(Span(3..8)));
        for bad in
            ["", "3", "3..", "..3", "8..3", "3..3", "-1..3", "0..18446744073709551616", "0..=3", "a..b"]
        {
            assert!(bad.parse::<Span>().unwrap_err().contains("a..b"), "{bad}");
        }
    }
}
