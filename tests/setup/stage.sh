#!/usr/bin/env bash
# Runs one stage of `make test` and says how long it took: stage.sh NAME COMMAND...
set -euo pipefail

name=$1
shift
echo "── $name: $*"
status=0
start=$SECONDS
"$@" || status=$?
took=$((SECONDS - start))
mkdir -p "${CARGO_TARGET_DIR:=target}"
echo "$name $took" >>"$CARGO_TARGET_DIR/stages"
if ((status)); then
    echo "── $name: FAILED with status $status after $took s" >&2
else
    echo "── $name: $took s"
fi
exit "$status"
