#!/usr/bin/env bash
# Runs every fuzz test for a while, on each processor one:
# scripts/fuzz.sh [HOW LONG, default 20000x]
#
# 20000x is that many inputs. 10s is a time, at whose end Go before 1.27 now and
# then fails with "context deadline exceeded" (golang/go#75804).
set -euo pipefail
cd "$(dirname "$0")/.."
export fuzztime=${1:-20000x}
bin=$(mktemp -d)
export bin
trap 'rm -rf "$bin"' EXIT

packages() {
  for pkg in $(go list ./...); do
    dir=.${pkg#github.com/weirstream/weir}
    if grep -qs '^func Fuzz' "$dir"/*_test.go; then echo "$dir"; fi
  done
}

# fuzz runs the tests of a package, from one binary: to link it takes longer
# than what each of them has here. An input that fails is in its testdata.
fuzz() { # DIR
  local test=$bin/${1//\//_} name said
  go test -c -fuzz . -o "$test" "$1" > /dev/null || exit 255 # ends xargs
  cd "$1"
  for name in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' ./*_test.go | sed 's/^func //'); do
    echo "$1 $name"
    said=$("$test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$fuzztime" -test.parallel 1 -test.fuzzcachedir "$test.cache" 2>&1) ||
      { echo "$said"; exit 255; }
  done
  rm -f "$test"
}
export -f fuzz

packages | xargs -L 1 -P "$(getconf _NPROCESSORS_ONLN)" bash -c 'fuzz "$@"' fuzz
