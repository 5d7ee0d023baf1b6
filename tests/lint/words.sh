#!/usr/bin/env bash
# Fails where a tracked file has a word of words.txt, and prints file, line and the word to use instead.
# words.sh [--all] checks the whole tree; --all ignores the list's file patterns and looks at *.md, *.rs and *.py.
set -euo pipefail
cd "$(dirname "$0")/../.."

all=('*.md' '*.rs' '*.py')
# It quotes old names.
quotes=':!docs/renames.md'
found=0
while IFS=$'\t' read -r pattern files instead; do
    [[ -z $pattern || $pattern == \#* ]] && continue
    [[ -n $files && -n $instead ]] || { echo "tests/lint/words.txt: no tab-separated files or advice: $pattern" >&2; exit 2; }
    read -ra where <<<"$files"
    [[ ${1:-} == --all ]] && where=("${all[@]}")
    status=0
    hits=$(git grep --no-color -nIiE -e "$pattern" -- "${where[@]}" "$quotes") || status=$?
    # 1 means that nothing matched; anything higher is a broken pattern.
    ((status <= 1)) || { echo "tests/lint/words.txt: git grep can't use this pattern: $pattern" >&2; exit 2; }
    [[ -n $hits ]] || continue
    found=1
    echo "$hits"
    echo "  -> $instead"
done <tests/lint/words.txt
exit "$found"
