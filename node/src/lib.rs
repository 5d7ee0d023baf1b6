//! What every process of the service shares: telemetry, tracing across calls, metrics and their endpoint,
//! settings, shutdown, keys, TLS, who may call what and how much, and a pool for work that must not run on the async threads.
//!
//! Architecture invariant: nothing here knows what the processes compute. This crate depends on none of ours.

pub mod affinity;
pub mod auth;
pub mod backoff;
pub mod blocking;
pub mod build_info;
pub mod connection;
pub mod cpu_pool;
pub mod cut;
pub mod dial;
pub mod entropy;
pub mod follow;
pub mod guard;
pub mod hardening;
pub mod incoming;
pub mod limits;
pub mod listen;
pub mod listener;
pub mod local_socket;
pub mod memory;
pub mod metric_definitions;
pub mod metrics_endpoint;
pub mod metrics_page;
pub mod otlp;
pub mod quantities;
pub mod readiness;
pub mod ready_file;
pub mod recorder;
pub mod rpc_metrics;
pub mod runtime;
pub mod secret;
pub mod secret_source;
pub mod security;
pub mod settings;
pub mod shutdown;
pub mod simulation;
pub mod telemetry;
pub mod tls;
pub mod trace_context;
pub mod trace_propagation;

mod file_stamp;
mod plain_http;
mod setting_file;

#[cfg(test)]
mod rpc_layers_test;
