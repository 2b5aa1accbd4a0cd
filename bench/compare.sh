#!/usr/bin/env bash
# Measures Weir beside Apache Flink on the same machine, job by job, each pair
# in one go, and prints a table of rates in millions of records per second, and
# for Kafka jobs of CPU time per record, that of the broker apart.
#
#   bench/compare.sh [JOB ...]      default: all synthetic jobs; "kafka" is all
#                                   Kafka jobs, "state" is lsm beside RocksDB
#
# state runs the keyed job with values of 100 bytes, both processes limited to
# LIMIT bytes (default 4 GiB, the page cache included) by a control group where
# one can be made. STATES are the numbers of keys (default "10000000 80000000":
# 1 and 8 GB), each of which is written first and then updated, uniform and hot,
# the first also with a checkpoint every second; UPDATES is how often.
#
# PAIRS is how often each pair is run (default 1; the table has every run).
# Needs Go, Java 17 or newer and Maven; the first run downloads the artifacts of
# Flink and, for Kafka jobs, of a broker, which both systems then share (KAFKA:
# HOST:PORT of one that runs already; KAFKA_PORT: where to start one, default
# 19392). Rates on a shared machine drift: believe the ratios, and run it more
# than once.
set -euo pipefail
cd "$(dirname "$0")"
bin=$(mktemp -d)
broker=
cleanup() {
  [ -z "$broker" ] || ../scripts/kafka/kafka.sh stop "$broker"
  rm -rf "$bin"
}
trap cleanup EXIT
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
    kafka-*)      echo "${KAFKA_RECORDS:-5000000}" 10000 ;;
    *) echo "no job $1" >&2; exit 2 ;;
  esac
}

json() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p"; }  # NAME
anchor() { sed -n "s/.*$1=\([0-9.]*\).*/\1/p" | tail -1; } # NAME

# start_kafka starts a broker, unless there is one, and loads it once.
start_kafka() { # RECORDS KEYS
  [ -z "${loaded:-}" ] || return 0
  if [ -z "${KAFKA:-}" ]; then
    broker=$bin/kafka
    KAFKA=$(../scripts/kafka/kafka.sh start "$broker" "${KAFKA_PORT:-19392}")
  fi
  "$bin/rate" -job kafka-load -records "$1" -keys "$2" -bootstrap-servers "$KAFKA" >&2
  loaded=yes
}

# broker_ms is the CPU time that the broker has used, if it is ours.
broker_ms() {
  [ -n "$broker" ] || { echo 0; return; }
  awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); printf "%.0f\n", ($12 + $13) * 1000 / hz }' "/proc/$(cat "$broker"/node-1/pid)/stat"
}

kafka_pair() { # JOB RECORDS KEYS
  start_kafka "$2" "$3"
  local b0 b1 b2 flink weir
  b0=$(broker_ms)
  flink=$(HEAP=${HEAP:--Xms2g -Xmx2g} ./flink/run.sh "$1" "$2" "$3" 2 "$KAFKA" 2>/dev/null)
  b1=$(broker_ms)
  weir=$("$bin/rate" -job "$1" -records "$2" -keys "$3" -parallelism 2 -bootstrap-servers "$KAFKA" -json | tail -1)
  b2=$(broker_ms)
  awk -v j="$1" -v k="$3" -v n="$2" -v f="$(anchor rate <<< "$flink")" -v w="$(json records_per_second <<< "$weir")" \
    -v fc="$(anchor cpu <<< "$flink")" -v wc="$(json cpu_us_per_record <<< "$weir")" -v fb=$((b1 - b0)) -v wb=$((b2 - b1)) \
    'BEGIN { printf "| %s | %d | %.2f | %.2f | %.1f× | %.2f + %.2f | %.2f + %.2f |\n", j, k, f/1e6, w/1e6, w/f, fc, fb*1e3/n, wc, wb*1e3/n }'
}

pair() { # JOB RECORDS KEYS
  local flink weir
  flink=$(./flink/run.sh "$1" "$2" "$3" 2 2>/dev/null | anchor rate)
  # Weir needs more records for a steady window of some seconds.
  weir=$("$bin/rate" -job "$1" -records "$(($2 * ${SCALE:-2}))" -keys "$3" -parallelism 2 -json | tail -1 | json records_per_second)
  awk -v j="$1" -v k="$3" -v f="$flink" -v w="$weir" \
    'BEGIN { printf "| %s | %d | %.2f | %.2f | %.1f× | | |\n", j, k, f/1e6, w/1e6, w/f }'
}

