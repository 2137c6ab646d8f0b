#!/bin/bash
# make.sh sidecar.yaml|agents.yaml|global|frontend|backend|sections - print a manifest, or one of
# the snippets for ingress controllers (README.md). HAProxy's lines are those of haproxy-conf/,
# with the names of a cluster. Suite "kubernetes" checks that the files here equal this output.
set -eu
cd "$(dirname "$0")/.."
conf=haproxy-conf
version=$(sed -n 's/^VERSION := //p' Makefile)

# The cluster's name server, because pods come and go.
resolvers='resolvers cluster
    parse-resolv-conf
    hold valid 5s
    resolve_retries 3
    timeout resolve 1s
    timeout retry 1s

# for the probes of the pod
frontend health
    bind :8404
    http-request return status 200
'

# Replace the four engines of <$1> by the pods of a headless service, and put the name server before
# the agent's defaults. The load line gets the names of all eight places.
cluster() {
	local load
	load=$(printf ' s%d' 1 2 3 4 5 6 7 8)
	load=$($conf/load.sh $load | head -n 1)
	awk -v load="$load" -v resolvers="$resolvers" '
		/^#/ && !begun { next }
		{ begun = 1 }
		/^ *#/ { next }
		/set-var-fmt\(txn.load\)/ { print load; next }
		/^    server s1 / {
			print "    server-template s 8 engines:8000 resolvers cluster init-addr none"; next }
		/^    server s[2-4] / { next }
		/^defaults kvroute-agent/ { print resolvers }
		{ print }' "$1" | cat -s
}

sidecar_cfg() { cluster $conf/haproxy.cfg; }

agents_cfg() {
	sed -E 's/192\.0\.2\.10:/kvroute-0:/; s/192\.0\.2\.11:/kvroute-1:/' \
		$conf/recipes/two-agents.cfg > "$tmp"
	# as recipes/log-token.cfg
	cluster "$tmp" | sed "s/log-format '{/&\"token\":\"%[env(KVROUTE_TOKEN)]\",/"
}

# Lines of the section that begins with <$2> in <$1>, without that line and comments.
section() {
	awk -v want="$2" '/^[a-z]/ { on = index($0, want) == 1; next } on && !/^ *(#|$)/ { print }' "$1"
}

# An ingress controller names and counts the servers itself, so the agent reads their load from
# HAProxy's stats socket instead of the load line.
global_snippet() {
	section $conf/haproxy.cfg global | grep -E 'tune.bufsize|set-var proc|log ring'
	echo "    stats socket ipv4@127.0.0.1:9999 level user"
}

frontend_snippet() {
	section $conf/haproxy.cfg 'frontend llm' | grep -vE '^    (bind|default_backend) '
}

backend_snippet() {
	section $conf/haproxy.cfg 'backend pool' |
		grep -vE '^    (balance|server|default-server|option httpchk) |txn\.load'
}

sections_snippet() {
	awk '/^(ring|defaults kvroute-agent|backend spoe_agent)/ { on = 1 }
		/^(global|defaults$|frontend|backend pool)/ { on = 0 } on && !/^ *#/' $conf/haproxy.cfg | cat -s
}

# Print <$1> as a value of a ConfigMap.
indented() { sed 's/^\(.\)/    \1/'; }

fill() {	# template
	while IFS= read -r line; do
		case $line in
		'@sidecar_cfg@') sidecar_cfg | indented ;;
		'@agents_cfg@') agents_cfg | indented ;;
		'@spoe@') grep -v '^ *#' $conf/kvroute.spoe | indented ;;
		'@paths@') grep -v '^ *#' $conf/api-paths.lst | indented ;;
		*) printf '%s\n' "${line//@version@/$version}" ;;
		esac
	done < "$1"
}

tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
case ${1-} in
sidecar.yaml | agents.yaml) fill "kubernetes/$1.in" ;;
sidecar.cfg) sidecar_cfg ;;
agents.cfg) agents_cfg ;;
global | frontend | backend | sections) "$1_snippet" ;;
*)
	echo "usage: ${0##*/} sidecar.yaml|agents.yaml|global|frontend|backend|sections" >&2
	exit 2
	;;
esac
