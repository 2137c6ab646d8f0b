#!/bin/bash
# package.sh - the life of the Debian package in a fresh root under a real systemd: install the
# previous version, start, be attached to a running HAProxy by the doctor, route requests, reload,
# hang and be restarted, get its key as a credential, be upgraded with its snapshot, be detached,
# removed and purged. Then the package for developers: the example agent is compiled and checked.
# Needs root, the tools of "make long-deps" and Debian's archive; skipped by name without. Takes
# minutes: make test-long.
#
# The previous version is built of the last commit whose debian/changelog does not have this
# version (PREVIOUS=commit: of that one). Without a history it is this one with a lower number.
#
# "package.sh previous" prints that commit.
#
# SUITE: Debian's suite of the root, default: this machine's. NEW, OLD: built packages of this
# suite; by default both are built here. The packages that are built with NEW are in its folder.
# Last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
. /etc/os-release
suite=${SUITE:-$VERSION_CODENAME}
tarball=build/root/$suite.tar
top=$PWD work=

at_end() {
	[ -z "${hold-}" ] || exec {hold}>&-
	wait
	[ -z "$work" ] || rm -rf "$work"
}

cannot() { skip "the Debian package on $suite: $1"; }

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

# Number and reason of the agent's last decision; nothing if it does not answer.
decision() {
	inside curl -s --max-time 2 'http://127.0.0.1:9402/decisions?n=1' |
		grep -oE '"(decision|why)":"?[0-9a-z]+' | head -n 2 | cut -d : -f 2 | tr -d '"' | paste -s -d ' '
}

