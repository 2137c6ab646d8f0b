#!/bin/bash
# on_version.sh VERSION COMMAND... - runs COMMAND with HAPROXY, of build/haproxy/VERSION. What could not be had is
# skipped by its name.
set -u
cd "$(dirname "$0")/../.."
export HAPROXY=$PWD/build/haproxy/$1/haproxy
if [ ! -x "$HAPROXY" ]; then
	echo "skipped: HAProxy $1 cannot be had here, for ${*:2}"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
"$HAPROXY" -v | head -n 1
exec "${@:2}"
