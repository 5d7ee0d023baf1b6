//! Logs, traces and metrics: what they are called, how they are recorded, and where they are read.

pub mod build_info;
pub mod live_page;
pub mod log_export;
pub mod metric_definitions;
pub mod metrics_endpoint;
pub mod metrics_page;
pub mod otlp;
pub mod rate_limited_log;
pub mod recorder;
pub mod rpc_metrics;
pub mod trace_context;
pub mod trace_propagation;

mod error;
mod subscriber;

#[cfg(test)]
mod rpc_layers_test;

pub use error::{LogExportError, TelemetryError};
pub use subscriber::{Format, Telemetry, TelemetryArgs, TelemetryConfig, init};
pub use trace_context::SPANS;
