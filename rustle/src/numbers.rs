//! Whole numbers as people write them: 1e6, 2_000 and 2,000 are read as 1000000 and 2000.
//!
//! The arguments are rewritten before they are parsed, for flags of whole numbers. Where a flag takes several, separated by
//! commas, a comma separates them and never thousands.

use std::any::TypeId;
use std::ffi::OsString;

use clap::{Arg, Command};

use crate::plain_words;

/// Returns the arguments with every value of a flag for whole numbers written in digits. What is no whole number stays as
/// it is, and is refused by the parser.
pub fn in_digits(root: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut command = root;
    let mut awaits = None;
    let mut rewritten = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let Some(text) = argument.to_str().map(str::to_owned) else {
            awaits = None;
            rewritten.push(argument);
            continue;
        };
        if let Some(flag) = awaits.take() {
            rewritten.push(value_in_digits(flag, &text).map_or(argument, OsString::from));
        } else if let Some(named) = text.strip_prefix("--") {
            match named.split_once('=') {
                Some((name, value)) => {
                    let value = find(command, name).and_then(|flag| value_in_digits(flag, value));
                    rewritten.push(value.map_or(argument, |value| format!("--{name}={value}").into()));
                }
                None => {
                    awaits = find(command, named).filter(|flag| flag.get_action().takes_values());
                    rewritten.push(argument);
                }
            }
        } else {
            command = command.find_subcommand(&text).unwrap_or(command);
            rewritten.push(argument);
        }
    }
    rewritten
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|flag| {
        flag.get_long() == Some(name) || flag.get_all_aliases().is_some_and(|all| all.contains(&name))
    })
}

fn is_whole(flag: &Arg) -> bool {
    let id = flag.get_value_parser().type_id();
    let whole = [TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<u16>(), TypeId::of::<usize>()];
    flag.get_action().takes_values() && whole.into_iter().any(|it| id == it)
}

/// Returns a value of the flag in digits; `None` where it stays as it is.
fn value_in_digits(flag: &Arg, value: &str) -> Option<String> {
    if !is_whole(flag) {
        return None;
    }
    let Some(delimiter) = flag.get_value_delimiter() else { return digits(value) };
    let items = value.split(delimiter).map(|item| digits(item).unwrap_or_else(|| item.to_owned()));
    Some(items.collect::<Vec<_>>().join(&delimiter.to_string()))
}

/// Parses a number that 64 bits hold. Error: one that would become 0 or infinite.
pub fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| plain_words::NUMBER.to_owned())?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_finite = mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    match number.abs() {
        0.0 if is_finite => {
            Err("closer to 0 than any number of 64 bits; allowed: 0, or 1e-300 and more in size".into())
        }
        f64::INFINITY if is_finite => Err("too large; allowed: up to 1e308 in size".into()),
        _ => Ok(number),
    }
}

/// Returns the digits of a whole number with an exponent or with separators between thousands; `None` for any other text.
pub fn digits(text: &str) -> Option<String> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.strip_prefix('+').unwrap_or(exponent).parse::<usize>().ok()?)
        }
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = without_separators(whole)?;
    let is_number = !whole.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    // 64 bits have 20 digits: more are left for the parser to refuse.
    if !is_number || fraction.len() > exponent || exponent > 20 {
        return None;
    }
    let all = format!("{whole}{fraction}{}", "0".repeat(exponent - fraction.len()));
    let short = all.trim_start_matches('0');
    Some(if short.is_empty() { "0".to_owned() } else { short.to_owned() })
}

/// Removes `_` or `,` between groups of three digits.
fn without_separators(text: &str) -> Option<String> {
    let separator = if text.contains('_') { '_' } else { ',' };
    let groups: Vec<&str> = text.split(separator).collect();
    let are_digits = groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_digit()));
    let (first, rest) = groups.split_first()?;
    let is_grouped = rest.is_empty() || (1..=3).contains(&first.len());
    (are_digits && is_grouped && rest.iter().all(|group| group.len() == 3)).then(|| groups.concat())
}

#[cfg(test)]
mod tests {
    use clap::builder::ValueParser;
    use clap::value_parser;

    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, expected) in [
            ("1e6", "1000000"),
            ("1E+3", "1000"),
            ("1.5e3", "1500"),
            ("2_000", "2000"),
            ("2,000,000", "2000000"),
            ("007", "7"),
            ("0e0", "0"),
            ("17", "17"),
        ] {
            assert_eq!(digits(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["", "e3", "1.5", "1e-3", "1.55e1", "2,00", "2_0000", "1e99", "-1", "x", "1e", "1 000", "1.x"]
        {
            assert_eq!(digits(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_that_64_bits_do_not_hold() {
        for (text, expected) in
            [("1e-6", 1e-6), ("-2", -2.0), ("0e5", 0.0), ("inf", f64::INFINITY), ("-0.0", 0.0)]
        {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        assert!(number("nan").unwrap().is_nan());
        for text in ["1e-400", "-1e400", "0.0001e-330", "", "1,5", "x"] {
            assert!(number(text).unwrap_err().contains("allowed: "), "{text}");
        }
    }

    #[test]
    fn only_values_of_flags_for_whole_numbers_are_rewritten() {
        let count = |name: &'static str, parser: ValueParser| Arg::new(name).long(name).value_parser(parser);
        let inner = Command::new("inner")
            .arg(count("rows", value_parser!(u64).into()))
            .arg(count("workers", value_parser!(u16).range(1..).into()))
            .arg(count("out", ValueParser::string()))
            .arg(count("rate", value_parser!(f64).into()));
        let root = Command::new("root").subcommand(inner);
        let given = "root inner --rows 1e3 --workers=2e0 --out 1e3 --rate 1e3 --rows --out 2_000";
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let expected = "root inner --rows 1000 --workers=2 --out 1e3 --rate 1e3 --rows --out 2_000";
        assert_eq!(in_digits(&root, words(given)), words(expected));
    }

    #[test]
    fn a_comma_separates_the_values_of_a_list() {
        let list = Arg::new("rounds").long("rounds").value_parser(value_parser!(u64)).value_delimiter(',');
        let root = Command::new("root").arg(list);
        let apart = |value: &str| ["root", "--rounds", value].map(OsString::from).to_vec();
        let joined = |value: &str| vec![OsString::from("root"), OsString::from(format!("--rounds={value}"))];
        for (given, expected) in [
            ("100,200", "100,200"),
            ("1,000", "1,0"),
            ("1e3,2_000,7", "1000,2000,7"),
            ("2_000", "2000"),
            ("100,,x", "100,,x"),
        ] {
            assert_eq!(in_digits(&root, apart(given)), apart(expected), "{given}");
            assert_eq!(in_digits(&root, joined(given)), joined(expected), "{given}");
        }
    }
}
