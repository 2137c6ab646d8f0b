#!/bin/bash
# model.sh - count the instructions of a request with and without the message "model" of
# recipes/two-models.cfg under callgrind: the difference of runs with $ROUNDS and twice as many
# requests, because caches are warm after 256. Prints lines
#   bench model body=BYTES none=N twice=N once=N
# none: without the message; twice: the body is read for each message; once: the second message uses
# the result of the first.
set -eu
bench=${B:-build/release}/tests/bench/bench_model
rounds=${ROUNDS:-500}
command -v valgrind > /dev/null || { echo "skipped: valgrind is not installed"; exit 0; }
count() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$@" 2>&1 |
		sed -n 's/.*Collected : //p'
}
for bytes in ${SIZES:-4000 16000 64000 256000}; do
	line="bench model body=$bytes"
	for mode in none twice once; do
		one=$(count "$bytes" "$rounds" $mode) two=$(count "$bytes" $((2 * rounds)) $mode)
		line+=" $mode=$(((two - one) / rounds))"
	done
	echo "$line"
done
