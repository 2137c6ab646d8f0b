#!/bin/bash
# run.sh [SUITE...] - run suites one after the other and add up their results. Without an argument:
# all of "make test", and with SANITIZED=1 what "make test-sanitized" runs as well; "check",
# "sanitized": what "make check" and "make test-sanitized" run; "agent": of "make test", the suites
# with a running agent.
#
# A suite is a line of the table below: a name, and a command whose last line is "N passed, N
# failed[, N skipped]". A suite without this line counts as one failure, as does one that exits with
# an error and counts no failure. A,B+C,D runs two lanes in parallel: B after A, and D after C. ~A,B
# is a lane of low priority. No verdict may depend on other load: tests/busy.sh checks it.
#
# Prints elapsed time and CPU time of each suite as it ends. Its output stays in
# build/test/NAME.log. At the end, what failed is named again, so that the last lines tell it.
set -u
cd "$(dirname "$0")/.."
mkdir -p build/test
make="${MAKE:-make} -j$(nproc)"
# -g1 has line numbers but no variables, which saves a sixth of the compile time, and -Og takes half
# as long as -O1 (xxhash has functions that gcc cannot inline then). tests/fuzz/run.sh builds with
# the same flags.
small="-Og -g1 -DXXH_NO_INLINE_HINTS=1 -Wno-maybe-uninitialized"
san="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
asan_build="B=build/asan CC=gcc SAN='$san' CFLAGS='$small'"
asan_make="flock build/asan.lock $make --no-print-directory"	# suites of two lanes build there
tsan_build="B=build/tsan CC=gcc SAN=-fsanitize=thread CFLAGS='$small'"
model=tests/unit/index/test_model
slack=build/release/tests/unit/index/test_slack
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

