#!/bin/bash
# fetch-haproxy.sh SUITE DIR - the HAProxy of a Debian suite as DIR/haproxy; prints its version.
#
# bookworm has 2.6, trixie 3.0, forky and sid 3.2 or later. Nothing is installed (see unpack.sh); a second
# run only prints.   exit 77: this suite cannot be had here, and the caller says so by its name
set -eu

if [ $# -ne 2 ]; then
	echo "usage: ${0##*/} SUITE DIR" >&2
	exit 2
fi
"$(dirname "$0")/unpack.sh" "$1" haproxy "$2" usr/sbin/haproxy
"$2/haproxy" -v | sed -n '1s/^HAProxy version \([^ ]*\).*/\1/p'
