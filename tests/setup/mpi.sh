#!/usr/bin/env bash
# What noise under MPI is built and tried with: Open MPI and libclang by apt, and a Python environment with mpi4py in the
# folder given: mpi.sh FOLDER
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$1
mkdir -p "$folder"

missing=()
command -v mpicc >/dev/null || missing+=(libopenmpi-dev)
command -v mpirun >/dev/null || missing+=(openmpi-bin)
compgen -G "/usr/lib/llvm-*/lib/libclang.so" >/dev/null || missing+=(libclang-dev)
if ((${#missing[@]})); then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    command -v apt-get >/dev/null || {
        echo "missing: ${missing[*]} (Debian's names); there is no apt-get here, install them by hand" >&2
        exit 1
    }
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

requirements=tests/setup/mpi-requirements.txt
if ! cmp -s "$requirements" "$folder/venv/requirements.txt"; then
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --requirement "$requirements"
    cp "$requirements" "$folder/venv/requirements.txt"
fi