declare -A suite=(
	[unit]="$make --no-print-directory unit"
	[asan]="$asan_make unit-programs $asan_build && $make --no-print-directory unit $asan_build"
	[asan-long]="$asan_make unit-programs $asan_build &&
		UNIT_ROUNDS=all UNIT_SECONDS=7200 $make --no-print-directory unit $asan_build"
	[tsan]="$make --no-print-directory unit-threads $tsan_build"
	[clang]="$make --no-print-directory -s build/clang/kvroute build/clang/kvroutectl compiles \
		B=build/clang CC=clang CFLAGS=-O0 WERROR=-Werror &&
		build/clang/kvroute -t -f doc/kvroute.yaml && echo '1 passed, 0 failed'"
	[bare]="tests/it/bare.sh"
	[columns]="tests/columns.sh"
	[fuzz]="$make --no-print-directory fuzz-replay"
	[ctl]="tests/it/ctl.sh"
	[doctor]="python3 tests/it/doctor.py"
	[attach]="python3 tests/it/doctor_attach.py"
	[live]="python3 tests/it/doctor_live.py"
	[events]="python3 tests/it/events.py"
	[truth]="python3 tests/it/truth.py"
	[prefill]="python3 tests/it/prefill.py"
	[share]="python3 tests/it/share.py"
	[older]="python3 tests/it/older.py"
	[fleet]="python3 tests/it/fleet_faults.py"
	[topologies]="python3 tests/it/topologies.py"
	[kvsub]="python3 tests/it/kvsub.py"
	[bench-files]="$make --no-print-directory -s build/release/tests/bench/gen_index \
		build/release/tests/bench/bench_index && python3 tests/bench/test_pbw1.py"
	[spop-check]="python3 tests/it/spop_check.py"
	[tools]="python3 tests/tools/test_stub_engine.py"
	[agents-plan]="python3 tests/tools/test_agents.py"
	[ties]="python3 tests/sim/ties.py"
	[agents]="python3 tests/sim/agents.py"
	[agentic]="python3 tests/sim/agentic.py"
	[prefill-sim]="python3 tests/sim/prefill.py"
	[conf]="tests/it/conf_check.sh"
	[install]="tests/it/install.sh"
	[stable]="python3 tests/it/stable.py"
	[kubernetes]="tests/it/kubernetes.sh"
	[package]="$make --no-print-directory -s tools && tests/it/package.sh"
	[readme]="$make --no-print-directory -s tools && python3 tests/it/readme.py"
	[arm64]="tests/it/arm64.sh"
	[debian13]="tests/it/debian13.sh"
	[service]="python3 tests/it/service.py"
	[recipes]="python3 tests/it/recipes_live.py"
	[answers]="python3 tests/it/answers.py"
	[sessions]="python3 tests/it/sessions.py"
	[stories]="python3 tests/it/stories.py"
	[stories-asan]="$asan_make build/asan/kvroute build/asan/kvroutectl tools $asan_build &&
		B=build/asan python3 tests/it/stories.py"
	[failures]="python3 tests/it/promises/pf_failures.py"
	[failures-long]="python3 tests/it/promises/pf_failures.py --long"
	[sandbox]="python3 tests/it/promises/pf_sandbox.py"
	[start]="python3 tests/it/promises/pf_start.py"
	[models]="python3 tests/it/promises/pf_models.py"
	[threats]="$make --no-print-directory -s build/release/tests/unit/route/test_timing &&
		python3 tests/it/promises/pf_threats.py"
	[vtc]="tests/it/vtc.sh"
	[reload]="python3 tests/it/promises/reload.py"
	[restart]="python3 tests/it/promises/p16_restart.py"
	[problems]="python3 tests/it/problems.py"
	[polls]="python3 tests/it/polls.py"
	[discovery]="python3 tests/it/discovery.py"
	[ranks]="python3 tests/it/ranks.py"
	[feed]="python3 tests/it/promises/feed.py"
	[scarce]="python3 tests/it/promises/scarce.py"
	[socket]="python3 tests/it/promises/on_socket.py"
	[memory]="python3 tests/it/promises/memory.py"
	[work]="python3 tests/it/promises/p10_work.py"
	[page]="python3 tests/it/page.py"
	[runtime]="python3 tests/it/runtime.py"
	[watch]="python3 tests/it/watch.py"
	[man]="tests/it/man.sh"
	[monitoring]="python3 tests/it/monitoring.py"
	[manual]="python3 tests/it/manual.py"
	[promise-1]="python3 tests/it/promises/p01_failure.py"
	[compose]="docker/compose-test.sh"
	[notifies-10m]="python3 tests/bench/notifies.py -n ${NOTIFIES:-10000000}"
	[socket-asan]="$asan_make build/asan/kvroute tools $asan_build &&
		FRAMES=1000000 B=build/asan python3 tests/it/promises/on_socket.py"
	[slack-long]="$make --no-print-directory -s $slack && SLACK_CYCLES=20 tests/unit/run.sh $slack"
	[scarce-long]="STRIDE=1 START_STRIDE=1 python3 tests/it/promises/scarce.py"
	[model-long]="$make --no-print-directory -s build/release/$model &&
		MODEL_STEPS=${MODEL_STEPS:-80} UNIT_SECONDS=7200 tests/unit/run.sh build/release/$model"
	[model-asan]="$make --no-print-directory -s build/asan/$model $asan_build &&
		MODEL_STEPS=${MODEL_STEPS:-8} UNIT_SECONDS=7200 tests/unit/run.sh build/asan/$model"
)
# The same suites on the other versions of HAProxy that deps.sh installs.
for v in 3.0 3.2; do
	for name in stories promise-1 reload feed prefill; do
		suite[$name-$v]="tests/it/on_version.sh $v ${suite[$name]}"
	done
