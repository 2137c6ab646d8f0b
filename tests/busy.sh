#!/bin/bash
# busy.sh [SUITE...] - check that no verdict depends on the load of the machine. Runs suites of
# tests/run.sh under four conditions: "idle" (the machine as it is), "loops" (with a busy loop on
# each processor), "one" (on one processor, shared with a busy loop), "eight" (with eight agent
# threads). Prints a line for each run that failed, then a table: passes and failures of each suite
# under each condition, and the longest run in seconds. Fails if a run failed.
#
# Without a suite: all of "make test", those with a running agent three times. TIMES=n: all of them
# n times. CONDITIONS="loops one": only these conditions. The output of each run stays in
# build/busy/.
set -u
cd "$(dirname "$0")/.."
conditions=(${CONDITIONS:-idle loops one eight})
talk=" spop-check conf recipes vtc stories stories-3.0 stories-3.2 failures restart polls feed"
talk+=" sandbox start models scarce threats socket memory promise-1 reload stories-asan "
rest="unit asan tsan clang fuzz ctl man bench-files tools compose"
[ $# -gt 0 ] || set -- $rest $talk
mkdir -p build/busy
loops=()

# Start a busy loop on each of the processors named.
burn() {
	for cpu in "$@"; do
		taskset -c "$cpu" bash -c 'while :; do :; done' &
		loops+=($!)
	done
}

stop_loops() {
	[ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2> /dev/null
	wait 2> /dev/null
	loops=()
}
trap stop_loops EXIT

under() {	# condition, command...
	local how=$1
	shift
	case $how in
	loops)	burn $(seq 0 $(($(nproc) - 1))); "$@" ;;
	one)	burn 0; taskset -c 0 "$@" ;;
	eight)	THREADS=8 "$@" ;;
	*)	"$@" ;;
	esac
	stop_loops
}

bad=0
declare -A cell
for how in "${conditions[@]}"; do
	for suite in "$@"; do
		times=${TIMES:-1} passed=0 failed=0 longest=0
		case $talk in *" $suite "*) times=${TIMES:-3} ;; *) [ "$how" != eight ] || continue ;; esac
		for ((n = 1; n <= times; n++)); do
			log=build/busy/$how-$suite-$n.log start=$(date +%s)
			under "$how" tests/run.sh "$suite" > "$log" 2>&1
			took=$(($(date +%s) - start))
			last=$(tail -n 1 "$log")
			p=$(sed -nE 's/^([0-9]+) passed, .*/\1/p' <<< "$last")
			f=$(sed -nE 's/.* ([0-9]+) failed$/\1/p' <<< "$last")
			passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
			longest=$((took > longest ? took : longest))
			[ "${f:-1}" -eq 0 ] || echo "$how $suite $n: ${f:-1} failed: $log"
		done
		cell[$how,$suite]="$passed/$failed ${longest}s"
		bad=$((bad + failed))
	done
done

printf '%-14s' "$(nproc) processors"
printf '%16s' "${conditions[@]}"
echo
for suite in "$@"; do
	printf '%-14s' "$suite"
	for how in "${conditions[@]}"; do printf '%16s' "${cell[$how,$suite]:--}"; done
	echo
done
echo "$bad failed"
[ "$bad" -eq 0 ]
