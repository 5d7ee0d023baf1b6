#!/usr/bin/env bash
# The noise kernel's tests under AddressSanitizer. The sanitizer's flag is not stable yet: RUSTC_BOOTSTRAP lets the
# pinned compiler take it. The standard library itself is not instrumented.
set -euo pipefail

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address"
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
# A triple of its own, so that build scripts are built without it.
cargo test --release --locked --target "$host" -p noise-kernel --lib --test exact --test refusals --test golden "$@"
