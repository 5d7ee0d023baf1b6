//! Tests noise under a real `mpirun`: one launch by itself, and beside training ranks in Rust and in Python. `make
//! test-mpi` runs it; tests/setup/mpi.sh installs what it needs.
#![allow(clippy::unwrap_used)] // a test says best where it stands

mod beside;
mod cores;
mod ends;
mod launch;
mod on_grid;
mod refused;
mod resumed;
mod same_bits;
mod session;
