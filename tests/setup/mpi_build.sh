#!/usr/bin/env bash
# `noise-worker` with its feature `mpi`, and what is tried with it, in the folder given: mpi_build.sh FOLDER
set -euo pipefail

# The package without its wheel: the sources beside the module that `cargo build` made.
package=$1/package/rustle
rm -rf "$package"
mkdir -p "$package"
cp python/rustle/*.py "$package"
cp "$CARGO_TARGET_DIR/release/lib_native.so" "$package/_native.abi3.so"

cargo build --release --locked --package noise-worker --features mpi --bins --examples
mkdir -p "$1"
# Copied: the next build of the workspace puts its own `noise-worker`, without MPI, in their place.
cp --force "$CARGO_TARGET_DIR"/release/noise-worker "$CARGO_TARGET_DIR"/release/examples/{mpi_panic,mpi_rates} "$1"
