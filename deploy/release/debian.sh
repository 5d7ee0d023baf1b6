#!/usr/bin/env bash
# A Debian package of the files below a root: debian.sh ROOT VERSION MACHINE GLIBC DIST. It depends on that C library, and fails
# if the program needs a later one.
set -euo pipefail

version=$2 machine=$3 glibc=$4 dist=$5
root=$dist/debian
declare -A architectures=([x86_64]=amd64 [aarch64]=arm64)
architecture=${architectures[$machine]}
cp -a "$1" "$root"
gzip --no-name --best "$root"/usr/share/man/man1/*.1 "$root/usr/share/doc/rustle/CHANGELOG.md"
needed=$(readelf --version-info --wide "$root/usr/bin/rustle" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1)
if [[ $(printf '%s\n' "$needed" "$glibc" | sort -V | tail -1) != "$glibc" ]]; then
    echo "the program for $machine needs glibc $needed; $glibc was asked for" >&2
    exit 1
fi
install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: rustle
Version: $version
Architecture: $architecture
Maintainer: The Rustle contributors <noreply@localhost>
Installed-Size: $(du -ks "$root/usr" | cut -f1)
Depends: libc6 (>= $glibc)
Recommends: ca-certificates
Section: science
Priority: optional
Description: correlated noise for differentially private training
 Generates the correlated noise of differentially private training as a
 distributed, checkpointed and verifiable service: planner, coordinator,
 workers, accountant and command line in one program.
CONTROL
dpkg-deb --root-owner-group --build "$root" "$dist/rustle_${version}_$architecture.deb" >/dev/null
rm -rf "$root"
