#!/bin/bash
# unpack.sh SUITE PACKAGE DIR PROGRAM... - unpack programs of a Debian package into a folder.
#
# Installs nothing, starts no service, needs no root. A private apt (with its own lists and an empty
# dpkg status) fetches the package and its shared libraries, including libc, into DIR/root. For each
# PROGRAM, DIR/<name> calls it with that root's own loader and library path, so that a program of
# Debian 13 runs on Debian 12.
#
# The address of the archive, proxy and keys come from this machine's apt sources. DIR is complete
# or does not exist; if it exists, nothing is done. Exits with 0: DIR is complete, 77: not available
# here (the reason is one line on stderr).
set -eu

if [ $# -lt 4 ]; then
	echo "usage: ${0##*/} SUITE PACKAGE DIR PROGRAM..." >&2
	exit 2
fi
suite=$1 package=$2 dir=$3
shift 3

all_there() {
	local p
	for p in "$@"; do
		[ -x "$dir/${p##*/}" ] || return 1
	done
}

give_up() {
	echo "unpack: $package of $suite: $1" >&2
	exit 77
}

# The binary archives with a component "main" that this machine's apt uses, security archives (which
# have suites of other names) left out. A line each: address, space, keyring or nothing.
archives() {
	local f
	for f in /etc/apt/sources.list.d/*.sources; do
		[ -f "$f" ] || continue
		awk -v RS= -F'\n' '{
			type = uri = suites = comp = key = ""; on = 1
			for (i = 1; i <= NF; i++) {
				name = tolower($i); sub(/:.*/, "", name)
				val = $i; sub(/^[^:]*:[ \t]*/, "", val)
				if (name == "types") type = val
				else if (name == "uris") uri = val
				else if (name == "suites") suites = val
				else if (name == "components") comp = val
				else if (name == "signed-by" && val ~ /^\//) key = val
				else if (name == "enabled" && tolower(val) ~ /^(no|false|0)$/) on = 0
			}
			if (!on || type !~ /(^| )deb( |$)/ || comp !~ /(^| )main( |$)/ || suites ~ /-security/)
				next
			n = split(uri, u, /[ \t]+/)
			for (i = 1; i <= n; i++)
				print u[i], key
		}' "$f"
	done
	for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -f "$f" ] || continue
		awk '$1 == "deb" {
			key = ""; i = 2
			if ($2 ~ /^\[/)
				for (; i <= NF; i++) {
					o = $i; gsub(/[][]/, "", o)
					if (o ~ /^signed-by=\//) key = substr(o, 11)
					if ($i ~ /\]$/) { i++; break }
				}
			if ($(i + 1) !~ /-security/ && (" " $0 " ") ~ / main /)
				print $i, key
		}' "$f"
	done
}

# Make a private apt under <$1>, for the archive <$2> with the keyring <$3>. It keeps the machine's
# network settings, but not its hooks, pins and package state.
private_apt() {
	local a=$1 key=$3
	rm -rf "$a"
	mkdir -p "$a"/lists/partial "$a"/cache/archives/partial "$a"/etc/preferences.d
	: > "$a/status"
	if [ -z "$key" ] && [ -f /usr/share/keyrings/debian-archive-keyring.gpg ]; then
		key=/usr/share/keyrings/debian-archive-keyring.gpg
	fi
	# the Release file of a suite that is still being made may be past its date
	echo "deb [check-valid-until=no${key:+ signed-by=$key}] $2 $suite main" > "$a/sources.list"
	chmod 600 "$a/sources.list"
	apt-config dump 2> /dev/null |
		grep -iE '^Acquire::(http|https|socks|Retries|ForceIPv|BrokenProxy)' \
		> "$a/apt.conf" || :
	cat >> "$a/apt.conf" <<-CONF
		Dir::State "$a"; Dir::State::lists "$a/lists"; Dir::State::status "$a/status";
		Dir::Cache "$a/cache"; Dir::Etc "$a/etc"; Dir::Etc::sourcelist "$a/sources.list";
		Dir::Etc::sourceparts "-"; Dir::Etc::parts "$a/etc"; Dir::Etc::main "-";
		Dir::Etc::netrc "/etc/apt/auth.conf"; Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
		Dir::Etc::trusted "/etc/apt/trusted.gpg"; Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
		APT::Architecture "$(dpkg --print-architecture)"; APT::Architectures ""; APT::Sandbox::User "";
		Acquire::Languages "none"; Acquire::http::Timeout "15"; Acquire::Retries "1";
		Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false"; Debug::NoLocking "true";
	CONF
	export APT_CONFIG=$a/apt.conf
	apt-get -qq update > "$a/log" 2>&1 && [ -n "$(apt-cache -q pkgnames "$package")" ]
}

