#!/usr/bin/env bash
# etcd with etcdctl, and protoc to build its client with, for the feature `etcd` and its tests. Asks apt for what is missing only.
set -euo pipefail

missing=()
command -v etcd >/dev/null || missing+=(etcd-server)
command -v etcdctl >/dev/null || missing+=(etcd-client)
command -v protoc >/dev/null || missing+=(protobuf-compiler libprotobuf-dev)
((${#missing[@]})) || exit 0

as_root=()
((EUID == 0)) || as_root=(sudo)
command -v apt-get >/dev/null || {
    echo "missing: ${missing[*]} (Debian's names); there is no apt-get here, install them by hand" >&2
    exit 1
}
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
