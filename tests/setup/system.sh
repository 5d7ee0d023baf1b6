#!/usr/bin/env bash
# What the operating system must bring: a linker for Rust, Python with venv. Asks apt for what is missing only.
set -euo pipefail

command -v cargo >/dev/null || {
    echo "cargo is missing: install Rust with rustup; rust-toolchain.toml names the version" >&2
    exit 1
}

missing=()
command -v cc >/dev/null || missing+=(build-essential)
command -v git >/dev/null || missing+=(git)
if ! command -v python3 >/dev/null; then
    missing+=(python3 python3-venv)
elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    missing+=(python3-venv)
fi
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null || {
        echo "missing: ${missing[*]}; installing them takes root or sudo" >&2
        exit 1
    }
    as_root=(sudo)
fi
command -v apt-get >/dev/null || {
    echo "missing: ${missing[*]} (Debian's names); there is no apt-get here, install them by hand" >&2
    exit 1
}
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
