#!/bin/bash
# added.sh ARGUMENT... - "apt-get install ARGUMENT..." in a stage of a build, then a copy of all new
# and changed files in /added, which an image copies over its base: "COPY --from=STAGE /added /".
# So apt's lists are fetched once for all images, in a stage that they share, and no layer of an
# image has lists or archives. The image's own dpkg knows the packages, because dpkg's files are
# among these. /usr/share/doc/packages.spdx.json names all packages of the image, as SPDX 2.3.
set -eu
begun=$(mktemp)
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
mkdir /added
# by the time of the last change of an inode, because dpkg sets the other one
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp \
	-o -path /added -o -path /var/cache -o -path /var/lib/apt -o -path /var/log -o -path /etc/hosts \
	-o -path /etc/hostname -o -path /etc/resolv.conf \) -prune -o \
	-mindepth 1 -cnewer "$begun" -print0 |
	tar --null --no-recursion -cf - -T - | tar -xpf - -C /added
mkdir -p /added/usr/share/doc
packages.sh > /added/usr/share/doc/packages.spdx.json
