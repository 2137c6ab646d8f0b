#!/bin/bash
# on_version.sh VERSION COMMAND... - run COMMAND with HAPROXY from build/haproxy/VERSION. A version
# that is not available is skipped by name.
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
export HAPROXY=$PWD/build/haproxy/$1/haproxy
[ -x "$HAPROXY" ] || skip "HAProxy $1 is not available, for ${*:2}"
"$HAPROXY" -v | head -n 1
exec "${@:2}"
