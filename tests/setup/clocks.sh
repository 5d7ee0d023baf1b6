#!/usr/bin/env bash
# libfaketime, by which the rounds of chaos set one process's clock. Where it can't be had, they leave clocks out and say so.
set -euo pipefail

compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null && exit 0
((EUID == 0)) && command -v apt-get >/dev/null || exit 0
apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends libfaketime ||
    echo "libfaketime could not be installed" >&2
