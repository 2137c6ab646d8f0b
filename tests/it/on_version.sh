#!/bin/bash
# on_version.sh VERSION COMMAND... - run COMMAND with HAPROXY from build/haproxy/VERSION. A version
# that is not available is skipped by name.
set -u
cd "$(dirname "$0")/../.."
export HAPROXY=$PWD/build/haproxy/$1/haproxy
if [ ! -x "$HAPROXY" ]; then
	echo "skipped: HAProxy $1 is not available, for ${*:2}"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
"$HAPROXY" -v | head -n 1
exec "${@:2}"
