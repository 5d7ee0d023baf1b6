//! The batch scripts of deploy/slurm under a real Slurm of two nodes, which each test starts for itself on this machine.
//! `make test-slurm` runs it, and tests/setup/slurm.sh brings what it needs. It takes root; else it is skipped, loudly.
#![allow(clippy::unwrap_used)] // a test says best where it stands

mod cluster;
mod launch;
mod lost;
mod refused;
mod run;
mod service;
mod site;
mod time;
mod training;
