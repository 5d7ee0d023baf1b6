#!/usr/bin/env bash
# The two cargo tools, each built into the given folder unless it is there: tools.sh FOLDER
set -euo pipefail

tools=$1
export PATH="$tools/bin:$PATH"

# They run for seconds, so they are built for a short build.
install() {
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_DEBUG=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR="$tools/build" \
        cargo install --locked --root "$tools" --version "$2" "$1"
    rm -rf "$tools/build"
}

# Any nextest reads our configuration; what cargo-deny reports differs from version to version.
cargo nextest --version >/dev/null 2>&1 || install cargo-nextest 0.9.143
[[ $(cargo-deny --version 2>/dev/null) == "cargo-deny 0.20.2" ]] || install cargo-deny 0.20.2
