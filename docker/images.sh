#!/bin/bash
# images.sh [ARGUMENT...] - build the images of docker-compose.yml, and print their sizes. The
# arguments go to "docker-compose build". If the base image is neither here nor in a registry that
# answers, base.sh makes one of Debian's packages. BASE: another base image.
set -eu
cd "$(dirname "$0")/.."
export BASE=${BASE:-debian:bookworm-slim}
begun=$SECONDS
# for "kvroute -V" in the image
COMMIT=${COMMIT-$(git rev-parse --short=12 HEAD 2> /dev/null)} || COMMIT=
export COMMIT
if ! docker image inspect "$BASE" > /dev/null 2>&1 &&
	! timeout 15 docker pull -q "$BASE" > /dev/null 2>&1; then
	BASE=localhost/kvroute-base:bookworm
	tests/tools/deps.sh images
	docker/base.sh "$BASE"
	echo "no registry: the base image is made of Debian's packages"
	echo "$((SECONDS - begun)) s: base image"
fi
compose=docker-compose
command -v docker-compose > /dev/null || compose="docker compose"

# BuildKit builds the images in parallel, and what they share once. "docker compose" uses it; the
# older docker-compose only through a client that can.
buildkit() {
	local id
	id=$(DOCKER_BUILDKIT=1 "$1" build -q - <<< $'FROM scratch\nLABEL probe=1' 2> /dev/null) &&
		"$1" rmi "$id" > /dev/null
}
if [[ $($compose version --short 2> /dev/null) = 1.* ]]; then
	export COMPOSE_DOCKER_CLI_BUILD=0 DOCKER_BUILDKIT=0
	for docker in $(type -ap docker); do
		buildkit "$docker" || continue
		export COMPOSE_DOCKER_CLI_BUILD=1 DOCKER_BUILDKIT=1
		PATH=${docker%/*}:$PATH
		set -- --parallel "$@"
		echo "with BuildKit"
		break
	done
fi
# one service of each image
$compose -f docker/docker-compose.yml --profile prometheus build -q "$@" \
	agent haproxy store s1 prometheus
for image in kvroute kvroute-haproxy kvroute-store kvroute-engine kvroute-prometheus; do
	bytes=$(docker image inspect -f '{{.Size}}' $image)
	base=$(docker image inspect -f '{{.Size}}' "$BASE")
	echo "$image: $((bytes / 1000000)) MB, $(((bytes - base) / 1000000)) MB of them on top of the base"
done
