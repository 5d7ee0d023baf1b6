//! Errors about flags that one mechanism or sampling scheme takes and another does not.

use crate::output::bad_use;

/// Returns the error for a flag that `choice`, such as `--scheme poisson`, requires.
pub fn missing(flag: &str, choice: &str) -> anyhow::Error {
    bad_use(format!("{flag} is missing; {choice} requires it"))
}

/// Returns the value of a flag that `choice` requires. Error: it is missing.
pub fn required<T>(value: Option<T>, flag: &str, choice: &str) -> anyhow::Result<T> {
    value.ok_or_else(|| missing(flag, choice))
}

/// Error: one of the flags is given, though `choice` has no use for it. Ignoring it would hide a mistake.
pub fn refuse_given(flags: &[(&str, bool)], choice: &str) -> anyhow::Result<()> {
    match flags.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(bad_use(format!("{flag} is given; {choice} does not take it"))),
        None => Ok(()),
    }
}
