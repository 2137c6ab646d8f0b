#!/bin/bash
# kubernetes.sh - the manifests of kubernetes/: they are what make.sh prints, they have only fields
# that Kubernetes knows, HAProxy and the agent accept the configurations in them, and HAProxy
# accepts the snippets for ingress controllers. With each of these configurations, HAProxy, agents
# and stub engines run and route two turns. Last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
B=${B:-build/release}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Print the value of the key <$2> of a ConfigMap in manifest <$1>.
value() {
	awk -v key="  $2: |" '$0 == key { on = 1; next } on && /^ ? ? ?[^ ]/ { exit }
		on { sub(/^    /, ""); print }' "$1"
}

# Route two turns with the configurations of manifest or controller <$1>; more arguments: those of
# kubernetes_live.py.
live() {
	local out
	out=$(python3 tests/it/kubernetes_live.py "$@" 2>&1)
	result $? "a second turn is cached: $(head -n 1 <<< "$out")"
	sed -n '2,60p' <<< "$out"
}

# Check a configuration with each installed HAProxy; names of the cluster become loopback.
accepted() {	# what, file
	local v out
	sed -i -E "s,/etc/haproxy/kvroute/kvroute.spoe,$tmp/kvroute.spoe,
		s,/etc/haproxy/kvroute/,$PWD/haproxy-conf/,; s,/run/haproxy/,$tmp/,
		s,(kvroute-[01]):,127.0.0.1:,; s,ipv4@127.0.0.1:9999,unix@$tmp/stats," "$2"
	for v in 2.6 3.0 3.2; do
		[ -x build/haproxy/$v/haproxy ] || continue
		out=$(build/haproxy/$v/haproxy -c -f "$2" 2>&1)
		[ $? -eq 0 ] && ! grep -qE 'WARNING|ALERT' <<< "$out"
		result $? "HAProxy $v accepts $1"
		grep -E 'WARNING|ALERT' <<< "$out" | head -n 5
	done
}

version=$(sed -n 's/^VERSION := //p' Makefile)
bad=$(grep -noE 'kvroute(-haproxy)?:[0-9][0-9.]*' kubernetes/*.md kubernetes/*.yaml |
	grep -v ":$version$")
[ -z "$bad" ]
result $? "images have the version of the Makefile, $version${bad:+, but $bad}"

for name in sidecar agents; do
	file=kubernetes/$name.yaml
	kubernetes/make.sh $name.yaml | diff -q - $file > /dev/null
	result $? "$file is what make.sh prints"
	value $file haproxy.cfg > "$tmp/$name.cfg"
	value $file kvroute.spoe > "$tmp/kvroute.spoe"
	value $file kvroute.yaml > "$tmp/$name.yaml"
	[ -s "$tmp/$name.cfg" ] && [ -s "$tmp/kvroute.spoe" ] && [ -s "$tmp/$name.yaml" ]
	result $? "$file has the configurations"
	value $file api-paths.lst | grep -qx /v1/chat/completions
	result $? "$file has the paths"
	live "$file" "$tmp/$name.cfg" "$tmp/kvroute.spoe" "$tmp/$name.yaml" \
		$([ $name = sidecar ] || echo 2)
	accepted "the configuration of $file" "$tmp/$name.cfg"
	out=$("$B/kvroute" -t -f "$tmp/$name.yaml" 2>&1)
	# others are about who can connect, which the policies limit
	[ $? -eq 0 ] && ! grep -q token_file <<< "$out"
	result $? "kvroute accepts the configuration of $file, and log lines cannot be forged"
	# what every container must have
	containers=$(grep -cE '^ +image: ' $file)
	for line in 'readOnlyRootFilesystem: true' 'allowPrivilegeEscalation: false' \
		'capabilities: {drop: \["ALL"\]}' 'requests: ' 'limits: '; do
		[ "$(grep -c "$line" $file)" -eq "$containers" ]
		result $? "each container of $file has $line"
	done
	[ "$(grep -c '^kind: NetworkPolicy' $file)" -ge 2 ] &&
		[ "$(grep -c 'livenessProbe:' $file)" -ge 3 ]
	result $? "$file has policies and probes"
done

if python3 -c 'import yaml' 2> /dev/null; then
	out=$(python3 tests/it/manifests.py kubernetes/*.yaml 2>&1)
	sed '$d' <<< "$out"
	add_results "$(tail -n 1 <<< "$out")"
else
	skipped "fields of the manifests: python3-yaml is not installed"
fi
# with Kubernetes's own schemas, if they are here
if PYTHONPATH=build/python python3 -c 'import kubernetes_validate' 2> /dev/null; then
	out=$(PYTHONPATH=build/python python3 -m kubernetes_validate --strict kubernetes/*.yaml 2>&1)
	result $? "the manifests fit the schema: $(grep -c ' passed ' <<< "$out") resources"
	grep -v ' passed ' <<< "$out" | head -n 5
	schema=$(grep -m 1 -oP "Kubernetes's API \K[0-9.]+" tests/data/kubernetes/fields.txt)
	schemas=build/python/kubernetes_validate/kubernetes-json-schema/v$schema-local
	python3 tests/tools/kubernetes_fields.py "$schema" $schemas/_definitions.json kubernetes/*.yaml |
		diff - tests/data/kubernetes/fields.txt
	result $? "fields.txt has the types of Kubernetes's schema $schema that the manifests use"
elif command -v kubeconform > /dev/null; then
	kubeconform -strict kubernetes/*.yaml
	result $? "the manifests fit the schema"
fi

# A configuration as a controller writes it: its own lines, the snippets, its servers.
controller() {	# name of the first server, of the second
	echo "global"
	echo "    maxconn 1000"
	kubernetes/make.sh global
	printf 'defaults base\n    mode http\n    timeout connect 5s\n    timeout client 50s\n'
	printf '    timeout server 50s\n    option redispatch\n'
	printf 'frontend http from base\n    bind :8080\n'
	kubernetes/make.sh frontend
	printf '    use_backend default_engines_http if { path_beg / }\n'
	printf 'backend default_engines_http from base\n    balance leastconn\n'
	kubernetes/make.sh backend
	printf '    server %s 127.0.0.1:8001 check\n    server %s 127.0.0.1:8002 check\n' "$1" "$2"
	kubernetes/make.sh sections
}

for part in global frontend backend sections; do
	[ "$(kubernetes/make.sh $part | wc -l)" -ge 3 ]
	result $? "the snippet $part has lines"
done
grep -v '^ *#' haproxy-conf/kvroute.spoe > "$tmp/kvroute.spoe"
# what README.md gives for the agent beside a controller
sed -n '/^line. Run the agent/,/^Container, volumes/s/^    //p' kubernetes/README.md \
	> "$tmp/ingress.yaml"
controller SRV_1 SRV_2 > "$tmp/haproxytech.cfg"
live haproxytech/kubernetes-ingress "$tmp/haproxytech.cfg" "$tmp/kvroute.spoe" "$tmp/ingress.yaml"
accepted "the snippets as haproxytech/kubernetes-ingress uses them" "$tmp/haproxytech.cfg"
controller srv001 srv002 > "$tmp/haproxy-ingress.cfg"
live haproxy-ingress "$tmp/haproxy-ingress.cfg" "$tmp/kvroute.spoe" "$tmp/ingress.yaml"
accepted "the snippets as haproxy-ingress uses them" "$tmp/haproxy-ingress.cfg"
finish
