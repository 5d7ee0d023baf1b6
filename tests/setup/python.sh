#!/usr/bin/env bash
# The Python environment of tests/python in .venv, made again when its requirements change.
set -euo pipefail

requirements=tests/python/requirements.txt
stamp=.venv/requirements.txt
cmp -s "$requirements" "$stamp" && exit 0
rm -rf .venv
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: --requirement "$requirements"
cp "$requirements" "$stamp"
