#!/usr/bin/env bash
# The Python package's tests in the environment of its wheel: package.sh TARGET [frameworks [WORDS]]. With the word, the
# tests of PyTorch, Opacus, JAX and Flower too. More words go to pytest.
set -euo pipefail

target=$(realpath -m "$1")
what=${2:-core}
tests/setup/package_environment.sh "$target" "$what"
folder=$target/package

# Beside the sources Python would take those for the package.
tests=$PWD/python/tests
config=$PWD/python/pyproject.toml
# The models are small: threads that wait for each other cost more than they bring.
export OMP_NUM_THREADS=1
cd "$folder"
exec "$folder/$what/bin/pytest" --config-file "$config" --rootdir "$tests" --durations 5 "${@:3}" "$tests"
