#!/bin/bash
# arm64.sh [PROGRAM...] - cross-compile the agent, kvroutectl and the unit programs for arm64 and
# run them under qemu-user: all unit programs, or those named (as tok/test_split). Debian's
# packages for arm64 are unpacked below build/arm64, so this machine's own packages stay as they
# are. Skipped by name without cross compiler, qemu or archive; "make long-deps" installs the tools.
# Last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/../.."
. /etc/os-release
suite=${SUITE:-$VERSION_CODENAME}
sysroot=$PWD/build/arm64/$suite
out=build/arm64/out

. tests/lib/results.sh
cannot() { skip "arm64: $1"; }

qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
	cannot "no qemu-user (make long-deps)"
for tool in aarch64-linux-gnu-gcc mmdebstrap; do
	command -v $tool > /dev/null || cannot "no $tool (make long-deps)"
done
if [ ! -d "$sysroot" ]; then
	mkdir -p build/arm64
	gcc=$(aarch64-linux-gnu-gcc -dumpversion)
	mmdebstrap --architectures=arm64 --variant=extract --include="libc6-dev,libgcc-${gcc%%.*}-dev,$(
		)libev-dev,libyaml-dev,libseccomp-dev,libpcre2-dev,libzmq3-dev,libhiredis-dev,$(
		)libxxhash-dev,libcmocka-dev,libssl-dev" "$suite" "$sysroot.new" > build/arm64/log 2>&1 ||
		cannot "no packages for arm64: build/arm64/log"
	mv "$sysroot.new" "$sysroot"
fi

programs=
for p in "$@"; do programs+=" $out/tests/unit/$p"; done
if ! ${MAKE:-make} "-j$(nproc)" --no-print-directory -s QUIET=1 $out/kvroute $out/kvroutectl \
	${programs:-unit-programs} B=$out CC="aarch64-linux-gnu-gcc --sysroot=$sysroot" WERROR=-Werror \
	CFLAGS='-O1 -g1' HAVE_ZMQ=yes HAVE_HIREDIS=yes HAVE_HIREDIS_SSL="$(
		[ -f "$sysroot/usr/include/hiredis/hiredis_ssl.h" ] && echo yes)"; then
	result 1 "it builds for arm64 without a warning"
	finish
fi

export QEMU_CPU=max,pauth-impdef=on	# the architected hash of PAC takes most of the time otherwise
run="$qemu -L $sysroot"
$run $out/kvroute -V | grep -qx 'cpu path neon'
result $? "kvroute runs, with NEON"
$run $out/kvroute -t -f doc/kvroute.yaml
result $? "kvroute checks a configuration"
readelf -nW $out/agent/base/json_scan.o | grep -q 'AArch64 feature: BTI, PAC'
result $? "objects have BTI and PAC"

# What qemu-user does not have, or not as Linux does: filters of system calls, Landlock, limits of
# address space, and madvise(), of which it accepts what it does not do; and times are not compared.
left='/(test_sandbox|test_opener|test_timing|[a-z_]*_timing|test_slack)$'
left+='|/(test_region|test_events_fault)$'
[ -n "$programs" ] ||
	programs=$(find $out/tests/unit -name 'test_*' -type f -perm -u+x | grep -vE "$left" | sort)
log=$(UNIT_RUN=$run MODEL_STEPS=1 tests/unit/run.sh $programs)
echo "$log" | sed '$d'
add_results "$(tail -n 1 <<< "$log")"
finish
