//! The subscriber of a process: log lines to stderr, because stdout is for data, and spans to a collector where one is
//! configured.

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{ParseError, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::telemetry::error::TelemetryError;
use crate::telemetry::otlp::SpanExport;
use crate::telemetry::trace_context::SPANS;

/// Flags of every process that logs.
#[derive(Clone, Debug, clap::Args)]
pub struct TelemetryArgs {
    /// text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_short_help = true)]
    pub log_format: Format,
    /// What to log, as in RUST_LOG
    #[arg(long, value_name = "FILTER", default_value = "info", hide_short_help = true)]
    pub log_filter: String,
    /// Send traces to this OpenTelemetry collector (OTLP over gRPC), such as http://127.0.0.1:4317
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_short_help = true)]
    pub otlp: Option<String>,
}

impl TelemetryArgs {
    /// Installs the process's subscriber; `service` is its name in traces.
    pub fn init(self, service: &'static str) -> Result<Telemetry, TelemetryError> {
        let Self { log_format, log_filter, otlp } = self;
        init(TelemetryConfig { format: log_format, filter: log_filter, otlp, service })
    }
}

/// The telemetry of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The format of log lines.
    pub format: Format,
    /// Directives as in `RUST_LOG`, for instance "info,h2=warn". `RUST_LOG`, where it is set, takes its
    /// place.
    pub filter: String,
    /// A collector's URL.
    pub otlp: Option<String>,
    /// This process in traces.
    pub service: &'static str,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line for a person.
    Text,
    /// One JSON object a line, with the spans around the event.
    Json,
}

/// A guard to keep for as long as the process runs: dropping it sends the remaining spans.
#[must_use]
pub struct Telemetry {
    _exporting: Option<SpanExport>,
}

/// Installs the process's subscriber. A second call checks its configuration and changes nothing, so each test may
/// call it.
pub fn init(config: TelemetryConfig) -> Result<Telemetry, TelemetryError> {
    let filter = filter(&config.filter, std::env::var("RUST_LOG").ok())?;
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let lines = match config.format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    // An error of `try_init` says that a subscriber is already installed.
    let Some(url) = &config.otlp else {
        let _already_installed = subscriber.try_init();
        return Ok(Telemetry { _exporting: None });
    };
    let (exporting, tracer) = SpanExport::start(url, config.service)?;
    // Only what was made to be sent, and of it no more than what it says of itself.
    let spans = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == SPANS));
    let _already_installed = subscriber.with(spans).try_init();
    Ok(Telemetry { _exporting: Some(exporting) })
}

fn filter(configured: &str, rust_log: Option<String>) -> Result<Targets, TelemetryError> {
    // An empty RUST_LOG is how a shell script says "not set"; as a filter it would silence everything.
    let filter = rust_log.filter(|value| !value.trim().is_empty()).unwrap_or_else(|| configured.to_owned());
    filter
        .parse()
        .map_err(|error: ParseError| TelemetryError::BadFilter { filter, reason: error.to_string() })
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
            let _kept =
                init(TelemetryConfig { format, filter: "info".to_owned(), otlp: None, service: "test" })
                    .unwrap();
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
