#!/bin/bash
# bare.sh - build kvroute and kvroutectl without the optional libraries in build/bare, and check
# that kvroute says so where the configuration needs one, and works without them.
#
# Sources that do not depend on these libraries are not compiled again: their objects come from
# build/release.
set -eu
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
depends='HAVE_(ZMQ|HIREDIS)|/(zmq|hiredis)[./]'

# Copy the objects whose sources, headers included, depend on none of <depends>.
copy_objects() {
	local d object
	while read -r d; do
		object=${d%.d}.o
		[ -f "$object" ] || continue
		if ! tr -d '\\' < "$d" | tr ' ' '\n' | grep -E '^(agent|spoe|spop-check)/.*[ch]$' |
			xargs grep -qE "$depends"; then
			mkdir -p "$(dirname "build/bare/${object#build/release/}")"
			cp -p "$object" "build/bare/${object#build/release/}"
		fi
	done < <(find build/release/agent build/release/spoe build/release/spop-check -name '*.d')
}

build() {
	copy_objects
	${MAKE:-make} "-j$(nproc)" --no-print-directory -s build/bare/kvroute build/bare/kvroutectl \
		B=build/bare HAVE_ZMQ= HAVE_HIREDIS= CFLAGS=-O0 WERROR=-Werror
}

check() {	# status wanted, words wanted, configuration
	local out status=0
	out=$(build/bare/kvroute -t -f /dev/stdin <<< "$3" 2>&1) || status=$?
	if [ "$status" = "$1" ] && grep -q "$2" <<< "$out"; then
		result 0 "$3"
	else
		result 1 "$3: status $status: $out"
	fi
}

build
check 0 'is valid' 'threads: 2'
check 1 'without hiredis.*libhiredis-dev' 'share: {servers: [127.0.0.1:6379]}'
check 0 'is valid' 'share: {fleet: east}'
check 1 'without libzmq.*libzmq3-dev' \
	'engines: [{name: a, pool: p, events: {endpoint: "tcp://127.0.0.1:5557"}}]'
linked=0
ldd build/bare/kvroute | grep -E 'zmq|hiredis' && linked=1
result $linked "it is not linked with them"
finish
