#!/usr/bin/env bash
# A real Hadoop file system for tests: one NameNode and one DataNode.
#
#   hdfs.sh install             fetches Hadoop with Maven, once
#   hdfs.sh start DIR [PORT]    formats DIR, starts both there and prints the
#                               address of the NameNode; it takes PORT to PORT + 4
#   hdfs.sh stop DIR [PART]     stops both, or namenode or datanode; the data stay
#   hdfs.sh restart DIR PART    starts namenode or datanode again, which was
#                               stopped
#
# Needs Java 17 or newer and Maven. HDFS_DIST is where Hadoop is kept (default:
# ${XDG_CACHE_HOME:-$HOME/.cache}/weir/hdfs).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dist=${HDFS_DIST:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/hdfs}
. "$here/../server.sh"

install() {
  [ -f "$dist/complete" ] && return
  mkdir -p "$dist"
  (cd "$here" && mvn -q -B -ntp dependency:copy-dependencies -DoutputDirectory="$dist/lib" -DincludeScope=runtime)
  touch "$dist/complete"
}

configure() { # DIR PORT
  mkdir -p "$1/conf" "$1/tmp"
  cat > "$1/conf/log4j.properties" <<CONF
log4j.rootLogger=INFO,c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d %p %m (%c)%n
CONF
  {
    echo '<configuration>'
    property fs.defaultFS "hdfs://127.0.0.1:$2"
    property hadoop.tmp.dir "$1/tmp"
    echo '</configuration>'
  } > "$1/conf/core-site.xml"
  {
    echo '<configuration>'
    property dfs.replication 1
    property dfs.namenode.name.dir "file://$1/name"
    property dfs.datanode.data.dir "file://$1/blocks"
    property dfs.namenode.rpc-address "127.0.0.1:$2"
    property dfs.namenode.http-address "127.0.0.1:$(($2 + 1))"
    property dfs.datanode.address "127.0.0.1:$(($2 + 2))"
    property dfs.datanode.http.address "127.0.0.1:$(($2 + 3))"
    property dfs.datanode.ipc.address "127.0.0.1:$(($2 + 4))"
    property dfs.datanode.hostname 127.0.0.1
    property dfs.namenode.datanode.registration.ip-hostname-check false
    property dfs.namenode.safemode.extension 0
    echo '</configuration>'
  } > "$1/conf/hdfs-site.xml"
  echo "$2" > "$1/port"
}

property() { echo "<property><name>$1</name><value>$2</value></property>"; } # NAME VALUE

java_hdfs() { # DIR CLASS [ARGUMENT...]
  local dir=$1
  shift
  exec java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir="$dir/tmp" -Dhadoop.log.dir="$dir" \
    -cp "$dir/conf:$dist/lib/*" "$@"
}

class_of() { # PART
  case $1 in
    namenode) echo org.apache.hadoop.hdfs.server.namenode.NameNode ;;
    datanode) echo org.apache.hadoop.hdfs.server.datanode.DataNode ;;
    *) usage "$1: it is namenode or datanode" ;;
  esac
}

launch() { # DIR PART
  local class
  class=$(class_of "$2")
  (java_hdfs "$1" "$class" >> "$1/$2.log" 2>&1) &
  echo $! > "$1/$2.pid"
}

# pid_of prints the process id of a part that runs.
pid_of() { running "$1/$2.pid" "*-Dhadoop.log.dir=$1 *"; } # DIR PART

# await waits until the NameNode has its DataNode and takes writes.
await() { # DIR
  local port state=''
  port=$(($(cat "$1/port") + 1))
  for _ in $(seq 600); do
    state=$(curl -sf "http://127.0.0.1:$port/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState" || true)
    [[ $state != *'"NumLiveDataNodes" : 1,'* || $state != *'"FSState" : "Operational"'* ]] || return 0
    for part in namenode datanode; do pid_of "$1" "$part" > /dev/null || fail "the $part ended; see $1/$part.log"; done
    sleep 0.2
  done
  fail "no DataNode within 120 s; see the logs in $1"
}

start() { # DIR [PORT]
  local port=${2:-19600}
  check_port "$port"
  install
  [ ! -e "$1/name" ] || fail "$1 has a file system already: name another folder, or remove it"
  for i in 0 1 2 3 4; do check_free $((port + i)); done
  mkdir -p "$1"
  dir=$(full "$1")
  configure "$dir" "$port"
  trap 'stop "$dir"; rm -rf "$dir/name" "$dir/blocks" "$dir/port"' EXIT # nothing stays behind if one does not start
  (java_hdfs "$dir" "$(class_of namenode)" -format -nonInteractive > "$dir/format.log" 2>&1) || { cat "$dir/format.log" >&2; exit 1; }
  launch "$dir" namenode
  launch "$dir" datanode
  await "$dir"
  trap - EXIT
  echo "hdfs://127.0.0.1:$port"
}

stop() { # DIR [PART]
  local part pid
  for part in ${2:-datanode namenode}; do
    class_of "$part" > /dev/null
    if pid=$(pid_of "$1" "$part"); then kill "$pid" 2>/dev/null || true; fi
  done
  for part in ${2:-datanode namenode}; do await_end "$1/$part.pid" "*-Dhadoop.log.dir=$1 *" 10; done
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
  install) [ $# -eq 0 ] || usage "install takes no arguments"; install ;;
  start) [ $# -ge 1 ] && [ $# -le 2 ] || usage "start: $# arguments"; start "$@" ;;
  stop)
    [ $# -ge 1 ] && [ $# -le 2 ] || usage "stop: $# arguments"
    [ -d "$1" ] || { echo "there is nothing to stop in $1" >&2; exit 0; }
    stop "$(full "$1")" "${@:2}"
    ;;
  restart)
    [ $# -eq 2 ] || usage "restart: $# arguments"
    [ -f "$1/port" ] || fail "$1 has no file system"
    dir=$(full "$1")
    ! pid_of "$dir" "$2" > /dev/null || fail "the $2 in $1 runs already: stop it first"
    part=$2
    trap 'stop "$dir" "$part"' EXIT
    launch "$dir" "$part"
    await "$dir"
    trap - EXIT
    ;;
  '') usage ;;
  *) usage "there is no command $command" ;;
esac
