#!/usr/bin/env bash
# Runs every fuzz test for a while, on each processor one:
# scripts/fuzz.sh [DURATION, default 10s]
set -euo pipefail
cd "$(dirname "$0")/.."
export fuzztime=${1:-10s}

targets() {
  for pkg in $(go list ./...); do
    dir=.${pkg#github.com/weirstream/weir}
    for f in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //'); do
      echo "$dir $f"
    done
  done
}

fuzz() { # DIR TEST
  echo "$1 $2"
  said=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" -parallel 1 "$1" 2>&1) || { echo "$said"; exit 255; } # ends xargs
}
export -f fuzz

targets | xargs -L 1 -P "$(getconf _NPROCESSORS_ONLN)" bash -c 'fuzz "$@"' fuzz