ask() {	# a word: prints status of a request through HAProxy, and why the agent chose its server
	local before after status
	before=$(decision)
	status=$(inside curl -s -o /dev/null -w '%{http_code}' -H content-type:application/json \
		-d '{"model":"m","messages":[{"role":"user","content":"'"$1 $(printf '%0400d' 7)"'"}]}' \
		http://127.0.0.1:8080/v1/chat/completions)
	after=$(decision)
	[ "$after" != "$before" ] || after=
	echo "$status ${after#* }"
}

# The last commit with an older version; empty without a history.
previous() {
	local version added
	version=$(dpkg-parsechangelog -SVersion)
	added=$(git log --format=%H -S"kvroute ($version)" -- debian/changelog 2> /dev/null | tail -n 1)
	[ -z "$added" ] || git rev-parse --verify -q "$added^"
}

if [ "${1-}" = previous ]; then previous; exit; fi
PREVIOUS=${PREVIOUS-$(previous)}

[ "$(id -u)" = 0 ] || cannot "not root"
for tool in mmdebstrap dpkg-buildpackage dh lintian nsenter unshare; do
	command -v $tool > /dev/null || cannot "no $tool: make long-deps"
done
work=$(mktemp -d /var/tmp/kvroute-root-XXXXXX)

# ---- this version and the previous one ----

if [ -z "${NEW-}" ]; then
	packaging/deb.sh > build/package-deb.log 2>&1
	status=$?
	result $status "packages build twice to the same bytes, and lintian warns of nothing"
	[ $status -eq 0 ] || { tail -n 20 build/package-deb.log; finish; }
	NEW=$(ls $PWD/build/deb/kvroute_*.deb)
fi

if [ -z "${OLD-}" ] && [ -n "$PREVIOUS" ] && git cat-file -e "$PREVIOUS:debian/rules" 2> /dev/null
then
	mkdir "$work/previous"
	git archive "$PREVIOUS" | tar -x -C "$work/previous"
	(cd "$work/previous" && packaging/deb.sh -1) > build/package-previous.log 2>&1
	result $? "the previous version builds: commit $(git rev-parse --short=12 "$PREVIOUS")"
	OLD=$(ls "$work"/previous/build/deb/kvroute_*.deb) || finish
fi
if [ -z "${OLD-}" ]; then
	echo "no history: the previous version is this one with the number 0.0.9"
	dpkg-deb -R "$NEW" "$work/old"
	sed -i 's/^Version: .*/Version: 0.0.9-1/' "$work/old/DEBIAN/control"
	fakeroot dpkg-deb -b "$work/old" "$work/old.deb" > /dev/null
	OLD=$work/old.deb
fi
old_version=$(dpkg-deb -f "$OLD" Version)
new_version=$(dpkg-deb -f "$NEW" Version)
dev=$(ls "${NEW%/*}/libkvroute-spoe-dev_${new_version}"_*.deb)
debug=$(ls "${NEW%/*}/kvroute-dbgsym_${new_version}"_*.deb)

# ---- debug symbols ----

build_id() { readelf -n "$1" | sed -n 's/.*Build ID: //p'; }

mkdir "$work/new" "$work/debug"
dpkg-deb -x "$NEW" "$work/new"
[ -n "$debug" ] && dpkg-deb -x "$debug" "$work/debug"
result $? "there is a package of debug symbols"
for p in sbin/kvroute bin/kvroutectl; do
	! readelf -SW "$work/new/usr/$p" | grep -qE ' \.(symtab|debug_info) '
	result $? "${p#*/} is stripped"
	id=$(build_id "$work/new/usr/$p")
	readelf -SW "$work/debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" 2> /dev/null |
		grep -q ' \.debug_info '
	result $? "its debug symbols are in that package: $id"
done
out=$(python3 packaging/sbom.py --check "$work/new/usr/share/doc/kvroute/kvroute.spdx.json" \
	"$work/new/usr/sbin/kvroute" "$work/new/usr/bin/kvroutectl" 2>&1)
result $? "the package has an SBOM of its programs: $(tail -n 1 <<< "$out")"

# ---- a fresh root ----

# one of before had no compiler
if ! tar -tf "$tarball" ./usr/bin/gcc > /dev/null 2>&1; then
	mkdir -p build/root
	# what the packages need, without versions and alternatives
	needs=$(for deb in "$OLD" "$NEW"; do
		for field in Pre-Depends Depends; do dpkg-deb -f "$deb" $field; echo; done
	done | tr ',' '\n' | sed -E 's/[(|].*//; s/ //g' | grep . | sort -u | paste -s -d ,)
	# the name's end tells mmdebstrap the format
	needs+=,systemd,systemd-sysv,dbus,haproxy,curl,procps,patch,gcc,libc6-dev,pkg-config
	mmdebstrap --variant=minbase --include="$needs" "$suite" "$tarball.new.tar" \
		> build/root/log 2>&1 || cannot "no fresh root: build/root/log"
	mv "$tarball.new.tar" "$tarball"
fi
coproc boot { exec bash tests/it/boot.sh "$tarball" "$work/root"; }
hold=${boot[1]}
read -r -t 120 init <&"${boot[0]}" || cannot "systemd does not start in namespaces here"
until_inside systemctl is-active multi-user.target || cannot "systemd does not come up"
inside ip link set lo up 2> /dev/null || inside systemctl is-active haproxy > /dev/null || :
cp "$OLD" "$work/root/var/tmp/old.deb"
cp "$NEW" "$work/root/var/tmp/new.deb"
cp "$dev" "$work/root/var/tmp/dev.deb"
before=$(files)

# ---- install, start ----

inside dpkg -i /var/tmp/old.deb > "$work/log" 2>&1
status=$?
result $status "version $old_version is installed"
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

# ---- attach it to a HAProxy in operation ----

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
for i in 1 2 3 4; do
	inside systemd-run -q --unit "engine$i" /usr/local/bin/stub_engine --name "s$i" \
		--listen 127.0.0.1:800$i --control 127.0.0.1:0
done
# Debian's own file, chroot and all, with the lines of somebody who balances engines
cfg=/etc/haproxy/haproxy.cfg
cat tests/it/plain.cfg >> "$work/root$cfg"
cp "$work/root$cfg" "$work/mine.cfg"
inside systemctl restart haproxy
until_inside curl -sf -d '{"messages":[{"role":"user","content":"up"}]}' \
	http://127.0.0.1:8080/v1/chat/completions
zero=$(ask zero)
[ "$zero" = '200 ' ]
result $? "HAProxy balances before it is attached: $zero"
inside sh -c "kvroutectl doctor -c $cfg --write > /tmp/attach.diff &&
	patch -d / -p1 < /tmp/attach.diff" > "$work/log" 2>&1
status=$?
result $status "kvroutectl doctor --write | patch attaches it"
[ $status -eq 0 ] || cat "$work/log"
inside sh -c "haproxy -c -q -f $cfg && systemctl reload haproxy"
result $? "HAProxy accepts the lines and reloads"
until_routed
result $? "requests reach the agent"
out=$(inside kvroutectl doctor -c $cfg 2>&1)
grep -q '^no fault found' <<< "$out"
result $? "the doctor finds no fault: $out"
out=$(inside kvroutectl doctor -c $cfg --live /run/haproxy/admin.sock 2>&1)
result $? "it follows a request: $(grep -c '^ok' <<< "$out") stations"
grep -v '^ok' <<< "$out"
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

# ---- a stats socket of its own, as README.md says ----

line=$(sed -n 's/^ *# haproxy.cfg: \(stats socket .*\)/\1/p' README.md)
own=$(cut -d ' ' -f 3 <<< "$line")
inside cp $cfg /tmp/attached.cfg
inside cp /etc/kvroute/kvroute.yaml /tmp/without.yaml
inside sed -i "s,^global\$,&\n\t$line," $cfg
inside sh -c "haproxy -c -q -f $cfg && systemctl reload haproxy &&
	echo 'stats_feed: {sockets: [\"unix@$own\"]}' >> /etc/kvroute/kvroute.yaml &&
	systemctl restart kvroute" &&
	until_inside sh -c 'journalctl -u kvroute -o cat | grep -q "HAProxy stats socket answers"'
status=$?
result $status "HAProxy answers the agent at $own"
[ $status -eq 0 ] || journal | tail -n 15
inside sh -c "cat /tmp/attached.cfg > $cfg && cat /tmp/without.yaml > /etc/kvroute/kvroute.yaml &&
	systemctl reload haproxy"

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
[ "$(inside dpkg-query -W -f '${Version}' kvroute)" = "$(dpkg-deb -f "$NEW" Version)" ] &&
	[ "$(ask four)" = "200 cached" ]
result $? "it knows after the upgrade from $old_version what it knew before"
# before that, one under another key was rejected
[[ $(journal | grep -oE 'msg="snapshot (loaded|rejected)' | tail -n 1) == *loaded ]]
result $? "the snapshot of $old_version is read"
inside grep -q credentials /etc/kvroute/kvroute.yaml
result $? "the changed configuration stays"

# ---- what this version's unit allows ----

# MemoryDenyWriteExecute=yes
journal | grep ' msg=started ' | tail -n 1 | grep -q ' regex=interpreted'
result $? "it compiles no pattern to machine code"
connects() {	# user, group: without other groups
	inside setpriv --reuid "$1" --regid "$2" --clear-groups \
		kvroutectl spop-check --only hello/usual --timeout 20000 unix@/run/kvroute/spop.sock 2>&1
}
out=$(connects haproxy haproxy)
result $? "user haproxy speaks SPOP on the socket: $(tail -n 1 <<< "$out")"
out=$(connects nobody nogroup)
[[ $out == *'Permission denied'* ]]
result $? "another user cannot: $out"

# ---- remove, purge ----

inside sh -c "kvroutectl doctor -c $cfg --remove | patch -s -d / -p1 &&
	systemctl reload haproxy" && cmp "$work/root$cfg" "$work/mine.cfg"
result $? "kvroutectl doctor --remove | patch restores HAProxy's file"
rm -rf "$work/root/etc/credstore" "$work/root/usr/local/bin/stub_engine"
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

# ---- the library ----

inside dpkg -i /var/tmp/dev.deb > "$work/log" 2>&1
status=$?
result $status "libkvroute-spoe-dev is installed without the agent"
[ $status -eq 0 ] || cat "$work/log"
out=$(inside sh -c 'cd /usr/share/doc/libkvroute-spoe-dev/examples &&
	gcc -Wall -Wextra -Werror -O2 -o /usr/local/bin/spoa spoa.c \
		$(pkg-config --cflags --libs kvroute-spoe)' 2>&1)
result $? "the example agent compiles by pkg-config${out:+: $out}"
inside systemd-run -q --unit spoa /usr/local/bin/spoa 9500
cp "$work/new/usr/bin/kvroutectl" "$work/root/usr/local/bin/"
ctl=/usr/local/bin/kvroutectl
until_inside $ctl spop-check --only hello/usual 127.0.0.1:9500
out=$(inside $ctl spop-check --timeout 20000 127.0.0.1:9500)
status=$?
result $status "it passes spop-check: $(tail -n 1 <<< "$out")"
[ $status -eq 0 ] || grep -v '^ok' <<< "$out"
finish
