#!/usr/bin/env bash
# The wheel with the program beside its module, so that `pip install` brings both: wheel.sh PYTHON WHEEL PROGRAM DIST
set -euo pipefail

python=$1 wheel=$2 program=$3 dist=$4
unpacked=$dist/wheel
"$python" -m wheel unpack --dest "$unpacked" "$wheel" >/dev/null
folder=$(echo "$unpacked"/*)
# Its name is that of the package and its version, as wheels require.
install -D -m 0755 "$program" "$folder/$(basename "$folder").data/scripts/rustle"
"$python" -m wheel pack --dest-dir "$dist" "$folder" >/dev/null
rm -rf "$unpacked"
