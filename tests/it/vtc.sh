#!/bin/bash
# vtc.sh [-v] [FILE...] - the stories of tests/vtc by varnishtest, on every HAProxy at hand; -v shows what one does.
#
# ${conf} is haproxy-conf/ as it is; in ${patient} the agent has more time, for stories that do not ask how fast this
# machine is.
set -u
cd "$(dirname "$0")/../.."
top=$PWD
tester=build/bin/varnishtest
verbose=
[ "${1:-}" != -v ] || { verbose=1; shift; }
[ $# -gt 0 ] || set -- tests/vtc/*.vtc

if [ ! -x $tester ]; then
	echo "skipped: varnishtest cannot be had here"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r haproxy-conf "$tmp/patient"
sed -i -e 's/timeout processing 50ms/timeout processing 10s/' -e 's/timeout hello 100ms/timeout hello 10s/' \
	"$tmp/patient/kvroute.spoe" "$tmp/patient/recipes/sliced.spoe"

# varnishtest starts HAProxy with -d and keeps all that it says: too much of 2.6, which tries a dead agent again and
# again as long as a request waits.
cat > "$tmp/haproxy" << 'WRAP'
#!/bin/sh
for a; do
	shift
	[ "$a" = -d ] || set -- "$@" "$a"
done
exec "$REAL_HAPROXY" -db "$@"
WRAP
chmod 755 "$tmp/haproxy"

passed=0 failed=0 skipped=0
for v in 2.6 3.0 3.2; do
	haproxy=$top/build/haproxy/$v/haproxy
	if [ ! -x "$haproxy" ]; then
		echo "skipped: HAProxy $v cannot be had here, for tests/vtc"
		skipped=$((skipped + 1))
		continue
	fi
	"$haproxy" -v | head -n 1
	REAL_HAPROXY=$haproxy HAPROXY_PROGRAM=$tmp/haproxy TMPDIR=$tmp $tester -j 2 -k -b 10M -t 600 ${verbose:+-v} \
		-D kvroute="$top/${B:-build/release}/kvroute" -D conf="$top/haproxy-conf" -D patient="$tmp/patient" -D vtc="$top/tests/vtc" \
		"$@" > "$tmp/out" 2>&1
	[ -z "$verbose" ] || cat "$tmp/out"
	p=$(grep -cE '^# +top +TEST .* passed' "$tmp/out")
	f=$(($# - p))
	grep -E '^# +top +TEST ' "$tmp/out" | sed -E 's/^# +top +TEST tests.vtc./  /'
	# what failed, without what the engines and HAProxy say all the time
	[ $f -eq 0 ] || grep -vE '^\*\*\*\* .*(macro|http\[|rxhdr|txresp)|^#|debug\|' "$tmp/out" | tail -n 80
	passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
