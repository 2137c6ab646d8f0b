#!/bin/bash
# run.sh PROGRAM... : run cmocka programs one after the other from the top of the tree. The output of
# one that passes is a line; of one that fails, all of it. Last line: N passed, N failed.
# UNIT_SECONDS: that each may take, 300.
set -u
passed=0 failed=0
for program in "$@"; do
	start=$(date +%s%N)
	out=$(timeout "${UNIT_SECONDS:-300}" "$program" 2>&1)
	status=$?
	ms=$(( ($(date +%s%N) - start) / 1000000 ))
	ok=$(grep -c '^\[       OK' <<<"$out")
	bad=$(sed -n 's/^ *\([0-9]*\) FAILED TEST(S)/\1/p' <<<"$out" | tail -n 1)
	bad=${bad:-0}
	if [ $status -ne 0 ]; then
		printf '%s\n' "$out"
		[ "$bad" -gt 0 ] || bad=1
		failed=$((failed + bad))
	fi
	passed=$((passed + ok))
	printf '%-44s %3d ok %2d failed %6d ms\n' "${program#*/tests/unit/}" "$ok" \
		"$([ $status -ne 0 ] && echo "$bad" || echo 0)" "$ms"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
