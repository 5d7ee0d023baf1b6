//! The parts that every process of the service shares: telemetry, tracing across calls, metrics and their endpoint, settings,
//! shutdown, keys, TLS, authentication, limits, and a pool for work that must not run on the async threads.
//!
//! Architecture invariant: nothing here knows what the processes compute, and no RPC is named here. Servers hand the
//! table of RPCs in ([`proto::rpc::RPCS`]); of our crates this one depends on `proto` alone.
//!
//! # Layout
//!
//! * [`net`]: sockets and connections, dialling, and the channel that follows the leading coordinator.
//! * [`tls`]: certificates, and connections that check the role at the other end.
//! * [`auth`]: who calls, and what they may call.
//! * [`admission`]: the layer in front of every handler, and all limits.
//! * [`telemetry`]: logs, traces, metrics and their endpoint.
//! * [`config`]: settings in layers, units, secrets.
//! * [`process`]: runtime, threads, memory, hardening, readiness, shutdown.
//! * [`security`]: the settings of TLS, limits and hardening, and what a server makes of them.

#![deny(missing_docs)]

pub mod admission;
pub mod auth;
pub mod config;
pub mod net;
pub mod process;
pub mod security;
pub mod telemetry;
pub mod tls;
