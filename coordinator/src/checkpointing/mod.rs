//! Checkpoints of whole jobs: how often, when, how one is written, and which are kept.

pub mod interval;
mod retention;
mod rounds;
mod scheduler;
