#!/usr/bin/env bash
# `noise-worker` with its feature `mpi`, and what is tried with it, in the folder given: mpi_build.sh FOLDER CARGO_ARGUMENTS...
set -euo pipefail

folder=$1
shift
cargo build "$@" --bin noise-worker --example mpi_panic --example mpi_rates
mkdir -p "$folder"
# Copied: the next build of the workspace puts its own `noise-worker`, without MPI, in their place.
cp --force "$CARGO_TARGET_DIR"/release/noise-worker "$CARGO_TARGET_DIR"/release/examples/{mpi_panic,mpi_rates} "$folder"
