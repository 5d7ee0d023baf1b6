//! The process itself: its runtime and threads, memory, hardening, readiness and shutdown.

pub mod affinity;
pub mod blocking;
pub mod cpu_pool;
pub mod disk;
pub mod each_core;
pub mod hardening;
pub mod memory;
pub mod readiness;
pub mod ready_file;
pub mod rng;
pub mod runtime;
pub mod secret;
pub mod shutdown;
pub mod simulation;
pub mod timestamp;

pub(crate) mod file_stamp;
