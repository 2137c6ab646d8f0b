#!/bin/bash
# model.sh - instructions of a request with and without the message "model" of recipes/two-models.cfg, by callgrind: the
# difference of two runs of $ROUNDS and twice as many requests, as places are warm after 256. A line each:
#   bench model body=BYTES none=N twice=N once=N
# none: no such message; twice: the body is read for each message; once: the second message takes over what was read.
set -eu
bench=${B:-build/release}/tests/bench/bench_model
rounds=${ROUNDS:-500}
command -v valgrind > /dev/null || { echo "skipped: there is no valgrind"; exit 0; }
count() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$@" 2>&1 | sed -n 's/.*Collected : //p'; }
for bytes in ${SIZES:-4000 16000 64000 256000}; do
	line="bench model body=$bytes"
	for mode in none twice once; do
		line+=" $mode=$((($(count "$bytes" $((2 * rounds)) $mode) - $(count "$bytes" "$rounds" $mode)) / rounds))"
	done
	echo "$line"
done
