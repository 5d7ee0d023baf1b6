#!/usr/bin/env bash
# The Python tools of requirements.txt in an environment of their own: tools.sh TARGET
set -euo pipefail

tools=$1/tools/artefacts
cmp -s deploy/release/requirements.txt "$tools/requirements.txt" && exit 0
rm -rf "$tools"
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --requirement deploy/release/requirements.txt
cp deploy/release/requirements.txt "$tools/"
