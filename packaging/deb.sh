#!/bin/bash
# deb.sh [-1] - build the Debian packages of this tree in build/deb/, for the suite of this machine.
# Builds twice, in folders, time zones, languages and umasks that differ, and without a compiler
# cache the second time, and fails if a package differs in one byte; -1: once. Then lintian judges
# them.
#
# The source is the tree as it is, so packages of changes that are not committed can be tried.
set -eu
cd "$(dirname "$0")/.."
for tool in dpkg-buildpackage dh lintian fakeroot; do
	command -v $tool > /dev/null || { echo "deb.sh: no $tool: make deb-deps" >&2; exit 1; }
done
out=build/deb
rm -rf $out
mkdir -p $out
given=${COMMIT-}	# of a tree without a history
# the time of the last change, so that the same tree gives the same bytes
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || dpkg-parsechangelog -STimestamp)
export SOURCE_DATE_EPOCH
COMMIT=$(git rev-parse --short=12 HEAD 2> /dev/null) || COMMIT=$given
export COMMIT DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} parallel=$(nproc)"

# Copy the tree to $out/<$1>/kvroute and build its packages.
build() {
	local dir=$out/$1/kvroute
	mkdir -p "$dir"
	{ git ls-files -co --exclude-standard 2> /dev/null ||
		find . -path ./build -prune -o -type f -print; } |
		grep -vE '^(\./)?tests/(data|fuzz|unit|bench|sim|vtc)/' |
		tar -c -T - | tar -x -C "$dir"
	if ! (cd "$dir" && dpkg-buildpackage -b -us -uc > ../log 2>&1); then
		tail -n 30 "$out/$1/log" >&2
		exit 1
	fi
}

(umask 022; TZ=UTC LC_ALL=C.UTF-8 build one)
if [ "${1-}" != -1 ]; then
	(umask 002; TZ=Pacific/Auckland LC_ALL=C CCACHE_DISABLE=1 build another-name)
	for deb in "$out"/one/*.deb; do
		if ! cmp "$deb" "$out/another-name/${deb##*/}"; then
			echo "deb.sh: ${deb##*/} is not reproducible" >&2
			exit 1
		fi
		echo "the same bytes twice: ${deb##*/}"
	done
	rm -rf "$out/another-name"
fi
mv "$out"/one/*.deb "$out"/one/*.changes "$out"/one/*.buildinfo "$out"
rm -rf "$out/one/kvroute"
# These packages are for no archive: they have no address for mail, and close no bug.
accepted=initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog
root=
[ "$(id -u)" != 0 ] || root=--allow-root
lintian $root --fail-on error,warning --profile debian \
	--suppress-tags "$accepted" "$out"/*.changes
ls -l "$out"/*.deb