# Fetch the package and the shared libraries that it depends on, but not tools of its scripts.
closure() {
	local seen=" $package " new=$package p next
	while [ -n "$new" ]; do
		next=
		for p in $(apt-cache depends --important $new |
			sed -n 's/^ *|\{0,1\}\(Pre\)\{0,1\}Depends: *//p' |
		           grep -E '^(lib|zlib)' | grep -vE '(-dev|-perl|-data|-common)$|^libjs-'); do
			case $seen in *" $p "*) continue ;; esac
			seen+="$p " next+=" $p"
		done
		new=$next
	done
	echo $seen
}

# Write DIR/<name> for <$1>. It uses exec, so that the program itself gets signals, and --argv0, so
# that a program that restarts itself (haproxy's reload) runs this script again.
wrapper() {
	local out=$new/${1##*/}
	cat > "$out" <<-'WRAP'
		#!/bin/sh
		f=$(readlink -f "$0")
		d=${f%/*}
	WRAP
	cat >> "$out" <<-WRAP
		exec "\$d/root$loader" --argv0 "\$d/\${0##*/}" --library-path "$libpath" "\$d/root/$1" "\$@"
	WRAP
	chmod 755 "$out"
}

if all_there "$@"; then
	exit 0
fi
for tool in apt-get apt-cache dpkg dpkg-deb flock; do
	command -v $tool > /dev/null || give_up "needs $tool"
done

mkdir -p "$(dirname "$dir")"
dir=$(cd "$(dirname "$dir")" && pwd)/$(basename "$dir")
hidden=$(dirname "$dir")/.$(basename "$dir")
exec 9> "$hidden.lock"
flock 9
if all_there "$@"; then
	exit 0
fi
# If it was not available a moment ago, do not let the next caller wait again.
if [ -n "$(find "$hidden.$suite.unfetched" -mmin -30 2> /dev/null)" ]; then
	reason=$(cat "$hidden.$suite.unfetched")
	give_up "$reason (tried less than 30 minutes ago; to try now: rm $hidden.$suite.unfetched)"
fi

work=$(mktemp -d "$hidden.XXXXXX")
trap 'rm -rf "$work"' EXIT
new=$work/new
mkdir -p "$new/root" "$work/debs"

found=
while read -r address key; do
	if private_apt "$work/apt" "$address" "$key"; then
		found=1
		break
	fi
done < <(archives | sort -u)
why="no apt source of this machine gives it"
if [ -n "$found" ]; then
	why="download failed"
	(cd "$work/debs" && apt-get -qq download $(closure) > "$work/apt/log" 2>&1) || found=
fi
if [ -z "$found" ]; then
	echo "$why" > "$hidden.$suite.unfetched"
	give_up "$why"
fi
unset APT_CONFIG

for deb in "$work"/debs/*.deb; do
	dpkg-deb -x "$deb" "$new/root"
done
# Only programs and libraries are of use here.
rm -rf "$new"/root/usr/share/{doc,man,locale,info,lintian} "$new"/root/{etc,var}

loader=$(cd "$new/root" && find lib* usr/lib* -name 'ld-linux*.so.*' 2> /dev/null | head -n 1)
[ -n "$loader" ] || give_up "no loader among its libraries"
loader=/$loader
libpath=
for d in $(cd "$new/root" &&
	find lib usr/lib -maxdepth 2 -name '*.so*' -printf '%h\n' 2> /dev/null | sort -u); do
	libpath+=${libpath:+:}\$d/root/$d
done
for program in "$@"; do
	[ -x "$new/root/$program" ] || give_up "has no $program"
	wrapper "$program"
done
rm -rf "$dir" "$hidden.$suite.unfetched"
mv "$new" "$dir"
