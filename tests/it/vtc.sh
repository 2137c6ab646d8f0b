#!/bin/bash
# vtc.sh [-v] [FILE...] - the stories of tests/vtc by varnishtest, on every HAProxy at hand; -v shows what one does.
#
# haproxy-conf/ is taken as it is, but for the time the agent has: what is asked is not how fast this machine is.
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
cp -r haproxy-conf "$tmp/conf"
sed -i -e 's/timeout processing 50ms/timeout processing 600ms/' -e 's/timeout hello 100ms/timeout hello 600ms/' \
	"$tmp/conf/kvroute.spoe" "$tmp/conf/recipes/sliced.spoe"

passed=0 failed=0 skipped=0
for v in 2.6 3.0 3.2; do
	haproxy=$top/build/haproxy/$v/haproxy
	if [ ! -x "$haproxy" ]; then
		echo "skipped: HAProxy $v cannot be had here, for tests/vtc"
		skipped=$((skipped + 1))
		continue
	fi
	"$haproxy" -v | head -n 1
	HAPROXY_PROGRAM=$haproxy TMPDIR=$tmp $tester -j 2 -k -b 20M -t 60 ${verbose:+-v} \
		-D kvroute="$top/${B:-build/release}/kvroute" -D conf="$tmp/conf" -D vtc="$top/tests/vtc" \
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
