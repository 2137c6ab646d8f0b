#!/bin/bash
# install.sh [remove] - copy what "make install" installs, or remove it, except the configuration.
# The Makefile sets the variables. Writes below DESTDIR only; starts, enables and reloads nothing.
set -eu
cd "$(dirname "$0")/.."

remove=${1-}

# Remove the empty folders of kvroute alone: <$1> and those above it, up to the one with its name.
remove_own() {
	local dir=$1
	while [[ $dir/ == */kvroute/* || $dir/ == */kvroute-spoe/* ]]; do
		rmdir "$DESTDIR$dir" 2> /dev/null || return 0
		case ${dir##*/} in kvroute | kvroute-spoe) return 0 ;; esac
		dir=${dir%/*}
	done
}

put() {	# mode, file, path
	if [ -n "$remove" ]; then
		rm -f "$DESTDIR$3"
		remove_own "$(dirname "$3")"
		return 0
	fi
	install -D -p -m "$1" "$2" "$DESTDIR$3"
}

# Fill the names in @...@ of <$1> and install it as <$2>.
fill() {
	local tmp
	tmp=$(mktemp)
	sed "s,@SBINDIR@,$SBINDIR,g; s,@SYSCONFDIR@,$SYSCONFDIR,g; s,@PREFIX@,$PREFIX,g
		s,@LIBDIR@,$LIBDIR,g; s,@VERSION@,$VERSION,g" "$1" > "$tmp"
	if grep -n '@[A-Z]*@' "$tmp"; then
		echo "install.sh: $1 has a name that is not known" >&2
		exit 1
	fi
	put 644 "$tmp" "$2"
	rm -f "$tmp"
}

made() {	# path, command: its output
	local tmp
	tmp=$(mktemp)
	[ -n "$remove" ] || "${@:2}" > "$tmp"
	put 644 "$tmp" "$1"
	rm -f "$tmp"
}

# Print a page of the source for those who have an installation: links lead to what is installed;
# the others become text, and pictures are left out.
page() {
	sed -E '/^!\[.*\]\(.*\)$/d
		s,\]\(haproxy-conf/,](examples/haproxy-conf/,g
		s,\]\(doc/kvroute\.yaml\),](examples/kvroute.yaml),g
		s,\[([^]]*)\]\((\.\./|doc/|kubernetes/|spoe/|[A-Z]+(\.md)?\))[^) ]*\)?,\1,g' "$1"
}

put 755 "$B/kvroute" "$SBINDIR/kvroute"
put 755 "$B/kvroutectl" "$BINDIR/kvroutectl"
for page in doc/*.[58]; do
	put 644 "$page" "$MANDIR/man${page##*.}/${page##*/}"
done

# The configuration of an installed agent is short; all keys with their defaults are an example.
if [ -z "$remove" ] && [ ! -e "$DESTDIR$SYSCONFDIR/kvroute/kvroute.yaml" ]; then
	fill packaging/kvroute.yaml "$SYSCONFDIR/kvroute/kvroute.yaml"
fi
doc=$DOCDIR/kvroute
put 644 doc/kvroute.yaml "$doc/examples/kvroute.yaml"
made "$doc/CHANGES.md" page CHANGES.md
made "$doc/README.md" page README.md
made "$doc/SECURITY.md" page SECURITY.md
(cd haproxy-conf && find . -type f) | while read -r file; do
	put 644 "haproxy-conf/$file" "$doc/examples/haproxy-conf/${file#./}"
done
made "$doc/examples/haproxy-conf/README.md" page haproxy-conf/README.md
[ -n "$remove" ] || chmod 755 "$DESTDIR$doc/examples/haproxy-conf/load.sh"

fill packaging/systemd/kvroute.service.in "$UNITDIR/kvroute.service"
put 644 packaging/systemd/kvroute.sysusers "$SYSTEMDDIR/sysusers.d/kvroute.conf"
put 644 packaging/systemd/kvroute.tmpfiles "$SYSTEMDDIR/tmpfiles.d/kvroute.conf"
made "$BASHDIR/kvroutectl" packaging/completion.sh "$B/kvroutectl" bash
made "$ZSHDIR/_kvroutectl" packaging/completion.sh "$B/kvroutectl" zsh

# The SPOP library, for other agents.
put 644 "$B/libspoe.a" "$LIBDIR/libkvroute-spoe.a"
put 644 spoe/spop.h "$PREFIX/include/kvroute-spoe/spop.h"
fill packaging/kvroute-spoe.pc.in "$LIBDIR/pkgconfig/kvroute-spoe.pc"
put 644 spoe/README.md "$DOCDIR/kvroute-spoe/README.md"
put 644 spoe/example/spoa.c "$DOCDIR/kvroute-spoe/examples/spoa.c"
put 644 spoe/example/example.spoe "$DOCDIR/kvroute-spoe/examples/example.spoe"
put 644 spoe/example/haproxy.cfg "$DOCDIR/kvroute-spoe/examples/haproxy.cfg"
