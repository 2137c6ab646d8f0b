#!/bin/sh
# load.sh NAME... | load.sh -f HAPROXY.CFG BACKEND - prints the line that tells the agent of every server:
#
#   http-request set-var-fmt(txn.load) "%[hostname]/%pid;s1=%[srv_is_up(s1)],..."
#
# NAMEs are the names of "server" lines, in any order; -f takes them from a backend of a configuration.
# Behind it, as a comment, how long the string can get: the body's bound in kvroute.spoe depends on it.
set -eu

usage() {
	echo "usage: ${0##*/} NAME... | ${0##*/} -f HAPROXY.CFG BACKEND" >&2
	exit 2
}

[ $# -gt 0 ] || usage
if [ "$1" = -f ]; then
	[ $# -eq 3 ] || usage
	names=$(awk -v want="$3" '
		$1 ~ /^(global|defaults|frontend|backend|listen|peers|ring|resolvers|userlist|cache|program)$/ {
			here = ($1 == "backend" || $1 == "listen") && $2 == want
		}
		here && $1 == "server" { print $2 }' "$2")
	if [ -z "$names" ]; then
		echo "${0##*/}: no server line in a backend \"$3\" of $2" >&2
		exit 1
	fi
	set -- $names
fi

printf '    http-request set-var-fmt(txn.load) "%%[hostname]/%%pid'
longest=73	# a host name of 64, a process id, what parts them
for s in "$@"; do
	case $s in
	'' | *[!-_.:A-Za-z0-9]*)
		echo >&2
		echo "${0##*/}: \"$s\" is no server name" >&2
		exit 1
		;;
	esac
	printf ';%s=%%[srv_is_up(%s)],%%[srv_conn(%s)],%%[srv_queue(%s)],%%[srv_weight(%s)]' \
	       "$s" "$s" "$s" "$s" "$s"
	longest=$((longest + ${#s} + 22))
done
printf '" if { var(txn.api) -m found }\n'
echo "    # at most $longest bytes: bytes(0,N) in kvroute.spoe with N at most tune.bufsize - $((2048 + longest))"
