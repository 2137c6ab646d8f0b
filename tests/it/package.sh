#!/bin/bash
# package.sh - the life of the Debian package in a fresh root under a real systemd: build, install
# the version before it, start, route a request through HAProxy, reload, hang and be restarted,
# get its key as a credential, upgrade with its snapshot, remove, purge. Needs root, the tools of
# "make deb-deps" and Debian's archive; skipped by name without. Takes minutes: make test-long.
# Last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0 skipped=0
. /etc/os-release
suite=${SUITE:-$VERSION_CODENAME}
tarball=build/root/$suite.tar
top=$PWD work=

result() {
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; fi
}

finish() {
	[ -z "${hold-}" ] || exec {hold}>&-
	wait
	[ -z "$work" ] || rm -rf "$work"
	echo "$passed passed, $failed failed$( ((skipped == 0)) || echo ", $skipped skipped")"
	exit $((failed > 0))
}

skip() {
	skipped=$((skipped + 1))
	echo "skipped: the Debian package: $1"
	finish
}

# Run a command in the root.
inside() {
	nsenter -t "$init" -m -p -n -u -i -C -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
}

# Wait until a command in the root succeeds.
until_inside() {
	local _
	for _ in $(seq 300); do
		inside "$@" > /dev/null 2>&1 && return 0
		sleep 0.2
	done
	return 1
}

journal() { inside journalctl -u kvroute --no-pager -o cat; }

# All files of the root that a package may bring or leave, without what changes by itself.
files() {
	inside find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o \
		-path /var/log -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/cache -o \
		-path /root -o -path /var/tmp -o -path /.boot \) -prune -o -print | LC_ALL=C sort
}

ask() {	# a word: prints status and server of a request through HAProxy
	inside curl -s -o /dev/null -w '%{http_code} %header{x-kv-why}' -H content-type:application/json \
		-d '{"model":"m","messages":[{"role":"user","content":"'"$1 $(printf '%0400d' 7)"'"}]}' \
		http://127.0.0.1:8080/v1/chat/completions
}

[ "$(id -u)" = 0 ] || skip "not root"
for tool in mmdebstrap dpkg-buildpackage dh lintian nsenter unshare; do
	command -v $tool > /dev/null || skip "no $tool: make deb-deps"
done
# Libraries of the packages' build machine and of the root must be of one suite.
if [ ! -s "$tarball" ]; then
	mkdir -p build/root
	mmdebstrap --variant=minbase --include="systemd,systemd-sysv,dbus,haproxy,curl,procps,libev4,$(
		)libyaml-0-2,libzmq5,libseccomp2,libpcre2-8-0,$(apt-cache depends libhiredis-dev |
			sed -n 's/.*Depends: \(libhiredis[0-9.]*\)$/\1/p')" \
		"$suite" "$tarball.new" > build/root/log 2>&1 || skip "no fresh root: build/root/log"
	mv "$tarball.new" "$tarball"
fi

# BUILT=1: with the packages in build/deb
if [ -z "${BUILT-}" ]; then
	packaging/deb.sh > build/package-deb.log 2>&1
	status=$?
	result $status "packages build twice to the same bytes, and lintian warns of nothing"
	[ $status -eq 0 ] || { tail -n 20 build/package-deb.log; finish; }
fi

work=$(mktemp -d /var/tmp/kvroute-root-XXXXXX)
deb=$(ls build/deb/kvroute_*.deb)
# the version before: the same files with a lower number
dpkg-deb -R "$deb" "$work/old"
sed -i 's/^Version: .*/Version: 0.0.9-1/' "$work/old/DEBIAN/control"
fakeroot dpkg-deb -b "$work/old" "$work/old.deb" > /dev/null
coproc boot { exec bash tests/it/boot.sh "$tarball" "$work/root"; }
hold=${boot[1]}
read -r -t 120 init <&"${boot[0]}" || skip "systemd does not start in namespaces here"
until_inside systemctl is-active multi-user.target || skip "systemd does not come up"
inside ip link set lo up 2> /dev/null || inside systemctl is-active haproxy > /dev/null || :
cp "$work/old.deb" "$work/root/var/tmp/old.deb"
cp "$deb" "$work/root/var/tmp/new.deb"
before=$(files)

# ---- install, start ----

inside dpkg -i /var/tmp/old.deb > "$work/log" 2>&1
status=$?
result $status "version 0.0.9 is installed"
[ $status -eq 0 ] || { cat "$work/log"; finish; }
until_inside systemctl is-active kvroute
status=$?
result $status "the agent runs after the installation"
[ $status -eq 0 ] || { journal | tail -n 30; inside systemctl status kvroute --no-pager; finish; }
inside systemctl is-enabled kvroute > /dev/null
result $? "it is enabled"
[ "$(inside stat -c '%U %G %a' /run/kvroute/spop.sock)" = 'kvroute haproxy 660' ]
result $? "HAProxy's group may use the socket: $(inside stat -c '%U %G %a' /run/kvroute/spop.sock)"
journal | grep -q ' seccomp=on .* capabilities=none '
result $? "its own sandbox is on inside the unit's"
! journal | grep -E 'level=(warn|error)'
result $? "its log has no warnings"

# ---- attach HAProxy ----

# Wait until a request gets an answer of the agent.
until_routed() {
	local i
	for i in $(seq 150); do
		[[ $(ask "probe $RANDOM $i") == '200 '?* ]] && return 0
		sleep 0.2
	done
	return 1
}

