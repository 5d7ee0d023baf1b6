//! Durations and byte sizes as people write them. Whole numbers only: "1.5s" is "1500ms", so nothing is
//! rounded.

use std::time::Duration;

const DURATION_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const BYTE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// The reason why a text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is no duration.
    #[error(
        "\"{text}\" is not a duration; allowed: a whole number and one of ns, us, ms, s, m, h, as in 250ms"
    )]
    NotADuration {
        /// The text that was given.
        text: String,
    },
    /// The text is no number of bytes.
    #[error(
        "\"{text}\" is not a byte size; allowed: a whole number, alone or with one of B, kB, MB, GB, TB, KiB, MiB, \
         GiB, TiB, as in 64MiB, 1e6 or 65536"
    )]
    NotAByteSize {
        /// The text that was given.
        text: String,
    },
    /// The quantity is too large.
    #[error("\"{text}\" is too large; the largest is {largest}")]
    TooLarge {
        /// The text that was given.
        text: String,
        /// The largest one.
        largest: &'static str,
    },
}

/// Parses a duration such as "250ms", "5s" or "2m". Fails for a bare number, because its unit would be a guess.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let bad = || UnitError::NotADuration { text: text.to_owned() };
    let too_large = || UnitError::TooLarge { text: text.to_owned(), largest: "18446744073s (584 years)" };
    let (digits, unit) = split_number(text);
    let scale = scale_of(unit, DURATION_UNITS).ok_or_else(bad)?;
    if digits.is_empty() {
        return Err(bad());
    }
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    number.checked_mul(scale).map(Duration::from_nanos).ok_or_else(too_large)
}

/// Parses a size in bytes, such as "64MiB", "10MB", "65536" or "1e6".
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let bad = || UnitError::NotAByteSize { text: text.to_owned() };
    let too_large = || UnitError::TooLarge { text: text.to_owned(), largest: "18446744073709551615" };
    let (digits, rest) = split_number(text);
    let (exponent, unit) = match rest.strip_prefix('e') {
        Some(after) => split_number(after),
        None => ("0", rest),
    };
    let scale = scale_of(unit, BYTE_UNITS).ok_or_else(bad)?;
    if digits.is_empty() || exponent.is_empty() {
        return Err(bad());
    }
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    let power =
        exponent.parse().ok().and_then(|exponent| 10u64.checked_pow(exponent)).ok_or_else(too_large)?;
    number.checked_mul(power).and_then(|number| number.checked_mul(scale)).ok_or_else(too_large)
}

/// Returns the leading digits, and the rest.
fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Returns a number of bytes in powers of 1024, with two decimals below 10 and one from there on: "1.50 KiB".
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = bytes.max(1).ilog2() / 10;
    let value = bytes as f64 / (1_u64 << (10 * step)) as f64;
    let decimals = match step {
        0 => 0,
        _ if value < 10.0 => 2,
        _ => 1,
    };
    format!("{value:.decimals$} {}", UNITS[step as usize])
}

/// Returns a time in its two largest units: "11 min 40 s".
pub fn show_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

fn scale_of(unit: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        for text in ["", "5", "s", "1.5s", "-1s", "5 s", "5S", "5sec", " 5s"] {
            assert_eq!(parse_duration(text), Err(UnitError::NotADuration { text: text.to_owned() }));
        }
        for text in ["18446744073710s", "99999999999999999999ns"] {
            assert!(matches!(parse_duration(text), Err(UnitError::TooLarge { .. })), "{text}");
        }
    }

    #[test]
    fn times_have_two_units() {
        let shown = [0, 59, 61, 3_660, 90_000].map(show_seconds);
        assert_eq!(shown, ["0 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn numbers_of_bytes_are_short() {
        let shown = [0, 1023, 1536, 10 << 30, 1 << 45, u64::MAX].map(show_bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.50 KiB", "10.0 GiB", "32.0 TiB", "16.0 EiB"]);
    }

    #[test]
    fn byte_sizes() {
        assert_eq!(parse_bytes("65536"), Ok(65536));
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes("10MB"), Ok(10_000_000));
        assert_eq!(parse_bytes("1e6"), Ok(1_000_000));
        assert_eq!(parse_bytes("2e3KiB"), Ok(2_048_000));
        assert_eq!(parse_bytes("0"), Ok(0));
        for text in ["", "MiB", "1.5GiB", "-1", "1 MiB", "64mib", "1e", "e6", "1e-6", "64M"] {
            assert_eq!(parse_bytes(text), Err(UnitError::NotAByteSize { text: text.to_owned() }));
        }
        for text in ["18446744073709551616", "17000000TiB", "1e20", "1e99999999999"] {
            assert!(matches!(parse_bytes(text), Err(UnitError::TooLarge { .. })), "{text}");
        }
    }
}
