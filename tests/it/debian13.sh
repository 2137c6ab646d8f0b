#!/bin/bash
# debian13.sh [STEP...] - kvroute on Debian 13, in a root of its own, with its compiler and
# libraries. Steps, default all:
#
#   unit     builds without a warning, unit tests
#   tls      share.tls, which hiredis 1.x brings, to a Redis with TLS, with ASan and UBSan
#   deb      packages of this version, judged by its lintian, and of the version before
#   package  their life under systemd: package.sh
#
# Needs root and Debian's archive; skipped by name without. Takes many minutes: make test-long.
# Last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/../.."
suite=trixie
tarball=build/root/$suite-build.tar
work=
. tests/lib/results.sh

at_end() { [ -z "$work" ] || rm -rf "$work"; }
cannot() { skip "Debian 13: $1"; }

[ "$(id -u)" = 0 ] || cannot "not root"
command -v mmdebstrap > /dev/null || cannot "no mmdebstrap: make long-deps"
if [ ! -s "$tarball" ]; then
	mkdir -p build/root
	packages=gcc,make,libc6-dev,libev-dev,libpcre2-dev,libseccomp-dev,libxxhash-dev,libyaml-dev
	packages+=,libzmq3-dev,libhiredis-dev,libssl-dev,libcmocka-dev,dpkg-dev,debhelper,fakeroot
	packages+=,build-essential,lintian,pkg-config,python3,openssl,redis-server,haproxy,procps
	mmdebstrap --variant=minbase --include="$packages" "$suite" "$tarball.new.tar" \
		> build/root/$suite.log 2>&1 || cannot "no packages of $suite: build/root/$suite.log"
	mv "$tarball.new.tar" "$tarball"
fi
work=$(mktemp -d /var/tmp/kvroute-$suite-XXXXXX)
tar -C "$work" -xf "$tarball" || cannot "no root from $tarball"
src=$work/src/kvroute
mkdir -p "$src/build/bin" "$src/build/haproxy/2.6"
echo '127.0.0.1 localhost' > "$work/etc/hosts"
{ git ls-files -co --exclude-standard 2> /dev/null ||
	find . -path ./build -prune -o -type f -print; } |
	grep -vE '^(\./)?tests/fuzz/' | tar -c -T - | tar -x -C "$src"
ln -s /usr/bin/redis-server "$src/build/bin/redis-server"
ln -s /usr/sbin/haproxy "$src/build/haproxy/2.6/haproxy"	# as deps.sh does it there

# Run a shell command in the root, in the tree; its processes end with it.
inside() {
	unshare --mount --propagation private --pid --fork --kill-child --uts --ipc bash -c '
		mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && cd / &&
		exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
			COMMIT="$3" bash -c "cd /src/kvroute && $2"' _ "$work" "$1" \
		"$(git rev-parse --short=12 HEAD 2> /dev/null)"
}

# Run a step and print the end of its output if it fails.
try() {	# what, log, command
	inside "$3" > "build/debian13-$2.log" 2>&1
	local status=$?
	result $status "$1"
	[ $status -eq 0 ] || tail -n 20 "build/debian13-$2.log"
	return $status
}

wanted() { [[ " $steps " == *" $1 "* ]]; }
steps=${*:-unit tls deb package}
build='make -j$(nproc) -s QUIET=1 WERROR=-Werror CFLAGS="-O1 -g1"'

if wanted unit; then
	try "it builds without a warning: $(inside 'gcc -dumpfullversion')" build \
		"$build all tools" || finish
	inside './kvroute -V' | sed 's/^/      /'
fi
if wanted unit; then
	try "the unit programs build without a warning" units "$build -k unit-programs" &&
		inside 'make -s unit CFLAGS="-O1 -g1"' > build/debian13-unit.log 2>&1
	read -r p _ f _ <<< "$(grep -E '^[0-9]+ passed' build/debian13-unit.log | tail -n 1 | tr -d ,)"
	[ "${f:-1}" = 0 ]
	result $? "unit tests: ${p:-0} passed, ${f:-?} failed"
	[ "${f:-1}" = 0 ] || tail -n 40 build/debian13-unit.log
fi
if wanted tls; then
	san='B=build/asan SAN="-fsanitize=address,undefined -fno-sanitize-recover=all"'
	try "it builds with ASan and UBSan" asan \
		"$build $san build/asan/kvroute build/asan/kvroutectl tools" || finish
	out=$(inside 'build/asan/kvroute -V')
	grep -qE '^hiredis [1-9].*' <<< "$out" && grep -q '^OpenSSL' <<< "$out"
	result $? "it has a hiredis with TLS"
	try "share.tls works with Redis over TLS" tls \
		"ASAN_OPTIONS=detect_leaks=1 B=build/asan python3 tests/it/share.py -k tls"
	! grep -E '^skipped: .*(TLS|tls)' build/debian13-tls.log
	result $? "no story of TLS is skipped: $(grep -c '^ok' build/debian13-tls.log) stories"
fi
if wanted deb; then
	try "the packages build, and lintian of $suite warns of nothing" deb "packaging/deb.sh -1"
	mkdir -p build/root/$suite
	rm -f build/root/$suite/*.deb
	cp "$src"/build/deb/*.deb build/root/$suite/ 2> /dev/null
	# the version before this one, for the upgrade
	rm -rf build/root/$suite/previous
	if previous=$(tests/it/package.sh previous) && [ -n "$previous" ]; then
		mkdir "$work/src/previous" build/root/$suite/previous
		git archive "$previous" | tar -x -C "$work/src/previous"
		try "the previous version builds: commit ${previous:0:12}" previous \
			"cd ../previous && packaging/deb.sh -1"
		cp "$work"/src/previous/build/deb/kvroute_*.deb build/root/$suite/previous/
	else
		skipped "Debian 13: no history, so the upgrade is from this version with a lower number"
	fi
fi
if wanted package; then
	NEW=$(ls $PWD/build/root/$suite/kvroute_*.deb) || finish
	OLD=$(ls $PWD/build/root/$suite/previous/kvroute_*.deb 2> /dev/null)
	log=$(SUITE=$suite NEW=$NEW OLD=$OLD PREVIOUS= tests/it/package.sh)
	sed '$d' <<< "$log"
	add_results "$(tail -n 1 <<< "$log")"
fi
finish
