#!/usr/bin/env bash
# The documentation as a site, in FOLDER/site: docs.sh FOLDER build. With `test` in place of it also what is shown there, and
# how; needs the release build, and Chromium (tests/setup/deploy.sh).
set -euo pipefail

folder=$(realpath -m "$1")
requirements=docs/site/requirements.txt
mkdir -p "$folder"
if ! cmp -s "$requirements" "$folder/venv/requirements.txt"; then
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --only-binary :all: --requirement "$requirements"
    cp "$requirements" "$folder/venv/requirements.txt"
fi
tests/setup/python_package.sh "$folder/package"
"$folder/venv/bin/python" docs/site/build.py "$folder"
[[ $2 == test ]] || exit 0
PYTHONPATH=$folder/package RUSTLE_SITE=$folder/site exec "$folder/venv/bin/pytest" --config-file /dev/null -q \
    --durations 5 -p no:cacheprovider tests/docs
