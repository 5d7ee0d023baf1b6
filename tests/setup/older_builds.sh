#!/usr/bin/env bash
# Builds `rustle` as it was at older revisions, to run beside today's: into target/older/NAME/rustle.
#   protocol-2     the last build of protocol 2
#   protocol-3     the first build of protocol 3
# Needs the repository's history; what is built already stays.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-$PWD/target}/older
for build in protocol-2=1d54a1b protocol-3=fbfe244; do
    name=${build%%=*} revision=${build#*=}
    [ -x "$target/$name/rustle" ] && continue
    git cat-file -e "$revision^{commit}" || {
        echo "revision $revision ($name) is not in this clone; allowed: a clone with its whole history" >&2
        exit 1
    }
    rm -rf "$target/tree" && mkdir -p "$target/tree"
    # With the time of now: that of the revision is older than what was built last, which cargo would take for the same.
    git archive "$revision" | tar -x --touch -C "$target/tree"
    (cd "$target/tree" && CARGO_TARGET_DIR=$target/build cargo build --quiet --release --locked -p rustle --bin rustle)
    mkdir -p "$target/$name"
    cp "$target/build/release/rustle" "$target/$name/rustle"
done
