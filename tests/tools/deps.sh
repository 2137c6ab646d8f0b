#!/bin/bash
# deps.sh [build] [demo] [test] [images] [deb] [long] - install missing Debian packages (default:
# the first three).
#
#   build   for make
#   demo    build, and a HAProxy
#   test    demo, and the tests
#   images  to make a base image without a registry
#   deb     make deb: build, and what builds and checks Debian packages
#   long    make test-long: deb, fresh roots, and programs for arm64
#
# Packages that would start a service (haproxy, prometheus, varnish) are not installed but unpacked
# under build/ (unpack.sh):
#
#   build/haproxy/2.6/haproxy   build/haproxy/3.0/haproxy   build/haproxy/3.2/haproxy
#   build/bin/promtool          build/bin/varnishtest
#   build/bin/redis-server      build/bin/valkey-server     (Debian 13 or later has valkey)
#
# The folder's name is the requested version (3.2: that or later); the program prints its own. If
# the machine is not Debian 12 and has a HAProxy, 2.6/haproxy is a link to it. If nothing is
# missing, this takes a moment and does not run apt.
#
# Exits with 1 if a package for building, or the demo's HAProxy, is missing. A package that only
# tests need and that is not available is named in one line, and the tests skip it by that name.
set -eu
cd "$(dirname "$0")/../.."

here=tests/tools
codename=$(. /etc/os-release 2> /dev/null && echo "${VERSION_CODENAME:-}") || codename=

want_build="gcc make libc6-dev libev-dev libpcre2-dev libseccomp-dev libxxhash-dev libyaml-dev \
            libzmq3-dev libhiredis-dev"
want_demo="python3"
want_test="libcmocka-dev clang mandoc patch python3-yaml python3-zmq tmux openssl ca-certificates \
           zsh"
want_deb="build-essential dpkg-dev debhelper fakeroot libssl-dev lintian pkg-config python3"
want_long="mmdebstrap gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
case $codename in
bookworm) want_test+=" libclang-rt-14-dev" ;;
*)
	want_test+=" libclang-rt-dev"
	want_build+=" libssl-dev"	# hiredis has TLS there
	;;
esac

# Print those of the packages <$@> that are not installed.
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
		echo "deps: this is not Debian; install these by hand:" "$@" >&2
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
	$root apt-get -qq update ||
		echo "deps: apt-get update failed; trying with the existing lists" >&2
	# another program may be installing too
	$root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
		-qq install -y --no-install-recommends $need
}

# Get HAProxy of Debian suite <$2> as build/haproxy/<$1>.
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

# Get program <$1> of package <$2> of suite <$4> (default: this machine's own), as build/bin/<$3>
# (default: the program's name).
program() {
	local name=${3:-${1##*/}}
	[ -x "build/bin/$name" ] && return 0
	$here/unpack.sh "${4:-${codename:-bookworm}}" "$2" "build/unpacked/$2" "$1" || return
	mkdir -p build/bin
	ln -sf "../unpacked/$2/${1##*/}" "build/bin/$name"
	echo "deps: build/bin/$name"
}

# Redis and Valkey are one program that does what its name says; the package with the name
# redis-server has only a link to it.
stores() {
	local valkey=$codename
	[ "$codename" != bookworm ] || valkey=trixie
	optional redis-server program usr/bin/redis-check-rdb redis-tools redis-server
	optional valkey-server program usr/bin/valkey-check-rdb valkey-tools valkey-server "$valkey"
}

# optional WHAT COMMAND... - run a command; if it fails, print that WHAT is skipped.
optional() {
	local what=$1
	shift
	"$@" || echo "deps: skipped: $what is not available here" >&2
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
	stores
	;;
*" demo "*)
	install $want_build $want_demo
	haproxy 2.6 bookworm
	;;
*" build "*)
	install $want_build
	;;
*" images "* | *" deb "* | *" long "*) ;;
*)
	echo "usage: ${0##*/} [build] [demo] [test] [images] [deb] [long]" >&2
	exit 2
	;;
esac
case $groups in *" images "*) install debootstrap ;; esac
case $groups in
*" long "*) install $want_build $want_deb $want_long ;;
*" deb "*) install $want_build $want_deb ;;
esac
