#!/usr/bin/env bash
# `noise-worker` with its feature `mpi`, and what is tried with it, in the folder given: mpi_build.sh FOLDER
set -euo pipefail

tests/setup/python_package.sh "$1/package"
cargo build --release --locked --package noise-worker --features mpi --bins --examples
mkdir -p "$1"
# Copied: the next build of the workspace puts its own `noise-worker`, without MPI, in their place.
cp --force "$CARGO_TARGET_DIR"/release/noise-worker "$CARGO_TARGET_DIR"/release/examples/{mpi_panic,mpi_rates} "$1"