# peak is the memory that limited.sh has told of, in MB with page cache.
peak() { sed -n 's/.*peak \([0-9]*\) bytes.*/\1/p' "$bin/log" | awk '{ printf "%d", $1 / 1048576 }'; }

# state_pair runs lsm beside RocksDB. Flink gets a quarter of the limit as heap
# and half of it for RocksDB; the JVM needs the rest. Weir gets three quarters.
state_pair() { # KEYS DIST CHECKPOINT_MS
  local limit=${LIMIT:-4294967296} n=${UPDATES:-6000000} flink weir fp wp every=() m=$((1 << 20))
  local heap=$((limit / 4 / m))m
  flink=$(DIST=$2 VALUE=100 FILL=1 HEAP=${HEAP:--Xms$heap -Xmx$heap} MANAGED=${MANAGED:-$((limit / 2 / m))mb} \
    ./limited.sh "$limit" ./flink/run.sh keyed "$n" "$1" 2 rocksdb "$3" 2>"$bin/log" || true)
  fp=$(peak)
  [ "$3" = 0 ] || every=(-checkpoint-interval "$3ms")
  weir=$(./limited.sh "$limit" "$bin/rate" -job keyed -value-bytes 100 -fill -records "$n" -keys "$1" -dist "$2" -parallelism 2 \
    -backend lsm -memory "${MEMORY:-$((limit / 4 * 3))}" "${every[@]}" -json 2>"$bin/log" | tail -1 || true)
  wp=$(peak)
  awk -v k="$1" -v d="$2" -v c="$3" -v f="$(anchor rate <<< "$flink")" -v w="$(json records_per_second <<< "$weir")" \
    -v ff="$(anchor fill <<< "$flink")" -v wf="$(json fill_per_second <<< "$weir")" -v fc="$(anchor cpu <<< "$flink")" -v wc="$(json cpu_us_per_record <<< "$weir")" \
    -v fp="$fp" -v wp="$wp" -v rss="$(json peak_rss_bytes <<< "$weir")" \
    'BEGIN { printf "| %d | %s | %s | %.3f / %.3f | %.3f / %.3f | %s | %.1f / %.1f | %s / %s, resident %d |\n", k, d, c ? c " ms" : "–", ff/1e6, wf/1e6, f/1e6, w/1e6, f ? sprintf("%.1f×", w/f) : "Flink failed", fc, wc, fp, wp, rss/1048576 }'
}

compare_state() {
  local keys=() at
  read -ra keys <<< "${STATES:-10000000 80000000}"
  printf '| keys | distribution | checkpoints | fill M/s Flink / Weir | updates M/s Flink / Weir | ratio | CPU µs/record Flink / Weir | peak memory MB Flink / Weir |\n|---|---|---|---|---|---|---|---|\n'
  for _ in $(seq "${PAIRS:-1}"); do
    for at in "${keys[@]}"; do
      state_pair "$at" uniform 0
      [ "$at" != "${keys[0]}" ] || state_pair "$at" uniform 1000
      state_pair "$at" hot 0
    done
  done
}

if [ "${1:-}" = state ]; then
  compare_state
  exit
fi
jobs=("$@")
[ ${#jobs[@]} -gt 0 ] || jobs=(chain keyed keyed-string dedupe mapstate timers tumbling sliding)
[ "${jobs[*]}" != kafka ] || jobs=(kafka-read kafka-window kafka-copy)
printf '| job | keys | Flink M/s | Weir M/s | ratio | Flink CPU µs/record + broker | Weir CPU µs/record + broker |\n|---|---|---|---|---|---|---|\n'
for _ in $(seq "${PAIRS:-1}"); do
  for job in "${jobs[@]}"; do
    read -r n k < <(workload "$job")
    case $job in
      kafka-*) kafka_pair "$job" "$n" "$k" ;;
      *)       pair "$job" "$n" "$k" ;;
    esac
  done
done
