# What the scripts of servers for tests have in common; it is sourced. DIR is
# absolute, as full prints it.

usage() { # [MISTAKE]
  [ -z "${1:-}" ] || printf '%s\n\n' "$1" >&2
  sed -n '2,/^set /{ /^# \{0,1\}/s///p; }' "$0" >&2
  exit 2
}

fail() { echo "$1" >&2; exit 1; } # MISTAKE

full() { (cd "$1" && pwd -P); } # DIR

check_port() { # PORT
  [[ $1 =~ ^[1-9][0-9]{0,4}$ ]] || usage "port $1: it must be a number"
}

# check_free fails if something listens at a port: it would be taken for the
# server.
check_free() { # PORT
  ! (exec 3<> "/dev/tcp/127.0.0.1/$1") 2>/dev/null || fail "port $1 is in use: name another one"
}

# running prints the process id in a file, if the command line of that process
# matches a pattern: it may be another process by now.
running() { # FILE PATTERN
  local pid command
  [ -f "$1" ] || return 1
  pid=$(cat "$1")
  if [ -d /proc/self ]; then
    command=$(tr '\0' ' ' 2>/dev/null < "/proc/$pid/cmdline") || return 1
  else
    command=$(ps -ww -o args= -p "$pid") || return 1
  fi
  # shellcheck disable=SC2053 # a pattern
  [[ $command == $2 ]] || return 1
  echo "$pid"
}

# await_end waits until a process that was told to end has, and kills it if it
# does not.
await_end() { # FILE PATTERN SECONDS
  local pid
  for _ in $(seq $(($3 * 20))); do
    pid=$(running "$1" "$2") || { rm -f "$1"; return 0; }
    sleep 0.05
  done
  kill -9 "$pid" 2>/dev/null || true
}

# single is the command line of a server of one process that keeps DIR/data and
# answers HTTP at DIR/port. It defines install, pattern (of its command line,
# for DIR), serve (replaces the shell by the server), url (for PORT), and
# default_port.
single() { # ARGUMENT...
  local command=${1:-}
  [ $# -eq 0 ] || shift
  case $command in
    install) [ $# -eq 0 ] || usage "install takes no arguments"; install ;;
    start) [ $# -ge 1 ] && [ $# -le 2 ] || usage "start: $# arguments"; start_single "$@" ;;
    stop)
      [ $# -eq 1 ] || usage "stop: $# arguments"
      [ -d "$1" ] || { echo "there is nothing to stop in $1" >&2; exit 0; }
      stop_single "$(full "$1")"
      ;;
    restart)
      [ $# -eq 1 ] || usage "restart: $# arguments"
      [ -f "$1/port" ] || fail "$1 has no server"
      restart_single "$(full "$1")"
      ;;
    '') usage ;;
    *) usage "there is no command $command" ;;
  esac
}

start_single() { # DIR [PORT]
  local port=${2:-$default_port}
  check_port "$port"
  install
  [ ! -e "$1/data" ] || fail "$1 has a server already: name another folder, remove it, or restart it"
  check_free "$port"
  mkdir -p "$1/data"
  dir=$(full "$1")
  echo "$port" > "$dir/port"
  trap 'stop_single "$dir"; rm -rf "$dir/data" "$dir/port"' EXIT # nothing stays behind if it does not start
  launch_single "$dir"
  trap - EXIT
}

restart_single() { # DIR
  ! running "$1/pid" "$(pattern "$1")" > /dev/null || fail "the server in $1 runs already: stop it first"
  check_free "$(cat "$1/port")"
  dir=$1
  trap 'stop_single "$dir"' EXIT
  launch_single "$dir"
  trap - EXIT
}

launch_single() { # DIR
  local port
  port=$(cat "$1/port")
  (serve "$1" "$port") >> "$1/log" 2>&1 &
  echo $! > "$1/pid"
  for _ in $(seq 600); do
    ! curl -s -o /dev/null "http://127.0.0.1:$port/" || { url "$port"; return; }
    kill -0 "$(cat "$1/pid")" 2>/dev/null || fail "the server ended; see $1/log"
    sleep 0.05
  done
  fail "the server did not start within 30 s; see $1/log"
}

stop_single() { # DIR
  local pid
  pid=$(running "$1/pid" "$(pattern "$1")") || return 0
  kill "$pid" 2>/dev/null || true
  await_end "$1/pid" "$(pattern "$1")" 5
}
