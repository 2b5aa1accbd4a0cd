#!/usr/bin/env bash
# Measures Weir beside Apache Flink on the same machine, job by job, each pair
# in one go, and prints a table of steady rates in millions of records per
# second.
#
#   bench/compare.sh [JOB ...]      default: all jobs
#
# Needs Go, Java 17 or newer and Maven; the first run downloads Flink's
# artifacts. Rates on a shared machine drift: believe the ratios, and run it
# more than once.
set -euo pipefail
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/rate" ./rate

# job, records, keys
workload() {
  case $1 in
    chain)        echo 100000000 1000000 ;;
    keyed)        echo 40000000 1000000 ;;
    keyed-string) echo 20000000 1000000 ;;
    dedupe)       echo 10000000 5000000 ;;
    mapstate)     echo 10000000 100000 ;;
    timers)       echo 10000000 1000000 ;;
    tumbling)     echo 30000000 1000000 ;;
    sliding)      echo 6000000 1000 ;;
    *) echo "no job $1" >&2; exit 2 ;;
  esac
}

rate_of() { sed -n 's/.*"records_per_second":\([0-9.e+]*\).*/\1/p'; }

jobs=("$@")
[ ${#jobs[@]} -gt 0 ] || jobs=(chain keyed keyed-string dedupe mapstate timers tumbling sliding)
printf '| job | keys | Flink M/s | Weir M/s | ratio |\n|---|---|---|---|---|\n'
for job in "${jobs[@]}"; do
  read -r n k < <(workload "$job")
  flink=$(./flink/run.sh "$job" "$n" "$k" 2 2>/dev/null | sed -n 's/.*rate=\([0-9]*\).*/\1/p' | tail -1)
  # Weir needs more records for a steady window of some seconds.
  weir=$("$bin/rate" -job "$job" -records "$((n * ${SCALE:-2}))" -keys "$k" -parallelism 2 -json | tail -1 | rate_of)
  awk -v j="$job" -v k="$k" -v f="$flink" -v w="$weir" \
    'BEGIN { printf "| %s | %d | %.2f | %.2f | %.1f× |\n", j, k, f/1e6, w/1e6, w/f }'
done
