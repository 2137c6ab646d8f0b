#!/bin/bash
# install.sh - "make install" into a folder, and what it installed: the ELF properties of programs
# and objects, the systemd unit, completions, the SPOP library with its example agent and a real
# HAProxy, and the SBOM. Last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
B=${B:-build/release}
root=$(mktemp -d)
pids=
trap 'kill $pids 2> /dev/null; wait 2> /dev/null; rm -rf "$root"' EXIT

has() { command -v "$1" > /dev/null; }

# Run a command; on failure print its output.
try() {	# what, command
	local out status
	out=$("${@:2}" 2>&1)
	status=$?
	result $status "$1"
	[ $status -eq 0 ] || sed 's/^/      /' <<< "$out" | tail -n 20
}

# ---- make install ----

mkdir -p "$root/usr/include"
try "make install with DESTDIR and PREFIX" \
	${MAKE:-make} --no-print-directory -s install DESTDIR="$root" PREFIX=/usr
usr=$root/usr
for file in sbin/kvroute bin/kvroutectl share/man/man8/kvroute.8 share/man/man5/kvroute.yaml.5 \
	lib/systemd/system/kvroute.service lib/sysusers.d/kvroute.conf lib/tmpfiles.d/kvroute.conf \
	share/bash-completion/completions/kvroutectl share/zsh/site-functions/_kvroutectl \
	share/doc/kvroute/examples/kvroute.yaml share/doc/kvroute/examples/haproxy-conf/kvroute.spoe \
	lib/libkvroute-spoe.a lib/pkgconfig/kvroute-spoe.pc include/kvroute-spoe/spop.h; do
	[ -s "$usr/$file" ]
	result $? "installs /usr/$file"
done
dead=$(cd "$usr/share/doc/kvroute" && find . -name '*.md' | while read -r page; do
	grep -o '](\([^):]*\))' "$page" | sed 's/^](//; s/)$//; s/#.*//' | while read -r link; do
		[ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
	done
done)
[ -z "$dead" ] && grep -q '](examples/haproxy-conf/README.md)' "$usr/share/doc/kvroute/README.md"
result $? "links of installed pages lead to installed files${dead:+: $dead}"
stray=$(find "$root" -mindepth 1 -maxdepth 1 ! -name usr ! -name etc)
[ -z "$stray" ]
result $? "installs only below /usr and /etc${stray:+: $stray}"
out=$("$usr/sbin/kvroute" -t -f "$root/etc/kvroute/kvroute.yaml" 2>&1)
result $? "the installed configuration is valid${out:+: $out}"
echo '# mine' > "$root/etc/kvroute/kvroute.yaml"
${MAKE:-make} --no-print-directory -s install DESTDIR="$root" PREFIX=/usr
[ "$(cat "$root/etc/kvroute/kvroute.yaml")" = '# mine' ]
result $? "a second installation keeps the configuration"

# ---- how the programs are built ----

if has readelf && has objdump; then
	for p in "$usr/sbin/kvroute" "$usr/bin/kvroutectl"; do
		name=${p##*/}
		head=$(readelf -hW "$p") segments=$(readelf -lW "$p") dynamic=$(readelf -dW "$p")
		symbols=$(readelf --dyn-syms -W "$p")
		grep -q 'Type: *DYN' <<< "$head" && grep -q 'FLAGS_1.*PIE' <<< "$dynamic"
		result $? "$name is a position-independent executable"
		grep -q GNU_RELRO <<< "$segments" && grep -q 'BIND_NOW\|FLAGS_1.*NOW' <<< "$dynamic"
		result $? "$name has full RELRO"
		grep 'GNU_STACK' <<< "$segments" | grep -q 'RW ' && ! grep -q 'RWE' <<< "$segments"
		result $? "$name has no segment that is writable and executable"
		! grep -qE 'RPATH|RUNPATH|TEXTREL' <<< "$dynamic"
		result $? "$name has no RPATH and no text relocations"
		grep -q '__stack_chk_fail' <<< "$symbols"
		result $? "$name has stack protectors"
		[ "$(grep -cE '__[a-z]+_chk(@|$)' <<< "$symbols")" -ge 5 ]
		result $? "$name calls functions that check buffers"
	done
	"$usr/sbin/kvroute" -V | grep -q '_FORTIFY_SOURCE=3'
	result $? "kvroute is built with _FORTIFY_SOURCE=3"
	case $("$(echo "${CC:-gcc}")" -dumpmachine) in
	x86_64-*)
		objdump -d --no-show-raw-insn "$usr/sbin/kvroute" |
			grep -m 1 -qE 'or[lq]? +\$0x0,(0x[0-9a-f]+)?\(%rsp\)'
		result $? "kvroute probes large stack frames"
		feature='x86 feature: IBT, SHSTK' ;;
	aarch64-*) feature='AArch64 feature: BTI, PAC' ;;
	*) feature= ;;
	esac
	if [ -n "$feature" ]; then
		bad=$(for o in $(find "$B/agent" "$B/spoe" "$B/spop-check" -name '*.o'); do
			readelf -nW "$o" 2> /dev/null | grep -q "$feature" || echo "$o"
		done | head -n 3)
		[ -z "$bad" ]
		result $? "objects have control-flow protection${bad:+; without (make clean?): $bad}"
	fi
