#!/bin/bash
# conf_check.sh [NAME...] - run "haproxy -c" of every available version on every file of
# haproxy-conf/ and on docker/haproxy.cfg. A warning fails the file.
#
# The files refer to each other under /etc/haproxy/kvroute; only that path is replaced here. Then
# check what "haproxy -c" does not see: load lines equal the output of load.sh, the log line is the
# same in all files, the paths of requests stand only in api-paths.lst, each file lists the
# variables of an answer that it reads, and the lines that README.md adds make a valid
# configuration. A broken file must be rejected, so that "passed" means something.
# NAMEs limit it to files whose path contains one of them. Prints one line for each file and
# version; last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r haproxy-conf/. "$tmp"

# Run "haproxy -c" of binary <$1> on file <$2>, with its output in $tmp/out. Returns 1 if it fails
# or warns.
check() {
	timeout 180 "$1" -c -f "$2" > "$tmp/out" 2>&1 || return 1
	! grep -qiE 'warning|alert|error|deprecated' "$tmp/out"
}

wanted() {	# file, names
	local f=$1 n
	shift
	[ $# -gt 0 ] || return 0
	for n in "$@"; do
		case $f in *"$n"*) return 0 ;; esac
	done
	return 1
}

# Fetch each version once. A version that is not available is reported as skipped.
have=()
for v in 2.6:bookworm 3.0:trixie 3.2:forky,sid; do
	bin=build/haproxy/${v%%:*}/haproxy
	for suite in $(echo "${v#*:}" | tr , ' '); do
		[ -x "$bin" ] && break
		timeout 120 tests/tools/fetch-haproxy.sh "$suite" "${bin%/*}" > /dev/null 2>&1 && break
	done
	[ -x "$bin" ] || skipped "HAProxy ${v%%:*} is not available here"
done
# No Debian has these yet. A binary that is put there is used.
ls build/haproxy/3.[4-9]/haproxy > /dev/null 2>&1 ||
	skipped "HAProxy 3.4 and later, for large buffers: no build/haproxy/3.4/haproxy"
for bin in build/haproxy/*/haproxy; do
	[ -x "$bin" ] && have+=("$bin")
done
if [ ${#have[@]} = 0 ]; then
	result 1 "a HAProxy is available"
	finish
fi

# Print a configuration made from the lines that README.md adds: with the lines around them, and
# with the lines that README.md takes from other files.
attached() {
	sed -n '/^defaults$/,/^$/p' haproxy-conf/haproxy.cfg
	sed -n '/^```diff/,/^```$/{/^```/!s/^[ +]//p}' haproxy-conf/README.md | while IFS= read -r l; do
		case $l in
		*'(1)') grep log-format-sd haproxy-conf/recipes/keep-your-log.cfg ;;
		*'(2)') haproxy-conf/load.sh s1 s2 ;;
		*'(3)')
			sed -n '/^    acl json_answer/,/^    http-response set-var(txn.gtok) .*output_tokens/p' \
				haproxy-conf/haproxy.cfg
			;;
		*'server s1 ...' | *'server s2 ...') echo "${l%...}127.0.0.1:8001" ;;
		'frontend llm')
			printf '%s\n' "$l" '    bind :8080' '    option httplog' '    default_backend pool'
			;;
		*) printf '%s\n' "$l" ;;
		esac
	done
}
attached > "$tmp/README.cfg"
# docker/haproxy.cfg, with addresses instead of container names, which do not resolve here
sed -E 's/ (agent[12]?:940|s[1-4]:800)/ 127.0.0.1:800/' docker/haproxy.cfg > "$tmp/compose.cfg"

find "$tmp" -name '*.cfg' -o -name '*.spoe' | xargs sed -i "s,/etc/haproxy/kvroute,$tmp,"
# includes README.cfg and compose.cfg
files=$(cd "$tmp" && find . -name '*.cfg' | sed 's,^\./,,' | sort)

authorities=/etc/ssl/certs/ca-certificates.crt
for bin in "${have[@]}"; do
	version=$("$bin" -v | sed -n '1s/^HAProxy version \([^ ]*\).*/\1/p')
	for f in $files; do
		wanted "$f" "$@" || continue
		if grep -q '@system-ca' "$tmp/$f" && [ ! -s "$authorities" ]; then
			skipped "$f HAProxy $version: ca-certificates is not installed"
			continue
		fi
		check "$bin" "$tmp/$f"
		ok=$?
		result $ok "$f HAProxy $version"
		[ $ok = 0 ] || sed 's/^/      /' "$tmp/out"
	done
	# this check must notice a mistake of an operator, on this version
	sed 's/ -m int 1 }/ 1 }/; s/kvroute route-3 /kvroute route-9 /' "$tmp/recipes/sliced.cfg" \
		> "$tmp/broken.cfg"
	! check "$bin" "$tmp/broken.cfg"
	result $? "HAProxy $version rejects a broken file"
	sed '/^defaults$/,/^$/s/^ *timeout client .*//' "$tmp/haproxy.cfg" > "$tmp/broken.cfg"
	! check "$bin" "$tmp/broken.cfg"
	result $? "a warning of HAProxy $version is noticed"
	# HAProxy must accept the load line of a large pool
	names=$(seq -f 'engine-%02g' 1 64)
	awk -v load="$(haproxy-conf/load.sh $names | head -n 1)" -v names="$(echo $names)" '
		/set-var-fmt\(txn.load\)/ { print load; next }
		/^ *server s1 / {
			n = split(names, s, " ")
			for (i = 1; i <= n; i++) print "    server", s[i], "127.0.0.1:" 9000 + i
			next
		}
		/^ *server s[234] / { next }
		{ print }' "$tmp/haproxy.cfg" > "$tmp/big.cfg"
	check "$bin" "$tmp/big.cfg"
	result $? "64 servers, HAProxy $version"
