#!/usr/bin/env bash
# Applies each bug of tests/mutants/*.patch to a copy of the tree and expects the tests that it names to fail:
# run.sh [NAME…]. `run.sh --check` only checks that every patch applies. Prints a line for each bug, then counts. Fails if
# a bug survives, a patch no longer applies, a mutant does not compile, or a test fails or is missing without the bug.
#
# The first lines of a patch: `Breaks: what`, and one or more `Killed by: arguments of cargo test [-- filter]`.
# MUTANTS_DIR: where the copy and its builds go (default target/mutants).
set -euo pipefail
cd "$(dirname "$0")/../.."

work=${MUTANTS_DIR:-${CARGO_TARGET_DIR:-$PWD/target}/mutants}
tree=$work/tree
logs=$work/logs

if [ "${1:-}" = --check ]; then
    unfit=0
    for patch in tests/mutants/*.patch; do
        grep -q '^Breaks: ' "$patch" && grep -q '^Killed by: ' "$patch" && git apply --check "$patch" && continue
        echo "$(basename "$patch") does not fit" >&2
        unfit=$((unfit + 1))
    done
    exit "$((unfit > 0))"
fi

mkdir -p "$tree" "$logs"
# A target directory of its own: what is built with a bug in it must never be taken for the real thing.
export CARGO_TARGET_DIR=$work/target CARGO_INCREMENTAL=1

# Only what differs is copied, with a new time: what an earlier run left planted is built again, all else is not.
git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
    if [ -e "$file" ]; then echo "$file"; fi
done | sort >"$work/files"
while IFS= read -r file; do
    cmp --silent "$file" "$tree/$file" || cp --parents "$file" "$tree"
done <"$work/files"
(cd "$tree" && find . -type f -printf '%P\n') | sort | comm -13 "$work/files" - | while IFS= read -r file; do
    rm "$tree/$file"
done
cd "$tree"
# From the copy, too: edits to the tree during the run change nothing here.
patches=tests/mutants

# One line a bug and test, those of one build after the other: BUILD|FILTER|NAME.
plan=$work/plan
for patch in "$patches"/*.patch; do
    name=$(basename "$patch" .patch)
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    sed -n "/^Killed by: /{ s///; / -- /! s/\$/ -- /; s/ -- /|/; s/\$/|$name/; p }" "$patch"
done | sort >"$plan"
mapfile -t pairs <"$plan"
total=${#pairs[@]}
for name in "$@"; do
    grep -q "|$name\$" "$plan" || { echo "no bug named $name" >&2; exit 2; }
done

# shellcheck disable=SC2086
build() { cargo test --quiet --release --locked --no-run $1; }
# A bug that makes a test hang is found too.
# shellcheck disable=SC2086
run() { timeout "${MUTANTS_LIMIT:-300}" cargo test --release --locked $1 -- $2; }
touched() { sed -n 's|^+++ b/||p' "$patches/$1.patch"; }

plant() {
    rm -rf "$work/as-it-was"
    mkdir "$work/as-it-was"
    touched "$1" | xargs cp --parents --target-directory "$work/as-it-was"
    patch --strip 1 --forward --no-backup-if-mismatch <"$patches/$1.patch"
}

# With a new time, so that it is built again.
restore() {
    touched "$1" | while read -r file; do
        cp "$work/as-it-was/$file" "$file"
        rm -f "$file.rej" "$file.orig"
    done
}

# A test that fails or finds nothing on the tree as it is shows nothing: all of one build at once.
is_sound() { grep -Eq "^test .*${1##* }.* \.\.\. ok" "$2" && ! grep -Eq "^test .*${1##* }.* \.\.\. FAILED" "$2"; }

killed=0 done=0 last='' failed=()
begun=$SECONDS
for line in "${pairs[@]}"; do
    IFS='|' read -r with filter name <<<"$line"
    done=$((done + 1))
    log=$logs/$done-$name.log
    if [ "$with" != "$last" ]; then
        last=$with
        clean=$logs/clean-$(tr -cs 'a-z0-9\n' '-' <<<"$with").log
        filters=$(awk -F'|' -v with="$with" '$1 == with { print $2 }' "$plan" | sort -u | tr '\n' ' ')
        { build "$with" && run "$with" "$filters"; } >"$clean" 2>&1 </dev/null || true
    fi
    from=$SECONDS
    if ! is_sound "$filter" "$clean"; then
        verdict='NO TEST'
    else
        if ! plant "$name" >"$log" 2>&1; then
            verdict='NO FIT'
        elif ! build "$with" >>"$log" 2>&1 </dev/null; then
            verdict='NO BUILD'
        elif run "$with" "$filter" >>"$log" 2>&1 </dev/null; then
            verdict='SURVIVED'
        else
            verdict='killed'
        fi
        restore "$name"
    fi
    case $verdict in
    killed) killed=$((killed + 1)) ;;
    *) failed+=("$name: $verdict ($log)") ;;
    esac
    printf '%2d/%d %-34s %-8s %4d s  %s\n' "$done" "$total" "$name" "$verdict" "$((SECONDS - from))" \
        "$(sed -n 's/^Breaks: //p' "$patches/$name.patch")"
done

echo "$killed of $total killed, in $(((SECONDS - begun) / 60)) min"
[ ${#failed[@]} -eq 0 ] || printf '%s\n' "${failed[@]}"
exit "$((killed < total))"
