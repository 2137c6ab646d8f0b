#!/bin/bash
# index.sh [bench-index|instructions|peers] - make missing workloads, and run the bench of the index
# on all.
#
# WORKLOADS="moon syn1k ..." SERVERS=64 B=build/release TRACE=Mooncake trace; without it moon is
# skipped. The files stay in build/bench/ for other programs: tests/bench/index/pbw1.h describes
# their format. instructions: count the first operations of each under callgrind, by function,
# including its callees. peers: the index beside those of SMG (index/peers.rs), in turn; cargo
# fetches and builds their crate.
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

# Build index/peers.rs. Returns 1 if it cannot be built.
peers() {
	local p=$out/peers

	command -v cargo > /dev/null || { echo "skipped: peers: cargo is not installed"; return 1; }
	mkdir -p $p/src
	cp tests/bench/index/peers.rs $p/src/main.rs
	cat > $p/Cargo.toml <<-'EOF'
		[package]
		name = "index_peers"
		version = "0.0.0"
		edition = "2021"
		[dependencies]
		kv-index = "=2.0.0"
		[profile.release]
		opt-level = 3
		lto = "thin"
		[workspace]
	EOF
	RUSTFLAGS="-C target-cpu=native" cargo build --quiet --release --manifest-path $p/Cargo.toml \
		> $p/build.log 2>&1 ||
		{ echo "skipped: peers: the crate kv-index cannot be built: $p/build.log"; return 1; }
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
peers)
	peers || exit 0
	for w in ${WORKLOADS:-moon syn1k syn64k}; do
		workload $w || continue
		"$bench" -t $out/$w.pbw1 "$SERVERS" | grep -E 'op=(match|match.commit|full_hit) '
		$out/peers/target/release/index_peers $out/$w.pbw1 "$SERVERS"
	done
	;;
*)
	echo "usage: ${0##*/} [bench-index|instructions|peers]" >&2
	exit 2
	;;
esac
