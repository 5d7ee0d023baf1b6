#!/usr/bin/env bash
# A folder as an archive whose bytes depend on its files alone: archive.sh ROOT ARCHIVE NAME. Below NAME are bin and share.
set -euo pipefail

tar --create --directory "$1/usr" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    --transform="s,^\.,$3," . | gzip --no-name --best >"$2"
