#!/usr/bin/env bash
# Prometheus with promtool, and Chromium, for `make test-deploy`. Asks apt for what is missing only.
set -euo pipefail

missing=()
command -v prometheus >/dev/null && command -v promtool >/dev/null || missing+=(prometheus)
command -v chromium >/dev/null || missing+=(chromium fonts-dejavu-core)
((${#missing[@]})) || exit 0

as_root=()
((EUID == 0)) || as_root=(sudo)
command -v apt-get >/dev/null || {
    echo "missing: ${missing[*]} (Debian's names); there is no apt-get here, install them by hand" >&2
    exit 1
}
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
