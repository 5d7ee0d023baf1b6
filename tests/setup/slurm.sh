#!/usr/bin/env bash
# Slurm with munge, for `make test-slurm`. Asks apt for what is missing only. Where it can't be had the tests say loudly that
# they tried nothing.
set -euo pipefail

missing=()
command -v munged >/dev/null || missing+=(munge)
command -v slurmctld >/dev/null || missing+=(slurmctld)
command -v slurmd >/dev/null || missing+=(slurmd)
command -v sbatch >/dev/null || missing+=(slurm-client)
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
    as_root=(sudo)
fi
if ! command -v apt-get >/dev/null || ! command -v "${as_root[0]:-true}" >/dev/null; then
    echo "SKIPPED: ${missing[*]} (Debian's names) can't be installed here" >&2
    exit 0
fi
# The daemons that the packages start have no configuration, and end by themselves; the tests start their own.
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
