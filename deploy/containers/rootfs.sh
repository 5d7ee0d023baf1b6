#!/usr/bin/env bash
# The whole root filesystem of a container that runs one program: rootfs.sh PROGRAM ROOT. The program, the libraries that
# it is linked to, the certificates that stores on the internet are checked by, a user, and nothing else: no shell.
set -euo pipefail

program=$1 root=$2
user=65532

install -d "$root/usr/bin" "$root/etc/ssl/certs" "$root/var/lib"
install -m 0755 --strip "$program" "$root/usr/bin/rustle"
# The loader is the one line without an arrow.
ldd "$program" | awk '/=> \// { print $3 } /^\t\// { print $1 }' | while read -r library; do
    install -D -m 0755 "$(realpath "$library")" "$root$library"
done
if [[ -e /etc/ssl/certs/ca-certificates.crt ]]; then
    install -m 0444 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi
echo "rustle:x:$user:$user::/var/lib/rustle:/" >"$root/etc/passwd"
echo "rustle:x:$user:" >"$root/etc/group"
install -d -m 0700 "$root/var/lib/rustle"
if ((EUID == 0)); then
    chown "$user:$user" "$root/var/lib/rustle"
fi
