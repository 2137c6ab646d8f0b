#!/bin/bash
# boot.sh TARBALL FOLDER - unpack a Debian root that has systemd, and boot it in namespaces of its
# own: no network but loopback, no other process, its own control groups. Runs until it is killed,
# or until standard input ends. Prints the process id of its systemd, as seen from outside. Needs
# root.
set -eu
tarball=$1 root=$2
mkdir -p "$root"
tar -C "$root" -xf "$tarball"
cat > "$root/.boot" <<-'BOOT'
	set -e
	cd "$1"
	mount --bind . .
	cd "$1"
	mount -t proc proc proc
	mount -t sysfs sysfs sys
	mount -t cgroup2 cgroup2 sys/fs/cgroup 2> /dev/null || :
	mount -t tmpfs tmpfs run
	mount -t tmpfs tmpfs tmp
	mount --rbind /dev dev
	# the kernel refuses user namespaces (PrivateUsers=) below a chroot
	mkdir -p .old
	pivot_root . .old
	umount -l /.old
	rmdir /.old
	# systemd mounts credentials in a namespace of its own and expects them to propagate
	mount --make-rshared /
	exec env -i container=kvroute PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		/lib/systemd/systemd --log-target=journal systemd.unit=multi-user.target
BOOT
unshare --mount --propagation private --pid --fork --kill-child --uts --ipc --net --cgroup \
	bash "$root/.boot" "$root" > /dev/null 2>&1 < /dev/null &
outer=$!
trap 'kill -9 $outer 2> /dev/null; wait' EXIT
for _ in $(seq 600); do
	inner=$(cat "/proc/$outer/task/$outer/children" 2> /dev/null) || inner=
	if [ -n "${inner// /}" ] && [ "$(cat "/proc/${inner// /}/comm")" = systemd ]; then
		echo "${inner// /}"
		cat > /dev/null
		exit 0
	fi
	kill -0 $outer || exit 1
	sleep 0.1
done
exit 1
