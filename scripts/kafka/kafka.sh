#!/usr/bin/env bash
# A real Apache Kafka broker (KRaft, one node) for tests.
#
#   kafka.sh install                fetches the broker with Maven, once
#   kafka.sh start DIR [PORT] [v1|v2]  formats DIR and starts a broker there; v1
#                                   selects transaction protocol V1
#   kafka.sh stop DIR               stops it
#
# Needs Java 17 or newer and Maven. KAFKA_DIST is where the broker is kept
# (default: ${XDG_CACHE_HOME:-$HOME/.cache}/weir/kafka).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dist=${KAFKA_DIST:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/kafka}

install() {
  [ -f "$dist/complete" ] && return
  mkdir -p "$dist"
  (cd "$here" && mvn -q -B -ntp dependency:copy-dependencies -DoutputDirectory="$dist/lib" -DincludeScope=runtime)
  touch "$dist/complete"
}

configure() { # DIR PORT
  cat > "$1/log4j2.yaml" <<EOF
Configuration:
  Appenders: {Console: {name: STDOUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers: {Root: {level: INFO, AppenderRef: [{ref: STDOUT}]}}
EOF
  cat > "$1/server.properties" <<EOF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$(($2 + 1))
listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$(($2 + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$2
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=$1/data
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
EOF
}

start() { # DIR [PORT] [v1]
  local dir=$1 port=${2:-19092} feature=()
  [ "${3:-}" = v1 ] && feature=(--feature transaction.version=0)
  mkdir -p "$dir"
  configure "$dir" "$port"
  local id
  id=$(head -c16 /dev/urandom | base64 | tr '+/' 'ab' | cut -c1-22)
  java -XX:TieredStopAtLevel=1 -cp "$dist/lib/*" kafka.tools.StorageTool format -t "$id" -c "$dir/server.properties" "${feature[@]}" > "$dir/format.log" 2>&1
  nohup java -Xms256m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$dir/log4j2.yaml" \
    -cp "$dist/lib/*" kafka.Kafka "$dir/server.properties" > "$dir/out.log" 2>&1 &
  echo $! > "$dir/pid"
  for _ in $(seq 600); do
    grep -q 'Kafka Server started' "$dir/out.log" && { echo "127.0.0.1:$port"; return; }
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || { echo "the broker ended; see $dir/out.log" >&2; exit 1; }
    sleep 0.1
  done
  echo "the broker did not start within a minute; see $dir/out.log" >&2
  exit 1
}

stop() { # DIR
  local pid
  pid=$(cat "$1/pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 200); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "$pid" 2>/dev/null || true
}

case ${1:-} in
  install) install ;;
  start) install; start "${@:2}" ;;
  stop) stop "$2" ;;
  *) sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
