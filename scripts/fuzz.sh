#!/usr/bin/env bash
# Runs every fuzz test for a while: scripts/fuzz.sh [DURATION, default 10s]
set -euo pipefail
cd "$(dirname "$0")/.."
for pkg in $(go list ./...); do
  dir=.${pkg#github.com/weirstream/weir}
  for f in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //'); do
    echo "$dir $f"
    go test -run '^$' -fuzz "^$f\$" -fuzztime "${1:-10s}" "$dir" >/tmp/fuzz.$$ 2>&1 || { cat /tmp/fuzz.$$; rm -f /tmp/fuzz.$$; exit 1; }
  done
done
rm -f /tmp/fuzz.$$
