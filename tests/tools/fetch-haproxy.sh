#!/bin/bash
# fetch-haproxy.sh SUITE DIR - get HAProxy of a Debian suite as DIR/haproxy, and print its version.
#
# bookworm has 2.6, trixie 3.0, forky and sid 3.2 or later. Nothing is installed (see unpack.sh). If
# DIR exists, only prints. Exits with 77 if the suite is not available; the caller names it.
set -eu

if [ $# -ne 2 ]; then
	echo "usage: ${0##*/} SUITE DIR" >&2
	exit 2
fi
"$(dirname "$0")/unpack.sh" "$1" haproxy "$2" usr/sbin/haproxy
"$2/haproxy" -v | sed -n '1s/^HAProxy version \([^ ]*\).*/\1/p'
