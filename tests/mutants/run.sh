#!/usr/bin/env bash
# Plants each bug of tests/mutants/*.patch in a copy of the tree and expects the test that it names to fail:
# run.sh [NAME…]. Prints a table; fails where a bug survives, a patch no longer fits, or a mutant does not compile.
set -euo pipefail
cd "$(dirname "$0")/../.."

root=$PWD
patches=$root/tests/mutants
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
tree=$CARGO_TARGET_DIR/mutants/tree
logs=$CARGO_TARGET_DIR/mutants/logs

# Only what differs is copied, with a new time: what an earlier run left planted is built again, all else is not.
mkdir -p "$tree" "$logs"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    cmp --silent "$file" "$tree/$file" || cp --parents "$file" "$tree"
done
cd "$tree"

field() { sed -n "s/^$1: //p" "$patches/$2.patch" | head -1; }

# What the patch names, as arguments of `cargo test`. A bug that makes a test hang is found too.
# shellcheck disable=SC2046
run() { timeout 300 cargo test --quiet --release --locked $(field 'Killed by' "$1"); }
# shellcheck disable=SC2046
build() { cargo test --quiet --release --locked --no-run $(field 'Killed by' "$1" | sed 's/ -- .*//'); }

restore() {
    sed -n 's|^+++ b/||p' "$patches/$1.patch" | while read -r file; do
        cp "$root/$file" "$file"
        rm -f "$file.rej" "$file.orig"
    done
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    # Those of one crate after the other: each build is the smallest.
    mapfile -t names < <(grep -H '^Killed by: ' "$patches"/*.patch | sort -t: -k3,3 -s |
        sed 's|\.patch:.*||; s|.*/||')
fi

# A test that fails or finds nothing on the tree as it is shows nothing.
declare -A sound
for name in "${names[@]}"; do
    if build "$name" >"$logs/$name.log" 2>&1 && run "$name" >>"$logs/$name.log" 2>&1 &&
        grep -Eq 'test result: ok\. [1-9]' "$logs/$name.log"; then
        sound[$name]=yes
    fi
done

killed=0
for name in "${names[@]}"; do
    log=$logs/$name.log
    if [ -z "${sound[$name]:-}" ]; then
        verdict='NO TEST (it fails or finds nothing without the bug)'
    elif ! patch --strip 1 --forward --no-backup-if-mismatch <"$patches/$name.patch" >"$log" 2>&1; then
        verdict='DOES NOT APPLY'
    elif ! build "$name" >>"$log" 2>&1; then
        verdict='DOES NOT COMPILE'
    elif run "$name" >>"$log" 2>&1; then
        verdict='SURVIVED'
    else
        verdict='killed'
        killed=$((killed + 1))
    fi
    restore "$name"
    printf '%-30s %-10s %s\n' "$name" "$verdict" "$(field Breaks "$name")"
done
echo "$killed of ${#names[@]} killed"
exit "$((killed < ${#names[@]}))"
