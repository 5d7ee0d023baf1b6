#!/usr/bin/env bash
# Checks what artefacts.sh made, in seconds: check.sh TARGET DIST. Each program runs, says its version and makes noise, that of
# another machine under qemu (qemu-user and libc6-arm64-cross) where it is installed; all make the same noise of one key.
set -euo pipefail

tools=$(realpath "$1")/tools/artefacts/bin
cd "$2"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sha256sum --check --quiet SHA256SUMS
# Every file but the list itself is on the list.
diff <(ls | grep -v '^SHA256SUMS$') <(awk '{ print $2 }' SHA256SUMS)

here=$(uname -m)

# runner MACHINE: the words in front of a program for it. Fails where there is none.
runner() {
    if [[ $1 == "$here" ]]; then return 0; fi
    command -v "qemu-$1" >/dev/null && [[ -d /usr/$1-linux-gnu ]] && echo "qemu-$1 -L /usr/$1-linux-gnu"
}

# run MACHINE PROGRAM: makes the rows of one key and noise id, which must be the same by every program.
run() {
    local words
    words=$(runner "$1") || {
        echo "SKIPPED: no program for $1 ran: qemu-$1 or /usr/$1-linux-gnu is missing"
        return 0
    }
    # Two words at most, none with a space in it.
    # shellcheck disable=SC2206
    local program=($words "$2")
    "${program[@]}" --version
    cd "$scratch"
    local again=()
    if [[ -s noise.json ]]; then
        again=(--noise-id "$(python3 -c 'import json; print(json.load(open("noise.json"))["noise_id"])')")
    else
        "${program[@]}" key new --out key >/dev/null
        "${program[@]}" plan from --mechanism band-sqrt --bands 4 --iterations 20 --noise-multiplier 1 \
            --dimension 1000 --summing-error 0 --out plan.toml >/dev/null
    fi
    "${program[@]}" noise --plan plan.toml --key-file key --steps 0..20 "${again[@]}" --out x.npy --format json >now.json
    [[ -s noise.json ]] || cp now.json noise.json
    [[ $(stat -c %s x.npy) == 80128 ]]
    sha256sum <x.npy >>sums
    rm x.npy
    cd "$OLDPWD"
}

for archive in ./*.tar.gz; do
    machine=${archive%-linux.tar.gz}
    machine=${machine##*-}
    rm -rf "$scratch/archive" && mkdir "$scratch/archive"
    tar --extract --gzip --directory "$scratch/archive" --file "$archive"
    inside=$(echo "$scratch"/archive/*)
    run "$machine" "$inside/bin/rustle"
    # A page for each command, and a completion that the shell reads.
    for command in up plan noise verify report; do
        [[ -s $inside/share/man/man1/rustle-$command.1 ]]
    done
    bash -n "$inside/share/bash-completion/completions/rustle"

    wheel=(./*manylinux*_"$machine".whl)
    if [[ $machine == "$here" ]]; then
        python3 -m venv "$scratch/venv"
        "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps "${wheel[0]}"
        cmp "$scratch/venv/bin/rustle" "$inside/bin/rustle"
    else
        # pip takes another machine's wheel apart when it is told of it.
        python3 -m venv "$scratch/pip"
        "$scratch/pip/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$scratch/wheel-$machine" \
            --only-binary :all: --platform "manylinux_2_28_$machine" --python-version 3.11 "${wheel[0]}"
        cmp "$scratch/wheel-$machine/bin/rustle" "$inside/bin/rustle"
    fi
done

for package in ./*.deb; do
    [[ -e $package ]] || continue
    dpkg-deb --info "$package" | grep -E '^ (Package|Version|Architecture|Depends):'
    rm -rf "$scratch/debian"
    dpkg-deb --extract "$package" "$scratch/debian"
    case $package in
    *_amd64.deb) run x86_64 "$scratch/debian/usr/bin/rustle" ;;
    *_arm64.deb) run aarch64 "$scratch/debian/usr/bin/rustle" ;;
    esac
done
[[ $(sort -u "$scratch/sums" | wc -l) == 1 ]]
echo "$(wc -l <"$scratch/sums") programs made the same rows"

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
