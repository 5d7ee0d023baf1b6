#!/usr/bin/env bash
# The trainings in full, whose figures and pictures are those of docs/trainings.md: trainings.sh PYTHON. A training that was
# cut off continues. Folders are named as the page names them, and so are not below CARGO_TARGET_DIR.
set -euo pipefail

python=$1
pages=docs/trainings
mkdir -p "$pages"
"$python" trainings/federated_roles.py --processes 2 --workers 2 >/dev/null
"$python" trainings/amplified_digits.py --processes 2 >/dev/null
"$python" trainings/mail_by_sender.py --processes 2 >/dev/null
"$python" trainings/strategies_digits.py --processes 2 >/dev/null
"$python" trainings/at_size.py >/dev/null
for name in roles digits mail strategies size; do
    cp "target/trainings/$name/figures.json" "$pages/$name.json"
    echo "$name"
    picture=("$pages/$name.svg")
    [[ $name == size || $name == strategies ]] && picture=()
    "$python" trainings/page.py "$name" "$pages/$name.json" "${picture[@]}"
done
"$python" trainings/page.py memory "$pages/roles.json" "$pages/memory.svg"
