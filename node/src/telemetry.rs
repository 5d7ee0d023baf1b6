//! Log lines, to stderr: stdout is for data.

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    pub format: Format,
    /// Directives as in `RUST_LOG`, for instance "info,h2=warn". `RUST_LOG`, where it is set, takes its
    /// place.
    pub filter: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line for a person.
    Text,
    /// One JSON object a line, with the spans around the event.
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("log format \"{value}\" is not known; allowed: text, json")]
    UnknownFormat { value: String },
    #[error("log filter \"{filter}\" is not valid ({reason}); an example: info,h2=warn")]
    BadFilter { filter: String, reason: String },
}

/// Installs the process's subscriber. A second call checks its filter and changes nothing, so each test may
/// call it.
pub fn init(config: TelemetryConfig) -> Result<(), TelemetryError> {
    let filter = filter(&config.filter, std::env::var("RUST_LOG").ok())?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // An error here says that a subscriber is already installed.
    let _already_installed = match config.format {
        Format::Text => builder.with_ansi(io::stderr().is_terminal()).finish().try_init(),
        Format::Json => builder.json().flatten_event(true).finish().try_init(),
    };
    Ok(())
}

fn filter(configured: &str, rust_log: Option<String>) -> Result<EnvFilter, TelemetryError> {
    // An empty RUST_LOG is how a shell script says "not set"; as a filter it would silence everything.
    let filter = rust_log.filter(|value| !value.trim().is_empty()).unwrap_or_else(|| configured.to_owned());
    EnvFilter::try_new(&filter)
        .map_err(|error| TelemetryError::BadFilter { filter, reason: error.to_string() })
}

impl FromStr for Format {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Format, TelemetryError> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            _ => Err(TelemetryError::UnknownFormat { value: text.to_owned() }),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Format::Text => "text",
            Format::Json => "json",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_may_be_called_twice() {
        for format in [Format::Text, Format::Json] {
            init(TelemetryConfig { format, filter: "info".to_owned() }).unwrap();
        }
    }

    #[test]
    fn rust_log_takes_the_place_of_the_setting() {
        assert_eq!(filter("info", Some("debug".to_owned())).unwrap().to_string(), "debug");
        assert_eq!(filter("info", None).unwrap().to_string(), "info");
        assert_eq!(filter("info", Some(String::new())).unwrap().to_string(), "info");
    }

    #[test]
    fn a_bad_filter_is_named() {
        let error = filter("node=loud", None).unwrap_err();
        assert!(error.to_string().contains("node=loud"), "{error}");
    }

    #[test]
    fn formats_read_back_what_they_print() {
        for format in [Format::Text, Format::Json] {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        assert!("xml".parse::<Format>().unwrap_err().to_string().contains("xml"));
    }
}
