#!/usr/bin/env bash
# All that is published of one version, in an empty folder: artefacts.sh TARGET DIST. The program (with etcd and s3) as an
# archive and as a Debian package, with manual pages and completions; the wheel, which carries the program too; the parts that
# the program is made of (CycloneDX); checksums. PROGRAM and WHEEL name files that were built before. It runs on the C library
# of the machine that builds it and on later ones: the package says which.
set -euo pipefail

target=$(realpath -m "$1") dist=$(realpath -m "$2")
version=$(cargo metadata --no-deps --offline --format-version 1 | python3 -c '
import json, sys
print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "rustle"))')
machine=$(uname -m)
# Dates of the commit: the same sources make the same archives.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022

deploy/release/tools.sh "$target"
tools=$target/tools/artefacts

if [[ -z ${PROGRAM:-} ]]; then
    cargo build --release --locked --package rustle --bin rustle --features etcd,s3
    PROGRAM=$target/release/rustle
fi
if [[ -z ${WHEEL:-} ]]; then
    tests/setup/package_environment.sh "$target" core
    WHEEL=$(echo "$target"/package/wheels/*.whl)
fi

rm -rf "$dist"
root=$dist/root
install -D -m 0755 --strip "$PROGRAM" "$root/usr/bin/rustle"
program=$root/usr/bin/rustle
install -d "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" \
    "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d" "$root/usr/share/doc/rustle"
"$program" man --out "$root/usr/share/man/man1" >/dev/null
"$program" completions bash >"$root/usr/share/bash-completion/completions/rustle"
"$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_rustle"
"$program" completions fish >"$root/usr/share/fish/vendor_completions.d/rustle.fish"
cp LICENSE "$root/usr/share/doc/rustle/copyright"
cp README.md CHANGELOG.md SECURITY.md "$root/usr/share/doc/rustle/"
# The digits of `rustle demo` are in the program, under a licence of their own.
cp rustle/data/README.md "$root/usr/share/doc/rustle/DIGITS.md"

"$tools/bin/python" deploy/release/sbom.py "$dist/rustle-$version.cdx.json"
deploy/release/archive.sh "$root" "$dist/rustle-$version-$machine-linux.tar.gz" "rustle-$version"
if command -v dpkg-deb >/dev/null; then
    deploy/release/debian.sh "$root" "$version" "$dist"
fi
deploy/release/wheel.sh "$tools/bin/python" "$WHEEL" "$program" "$dist"

rm -rf "$root"
(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
