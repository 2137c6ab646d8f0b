#!/bin/bash
# busy.sh [SUITE...] - check that no verdict depends on the load of the machine. Runs suites of
# tests/run.sh under four conditions: "idle" (the machine as it is), "loops" (with a busy loop on
# each processor), "one" (on one processor, shared with a busy loop), "eight" (with eight agent
# threads). Prints a line for each suite that failed, then a table: passes and failures of each
# suite under each condition, and the longest run in seconds. Fails if a suite failed.
#
# Without a suite: under each condition all of "make test" once, then its suites with a running
# agent twice more. With suites: these, TIMES times (3). CONDITIONS="loops one": only these.
# The output of each run stays in build/busy/.
set -u
cd "$(dirname "$0")/.."
conditions=(${CONDITIONS:-idle loops one eight})
out=build/busy
mkdir -p $out
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

# Run suites under a condition, the <n>th time; copy the output of those that failed.
run() {
	local how=$1 n=$2 log=$out/$1-$2.log
	shift 2
	under "$how" tests/run.sh "$@" > "$log" 2>&1
	awk -v how="$how" '$3 == "passed" && $5 == "failed" && $7 == "s" { print how, $1, $2, $4, $6 }' \
		"$log" | tee -a $out/results | while read -r _ suite _ failed _; do
		[ "$failed" -ne 0 ] || continue
		cp "build/test/$suite.log" "$out/$how-$n-$suite.log"
		echo "$how, run $n, $suite: $failed failed: $out/$how-$n-$suite.log"
	done
}

: > $out/results
for how in "${conditions[@]}"; do
	if [ $# -gt 0 ]; then
		for ((n = 1; n <= ${TIMES:-3}; n++)); do run "$how" $n "$@"; done
	else
		run "$how" 1
		run "$how" 2 agent
		run "$how" 3 agent
	fi
done

awk -v conditions="${conditions[*]}" -v n_cpus="$(nproc)" '
	{
		if (!($2 in known)) { known[$2]; names[++n] = $2 }
		passed[$1, $2] += $3; failed[$1, $2] += $4; bad += $4; runs++
		if ($5 > longest[$1, $2]) longest[$1, $2] = $5
	}
	END {
		m = split(conditions, how, " ")
		printf "%-14s", n_cpus " processors"
		for (i = 1; i <= m; i++) printf "%18s", how[i]
		print ""
		for (k = 1; k <= n; k++) {
			printf "%-14s", names[k]
			for (i = 1; i <= m; i++)
				printf "%18s", (how[i], names[k]) in passed ? passed[how[i], names[k]] "/" \
					failed[how[i], names[k]] " " longest[how[i], names[k]] "s" : "-"
			print ""
		}
		print bad + 0 " failed"
		exit bad > 0 || runs == 0
	}' $out/results
