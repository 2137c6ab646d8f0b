#!/bin/bash
# bare.sh KVROUTE - check a kvroute that was built without the optional libraries: it says so where
# the configuration needs one, and works without them.
set -u
passed=0 failed=0

check() {	# status wanted, words wanted, configuration
	local out status
	out=$("$kvroute" -t -f /dev/stdin <<< "$3" 2>&1)
	status=$?
	if [ "$status" = "$1" ] && grep -q "$2" <<< "$out"; then
		passed=$((passed + 1))
		echo "ok    $3"
	else
		failed=$((failed + 1))
		echo "FAIL  $3: status $status: $out"
	fi
}

kvroute=$1
check 0 'is valid' 'threads: 2'
check 1 'without hiredis.*libhiredis-dev' 'share: {servers: [127.0.0.1:6379]}'
check 0 'is valid' 'share: {fleet: east}'
check 1 'without libzmq.*libzmq3-dev' \
	'engines: [{name: a, pool: p, events: {endpoint: "tcp://127.0.0.1:5557"}}]'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
