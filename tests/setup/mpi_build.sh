#!/usr/bin/env bash
# Builds `noise-worker` with the subcommand `mpi` (a binary of the crate rustle-mpi) and the examples that the tests run
# beside it, and copies them to the folder given: mpi_build.sh FOLDER CARGO_ARGUMENTS...
set -euo pipefail

folder=$1
shift
cargo build "$@" --bin noise-worker --example mpi_panic --example mpi_rates
mkdir -p "$folder"
# Copied: the next build of the workspace puts rustle's `noise-worker`, which has no MPI, in the same place.
cp --force "$CARGO_TARGET_DIR"/release/noise-worker "$CARGO_TARGET_DIR"/release/examples/{mpi_panic,mpi_rates} "$folder"
