#!/bin/bash
# run.sh PROGRAM... : run cmocka programs from the top of the tree, as many at a time as there are
# processors; those where threads share something or times are compared, alone at the end. The
# output of one that passes is a line; of one that fails, all of it. Last line: N passed, N failed.
# UNIT_SECONDS: after so many a program hangs, 1800. UNIT_RUN: a command that runs programs of
# another machine.
set -u

# A program; what it says goes to <file>, in the form "passed failed" and then what is to be shown.
run_one() {
	local program=$1 file=$2 start out status ok bad
	start=$(date +%s%N)
	out=$(timeout "${UNIT_SECONDS:-1800}" ${UNIT_RUN-} "$program" 2>&1 < /dev/null)
	status=$?
	ok=$(grep -c '^\[       OK' <<< "$out")
	bad=0
	if [ $status -ne 0 ]; then
		bad=$(sed -n 's/^ *\([0-9]*\) FAILED TEST(S)/\1/p' <<< "$out" | tail -n 1)
		[ "${bad:-0}" -gt 0 ] || bad=1
	fi
	{
		echo "$ok $bad"
		if [ $status -ne 0 ]; then printf '%s\n' "$out"; fi
		grep '^skipped: ' <<< "$out"
		printf '%-44s %3d ok %2d failed %6d ms\n' "${program#*/tests/unit/}" "$ok" "$bad" \
			"$((($(date +%s%N) - start) / 1000000))"
	} > "$file"
}
export -f run_one

alone() {
	case $1 in *_threads | *_timing) return 0 ;; *) return 1 ;; esac
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
together=() apart=() i=0
for program in "$@"; do
	i=$((i + 1))
	if alone "$program"; then apart+=("$program" "$dir/$i"); else together+=("$program" "$dir/$i"); fi
done
[ ${#together[@]} -eq 0 ] ||
	printf '%s\0' "${together[@]}" |
	xargs -0 -n 2 -P "$(nproc)" bash -c 'run_one "$@"' run_one
[ ${#apart[@]} -eq 0 ] || printf '%s\0' "${apart[@]}" | xargs -0 -n 2 bash -c 'run_one "$@"' run_one

passed=0 failed=0
for ((n = 1; n <= i; n++)); do
	if ! read -r ok bad < "$dir/$n"; then
		ok=0 bad=1
	fi
	tail -n +2 "$dir/$n"
	passed=$((passed + ok)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
