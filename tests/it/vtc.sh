#!/bin/bash
# vtc.sh [-v] [FILE...] - run the stories of tests/vtc with varnishtest on every available HAProxy;
# -v prints the steps of each.
#
# ${conf} is haproxy-conf/; ${patient} is a copy with a longer timeout, for stories whose verdict
# must not depend on the speed of the machine.
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
top=$PWD
tester=build/bin/varnishtest
verbose=
[ "${1:-}" != -v ] || { verbose=1; shift; }
[ $# -gt 0 ] || set -- tests/vtc/*.vtc

[ -x $tester ] || skip "varnishtest is not available"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r haproxy-conf "$tmp/patient"
sed -i -e 's/timeout processing 50ms/timeout processing 10s/' \
	-e 's/timeout hello 100ms/timeout hello 10s/' \
	"$tmp/patient/kvroute.spoe" "$tmp/patient/recipes/sliced.spoe"

# Remove -d, with which varnishtest starts HAProxy and keeps all its output: 2.6 would print too
# much, because it retries a dead agent as long as a request waits.
cat > "$tmp/haproxy" << 'WRAP'
#!/bin/sh
for a; do
	shift
	[ "$a" = -d ] || set -- "$@" "$a"
done
exec "$REAL_HAPROXY" -db "$@"
WRAP
chmod 755 "$tmp/haproxy"

for v in 2.6 3.0 3.2; do
	haproxy=$top/build/haproxy/$v/haproxy
	if [ ! -x "$haproxy" ]; then
		skipped "HAProxy $v is not available, for tests/vtc"
		continue
	fi
	"$haproxy" -v | head -n 1
	REAL_HAPROXY=$haproxy HAPROXY_PROGRAM=$tmp/haproxy TMPDIR=$tmp \
		$tester -j 2 -k -b 10M -t 600 ${verbose:+-v} \
		-D kvroute="$top/${B:-build/release}/kvroute" -D conf="$top/haproxy-conf" \
		-D patient="$tmp/patient" -D vtc="$top/tests/vtc" \
		"$@" > "$tmp/out" 2>&1
	[ -z "$verbose" ] || cat "$tmp/out"
	p=$(grep -cE '^# +top +TEST .* passed' "$tmp/out")
	f=$(($# - p))
	grep -E '^# +top +TEST ' "$tmp/out" | sed -E 's/^# +top +TEST tests.vtc./  /'
	# on failure, print the output without the routine lines of engines and HAProxy
	[ $f -eq 0 ] || grep -vE '^\*\*\*\* .*(macro|http\[|rxhdr|txresp)|^#|debug\|' "$tmp/out" |
		tail -n 80
	add_results "$p passed, $f failed"
done
finish
