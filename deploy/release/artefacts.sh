#!/usr/bin/env bash
# All that is published of one version, in an empty folder: artefacts.sh TARGET DIST. For each of MACHINES (x86_64, aarch64;
# this machine's by default) the program (with etcd and s3) as an archive and as a Debian package, with manual pages and
# completions, and the wheel, which carries the program too; then the parts that the program is made of (CycloneDX) and
# checksums. Zig's linker makes all of them run on glibc 2.28 (2018) and later, whatever machine builds them.
set -euo pipefail

target=$(realpath -m "$1") dist=$(realpath -m "$2")
here=$(uname -m)
read -ra machines <<<"${MACHINES:-$here}"
# The C library that manylinux_2_28 names, which is the wheels' platform.
glibc=2.28
version=$(cargo metadata --no-deps --offline --format-version 1 | python3 -c '
import json, sys
print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "rustle"))')
# Dates of the commit: the same sources make the same archives.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022

deploy/release/tools.sh "$target"
tools=$target/tools/artefacts
export PATH="$tools/bin:$PATH"

# Pages and completions come from the program, so it is built for this machine first, whatever is published.
built=$target/dist-build
for machine in $(printf '%s\n' "$here" "${machines[@]}" | sort -u); do
    rustup target add "$machine-unknown-linux-gnu" >/dev/null 2>&1 || true # where rustup is missing, cargo says what it misses
    CARGO_TARGET_DIR=$built CARGO_PROFILE_RELEASE_STRIP=true cargo zigbuild --release --locked --package rustle --bin rustle --features etcd,s3 \
        --target "$machine-unknown-linux-gnu.$glibc"
done
own=$built/$here-unknown-linux-gnu/release/rustle

rm -rf "$dist"
root=$dist/root
shared=$root/usr/share
install -d "$shared/man/man1" "$shared/bash-completion/completions" \
    "$shared/zsh/vendor-completions" "$shared/fish/vendor_completions.d" "$shared/doc/rustle"
"$own" man --out "$shared/man/man1" >/dev/null
"$own" completions bash >"$shared/bash-completion/completions/rustle"
"$own" completions zsh >"$shared/zsh/vendor-completions/_rustle"
"$own" completions fish >"$shared/fish/vendor_completions.d/rustle.fish"
cp LICENSE "$shared/doc/rustle/copyright"
cp README.md CHANGELOG.md SECURITY.md "$shared/doc/rustle/"
# The digits of `rustle demo` are in the program, under a licence of their own.
cp rustle/data/README.md "$shared/doc/rustle/DIGITS.md"

for machine in "${machines[@]}"; do
    triple=$machine-unknown-linux-gnu
    program=$root/usr/bin/rustle
    install -D -m 0755 "$built/$triple/release/rustle" "$program"
    deploy/release/archive.sh "$root" "$dist/rustle-$version-$machine-linux.tar.gz" "rustle-$version"
    if command -v dpkg-deb >/dev/null; then
        deploy/release/debian.sh "$root" "$version" "$machine" "$glibc" "$dist"
    fi
    rm -rf "$target/dist-wheels"
    (cd python && CARGO_TARGET_DIR=$built "$tools/bin/maturin" build --quiet --release --locked --zig --target "$triple" \
        --compatibility "manylinux_${glibc/./_}" --out "$target/dist-wheels")
    deploy/release/wheel.sh "$tools/bin/python" "$target"/dist-wheels/*.whl "$program" "$dist"
done
"$tools/bin/python" deploy/release/sbom.py "$dist/rustle-$version.cdx.json"

rm -rf "$root"
(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
