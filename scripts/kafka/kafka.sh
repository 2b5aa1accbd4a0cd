#!/usr/bin/env bash
# A real Apache Kafka (KRaft) for tests: one broker, or several on one machine.
#
#   kafka.sh install                fetches Kafka with Maven, once
#   kafka.sh start DIR [PORT] [v1|v2] [NODES]
#                                   formats DIR, starts brokers there and prints
#                                   their addresses; v1 selects transaction
#                                   protocol V1. Broker N listens at
#                                   PORT + 2(N-1), its controller one above
#   kafka.sh stop DIR [N]           stops all brokers that run there, or one
#   kafka.sh kill DIR N             kills broker N with SIGKILL
#   kafka.sh restart DIR N          starts broker N again, which has ended
#
# With three brokers or more, topics are replicated three times and two
# replicas must be in sync. Needs Java 17 or newer and Maven. KAFKA_DIST is
# where Kafka is kept (default: ${XDG_CACHE_HOME:-$HOME/.cache}/weir/kafka).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dist=${KAFKA_DIST:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/kafka}

usage() { # [MISTAKE]
  [ -z "${1:-}" ] || printf '%s\n\n' "$1" >&2
  sed -n '2,/^set /{ /^# \{0,1\}/s///p; }' "$0" >&2
  exit 2
}

fail() { echo "$1" >&2; exit 1; } # MISTAKE

is_number() { [[ $1 =~ ^[1-9][0-9]{0,4}$ ]]; } # TEXT

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
  : > "$node/out.log" # await must not read that of the last run
  nohup java -Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile="$node/log4j2.yaml" \
    -cp "$dist/lib/*" kafka.Kafka "$node/server.properties" >> "$node/out.log" 2>&1 &
  echo $! > "$node/pid"
}

# pid_of prints the process id of a broker that runs. That in its file may be
# another process by now.
pid_of() { # DIR N
  local node pid command
  node=$(node_dir "$1" "$2")
  [ -f "$node/pid" ] || return 1
  pid=$(cat "$node/pid")
  if [ -d /proc/self ]; then
    command=$(tr '\0' ' ' 2>/dev/null < "/proc/$pid/cmdline") || return 1
  else
    command=$(ps -ww -o args= -p "$pid") || return 1
  fi
  [[ $command == *"kafka.Kafka $node/server.properties"* ]] || return 1
  echo "$pid"
}

await() { # DIR N
  local node
  node=$(node_dir "$1" "$2")
  for _ in $(seq 900); do
    grep -q 'Kafka Server started' "$node/out.log" && return
    kill -0 "$(cat "$node/pid")" 2>/dev/null || fail "broker $2 ended; see $node/out.log"
    sleep 0.1
  done
  fail "broker $2 did not start within 90 s; see $node/out.log"
}

# make_room prepares DIR. What a start that failed has left there goes; the file
# "starting" tells it.
make_room() { # DIR
  local n
  [ -e "$(node_dir "$1" 1)" ] || return 0
  [ -e "$1/starting" ] || fail "$1 has brokers already: name another folder, or remove it"
  for n in $(nodes_in "$1"); do
    ! pid_of "$1" "$n" > /dev/null || fail "broker $n of a start that did not come to its end runs in $1: stop it first"
  done
  rm -rf "$1"/node-*
}

start() { # DIR [PORT] [v1|v2] [NODES]
  local port=${2:-19092} nodes=${4:-1} feature=() addresses='' id n
  is_number "$port" || usage "port $port: it must be a number"
  is_number "$nodes" || usage "$nodes brokers: it must be a number from 1"
  [ $((port + 2 * nodes - 1)) -le 65535 ] || usage "$nodes brokers from port $port on: the last port is 65535"
  case ${3:-v2} in
    v1) feature=(--feature transaction.version=0) ;;
    v2) ;;
    *) usage "protocol $3: v1 or v2" ;;
  esac
  install
  mkdir -p "$1"
  dir=$(full "$1")
  make_room "$dir"
  touch "$dir/starting"
  trap 'stop "$dir"' EXIT # none stays behind if one does not start
  id=$(head -c16 /dev/urandom | base64 | tr '+/' 'ab' | cut -c1-22)
  for n in $(seq "$nodes"); do
    configure "$dir" "$port" "$nodes" "$n"
    format "$dir" "$n" "$id" ${feature[@]+"${feature[@]}"}
  done
  for n in $(seq "$nodes"); do launch "$dir" "$n"; done
  for n in $(seq "$nodes"); do
    await "$dir" "$n"
    addresses+=${addresses:+,}127.0.0.1:$(node_port "$port" "$n")
  done
  rm "$dir/starting"
  trap - EXIT
  echo "$addresses"
}

full() { (cd "$1" && pwd -P); } # DIR

nodes_in() { # DIR
  local node
  for node in "$1"/node-*; do [ ! -d "$node" ] || echo "${node##*/node-}"; done
}

# broker fails unless DIR has a broker N.
broker() { # DIR N
  [ -d "$(node_dir "$1" "$2")" ] || fail "there is no broker $2 in $1"
}

stop() { # DIR [N]
  local n pid
  for n in ${2:-$(nodes_in "$1")}; do
    if pid=$(pid_of "$1" "$n"); then kill "$pid" 2>/dev/null || true; fi
  done
  for n in ${2:-$(nodes_in "$1")}; do gone "$1" "$n" || kill_node "$1" "$n"; done
}

# gone waits until a broker has ended, 20 s at most, and forgets its process id.
gone() { # DIR N
  for _ in $(seq 200); do
    pid_of "$1" "$2" > /dev/null || { rm -f "$(node_dir "$1" "$2")/pid"; return 0; }
    sleep 0.1
  done
  return 1
}

kill_node() { # DIR N
  local pid
  pid=$(pid_of "$1" "$2") || fail "broker $2 in $1 does not run"
  kill -9 "$pid" 2>/dev/null || true
  gone "$1" "$2" || fail "broker $2 in $1, process $pid, outlives SIGKILL"
}

restart() { # DIR N
  local pid
  if pid=$(pid_of "$1" "$2"); then fail "broker $2 in $1 runs already, as process $pid: stop it first"; fi
  dir=$1 node=$2
  trap 'stop "$dir" "$node"' EXIT
  launch "$1" "$2"
  await "$1" "$2"
  trap - EXIT
}

arguments() { # COMMAND LEAST MOST ARGUMENTS
  [ "$4" -ge "$2" ] && [ "$4" -le "$3" ] || usage "$1: $4 arguments"
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
  install) arguments install 0 0 $#; install ;;
  start)
    arguments start 1 4 $#
    start "$@"
    ;;
  stop)
    arguments stop 1 2 $#
    [ -d "$1" ] || { echo "there is nothing to stop in $1" >&2; exit 0; }
    dir=$(full "$1")
    [ $# -eq 1 ] || broker "$dir" "$2"
    stop "$dir" "${@:2}"
    ;;
  kill | restart)
    arguments "$command" 2 2 $#
    [ -d "$1" ] || fail "there is no directory $1"
    dir=$(full "$1")
    broker "$dir" "$2"
    if [ "$command" = kill ]; then kill_node "$dir" "$2"; else restart "$dir" "$2"; fi
    ;;
  '') usage ;;
  *) usage "there is no command $command" ;;
esac
