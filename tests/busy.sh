#!/bin/bash
# busy.sh [SUITE...] - do verdicts depend on the machine? Suites of tests/run.sh as it is now, beside a busy loop for each
# processor, on one processor that such a loop wants as well, and with eight threads in the agent. A line for each run that
# failed, then a table: passes and failures of each suite under each condition, and the longest run in seconds.
#
# Without a suite: all of "make test", those that talk to a running agent three times. TIMES=n: all of them n times.
# CONDITIONS="loops one": only these. Output of each run stays in build/busy/. Bad where anything failed.
set -u
cd "$(dirname "$0")/.."
conditions=(${CONDITIONS:-idle loops one eight})
talk=" spop-check conf recipes vtc stories stories-3.0 stories-3.2 failures restart polls feed sandbox start models scarce threats socket memory promise-1 reload stories-asan "
rest="unit asan tsan clang fuzz ctl man bench-files tools compose"
[ $# -gt 0 ] || set -- $rest $talk
mkdir -p build/busy
loops=()

# Where there is nothing else to do they take all of a processor; beside a test, their share.
burn() {	# one for each of the processors named
	for cpu in "$@"; do
		taskset -c "$cpu" bash -c 'while :; do :; done' &
		loops+=($!)
	done
}

rest_now() {
	[ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2> /dev/null
	wait 2> /dev/null
	loops=()
}
trap rest_now EXIT

under() {	# condition, command...
	local how=$1
	shift
	case $how in
	loops)	burn $(seq 0 $(($(nproc) - 1))); "$@" ;;
	one)	burn 0; taskset -c 0 "$@" ;;
	eight)	THREADS=8 "$@" ;;
	*)	"$@" ;;
	esac
	rest_now
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
			p=$(sed -nE 's/^([0-9]+) passed, .*/\1/p' <<< "$last") f=$(sed -nE 's/.* ([0-9]+) failed$/\1/p' <<< "$last")
			passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) longest=$((took > longest ? took : longest))
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