done

line=$(haproxy-conf/load.sh s1 s2 s3 s4 | head -n 1)
[ "$line" = "$(haproxy-conf/load.sh -f haproxy-conf/haproxy.cfg pool | head -n 1)" ]
result $? "load.sh finds the servers of a backend"
cat > "$tmp/servers.cfg" << 'CFG'
defaults base
    option allbackups
    default-server backup
defaults
    mode http
backend one from base # all of them
    server x1 127.0.0.1:1
backend two
    default-server check inter 2s
    server x2 127.0.0.1:1 # not a backup
    server-template gpu 2 engines:80 check
    server-template z 7-8 engines:80 backup weight 1
    http-request set-var-fmt(txn.load)
CFG
# Print the names and marks in the load line for backend <$1>, like "x2= z7=b ".
marks() {
	haproxy-conf/load.sh -f "$tmp/servers.cfg" "$1" 2> "$tmp/out" |
		sed -n 's/^    http-request.*pid;//p' | tr ';' '\n' | sed 's/%\[srv_is.*//' | tr '\n' ' '
}
[ "$(marks one)" = "x1=B " ]
result $? "load.sh marks servers that are backups by their defaults section"
[ "$(marks two)" = "x2= gpu1= gpu2= z7=b z8=b " ]
result $? "load.sh reads server-template and backup"
grep -q 'servers.cfg:13: delete this line' "$tmp/out"
result $? "load.sh names a set-var-fmt without a format"
for f in haproxy-conf/README.md haproxy-conf/haproxy.service.conf docker/Dockerfile.haproxy \
	tests/it/fleet.py; do
	[ "$(grep -oE 'MALLOC_(MMAP|TRIM)_THRESHOLD_(=|": ")[0-9]+' "$f" | tr -d '": =' | sort -u |
		tr '\n' ' ')" = \
		"MALLOC_MMAP_THRESHOLD_33554432 MALLOC_TRIM_THRESHOLD_268435456 " ]
	result $? "$f sets both variables for HAProxy"
done
for f in $files; do
	grep -q 'filter spoe' "$tmp/$f" || continue
	[ "$(grep 'acl llm_api' "$tmp/$f")" = "    acl llm_api path_beg -f $tmp/api-paths.lst" ]
	result $? "$f takes the paths of requests from api-paths.lst"
done
# The headers that name a session, and the user's: the same in all files, and in those that
# "kvroutectl doctor --write" writes.
told='set-var-fmt(txn.session)'
named=$(grep "$told" haproxy-conf/haproxy.cfg)
for f in $files; do
	grep -q 'filter spoe' "$tmp/$f" || continue
	[ "$(grep "$told" "$tmp/$f" | sort -u)" = "$named" ]
	result $? "$f has the session of haproxy.cfg"
