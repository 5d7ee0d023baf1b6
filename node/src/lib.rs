//! What every process of the service shares: telemetry, tracing across calls, metrics and their endpoint,
//! settings, shutdown, keys, TLS, who may call what and how much, and a pool for work that must not run on the async threads.
//!
//! Architecture invariant: nothing here knows what the processes compute. This crate depends on none of ours.

pub mod admission;
pub mod auth;
pub mod config;
pub mod net;
pub mod process;
pub mod security;
pub mod telemetry;
pub mod tls;
