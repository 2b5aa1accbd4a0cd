#!/usr/bin/env bash
# A real S3-compatible server for tests: versitygw over a directory.
#
#   s3.sh install             builds the server, once
#   s3.sh start DIR [PORT]    starts it on DIR and prints its address
#   s3.sh stop DIR            stops it; the data stay
#   s3.sh restart DIR         starts it again where it listened before
#
# Region us-east-1, access key test, secret key testsecret, path-style
# addresses. S3_DIST is where the server is kept (default:
# ${XDG_CACHE_HOME:-$HOME/.cache}/weir/s3).
set -euo pipefail
version=v1.8.0
dist=${S3_DIST:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/s3}
server=$dist/versitygw-$version
default_port=19550
. "$(dirname "$0")/../server.sh"

install() {
  [ -x "$server" ] && return
  mkdir -p "$dist"
  local build
  build=$(mktemp -d "$dist/build-XXXXXX")
  GOBIN=$build GOFLAGS='' CGO_ENABLED=0 go install -ldflags='-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
  mv "$build/versitygw" "$server"
  rmdir "$build"
}

pattern() { echo "*versitygw*$1/data*"; } # DIR

url() { echo "http://127.0.0.1:$1"; } # PORT

serve() { # DIR PORT
  mkdir -p "$1/side"
  ROOT_ACCESS_KEY=test ROOT_SECRET_KEY=testsecret exec nohup "$server" --port "127.0.0.1:$2" --region us-east-1 \
    posix --sidecar "$1/side" "$1/data"
}

single "$@"
