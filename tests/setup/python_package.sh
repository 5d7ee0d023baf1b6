#!/usr/bin/env bash
# The Python package without its wheel, for PYTHONPATH: its sources beside the module that the release build made.
set -euo pipefail

package=$1/rustle
rm -rf "$package"
mkdir -p "$1"
cp -r python/rustle "$1"
rm -f "$package"/*.so
cp "$CARGO_TARGET_DIR/release/lib_native.so" "$package/_native.abi3.so"
