#!/usr/bin/env bash
# Checks what artefacts.sh made, in seconds: check.sh TARGET DIST. Each program runs, says its version and makes noise.
set -euo pipefail

tools=$(realpath "$1")/tools/artefacts/bin
cd "$2"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sha256sum --check --quiet SHA256SUMS
# Every file but the list itself is on the list.
diff <(ls | grep -v '^SHA256SUMS$') <(awk '{ print $2 }' SHA256SUMS)

run() {
    local program=$1 at=$scratch/run
    rm -rf "$at" && mkdir "$at"
    "$program" --version
    "$program" key new --out "$at/key" >/dev/null
    "$program" plan from --mechanism band-sqrt --bands 4 --iterations 20 --noise-multiplier 1 \
        --dimension 1000 --summing-error 0 --out "$at/plan.toml" >/dev/null
    "$program" noise --plan "$at/plan.toml" --key-file "$at/key" --steps 0..20 --out "$at/x.npy" >/dev/null
    [[ $(stat -c %s "$at/x.npy") == 80128 ]]
}

mkdir "$scratch/archive"
tar --extract --gzip --directory "$scratch/archive" --file ./*.tar.gz
inside=$(echo "$scratch"/archive/*)
run "$inside/bin/rustle"
# A page for each command, and a completion that the shell reads.
for command in up plan noise verify report; do
    [[ -s $inside/share/man/man1/rustle-$command.1 ]]
done
bash -n "$inside/share/bash-completion/completions/rustle"

for package in ./*.deb; do
    [[ -e $package ]] || continue
    dpkg-deb --info "$package" | grep -E '^ (Package|Version|Depends):'
    dpkg-deb --extract "$package" "$scratch/debian"
    run "$scratch/debian/usr/bin/rustle"
done

python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps ./*.whl
run "$scratch/venv/bin/rustle"
cmp "$scratch/venv/bin/rustle" "$inside/bin/rustle"

"$tools/python" - ./*.cdx.json <<'PYTHON'
import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = open(sys.argv[1], encoding="utf-8").read()
fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
assert fault is None, fault
parts = json.loads(text)["components"]
names = {part["name"] for part in parts}
assert {"tokio", "ring", "redb", "etcd-client", "object_store", "noise-kernel"} <= names, names
assert not {"proptest", "criterion", "shuttle"} & names, "crates of tests are no part of the program"
unlicensed = [part["name"] for part in parts if not part.get("licenses")]
assert not unlicensed, unlicensed
print(f"{len(parts)} crates, all with a licence")
PYTHON
