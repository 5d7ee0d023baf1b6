//! The source of a setting, and the errors of settings.

use std::fmt::{self, Display};
use std::path::PathBuf;

use serde::Serialize;

/// The source of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The command-line flag of this name.
    Flag(String),
    /// The environment variable of this name.
    Environment(String),
    /// This settings file.
    File(PathBuf),
    /// The default.
    Default,
}

/// The reason why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A value cannot be parsed.
    #[error("setting {name} is \"{value}\" (from {origin}): {reason}")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// The value as it was written.
        value: String,
        /// The source of the value.
        origin: Source,
        /// The reason, as text.
        reason: String,
    },
    /// A required setting is not given.
    #[error("setting {name} is missing; give {flag}, or {variable}, or {name} in the file")]
    Missing {
        /// The setting.
        name: &'static str,
        /// The flag that sets it.
        flag: String,
        /// The environment variable that sets it.
        variable: String,
    },
    /// The file has keys that are no settings.
    #[error("{path} has unknown settings: {}; allowed: {}", unknown.join(", "), allowed.join(", "))]
    UnknownKeys {
        /// The file.
        path: PathBuf,
        /// Those keys.
        unknown: Vec<String>,
        /// All settings.
        allowed: Vec<&'static str>,
    },
    /// A key of the file has a value that is no setting.
    #[error(
        "{path}: {name} is not a value that a setting can have; allowed: text, a number, true or false, a date, or \
         a flat array of these without commas"
    )]
    FileValue {
        /// The file.
        path: PathBuf,
        /// The key.
        name: String,
    },
    /// A key is given twice.
    #[error("{path}: {name} is given twice, once as a quoted key")]
    GivenTwice {
        /// The file.
        path: PathBuf,
        /// The key.
        name: String,
    },
    /// The file is not TOML.
    #[error("{path} is not valid TOML: {reason}")]
    FileSyntax {
        /// The file.
        path: PathBuf,
        /// The reason, as text.
        reason: String,
    },
    /// The file cannot be read.
    #[error("settings file {path} cannot be read: {source}")]
    FileRead {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A variable is not text.
    #[error("the value of {variable} is not UTF-8")]
    NotUnicode {
        /// The environment variable.
        variable: String,
    },
}

impl Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(flag) => write!(formatter, "flag {flag}"),
            Source::Environment(variable) => write!(formatter, "environment {variable}"),
            Source::File(path) => write!(formatter, "file {}", path.display()),
            Source::Default => formatter.write_str("default"),
        }
    }
}