else
	skipped "ELF properties: binutils are not installed"
fi

# ---- kvroute -V ----

version=$("$usr/sbin/kvroute" -V)
for line in '^kvroute [0-9]' '^libev [0-9]' '^libyaml [0-9]' '^libseccomp [0-9]' '^pcre2 [0-9]' \
	'^xxhash [0-9]' '^libzmq ' '^hiredis ' '^libc [0-9]' '^cpu path [a-z]' '^built with '; do
	grep -qE "$line" <<< "$version"
	result $? "kvroute -V has a line $line"
done
if commit=$(git rev-parse --short=12 HEAD 2> /dev/null); then
	grep -q "commit $commit" <<< "$version"
	result $? "kvroute -V names the commit $commit"
fi

# ---- one version everywhere ----

want=$(sed -n 's/^VERSION := //p' Makefile)
[[ $version == "kvroute $want"[,$'\n']* ]]
result $? "kvroute -V has the version of the Makefile, $want"
head -n 1 debian/changelog | grep -qF "kvroute ($want-"
result $? "debian/changelog begins with it"
[ "$(grep -m 1 '^## ' CHANGES.md)" = "## $want" ]
result $? "CHANGES.md begins with it"
[ "$("$usr/bin/kvroutectl" -V)" = "kvroutectl $want" ]
result $? "so does kvroutectl -V"
grep -qx "Version: $want" "$usr/lib/pkgconfig/kvroute-spoe.pc"
result $? "so does kvroute-spoe.pc"

# ---- systemd ----

unit=$usr/lib/systemd/system/kvroute.service
! grep -q '@[A-Z]*@' "$unit"
result $? "the unit has no unfilled names"
if has systemd-analyze; then
	out=$(systemd-analyze security --offline=true --threshold=15 "$unit" 2>&1)
	result $? "exposure is at most 1.5: $(tail -n 1 <<< "$out")"
	try "systemd accepts the unit" systemd-analyze verify --root="$root" --man=no \
		--recursive-errors=no kvroute.service
else
	skipped "exposure of the unit: systemd-analyze is not installed"
