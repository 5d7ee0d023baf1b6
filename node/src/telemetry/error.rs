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
}
