#!/bin/bash
# base.sh NAME - make a minimal Debian 12 image NAME with mmdebstrap, from this machine's apt
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
	# as in slim images: of the documentation only the copyrights, also of packages to come
	# without usrmerge, which needs all of perl; and files of a container need no fsync()
	mmdebstrap --variant=minbase --components=main --include=usr-is-merged \
		--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/*/copyright' \
		--customize-hook='rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
		bookworm "$tarball.new.tar" "$archive" > "${tarball%.tar}.log" 2>&1 ||
		{ tail -n 5 "${tarball%.tar}.log" >&2; exit 1; }
	mv "$tarball.new.tar" "$tarball"
fi
docker import "$tarball" "$name" > /dev/null