fi
if has systemd-sysusers && has systemd-tmpfiles; then
	touch "$root/etc/passwd" "$root/etc/group"
	systemd-sysusers --root="$root" > /dev/null 2>&1
	grep -q '^kvroute:' "$root/etc/passwd" && grep -q '^haproxy:' "$root/etc/group"
	result $? "sysusers makes the user kvroute and the group haproxy"
	if [ "$(id -u)" = 0 ]; then
		systemd-tmpfiles --root="$root" --create > /dev/null 2>&1
		want="2750 $(sed -n 's/^kvroute:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/passwd") $(
			sed -n 's/^haproxy:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/group")"
		[ "$(stat -c '%a %u %g' "$root/run/kvroute")" = "$want" ]
		result $? "tmpfiles makes /run/kvroute for user kvroute and group haproxy"
	else
		skipped "owner of /run/kvroute: not root"
	fi
else
	skipped "sysusers, tmpfiles: not installed"
fi

# ---- completions ----

ctl=$usr/bin/kvroutectl
verbs=$("$ctl" -h | sed -nE 's/^  ([a-z-]+) +[^ ].*/\1/p')
complete_words() {	# the words before, and the word to complete
	bash -c 'source "$1"; shift; COMP_WORDS=(kvroutectl "$@"); COMP_CWORD=$#; _kvroutectl
		printf "%s\n" "${COMPREPLY[*]}"' _ "$usr/share/bash-completion/completions/kvroutectl" "$@"
}
[ "$(complete_words '')" = "$(echo $verbs -h -V)" ]
result $? "bash completes the verbs"
for verb in $verbs; do
	missing=
	for option in $(sed -n "/^\.Ss $verb/,/^\.S[sh]/p" doc/kvroutectl.8 |
		grep -oE '^\.It Fl (Fl )?[a-zA-Z-]+' | sed -E 's/.*Fl Fl /--/; s/.*Fl /-/' | sort -u); do
		[[ " $(complete_words "$verb" -) " == *" $option "* ]] || missing+=" $option"
	done
	[ -z "$missing" ]
	result $? "bash completes the options of $verb${missing:+; not$missing}"
done
if has zsh; then
	out=$(python3 tests/it/zsh_complete.py "$usr/share/zsh/site-functions" "$ctl")
	result $? "zsh completes verbs and options: $out"
else
	skipped "completion by zsh: zsh is not installed"
fi

# ---- the SPOP library ----

others=$(nm --defined-only --extern-only "$usr/lib/libkvroute-spoe.a" | awk 'NF == 3 { print $3 }' |
	grep -v '^spop_')
[ -z "$others" ]
result $? "the library defines no names but spop_...${others:+: $others}"
flags="-I$usr/include/kvroute-spoe -L$usr/lib -lkvroute-spoe"
if has pkg-config; then
	flags=$(PKG_CONFIG_LIBDIR=$usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
		pkg-config --cflags --libs kvroute-spoe)
	result $? "pkg-config knows kvroute-spoe: ${flags//$root/}"
	# some versions put the sysroot only before -I
	flags=$(sed "s, -L/usr/, -L$usr/,; s,^-I/usr/,-I$usr/," <<< "$flags")
else
	skipped "pkg-config: not installed"
fi
example=$usr/share/doc/kvroute-spoe/examples
try "the example agent compiles" ${CC:-gcc} -Wall -Wextra -Werror -O1 -o "$root/spoa" \
	"$example/spoa.c" $flags
try "the example agent answers" python3 tests/it/spoa_example.py "$root/spoa" "$example" "$ctl"

# ---- SBOM ----

python3 packaging/sbom.py "$usr/sbin/kvroute" "$ctl" > "$root/sbom.json"
result $? "an SBOM is made"
try "the SBOM is SPDX 2.3 and names every linked library" \
	python3 packaging/sbom.py --check "$root/sbom.json" "$usr/sbin/kvroute" "$ctl"
docker/packages.sh > "$root/packages.json"
result $? "an SBOM of the packages of this system is made, as in an image"
try "it is SPDX 2.3" python3 packaging/sbom.py --check "$root/packages.json"
licenses=$(python3 tests/it/licenses.py)
sed '$d' <<< "$licenses"
add_results "$(tail -n 1 <<< "$licenses")"

${MAKE:-make} --no-print-directory -s uninstall DESTDIR="$root" PREFIX=/usr
left=$(cd "$root" && find usr etc/kvroute -type f 2> /dev/null)
[ "$left" = etc/kvroute/kvroute.yaml ]
result $? "make uninstall leaves only the configuration: $left"
[ -d "$usr/include" ] && [ -d "$usr/share/man/man8" ]
result $? "make uninstall keeps folders that others share"
left=$(find "$usr" -type d -name 'kvroute*')
[ -z "$left" ]
result $? "make uninstall leaves no folder of its own${left:+: $left}"

finish