done
# Suites that need CPU time run next to suites that wait, at low priority, so that they hardly delay
# them. There are two lanes of them: each has parts that use one processor only. The lanes of suites
# that wait take about the same time.
costly="~unit${SANITIZED:+,asan}+~${SANITIZED:+tsan,clang,bare,}fuzz"
files=man,install,kubernetes,stable,manual,monitoring,doctor,bench-files,tools,agents-plan
files+=,ties,agents,agentic,prefill-sim
wait_1=stories,failures,restart,feed,threats,vtc,kvsub${SANITIZED:+,stories-asan}
wait_2=stories-3.0,stories-3.2,reload,promise-1,problems,recipes,sandbox,polls,discovery,ranks,start
wait_3=socket,sessions,service,memory,models,scarce,work,ctl,events,spop-check,conf,$files
wait_4=share
wait_5=compose
wait_6=truth,page,runtime,watch,attach,live,answers,fleet,topologies,prefill,prefill-3.2
order=(columns "$costly+$wait_1+$wait_2+$wait_3+$wait_4+$wait_5+$wait_6")
check=("unit+columns,ctl,man,conf+vtc")
sanitized=("asan,bare+tsan,clang,stories-asan")
agent=("$wait_1+$wait_2+${wait_3%",$files"}+$wait_4+$wait_5+$wait_6")
case ${1-} in
'') ;;
check) order=("${check[@]}") ;;
sanitized) order=("${sanitized[@]}") ;;
agent) order=("${agent[@]}") ;;
*)
	for name in ${*//[+,\~]/ }; do
		[ -n "${suite[$name]-}" ] || { echo "run.sh: there is no suite $name" >&2; exit 2; }
	done
	order=("$@")
	;;
esac

# Write exit status, elapsed seconds and CPU seconds to build/test/NAME.end.
run_suite() {
	local name=$1 out=build/test/$1 start status TIMEFORMAT='%U %S'
	start=$(date +%s)
	{ time bash -c "${suite[$name]}" > "$out.log" 2>&1 < /dev/null; status=$?; } 2> "$out.cpu"
	echo "$status $(($(date +%s) - start)) $(awk '{ printf "%.0f", $1 + $2 }' "$out.cpu")" > "$out.end"
}

# Print the lines of a log that name what failed and why, in the forms of the suites' scripts; the
# last line of the log if it has none of them.
failures_of() {
	local form='^FAIL|^\[  FAILED  \] [^0-9]|: FAILED|TEST .* FAILED|^(Assertion|[A-Za-z.]*)Error: '
	grep -m 20 -E "$form" "$1" || tail -n 1 "$1"
}

report() {
	local name=$1 log=build/test/$1.log status seconds cpu line p f s
	read -r status seconds cpu < "build/test/$name.end"
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	p=$(sed -E 's/^([0-9]+) passed.*/\1/' <<< "${line:-0 passed}")
	f=$(sed -E 's/.* ([0-9]+) failed.*/\1/' <<< "${line:-, 1 failed}")
	s=$(sed -nE 's/.* ([0-9]+) skipped.*/\1/p' <<< "$line")
	if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
	if [ "$f" -ne 0 ]; then
		echo "---- $name: the end of $log"
		tail -n 60 "$log"
		echo "----"
		what_failed+="$(failures_of "$log" | cut -c 1-200 | sed "s/^/    $name: /")"$'\n'
	fi
	grep -hE '^skipped: ' "$log" | sort | uniq -c | sed -E "s/^ *1 //; s/^/    /"
	printf '%-12s %5d passed %3d failed %5d s %5d s of CPU\n' "$name" "$p" "$f" "$seconds" "$cpu"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
	cpu_sum=$((cpu_sum + cpu))
}

# Run the suites of a lane, and print the name of each when it has ended.
lane() {
	local names=$1 name
	if [[ $names = '~'* ]]; then renice -n 10 "$BASHPID" > /dev/null; fi
	names=${names#'~'}
	for name in ${names//,/ }; do
		run_suite "$name"
		echo "$name"
	done
}

# Run several lanes in parallel.
lanes() {
	local one
	for one in ${1//+/ }; do lane "$one" & done
	wait
}

passed=0 failed=0 skipped=0 cpu_sum=0 what_failed= begun=$(date +%s)
for together in "${order[@]}"; do
	names=${together//[+,\~]/ }
	rm -f $(printf 'build/test/%s.end ' $names)
	while read -r name; do report "$name"; done < <(lanes "$together")
	for name in $names; do
		[ -f "build/test/$name.end" ] || { echo "1 0 0" > "build/test/$name.end"; report "$name"; }
	done
done
if [ -n "$what_failed" ]; then printf 'what failed:\n%s' "$what_failed"; fi
echo "all suites: $(($(date +%s) - begun)) s, $cpu_sum s of CPU"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
