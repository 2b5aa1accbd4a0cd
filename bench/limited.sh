#!/usr/bin/env bash
# Runs a command in a control group that limits its memory, page cache included,
# and tells on standard error how much it had and how much of that was resident.
#
#   limited.sh BYTES COMMAND...
#
# Where no control group can be made it says so and runs the command without:
# then only what the command itself is told limits it.
set -euo pipefail
limit=$1
shift

# make_group makes a group beside or below this process's own and prints it.
make_group() {
  local own base
  own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
  if [ -n "$own" ]; then
    base=/sys/fs/cgroup/memory${own%/}
    group=$base/weir-bench-$$
    mkdir "$group" 2>/dev/null && echo "$limit" > "$group/memory.limit_in_bytes" && echo "$group"
    return
  fi
  own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  for base in "/sys/fs/cgroup${own%/}" "/sys/fs/cgroup$(dirname "$own")"; do
    group=${base%/}/weir-bench-$$
    mkdir "$group" 2>/dev/null || continue
    if [ -e "$group/memory.max" ]; then
      echo "$limit" > "$group/memory.max" && echo "$group"
      return
    fi
    rmdir "$group"
  done
}

group=$(make_group || true)
if [ -z "$group" ]; then
  echo "limited.sh: no control group can be made here; running without a limit of $limit bytes" >&2
  exec "$@"
fi
trap 'rmdir "$group" 2>/dev/null || true' EXIT
status=0
# The command runs beside the shell, which could not pass on a signal otherwise.
GROUP=$group bash -c 'echo $$ > "$GROUP/cgroup.procs"; exec "$@"' - "$@" &
child=$!
trap 'kill "$child" 2>/dev/null' TERM INT
wait "$child" || status=$?
wait "$child" 2>/dev/null || true # a signal ends the first wait
for peak in memory.max_usage_in_bytes memory.peak; do
  [ ! -e "$group/$peak" ] || echo "limited.sh: limit $limit, peak $(cat "$group/$peak") bytes with page cache" >&2
done
if grep -qs 'oom_kill [1-9]' "$group"/memory.oom_control "$group"/memory.events; then
  echo "limited.sh: the system killed the process for lack of memory" >&2
fi
exit $status
