#!/usr/bin/env bash
# A real Apache Kafka (KRaft) for tests: one broker, or several on one machine.
#
#   kafka.sh install                fetches Kafka with Maven, once
#   kafka.sh start DIR [PORT] [v1|v2] [NODES]
#                                   formats DIR, starts brokers there and prints
#                                   their addresses; v1 selects transaction
#                                   protocol V1. Broker N listens at
#                                   PORT + 2(N-1), its controller one above
#   kafka.sh stop DIR [N]           stops all brokers, or one
#   kafka.sh kill DIR N             kills broker N with SIGKILL
#   kafka.sh restart DIR N          starts broker N again
#
# With three brokers or more, topics are replicated three times and two
# replicas must be in sync. Needs Java 17 or newer and Maven. KAFKA_DIST is
# where Kafka is kept (default: ${XDG_CACHE_HOME:-$HOME/.cache}/weir/kafka).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dist=${KAFKA_DIST:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/kafka}

install() {
  [ -f "$dist/complete" ] && return
  mkdir -p "$dist"
  (cd "$here" && mvn -q -B -ntp dependency:copy-dependencies -DoutputDirectory="$dist/lib" -DincludeScope=runtime)
  touch "$dist/complete"
}

node_dir() { echo "$1/node-$2"; } # DIR N
node_port() { echo $(($1 + 2 * ($2 - 1))); } # PORT N

configure() { # DIR PORT NODES N
  local node port voters='' replicas=1 insync=1 i
  node=$(node_dir "$1" "$4")
  port=$(node_port "$2" "$4")
  for i in $(seq "$3"); do voters+=${voters:+,}$i@127.0.0.1:$(($(node_port "$2" "$i") + 1)); done
  [ "$3" -ge 3 ] && replicas=3 insync=2
  mkdir -p "$node"
  cat > "$node/log4j2.yaml" <<CONF
Configuration:
  Appenders: {Console: {name: STDOUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers: {Root: {level: INFO, AppenderRef: [{ref: STDOUT}]}}
CONF
  cat > "$node/server.properties" <<CONF
process.roles=broker,controller
node.id=$4
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=$node/data
default.replication.factor=$replicas
min.insync.replicas=$insync
offsets.topic.num.partitions=4
offsets.topic.replication.factor=$replicas
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$insync
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
auto.create.topics.enable=false
CONF
}

format() { # DIR N ID [FEATURE...]
  local node
  node=$(node_dir "$1" "$2")
  java -XX:TieredStopAtLevel=1 -cp "$dist/lib/*" kafka.tools.StorageTool format -t "$3" -c "$node/server.properties" "${@:4}" > "$node/format.log" 2>&1 ||
    { cat "$node/format.log" >&2; exit 1; }
}

launch() { # DIR N
  local node
  node=$(node_dir "$1" "$2")
  nohup java -Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$node/log4j2.yaml" \
    -cp "$dist/lib/*" kafka.Kafka "$node/server.properties" > "$node/out.log" 2>&1 &
  echo $! > "$node/pid"
}

await() { # DIR N
  local node
  node=$(node_dir "$1" "$2")
  for _ in $(seq 900); do
    grep -q 'Kafka Server started' "$node/out.log" && return
    kill -0 "$(cat "$node/pid")" 2>/dev/null || { echo "the broker ended; see $node/out.log" >&2; exit 1; }
    sleep 0.1
  done
  echo "the broker did not start within 90 s; see $node/out.log" >&2
  exit 1
}

start() { # DIR [PORT] [v1|v2] [NODES]
  local dir=$1 port=${2:-19092} nodes=${4:-1} feature=() addresses='' id n
  case ${3:-v2} in
    v1) feature=(--feature transaction.version=0) ;;
    v2) ;;
    *) echo "protocol $3: v1 or v2" >&2; exit 2 ;;
  esac
  [ ! -e "$(node_dir "$dir" 1)" ] || { echo "$dir has brokers already: name another folder, or remove it" >&2; exit 1; }
  id=$(head -c16 /dev/urandom | base64 | tr '+/' 'ab' | cut -c1-22)
  for n in $(seq "$nodes"); do
    configure "$dir" "$port" "$nodes" "$n"
    format "$dir" "$n" "$id" "${feature[@]}"
  done
  trap 'stop "$dir"' EXIT # none stays behind if one does not start
  for n in $(seq "$nodes"); do launch "$dir" "$n"; done
  for n in $(seq "$nodes"); do
    await "$dir" "$n"
    addresses+=${addresses:+,}127.0.0.1:$(node_port "$port" "$n")
  done
  trap - EXIT
  echo "$addresses"
}

stop() { # DIR [N]
  local pids=() file pid
  for file in "$1"/node-${2:-*}/pid; do
    [ -f "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null && pids+=("$pid")
  done
  for pid in "${pids[@]}"; do
    for _ in $(seq 200); do kill -0 "$pid" 2>/dev/null || continue 2; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  done
}

case ${1:-} in
  install) install ;;
  start) install; start "${@:2}" ;;
  stop) stop "${@:2}" ;;
  kill) kill -9 "$(cat "$(node_dir "$2" "$3")/pid")" ;;
  restart) launch "$2" "$3"; await "$2" "$3" ;;
  *) sed -n '2,16p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
