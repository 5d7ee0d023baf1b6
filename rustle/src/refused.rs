//! Arguments that clap refuses, in words that say what is given and what is allowed.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::plain_words::{self, without_controls};
use crate::{failure, streams};

/// Prints an error of the arguments, or help. Returns the exit status: 2 for an error, 0 after help.
pub fn refused(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let text = match error.kind() {
        ErrorKind::InvalidUtf8 => not_text(arguments),
        ErrorKind::ValueValidation => with_range(&plain_words::of(&error.to_string())),
        // Where clap prints it, an argument may speak to the terminal.
        _ if error.use_stderr() && (wants_json(arguments) || arguments.iter().any(has_controls)) => {
            error.to_string()
        }
        _ => error.exit(),
    };
    let text = without_controls(text.trim_end());
    if wants_json(arguments) {
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        streams::note(failure::bad_use_as_json(text));
    } else {
        streams::note(text);
    }
    ExitCode::from(2)
}

/// Names the arguments that are not UTF-8, which clap's own error does not.
fn not_text(arguments: &[OsString]) -> String {
    let named: Vec<String> =
        arguments.iter().filter(|one| one.to_str().is_none()).map(|one| format!("{one:?}")).collect();
    format!("error: not UTF-8: {}; allowed: arguments in UTF-8", named.join(", "))
}

/// Returns whether the arguments, which were not parsed, have `--format json`.
fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().any(|one| one == "--format=json")
        || arguments.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json")
}

fn has_controls(argument: &OsString) -> bool {
    argument.to_string_lossy().chars().any(char::is_control)
}

/// Writes "0 is not in 1..=256" as the values that are allowed.
fn with_range(text: &str) -> String {
    let Some((before, after)) = text.split_once(" is not in ") else { return text.to_owned() };
    let (range, rest) = after.split_at(after.find(char::is_whitespace).unwrap_or(after.len()));
    let (Some(named), Some((low, high))) = (before.rfind(": "), range.split_once("..")) else {
        return text.to_owned();
    };
    let high = high.trim_start_matches('=');
    let is_open = [i64::MAX as u64, u64::MAX].iter().any(|most| high == most.to_string());
    let allowed = if is_open { format!("{low} or more") } else { format!("{low} to {high}") };
    format!("{}: allowed: {allowed}{rest}", &before[..named])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_as_what_is_allowed() {
        for (text, expected) in [
            (
                "value '0' for '--w': 0 is not in 1..=256\n\nmore",
                "value '0' for '--w': allowed: 1 to 256\n\nmore",
            ),
            (
                "value '0' for '--w': 0 is not in 1..18446744073709551615",
                "value '0' for '--w': allowed: 1 or more",
            ),
            ("-1 is not in 0..=65535", "-1 is not in 0..=65535"),
            ("another error", "another error"),
        ] {
            assert_eq!(with_range(text), expected);
        }
    }
}
