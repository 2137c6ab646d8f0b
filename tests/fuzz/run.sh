#!/bin/bash
# run.sh fuzz|replay|merge|coverage|ledger|unpack - the make targets fuzz, fuzz-replay, ...: see
# README.md in this folder.
#
#   FUZZ  one target, or several in quotes; default all
#   T     seconds for each target (fuzz); default 60
#   J     targets at a time (fuzz); default 1
#   D     directory of new inputs; default build/fuzz
#   SLOW  seconds after which an input counts as a find (fuzz); default 20
set -u
cd "$(dirname "$0")/../.."
make=${MAKE:-make}
here=tests/fuzz
D=${D:-build/fuzz}
T=${T:-60}
J=${J:-1}
SLOW=${SLOW:-20}
san="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0:handle_abort=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

targets=${FUZZ:-$(cd $here && ls ./*.c | sed 's|^\./||; s|\.c$||')}
bin=build/fuzz/tests/fuzz
kept=build/corpus		# the unpacked archives corpus/TARGET.tar.gz

need_clang() {
	command -v clang > /dev/null && return
	echo "skipped: $1, there is no clang"
	exit 0
}

build_fuzzers() {
	need_clang "fuzzing"
	$make --no-print-directory -s -j2 fuzz-programs B=build/fuzz CC=clang \
		FUZZER=-fsanitize=fuzzer OPT=-O1 \
		SAN="${san/fsanitize=/fsanitize=fuzzer-no-link,}" || exit 1
}

# Print the folders of <target> that exist, of those named.
folders() {
	local t=$1 d
	shift
	for d; do [ -d "$d/$t" ] && echo "$d/$t"; done
}

# ---- archives 

# Unpack the archives that are newer than their unpacked files.
do_unpack() {
	local t from
	for t in $targets; do
		from=$here/corpus/$t.tar.gz
		if [ ! -f "$from" ] || [ "$kept/$t.ok" -nt "$from" ]; then continue; fi
		rm -rf "${kept:?}/$t"
		mkdir -p "$kept/$t"
		tar -xzf "$from" -C "$kept/$t" && touch "$kept/$t.ok" || exit 1
	done
}

# Pack the inputs in $kept/TARGET. The same inputs make the same bytes.
pack() {
	local t=$1
	(cd "$kept/$t" && ls -A | LC_ALL=C sort | tar --format=ustar --owner=0 --group=0 --numeric-owner \
		--mode=0644 --mtime=@0 --no-recursion -cf - -T -) | gzip -9n > "$here/corpus/$t.tar.gz" || exit 1
	touch "$kept/$t.ok"
}

# ---- fuzz 

fuzz_one() {
	local t=$1 dir=$D/corpus/$1 log=$D/log/$1.log start
	local -a dict=()
	mkdir -p "$dir" "$D/log" "$D/crashes/$t"
	[ -f "$here/dict/$t.dict" ] && dict=(-dict="$here/dict/$t.dict")
	start=$(ls "$D/crashes/$t" | wc -l)
	TIMEFORMAT="cpu %U %S"
	# shellcheck disable=SC2046
	{ time $bin/"$t" -max_total_time="$T" -timeout="$SLOW" -report_slow_units="$SLOW" \
		-rss_limit_mb=2048 -print_final_stats=1 -use_value_profile="${VP:-0}" \
		-len_control=30 "${dict[@]}" -artifact_prefix="$D/crashes/$t/" "$dir" \
		$(folders "$t" $kept $here/crashes build/fuzz/seeds) > "$log" 2>&1; } 2> "$log.time"
	local execs ft cov cpu found
	execs=$(sed -n "s/^stat::number_of_executed_units: *//p" "$log" | tail -n 1)
	read -r cov ft < <(grep -aoE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1 | awk '{ print $2, $4 }')
	cpu=$(awk '/^cpu/ { printf "%.0f", $2 + $3 }' "$log.time")
	found=$(($(ls "$D/crashes/$t" | wc -l) - start))
	printf '%-12s %10s executions %6s s cpu %6s edges %7s features %5s inputs %2s crashes\n' \
		"$t" "${execs:-0}" "$cpu" "${cov:-0}" "${ft:-0}" "$(ls "$dir" | wc -l)" "$found"
	printf '%s %s %s %s %s\n' "$(date -u +%FT%TZ)" "$t" "$cpu" "${execs:-0}" "$found" >> "$D/ledger"
	[ "$found" -eq 0 ] || grep -aE 'does not hold|^SUMMARY|runtime error|Test unit written' "$log"
	return $((found > 0))
}

do_fuzz() {
	build_fuzzers
	do_unpack
	local t bad=0 running=0
	[ -d build/fuzz/seeds ] || python3 $here/seeds.py build/fuzz/seeds || exit 1
	for t in $targets; do
		fuzz_one "$t" &
		running=$((running + 1))
		if [ $running -ge "$J" ]; then wait -n || bad=1; running=$((running - 1)); fi
	done
	while [ $running -gt 0 ]; do wait -n || bad=1; running=$((running - 1)); done
	awk '{ cpu += $3; n += $4; f += $5 }
		END { printf "in total: %.2f h cpu, %.0f executions, %d crashes\n", cpu / 3600, n, f }' \
		"$D/ledger"
	return $bad
}

# ---- ledger 

# Print the time of all runs as rows of the table in README.md.
do_ledger() {
	awk '{ cpu[$2] += $3; n[$2] += $4; found[$2] += $5 }
		END { for (t in cpu) printf "| `%s` | %d | %d | %d |\n", t, cpu[t], n[t], found[t] }' \
		"$D/ledger" | sort
}

# ---- replay 

do_replay() {
	local t passed=0 failed=0 dirs
	flock build/asan.lock $make --no-print-directory -s -j2 fuzz-programs B=build/asan CC=gcc \
		CFLAGS="-Og -g1 -DXXH_NO_INLINE_HINTS=1 -Wno-maybe-uninitialized" SAN="$san" || exit 1
	do_unpack
	for t in $targets; do
		dirs=$(folders "$t" $kept $here/crashes)
		# shellcheck disable=SC2086
		if [ -n "$dirs" ] && build/asan/tests/fuzz/"$t" $dirs; then passed=$((passed + 1)); else
			echo "FAILED: $t (${dirs:-no corpus})"
			failed=$((failed + 1))
		fi
	done
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ]
}

