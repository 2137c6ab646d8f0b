#!/bin/sh
# load.sh [-b|-B] NAME...
# load.sh -f HAPROXY.CFG BACKEND
#
# Print the line that reports every server to the agent:
#
#   http-request set-var-fmt(txn.load) "%[hostname]/%pid;s1=%[srv_is_up(s1)],..."
#
# NAMEs are the names of "server" lines in their order. -b before a NAME marks a "backup" server, -B
# one in a backend with "option allbackups". -f reads all of that from a backend of a configuration,
# including "server-template" lines. A comment then says how long the string can become, because the
# limit of the body in kvroute.spoe depends on it.
set -eu

usage() {
	echo "usage: ${0##*/} [-b|-B] NAME... | ${0##*/} -f HAPROXY.CFG BACKEND" >&2
	exit 2
}

# Print "[-b|-B] NAME" for each server of backend <$2> in file <$1>.
servers_of() {
	awk -v want="$2" '
		# 1 after "word", 0 after "no-word", -1 if neither is present; the last one wins
		function keyword(from, word,   i, on) {
			on = -1
			for (i = from; i <= NF && $i !~ /^#/; i++)
				if ($i == word) on = 1; else if ($i == "no-" word) on = 0
			return on
		}
		function section(   i) {
			here = ($1 == "backend" || $1 == "listen") && $2 == want
			in_defaults = $1 == "defaults"
			if (in_defaults) { name = $2 ~ /^(from|#.*|)$/ ? "" : $2; last = name }
			from = last
			for (i = 2; i < NF; i++) if ($i == "from") from = $(i + 1)
			if (in_defaults) { all_of[name] = from in all_of && $0 ~ / from / ? all_of[from] : 0
					   backup_of[name] = from in backup_of && $0 ~ / from / ? backup_of[from] : 0 }
			if (here) { all = all_of[from] + 0; backup = backup_of[from] + 0 }
		}
		function add(name, own) {
			n++; server[n] = name; is_backup[n] = own < 0 ? backup : own
		}
		BEGIN {
			n = split("global defaults frontend backend listen peers ring resolvers userlist " \
				"cache program log-forward http-errors mailers fcgi-app crt-store traces acme", word)
			for (i = 1; i <= n; i++) starts_section[word[i]]
			n = 0
		}
		$1 in starts_section { section(); next }
		$1 == "option" && $2 == "allbackups" { if (in_defaults) all_of[name] = 1; if (here) all = 1 }
		$1 == "no" && $2 == "option" && $3 == "allbackups" {
			if (in_defaults) all_of[name] = 0; if (here) all = 0
		}
		$1 == "default-server" && (own = keyword(2, "backup")) >= 0 {
			if (in_defaults) backup_of[name] = own; if (here) backup = own
		}
		here && $1 == "server" { add($2, keyword(4, "backup")) }
		here && $1 == "server-template" {
			k = split($3, range, "-"); own = keyword(5, "backup")
			for (i = k == 2 ? range[1] : 1; i <= range[k] + 0; i++) add($2 i, own)
		}
		END { for (i = 1; i <= n; i++) print (is_backup[i] ? all ? "-B " : "-b " : "") server[i] }' "$1"
}

# Warn of a load line without a format: HAProxy 2.6 and 3.0 accept it, then crash at a request.
warn_of_empty() {
	awk -v me="${0##*/}" '
		$1 ~ /^(http|tcp)-re/ && /set-var-fmt\(txn\.load\)[ \t]*(#.*)?$/ {
			printf "%s: %s:%d: delete this line: ", me, FILENAME, FNR > "/dev/stderr"
			print "set-var-fmt without a format crashes HAProxy 2.6 and 3.0" > "/dev/stderr" }' "$1"
}

[ $# -gt 0 ] || usage
if [ "$1" = -f ]; then
	[ $# -eq 3 ] || usage
	warn_of_empty "$2"
	names=$(servers_of "$2" "$3")
	if [ -z "$names" ]; then
		echo "${0##*/}: no server line in a backend \"$3\" of $2" >&2
		exit 1
	fi
	set -- $names
fi

# 73: a host name of 64 bytes, a process id, and their separators
line= mark= longest=73 servers=0
for s in "$@"; do
	case $s in
	-b) mark=b; continue ;;
	-B) mark=B; continue ;;
	'' | -* | *[!-_.:A-Za-z0-9]*)
		echo "${0##*/}: \"$s\" is no server name" >&2
		exit 1
		;;
	esac
	line="$line;$s=$mark%[srv_is_up($s)],%[srv_conn($s)],%[srv_queue($s)],%[srv_weight($s)]"
	longest=$((longest + ${#s} + ${#mark} + 22))
	servers=$((servers + 1))
	mark=
done
[ $servers -gt 0 ] || usage
printf '    http-request set-var-fmt(txn.load) "%%[hostname]/%%pid%s"' "$line"
echo ' if { var(txn.api) -m found }'
echo "    # at most $longest bytes: bytes(0,N) in kvroute.spoe needs N <=" \
	"tune.bufsize - $((2048 + longest))"
[ $servers -le 64 ] ||
	echo "${0##*/}: $servers servers are too many for this line: delete it and name HAProxy's" \
		"stats socket in stats_feed (README.md, Many servers)" >&2