engine=build/release/tests/tools/stub_engine
cp "$engine" "$work/root/usr/local/bin/stub_engine"
inside sh -c 'cp -r /usr/share/doc/kvroute/examples/haproxy-conf /etc/haproxy/kvroute &&
	cp /etc/haproxy/kvroute/recipes/headers.cfg /etc/haproxy/haproxy.cfg'
sed -i 's/^backend pool/&\n    http-response set-header x-kv-why %[var(txn.kvroute.why)]/' \
	"$work/root/etc/haproxy/haproxy.cfg"
for i in 1 2 3 4; do
	inside systemd-run -q --unit "engine$i" /usr/local/bin/stub_engine --name "s$i" \
		--listen 127.0.0.1:800$i --control 127.0.0.1:0
done
inside haproxy -c -q -f /etc/haproxy/haproxy.cfg
result $? "HAProxy accepts the example of the package"
inside systemctl restart haproxy
until_inside curl -sf http://127.0.0.1:8080/health && until_routed
result $? "HAProxy connects to the agent"
first=$(ask one)
[[ $first == "200 "?* ]]
result $? "a request is routed: $first"
second=$(ask one)
[ "$second" = "200 cached" ]
result $? "the same prompt goes to the server that has it: $second"
inside kvroutectl why -n 1 | grep -q 'went to s'
result $? "kvroutectl why explains it"

# ---- reload, hang ----

pid=$(inside systemctl show -p MainPID --value kvroute)
inside systemctl reload kvroute && until_inside sh -c 'journalctl -u kvroute | grep -q msg=reloaded'
result $? "reload works"
inside sh -c 'cp /etc/kvroute/kvroute.yaml /tmp/good &&
	echo "nonsense: 1" >> /etc/kvroute/kvroute.yaml'
! inside systemctl reload kvroute 2> /dev/null && [[ $(ask two) == 200* ]] &&
	[ "$(inside systemctl show -p MainPID --value kvroute)" = "$pid" ]
result $? "reload with a mistake fails, and the agent goes on"
inside sh -c 'cat /tmp/good > /etc/kvroute/kvroute.yaml'
inside sh -c "kill -STOP $pid"
[[ $(ask three) == 200* ]]
result $? "HAProxy balances while the agent hangs"
until_inside sh -c "[ \$(systemctl show -p NRestarts --value kvroute) -ge 1 ]" &&
	until_inside systemctl is-active kvroute
result $? "the watchdog restarts it: $(inside systemctl show -p NRestarts kvroute)"

# ---- the runtime socket ----

admin=/run/kvroute-admin/runtime.sock
inside grep -q "^# *path: $admin" /etc/kvroute/kvroute.yaml
result $? "the configuration suggests $admin"
inside sh -c "printf 'runtime:\n  path: $admin\n' >> /etc/kvroute/kvroute.yaml &&
	systemctl restart kvroute" && until_inside systemctl is-active kvroute
status=$?
result $status "the agent starts with a runtime socket"
[ $status -eq 0 ] || journal | tail -n 15
owners=$(inside stat -c '%U %G %a' ${admin%/*} $admin | xargs)
[ "$owners" = 'kvroute kvroute 700 kvroute kvroute 600' ]
result $? "only its user may use it: $owners"
inside kvroutectl -s $admin show info | grep -q '^requests: '
result $? "kvroutectl -s gets an answer"

# ---- credential, upgrade ----

inside sh -c 'install -d -m 700 /etc/credstore &&
	head -c 192 /dev/urandom > /etc/credstore/kvroute.key && chmod 600 /etc/credstore/kvroute.key &&
	echo "key_file: /run/credentials/kvroute.service/kvroute.key" >> /etc/kvroute/kvroute.yaml'
inside systemctl restart kvroute && until_inside systemctl is-active kvroute
status=$?
result $status "the key comes as a credential"
[ $status -eq 0 ] || journal | tail -n 15
until_routed
ask four > /dev/null
inside dpkg -i --force-confold /var/tmp/new.deb > "$work/log" 2>&1
status=$?
result $status "it is upgraded"
[ $status -eq 0 ] || cat "$work/log"
until_inside systemctl is-active kvroute
until_routed
[ "$(inside dpkg-query -W -f '${Version}' kvroute)" != 0.0.9-1 ] && [ "$(ask four)" = "200 cached" ]
result $? "it knows after the upgrade what it knew before"
inside grep -q credentials /etc/kvroute/kvroute.yaml
result $? "the changed configuration stays"

# ---- remove, purge ----

rm -rf "$work/root/etc/credstore" "$work/root/etc/haproxy/kvroute" \
	"$work/root/usr/local/bin/stub_engine"
inside dpkg -r kvroute > "$work/log" 2>&1
result $? "it is removed"
! inside systemctl is-active kvroute > /dev/null
result $? "it does not run any more"
[[ $(ask five) == 200* ]]
result $? "HAProxy balances without it"
own='^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|^/etc/\.pwd\.lock$|^/var/tmp'
left=$(comm -13 <(echo "$before") <(files) | grep -vE "$own")
# Debian removes the links of an enabled unit by a purge.
kept='^/etc/kvroute(/|$)|^/var/lib/kvroute(/key)?$|^/etc/systemd/system/.*/kvroute.service$'
[ -z "$(grep -vE "$kept" <<< "$left")" ]
result $? "configuration and key are all that is left: $(tr '\n' ' ' <<< "$left")"
inside dpkg -P kvroute > "$work/log" 2>&1
left=$(comm -13 <(echo "$before") <(files) | grep -vE "$own")
[ -z "$left" ]
result $? "a purge leaves nothing${left:+: $left}"
finish
