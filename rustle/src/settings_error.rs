//! Settings of a process that can't be used: bad use of the command line, unless a settings file holds them.

use node::config::settings::{SettingError, Source};

use crate::output::{bad_use, without_repeats};

/// Returns the error of settings with its exit status: 2 for flags and variables, 1 for what a file holds.
pub fn of_settings(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<SettingError>());
    if causes.any(is_of_file) { error } else { bad_use(without_repeats(&error)) }
}

fn is_of_file(error: &SettingError) -> bool {
    match error {
        SettingError::Invalid { origin, .. } => matches!(origin, Source::File(_)),
        SettingError::Missing { .. } | SettingError::NotUnicode { .. } => false,
        SettingError::UnknownKeys { .. }
        | SettingError::FileValue { .. }
        | SettingError::GivenTwice { .. }
        | SettingError::FileSyntax { .. }
        | SettingError::FileRead { .. } => true,
    }
}
