//! Tests the batch scripts of deploy/slurm under a real Slurm of two nodes, which each test starts on this machine.
//! `make test-slurm` runs it; tests/setup/slurm.sh installs what it needs. Without root it prints that it is skipped.
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
