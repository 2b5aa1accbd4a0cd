#!/usr/bin/env bash
# Operates a running job with the weir command: list, checkpoint, savepoint,
# stop, go on, start elsewhere, drain, cancel, dispose.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -m 700 "$work/run"
export XDG_RUNTIME_DIR=$work/run TMPDIR=$work
go build -o "$work/weir" ./cmd/weir
go build -o "$work/logfiles" ./examples/logfiles
weir() { "$work/weir" "$@"; }
fail() { echo "operate: $*" >&2; exit 1; }

# job [FLAG...] starts the job, which goes on looking for files, and waits until it runs.
job() {
  "$work/logfiles" run --watch 1s --checkpoint-interval 1h --log-level warn "$@" >>"$work/out" &
  for _ in $(seq 600); do
    if [[ "$(weir list 2>/dev/null)" == *" RUNNING "* ]]; then return; fi
    sleep 0.1
  done
  fail "the job does not run"
}

job --checkpoint-dir "$work/here"
weir list
weir checkpoint logfiles >/dev/null
saved=$(weir savepoint logfiles "$work/saved")
[ -e "$saved/_metadata" ] && [ -e "$saved/_committed" ] || fail "no savepoint at $saved"
if weir stop logfiles 2>"$work/said"; then fail "stopped without a directory"; fi
grep -q 'no savepoint directory' "$work/said" || fail "$(cat "$work/said")"
stopped=$(weir stop logfiles --savepoint "$work/saved")
wait "$!" || fail "the stopped job ended with $?"

# The same command goes on from there; a start elsewhere, with other subtasks, too.
job --checkpoint-dir "$work/here"
url=$(weir list --output json | grep -o 'http://[^"]*')
[[ "$(curl -fsS "$url/jobs/overview")" == *'"name":"logfiles"'* ]] || fail "no answer over HTTP"
weir cancel logfiles
wait "$!" || fail "the cancelled job ended with $?"
mv "$stopped" "$work/moved"
job --checkpoint-dir "$work/elsewhere" -s "$work/moved" -p 8 --state-backend lsm
weir stop logfiles --drain --savepoint "$work/saved" >/dev/null
wait "$!" || fail "the drained job ended with $?"
"$work/logfiles" run --watch 1s --checkpoint-interval 1h --checkpoint-dir "$work/elsewhere" >"$work/said" 2>&1
grep -q 'already finished' "$work/said" || fail "the drained job runs on: $(cat "$work/said")"
weir savepoint --dispose "$saved"
[ ! -e "$saved" ] || fail "$saved is still there"
[ -z "$(weir list 2>/dev/null)" ] || fail "a job is left"
echo "operate: done"
