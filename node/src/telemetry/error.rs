//! The errors of telemetry's settings.

/// The reason why telemetry cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log format is unknown.
    #[error("log format \"{value}\" is not known; allowed: text, json")]
    UnknownFormat {
        /// The text that was given.
        value: String,
    },
    /// The log filter is invalid.
    #[error("log filter \"{filter}\" is not valid ({reason}); an example: info,h2=warn")]
    BadFilter {
        /// The filter.
        filter: String,
        /// The reason, as text.
        reason: String,
    },
    /// The URL is not one of a collector.
    #[error("the collector is {url:?}; allowed: http://host:port, where it takes OTLP over gRPC")]
    BadCollector {
        /// The URL that was given.
        url: String,
    },
    /// Nothing can be sent to the collector.
    #[error("nothing can be sent to the collector {url}: {reason}")]
    Exporter {
        /// The URL that was given.
        url: String,
        /// The reason, as text.
        reason: String,
    },
    /// Records would leave this machine in plain text.
    #[error(
        "the collector is {url:?}; allowed: http://127.0.0.1:port or another loopback address, since the connection has no TLS; a collector on this machine can pass records on"
    )]
    CollectorBeyondHost {
        /// The URL that was given.
        url: String,
    },
}

/// The reason why a collector has not taken log records.
#[derive(Debug, thiserror::Error)]
pub enum LogExportError {
    /// It can't be reached, or has no room now.
    #[error("the collector takes nothing now ({reason})")]
    Unavailable {
        /// The reason, as text.
        reason: String,
    },
    /// It refuses, and whether for these records alone is not known.
    #[error("the collector answers with an error ({reason})")]
    Failed {
        /// The reason, as text.
        reason: String,
    },
    /// It refuses at least one of these records, or all of them together, as too large or invalid.
    #[error("the collector refuses records ({reason})")]
    Refused {
        /// The reason, as text.
        reason: String,
    },
}
