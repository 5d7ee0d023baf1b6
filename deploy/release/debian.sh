#!/usr/bin/env bash
# A Debian package of the files below a root: debian.sh ROOT VERSION DIST. It depends on the C library that the program needs.
set -euo pipefail

version=$2 dist=$3
root=$dist/debian
architecture=$(dpkg --print-architecture)
cp -a "$1" "$root"
gzip --no-name --best "$root"/usr/share/man/man1/*.1 "$root/usr/share/doc/rustle/CHANGELOG.md"
libc=$(objdump -T "$root/usr/bin/rustle" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1)
install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: rustle
Version: $version
Architecture: $architecture
Maintainer: The Rustle contributors <noreply@localhost>
Installed-Size: $(du -ks "$root/usr" | cut -f1)
Depends: libc6 (>= $libc), libgcc-s1
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
