#!/usr/bin/env bash
# Plants each bug of tests/simulation/mutants/ in turn and has the simulation find it: mutants.sh [COUNT]. Works on a
# clean tree, and leaves it clean. Fails where a bug is not found within COUNT seeds.
set -euo pipefail
cd "$(dirname "$0")/../.."

count=${1:-3000}
missed=0
for patch in tests/simulation/mutants/*.patch; do
    name=$(basename "$patch" .patch)
    git apply "$patch"
    trap 'git apply --reverse "$patch"' EXIT
    found=$(cargo run --quiet --release -p simulation -- --count "$count" --repeat-every 0 --stop 2>&1 | grep -m1 '^seed' || true)
    git apply --reverse "$patch"
    trap - EXIT
    echo "$name: ${found:-NOT FOUND in $count seeds}"
    [ -n "$found" ] || missed=$((missed + 1))
done
exit "$((missed > 0))"
