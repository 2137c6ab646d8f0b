#!/bin/bash
# deps.sh [build] [demo] [test] [images] - installs what is missing of Debian's packages (no argument: the first three).
#
#   build   what make needs
#   demo    build, and a HAProxy
#   test    demo, and what the tests need
#   images  what makes a base image where no registry is reachable
#
# What would start a service when installed (haproxy, prometheus, varnish) is unpacked under build/
# instead (unpack.sh), and found there:
#
#   build/haproxy/2.6/haproxy   build/haproxy/3.0/haproxy   build/haproxy/3.2/haproxy
#   build/bin/promtool          build/bin/varnishtest
#
# A folder's name is the version asked for; the binary prints which it is (3.2: that or later). Where the
# machine is not Debian 12 and has a HAProxy of its own, 2.6/haproxy is a link to that. With nothing
# missing this takes a moment: apt is not asked.
#
# exit 1: something needed for building, or the demo's HAProxy, is not there. What only tests want and
# cannot be had here is named on one line, and they skip it by that name.
set -eu
cd "$(dirname "$0")/../.."

here=tests/tools
codename=$(. /etc/os-release 2> /dev/null && echo "${VERSION_CODENAME:-}") || codename=

want_build="gcc make libc6-dev libev-dev libpcre2-dev libseccomp-dev libxxhash-dev libyaml-dev \
            libzmq3-dev"
want_demo="python3"
want_test="libcmocka-dev clang mandoc python3-zmq"
case $codename in
bookworm) want_test+=" libclang-rt-14-dev" ;;
*) want_test+=" libclang-rt-dev" ;;
esac

# Of <$@>, the packages that are not installed.
missing() {
	local p have
	have=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2> /dev/null |
	         sed -n 's/^installed //p' | tr '\n' ' ')"
	for p in "$@"; do
		case $have in *" $p "*) ;; *) echo "$p" ;; esac
	done
}

install() {
	local need root=
	if ! command -v dpkg-query > /dev/null; then
		echo "deps: no Debian here; please install these by hand:" "$@" >&2
		return 0
	fi
	need=$(missing "$@")
	[ -n "$need" ] || return 0
	if [ "$(id -u)" != 0 ]; then
		if ! root=$(command -v sudo); then
			echo "deps: neither root nor sudo; as root: apt-get install --no-install-recommends" $need >&2
			return 1
		fi
	fi
	echo "deps: installing" $need
	$root apt-get -qq update || echo "deps: apt-get update failed; trying with the lists that are here" >&2
	$root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $need
}

# HAProxy of Debian suite <$2> as build/haproxy/<$1>.
haproxy() {
	local dir=build/haproxy/$1 own v
	[ -x "$dir/haproxy" ] && return 0
	if [ "$1" = 2.6 ] && [ "$codename" != bookworm ] && own=$(command -v haproxy); then
		mkdir -p "$dir"
		ln -sf "$own" "$dir/haproxy"
		echo "deps: $dir/haproxy is $own"
		return 0
	fi
	v=$($here/fetch-haproxy.sh "$2" "$dir") || return
	echo "deps: $dir/haproxy is $v"
}

# A program <$1> of package <$2>, of this machine's own suite, as build/bin/<name>.
program() {
	local name=${1##*/}
	[ -x "build/bin/$name" ] && return 0
	$here/unpack.sh "${codename:-bookworm}" "$2" "build/unpacked/$2" "$1" || return
	mkdir -p build/bin
	ln -sf "../unpacked/$2/$name" "build/bin/$name"
	echo "deps: build/bin/$name"
}

# <$1> is what the line says that is printed when the rest, a command, fails.
optional() {
	local what=$1
	shift
	"$@" || echo "deps: skipped: $what cannot be had here" >&2
}

groups=" ${*:-build demo test} "
case $groups in
*" test "*)
	install $want_build $want_demo $want_test
	haproxy 2.6 bookworm
	optional "HAProxy 3.0" haproxy 3.0 trixie
	[ -x build/haproxy/3.2/haproxy ] || haproxy 3.2 forky || optional "HAProxy 3.2" haproxy 3.2 sid
	optional promtool program usr/bin/promtool prometheus
	optional varnishtest program usr/bin/varnishtest varnish
	;;
*" demo "*)
	install $want_build $want_demo
	haproxy 2.6 bookworm
	;;
*" build "*)
	install $want_build
	;;
*" images "*)
	install debootstrap
	;;
*)
	echo "usage: ${0##*/} [build] [demo] [test] [images]" >&2
	exit 2
	;;
esac
