#!/bin/bash
# columns.sh - check what every tracked file has in common, without building anything:
#
#   width      no line is longer than 100 characters; a tab counts as one
#   opening    each .c and .h of agent/, spoe/ and spop-check/ opens with a comment
#   subjects   no commit subject since FIRST is longer than 72 characters
#   paths      each path of the tree that a text names exists, and the map in doc/style.md lists
#              each folder of agent/
#
# Exempt from the width: test data, rows of tables, displayed lines of the manual, and commands in
# HAProxy, SPOE and varnishtest files, because these cannot be continued or are copied whole. Their
# comments are not exempt.
# Prints one line for each folder or file that fails; last line: "N passed, N failed[, N skipped]".
set -u
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8
. tests/lib/results.sh

# Folders and files whose lines are not checked yet, and sources that have no opening comment yet.
WIDE=''
UNOPENED=''
# The first commit whose subject is checked has this parent.
FIRST=1160898

# Tracked files, or all files where the tree is not a repository.
files() {
	git ls-files 2> /dev/null || find . -path ./build -prune -o -type f -print | sed 's,^\./,,'
}

checked() {
	files | grep -E '\.(c|h|py|sh|md|cfg|spoe|vtc|conf|map|lst|yaml|yml|[58])$|^Makefile|/Dockerfile' |
		grep -vE '^tests/(data|fuzz/corpus|fuzz/crashes)/'
}

# "FILE:LINE" of each line of the files on stdin that is too long and not exempt.
wide() {
	xargs -r grep -naHE '^.{101,}' /dev/null |
		grep -vE '^[^:]*\.md:[0-9]+:\|' |
		grep -vE '^[^:]*\.(cfg|spoe):[0-9]+: *[^ #]' |
		grep -vE '^kubernetes/[^:]*\.yaml:[0-9]+: {4,}[^ #]' |
		grep -vE '^[^:]*\.vtc:[0-9]+:[	 ]+[^ #]' |
		grep -vE '^[^:]*\.[58]:[0-9]+:\.(It|Dl) ' |
		grep -vE '^haproxy-conf/README\.md:[0-9]+:\+' | cut -d: -f1,2
}

# agent/tok, tests/it, haproxy-conf, Makefile ...: the part of a path by which results are printed
folder() {
	sed -E 's,^((agent|tests)/[^/:]+)/.*,\1,; t; s,^((agent|tests))/.*,\1,; t; s,[/:].*,,'
}

# Judge each of <folders>: it fails if a line of <bad> is in it and not under an entry of <list>.
# Then name the entries of <list> that are clean, because they can be removed.
by_folder() {
	local what=$1 list=$2 bad=$3 folders=$4 place entry lines
	for place in $folders; do
		lines=$(awk -v list="$list" -v place="$place" 'BEGIN { n = split(list, entry) }
			$1 == place {
				for (i = 1; i <= n; i++) if (index($2, entry[i]) == 1) next
				print $2
			}' <(paste -d ' ' <(folder <<< "$bad") <(cat <<< "$bad")))
		[ -z "$lines" ]
		result $? "$what: $place${lines:+: $(head -n 3 <<< "$lines" | tr '\n' ' ')}"
	done
	for entry in $list; do
		grep -qE "^$entry(/|:|\$)" <<< "$bad" || echo "note  $what: $entry is clean: remove it"
	done
}

folders=$(checked | folder | sort -u)
by_folder width "$WIDE" "$(checked | wide)" "$folders"

unopened=$(for f in $(checked | grep -E '^(agent|spoe|spop-check)/.*\.[ch]$'); do
	[ "$(head -c 2 "$f")" = '/*' ] || echo "$f"
done)
by_folder opening "$UNOPENED" "$unopened" "$(grep -E '^(agent|spoe|spop-check)' <<< "$folders")"

if git merge-base --is-ancestor "$FIRST" HEAD 2> /dev/null; then
	long=$(git log --format='%h %s' "$FIRST..HEAD" | grep -E '^[^ ]+ .{73,}')
	[ -z "$long" ]
	result $? "subjects${long:+: $long}"
else
	skipped "commit subjects, because this tree has no history back to $FIRST"
fi

for doc in README.md CONTRIBUTING.md CHANGES.md doc/*.md tests/fuzz/README.md tests/fuzz/run.sh; do
	[ -f "$doc" ] || continue
	top='agent|spoe|spop-check|tests|doc|docker|haproxy-conf'
	for path in $(grep -oE "(^|[^A-Za-z0-9_./-])($top)/[A-Za-z0-9_.*/-]+" "$doc" |
		sed -E 's,^[^A-Za-z0-9_./-],,; s,[.]$,,' | grep -vE '/(NAME|MODULE)(\.|$)' | sort -u); do
		compgen -G "$path" > /dev/null || [ -f "$path.c" ]
		result $? "$doc names $path"
	done
done
if [ -f doc/style.md ]; then
	for folder in agent/*/; do
		grep -qE "(^| |/)$(basename "$folder")/( |\$)" doc/style.md
		result $? "the map in doc/style.md has $folder"
	done
fi

finish
