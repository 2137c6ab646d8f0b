#!/bin/bash
# index.sh [bench-index|instructions] - make missing workloads, and run the bench of the index on
# all.
#
# WORKLOADS="moon syn1k ..." SERVERS=64 B=build/release TRACE=Mooncake trace; without it moon is
# skipped. The files stay in build/bench/ for other programs: tests/bench/index/pbw1.h describes
# their format. instructions: count the first operations of each under callgrind, by function,
# including its callees.
set -eu
cd "$(dirname "$0")/../.."
B=${B:-build/release}
SERVERS=${SERVERS:-64}
TRACE=${TRACE:-../shared/data/traces/mooncake_conversation.jsonl}
bench=$B/tests/bench/bench_index
out=build/bench

# Make $out/<$1>.pbw1, unless it exists and is newer than its generator. Returns 1 if it cannot be
# made.
workload() {
	local file=$out/$1.pbw1
	mkdir -p $out
	if [ "$1" = moon ] && [ ! -r "$TRACE" ]; then
		echo "skipped: workload moon: no trace at $TRACE"
		return 1
	fi
	if [ ! -e "$file" ] || [ tests/bench/gen_index.c -nt "$file" ] ||
		[ tests/bench/index/pbw1.c -nt "$file" ]; then
		"$B/tests/bench/gen_index" "$1" "$file" $([ "$1" = moon ] && echo "$TRACE")
	fi
}

instructions() {
	local n=400 op
	[ "$1" = syn64k ] && n=100
	valgrind --quiet --tool=callgrind --callgrind-out-file=$out/callgrind.$1 \
		"$bench" -i -n $n $out/$1.pbw1 "$SERVERS" > $out/callgrind.$1.log 2>&1 ||
		{ tail -n 5 $out/callgrind.$1.log >&2; return 1; }
	callgrind_annotate --inclusive=yes --threshold=100 $out/callgrind.$1 | tr -d , |
		awk -v name=$1 -v servers="$SERVERS" -v n=$n '
			match($0, /few_[a-z_]+/) && !seen[op = substr($0, RSTART + 4, RLENGTH - 4)]++ {
				printf "bench index_instructions workload=%s servers=%s ", name, servers
				printf "first_ops=%d op=%s per_op=%.0f\n", n, op, $1 / n
			}'
}

case ${1:-bench-index} in
bench-index)
	"$bench"
	for w in ${WORKLOADS:-moon syn1k syn8k syn64k syn1kbig}; do
		workload $w || continue
		"$bench" $out/$w.pbw1 "$SERVERS"
	done
	;;
instructions)
	command -v valgrind > /dev/null || { echo "skipped: valgrind is not installed"; exit 0; }
	for w in ${WORKLOADS:-moon syn1k syn8k syn64k}; do
		workload $w || continue
		instructions $w
	done
	;;
*)
	echo "usage: ${0##*/} [bench-index|instructions]" >&2
	exit 2
	;;
esac
