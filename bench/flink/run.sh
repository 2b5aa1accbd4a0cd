#!/usr/bin/env bash
# Rate of Apache Flink 2.3 on one synthetic job, in one JVM on this machine.
#   run.sh JOB RECORDS KEYS PARALLELISM [hashmap|rocksdb] [CHECKPOINT_MS]     JOB: source chain keyed keyed-string dedupe
#                                                                             mapstate timers tumbling sliding
# Needs Java 17+ and Maven; the first call builds into a temporary folder. The last line printed has rate=N/s.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${FLINK_ANCHOR_BUILD:-${TMPDIR:-/tmp}/flink-anchor}
if [ ! -s "$build/cp.txt" ] || [ -n "$(find "$here" -newer "$build/cp.txt" -print -quit)" ]; then
  mkdir -p "$build" && cp -r "$here/pom.xml" "$here/src" "$build/"
  (cd "$build" && mvn -q -B compile dependency:build-classpath -Dmdep.outputFile=cp.txt >&2)
fi
cd "$build"
main=anchor.Bench
exec java ${HEAP:--Xms5g -Xmx5g} -XX:+AlwaysPreTouch -XX:+UseParallelGC \
  --add-opens java.base/java.util=ALL-UNNAMED --add-opens java.base/java.lang=ALL-UNNAMED --add-opens java.base/java.time=ALL-UNNAMED \
  -cp "target/classes:$(cat cp.txt)" "$main" "$@"
