#!/usr/bin/env bash
# An emulator of Azure Blob Storage for tests: Microsoft's Azurite.
#
#   azurite.sh install             fetches it with npm, once
#   azurite.sh start DIR [PORT]    starts it on DIR and prints its address
#   azurite.sh stop DIR            stops it; the data stay
#   azurite.sh restart DIR         starts it again where it listened before
#
# Account weirtest, key dGVzdGtleQ==. Needs Node.js and npm. AZURITE_DIST is where it
# is kept (default: ${XDG_CACHE_HOME:-$HOME/.cache}/weir/azurite).
set -euo pipefail
version=3.35.0 # newer ones need Node.js 22
dist=${AZURITE_DIST:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/azurite}
default_port=19650
. "$(dirname "$0")/../server.sh"

install() {
  [ -f "$dist/complete-$version" ] && return
  mkdir -p "$dist"
  npm install --prefix "$dist" --no-audit --no-fund --omit=dev --loglevel=error "azurite@$version" >&2
  touch "$dist/complete-$version"
}

pattern() { echo "*azurite*$1/data*"; } # DIR

url() { echo "http://127.0.0.1:$1/weirtest"; } # PORT

serve() { # DIR PORT
  AZURITE_ACCOUNTS='weirtest:dGVzdGtleQ==' exec nohup "$dist/node_modules/.bin/azurite-blob" --blobHost 127.0.0.1 --blobPort "$2" \
    --location "$1/data" --silent --skipApiVersionCheck --disableTelemetry
}

single "$@"
