//! Tests the whole service in one thread and in virtual time: the real coordinator, workers and clients over a network
//! and a disk whose faults are drawn from a seed. `make simulate` runs it; the invariants are in `history`, and
//! docs/testing.md lists what is simulated and what is not.

mod adversary;
mod anchors;
mod audit;
mod branches;
mod buyers;
mod cases;
mod charges;
mod disk;
pub mod explore;
mod figures;
mod hands;
mod history;
mod leases;
mod mishaps;
mod nemesis;
mod net;
mod operator;
mod pool;
mod releases;
mod rewinds;
mod run;
mod site;
mod software;
mod trainer;
mod twin;
mod world;

pub use figures::{Figures, Tally, simulate};
pub use run::{Outcome, run_seed};