done
[ "$(sed -n '/char session/,/;/p' agent/doctor/attach_edit.c | grep -o 'HEADER("[^"]*' |
	sed 's/.*"//')" = "$(grep -o 'hdr([^)]*' <<< "$named" | sed 's/hdr(//')" ]
result $? "the doctor writes the session of haproxy.cfg"
named='session=var(txn.session) user=req.hdr(x-user-id),bytes(0,128) '
for f in haproxy-conf/*.spoe haproxy-conf/recipes/*.spoe agent/doctor/attach_edit.c; do
	[ "$(grep -cF "$named" "$f")" = 1 ]
	result $? "$f sends session and user"
done
# Print the variables of the agent's answer that <$1> reads, or may read by its comments. HAProxy
# itself sets "error"; "model" may be of an engine of its own.
vars_read() {
	local other='error'
	grep -q 'filter spoe engine kvroute-model ' "$1" && other='(error|model.*)'
	grep -oE 'txn\.kvroute\.[a-z_]+' "$1" | sed 's/.*\.//' | grep -vxE "$other" | sort -u
}
# Variables that are set and buffers that are freed to glibc cost HAProxy time.
folders="haproxy-conf docker kubernetes"
for f in $(grep -lr 'filter spoe' $folders | grep -E '\.(cfg|yaml)$' | sort); do
	listed=$(sed -n 's/^ *set-var proc.kvroute_vars str(\(.*\))$/\1/p' "$f" | tr + '\n' | sort)
	[ -n "$listed" ] && [ "$listed" = "$(vars_read "$f")" ]
	result $? "$f lists the variables that it reads"
	grep -A 1 '^ *\.if version_atleast(3.0)$' "$f" | grep -q '^ *tune.memory.hot-size 33554432$'
	result $? "$f keeps free buffers on HAProxy 3.0 and later"
done
for f in $(grep -lr 'spoe-message route' $folders | grep -E '\.(spoe|yaml)$' | sort); do
	! grep -A 1 -E '^ *spoe-message route(-[0-9]+)?$' "$f" | grep '^ *args ' |
		grep -qv ' vars=var(proc.kvroute_vars) '
	result $? "$f names the variables in each message that asks for a server"
done
kubernetes/make.sh global | grep -qxF "$(grep 'set-var proc.kvroute_vars' haproxy-conf/haproxy.cfg)"
result $? "the snippet for ingress controllers names the variables"
grep -q '/api-paths.lst:/etc/haproxy/kvroute/api-paths.lst:ro$' docker/docker-compose.yml
result $? "docker-compose.yml mounts api-paths.lst"
counts_of='^    (acl (json|short)_answer|http-response .*short_answer)'
counts=$(grep -E "$counts_of" haproxy-conf/haproxy.cfg | sort -u)
log=$(sed -n 's/^ *log-format //p' haproxy-conf/haproxy.cfg)
for f in $files; do
	[ -f "haproxy-conf/$f" ] && grep -q 'filter spoe' "haproxy-conf/$f" || continue
	for pool in $(awk '$1 == "backend" { here = $2 } /set-var-fmt\(txn.load\)/ { print here }' \
		"haproxy-conf/$f"); do
		[ "$(sed -n "/^backend $pool\$/,/^backend/p" "haproxy-conf/$f" |
			grep 'set-var-fmt(txn.load)')" = \
			"$(haproxy-conf/load.sh -f "haproxy-conf/$f" "$pool" | head -n 1)" ]
		result $? "$f has the load line of load.sh in $pool"
	done
	[ "$(sed -n 's/"token":"%\[env(KVROUTE_TOKEN)\]",//; s/,"orca":"%\[var(txn.orca),json(utf8s)\]"//
		s/,"rid":"%\[var(txn.rid),json(utf8s)\]"//
		s/^ *log-format\(-sd\)\{0,1\} //p' \
		"haproxy-conf/$f")" = "$log" ]
	result $? "$f has the log line of haproxy.cfg"
	[ "$(grep -E "$counts_of" "haproxy-conf/$f" | sort -u)" = "$counts" ]
	result $? "$f has the token counts of haproxy.cfg"
done
echo "$log" | sed "s/^'//; s/'\$//; s/%\[[^]]*\]/x/g; s/:%[A-Za-z]*/:-1/g; s/%[A-Za-z]*/x/g" |
	python3 -m json.tool > /dev/null
result $? "the log line is JSON"
finish
