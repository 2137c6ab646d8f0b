#!/bin/bash
# base.sh NAME - make a minimal Debian 12 image NAME with debootstrap, from this machine's apt
# sources. For machines without a container registry. Does nothing if the image exists.
set -eu
name=$1
here=$(cd "$(dirname "$0")/.." && pwd)
docker image inspect "$name" > /dev/null 2>&1 && exit 0

# deb822 files first, then files in the one-line format
archive=$({ sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/*.sources
	sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' \
		/etc/apt/sources.list /etc/apt/sources.list.d/*.list; } 2> /dev/null |
	grep -m 1 /debian) ||
	{ echo "base.sh: no Debian archive in this machine's apt sources" >&2; exit 1; }
tarball=$here/build/docker/bookworm.tar
if [ ! -s "$tarball" ]; then
	mkdir -p "${tarball%/*}"
	root=$(mktemp -d)
	trap 'rm -rf "$root"' EXIT
	debootstrap --variant=minbase bookworm "$root" "$archive" > "${tarball%.tar}.log" 2>&1 ||
		{ tail -n 5 "${tarball%.tar}.log" >&2; exit 1; }
	rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
		"$root"/usr/share/man/* "$root"/usr/share/locale/* "$root"/usr/share/info/*
	# as in slim images: of the documentation only the copyrights, also of packages to come
	find "$root/usr/share/doc" -type f ! -name copyright -delete
	printf 'path-exclude /usr/share/%s/*\n' man locale info doc \
		> "$root/etc/dpkg/dpkg.cfg.d/slim"
	# and files of an image that is being built need no fsync()
	printf '%s\n' 'path-include /usr/share/doc/*/copyright' force-unsafe-io \
		>> "$root/etc/dpkg/dpkg.cfg.d/slim"
	tar -C "$root" -cf "$tarball.new" .
	mv "$tarball.new" "$tarball"
fi
docker import "$tarball" "$name" > /dev/null
