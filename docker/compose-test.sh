#!/bin/bash
# compose-test.sh - build the images, start the composition with Prometheus, and check: requests are
# routed by prefix, a second turn goes to the same engine, also if the agent that placed the first
# was killed; Prometheus reads both agents and has the alert rules; and under load no client sees an
# error while agents restart, HAProxy reloads, an engine is paused, and networks and the store fail.
# Removes everything afterwards.
#
# Without a Docker engine it checks only the files. If no image can be pulled, images.sh makes the
# base image from Debian's packages. Last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/.."
. tests/lib/results.sh
compose="docker-compose -f docker/docker-compose.yml -p kvroutetest --profile prometheus"

# Print the seconds of a part that ends here, and the load of the machine.
begun=$SECONDS
part() {
	echo "      $((SECONDS - begun)) s: $1; load $(cut -d ' ' -f 1 /proc/loadavg)"
	begun=$SECONDS
}

docker/haproxy-cfg.sh | diff - docker/haproxy.cfg
result $? "docker/haproxy.cfg equals the output of haproxy-cfg.sh"
command -v docker-compose > /dev/null || skip "no docker-compose"
$compose config -q
result $? "docker-compose accepts docker-compose.yml"
timeout 10 docker info > /dev/null 2>&1 || skip "no docker engine"

# Hold four ports until the end, so that no bind(0) of another test gets them. Docker can still
# bind them, because it sets SO_REUSEADDR.
exec {hold}< <(exec python3 -c 'import os, socket, time
s = [socket.socket() for _ in range(4)]
for x in s:
    x.bind(("127.0.0.1", 0))
    x.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
parent = os.getppid()
print(*[x.getsockname()[1] for x in s], flush=True)
while os.getppid() == parent:
    time.sleep(1)')
read -r PORT METRICS_PORT METRICS_PORT2 PROMETHEUS_PORT <&"$hold"
export PORT METRICS_PORT METRICS_PORT2 PROMETHEUS_PORT
trap '$compose down -v -t 2 > /dev/null 2>&1' EXIT
COMMIT=${COMMIT-$(git rev-parse --short=12 HEAD 2> /dev/null)}
export COMMIT
docker/images.sh --build-arg OPT='-Og -pipe -DXXH_NO_INLINE_HINTS=1 -w' \
	> build/docker-build.log 2>&1
status=$?
result $status "the images build"
[ $status -eq 0 ] || { tail -n 30 build/docker-build.log; finish; }
grep -E '^(no registry|with BuildKit|[0-9]+ s: |kvroute)' build/docker-build.log | sed 's/^/      /'
small=$(grep -cE '^kvroute(-haproxy|-store|-engine)?: .* ([0-9]|[1-4][0-9]) MB of' \
	build/docker-build.log)
[ "$small" -eq 4 ]
result $? "four images add less than 50 MB to the base"
part "images"
for image in kvroute kvroute-engine kvroute-haproxy kvroute-store kvroute-prometheus; do
	at=build/docker-images/$image
	rm -rf $at
	mkdir -p $at
	docker run --rm --network none --entrypoint bash $image -c '
		find /var/cache/apt /var/lib/apt/lists -type f -size +0 > /tmp/cache
		dpkg-query -W -f "\${Package} \${Version}\n" > /tmp/installed
		cd /usr/local/bin && programs=$(ls kvroute kvroutectl 2> /dev/null)
		tar -cf - -C /tmp cache installed -C /usr/share/doc packages.spdx.json \
			${programs:+-C /usr/local/bin $programs -C /usr/share/doc/kvroute kvroute.spdx.json}
		' | tar -xf - -C $at
	[ -f $at/cache ] && [ ! -s $at/cache ]
	result $? "$image contains no cache of apt"
	said=$(python3 packaging/sbom.py --check $at/packages.spdx.json 2>&1) &&
		said=$(python3 docker/compose_sbom.py $at/installed $at/packages.spdx.json all 2>&1)
	result $? "$image has an SBOM of what is installed in it: $(tail -n 1 <<< "$said")"
done
at=build/docker-images/kvroute
said=$(python3 packaging/sbom.py --check $at/kvroute.spdx.json $at/kvroute $at/kvroutectl 2>&1) &&
	said=$(python3 docker/compose_sbom.py $at/installed $at/kvroute.spdx.json 2>&1)
result $? "the SBOM of kvroute names what is linked, as installed there: $(tail -n 1 <<< "$said")"
! readelf -S $at/kvroute | grep -q ' \.symtab '
result $? "its program is stripped"
docker run --rm --network none kvroute -V | grep -q "^kvroute .*commit $COMMIT"
result $? "it names its commit${COMMIT:+, $COMMIT}"
! grep -q 'apt-get update' <(sed '/AS packages/,/^$/d' docker/Dockerfile.*) && [ "$(
	for f in docker/Dockerfile.*; do sed -n '/^ARG BASE/,/apt-get update/p' "$f" | md5sum; done |
		sort -u | wc -l)" -eq 1 ]
result $? "apt's lists are fetched once, in a stage that all images share"
size=$(tar -C . -c $(sed -n 's/^!//p' .dockerignore) | wc -c)
sent=$(sed -nE 's/.*Sending build context to Docker daemon +([0-9.]+)([kM]?)B.*/\1 \2/p' \
	build/docker-build.log | tail -n 1)
[ "$size" -lt 20000000 ]
result $? "the build context has $((size / 1000)) kB${sent:+, docker says ${sent/ /}B}"
for image in kvroute kvroute-engine kvroute-haproxy kvroute-store kvroute-prometheus; do
	[ -n "$(docker image inspect -f '{{.Config.User}}' $image)" ]
	result $? "$image does not run as root"
	[ "$(docker image inspect -f '{{len .Config.Healthcheck.Test}}' $image)" -gt 0 ]
	result $? "$image has a health check"
done
part "checks of the images"
$compose up -d > build/docker-up.log 2>&1
status=$?
result $status "the composition starts"
[ $status -eq 0 ] || { tail -n 30 build/docker-up.log; finish; }

# not into a pipe: a reader that ends early makes curl try again
curl -fs --retry 20 --retry-all-errors --retry-delay 1 -o build/docker-metrics \
	"http://127.0.0.1:$METRICS_PORT/metrics" && grep -q '^kvroute_requests_total ' build/docker-metrics
result $? "metrics are published on this machine"
part "start"
prometheus=$($compose ps -q prometheus)
docker exec "$prometheus" promtool check config /etc/prometheus/prometheus.yml \
	> build/docker-promtool.log 2>&1 && grep -q ' [1-9][0-9]* rules found' build/docker-promtool.log
result $? "promtool accepts its configuration:$(grep -o ' [0-9]* rules found' \
	build/docker-promtool.log)"
python3 docker/compose_ask.py "$PORT" "$METRICS_PORT" "$METRICS_PORT2" "$PROMETHEUS_PORT" \
	kvroutetest > build/docker-ask.log 2>&1
status=$?
grep -E '^(ok  |FAIL|      [0-9])' build/docker-ask.log
passed=$((passed + $(grep -c '^ok  ' build/docker-ask.log)))
asked=$(grep -c '^FAIL' build/docker-ask.log)
if [ $status -ne 0 ]; then
	[ "$asked" -gt 0 ] || asked=1
	tail -n 20 build/docker-ask.log
	$compose logs --tail 20
fi
failed=$((failed + asked))
part "requests and faults"
finish