# ---- corpora 

# Store the smallest set of known inputs that reaches the same edges. Counts of an edge are ignored,
# because they would make the set four times as large. The build is not optimized, so that each
# branch has an edge.
build_mergers() {
	need_clang "merging"
	$make --no-print-directory -s -j2 fuzz-programs B=build/merge CC=clang \
		FUZZER=-fsanitize=fuzzer OPT=-O0 SAN="-fsanitize=fuzzer-no-link" || exit 1
}

merge_one() {
	local t=$1 new=build/merge/new/$1
	shift
	rm -rf "$new"
	mkdir -p "$new" "$kept/$t"
	# shellcheck disable=SC2046
	build/merge/tests/fuzz/"$t" -merge=1 -use_counters=0 -timeout=20 -max_len="${MOST:-9000}" \
		-artifact_prefix=build/merge/crash- "$new" $(folders "$t" "$@") > build/merge/log 2>&1 ||
		{ tail -n 20 build/merge/log; exit 1; }
	rm -f "${kept:?}/$t"/*
	cp "$new"/* "$kept/$t"/
	[ ! -d "build/fuzz/seeds/keep/$t" ] || cp "build/fuzz/seeds/keep/$t"/* "$kept/$t"/
	pack "$t"
	echo "$t: $(ls "$kept/$t" | wc -l) inputs, $(cat "$kept/$t"/* | wc -c) bytes"
}

do_merge() {
	build_mergers
	rm -rf build/fuzz/seeds
	python3 $here/seeds.py build/fuzz/seeds || exit 1
	do_unpack
	for t in $targets; do merge_one "$t" $kept "$D/corpus" build/fuzz/seeds; done
}

# ---- coverage 

# Print the regions that the stored inputs reach, for each reader of bytes from outside (at least 95
# % is promised) and for other files. Not reached: lack of memory, other processors, checks that
# cannot fail.
parsers="spoe/*.c agent/base/json*.c agent/base/num.h agent/prompt/api.c agent/prompt/batch.c
	agent/prompt/body*.c agent/prompt/message.c agent/prompt/names.c agent/prompt/pages.c
	agent/prompt/rules.c agent/prompt/body_value.c agent/feed/*.c agent/loop/http.c
	agent/loop/command.c agent/fleet/loadstr.c agent/serve/*.c agent/sim/trace*.c
	agent/conf/value.c agent/conf/addr.c agent/share/fields.c agent/share/read.c"
beside="agent/prompt/heads.c agent/prompt/order.c agent/conf/load.c agent/conf/tree.c
	agent/conf/check.c agent/conf/print.c agent/request/*.c agent/route/candidates.c
	agent/route/learn.c agent/route/lesson.c agent/route/unheard.c agent/fleet/ledger.c
	agent/index/*.c agent/tok/split/*.c agent/tok/normal*.c agent/tok/unicode/unicode.c
	agent/share/inbox.c agent/share/outbox.c agent/share/write.c"

# report NAME OBJECTS FILES
cover_report() {
	# shellcheck disable=SC2086
	llvm-cov report $2 -instr-profile=build/cover/all.profdata $3 2> /dev/null |
		awk -v name="$1" -v row='%-28s %5d regions %4d missed %7s\n' '
			/^[a-z].*\.[ch] / { printf row, $1, $2, $3, $4 }
			/^TOTAL/ { printf row, name, $2, $3, $4 }'
}

do_coverage() {
	need_clang "coverage"
	command -v llvm-cov > /dev/null || { echo "skipped: coverage, there is no llvm-cov"; exit 0; }
	local t objects="" raw=build/cover/raw
	$make --no-print-directory -s -j2 fuzz-programs B=build/cover CC=clang OPT=-O0 \
		SAN="-fprofile-instr-generate -fcoverage-mapping" || exit 1
	do_unpack
	rm -rf $raw
	mkdir -p $raw
	for t in $targets; do
		# shellcheck disable=SC2046
		LLVM_PROFILE_FILE=$raw/$t.profraw build/cover/tests/fuzz/"$t" \
			$(folders "$t" $kept $here/crashes ${GROWN:+"$D/corpus"}) > /dev/null || exit 1
		objects="$objects -object build/cover/tests/fuzz/$t"
	done
	llvm-profdata merge -o build/cover/all.profdata $raw/*.profraw || exit 1
	cover_report "others" "${objects# -object}" "$beside"
	cover_report "readers" "${objects# -object}" "$parsers" | tee build/cover/report
	awk '/^readers/ { exit !($6 + 0 >= 95) }' build/cover/report
}

"do_$1"
