#!/usr/bin/env bash
# The noise kernel interpreted by Miri, which sees accesses out of bounds, aliases, races and reads of what was never
# written. It needs a nightly toolchain with the components miri and rust-src (`rustup toolchain install nightly
# --component miri,rust-src`). AVX2 is interpreted as well, its stores past the caches as plain ones; of AVX-512, Miri
# lacks instructions.
set -euo pipefail

# System calls by way of libc, whose mmap Miri knows. In a folder of its own: other flags, other compiler.
export RUSTFLAGS="--cfg rustix_use_libc -Ctarget-feature=+avx2,+fma"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri
# Rayon's queues keep numbers in pointers, which the stricter model of aliases does not take; its threads live to the end.
export MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation"
cargo +nightly miri test --locked -p noise-kernel --test small "$@"
# "Too much" is memory that the interpreter itself would ask for.
cargo +nightly miri test --locked -p noise-kernel --lib "$@" -- memory:: output:: history:: --skip too_much
