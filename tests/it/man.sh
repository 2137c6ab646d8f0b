#!/bin/bash
# man.sh - check the manual pages with mandoc and against the source, and the links of the READMEs.
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh

if command -v mandoc > /dev/null; then
	for page in doc/*.[58]; do
		out=$(mandoc -Tlint -W warning "$page" 2>&1)
		[ -z "$out" ]
		result $? "$page${out:+: $out}"
	done
else
	skipped "mandoc is not installed, so the manual pages are not checked"
fi
python3 doc/metrics.py --check
result $? "doc/kvroute.8 lists the metrics of the source"
if command -v mandoc > /dev/null; then
	for page in doc/*.[58]; do
		wide=$(mandoc -Tascii -O width=78 "$page" | sed 's/.\x08//g' |
			awk 'length > 80 { n++ } END { print n + 0 }')
		[ "$wide" = 0 ]
		result $? "$page fits 80 columns: $wide lines do not"
	done
fi
for rule in $(sed -n '/define POLICY_RULE_LIST/,/^$/s/.*X([A-Z_]*,[^a-z]*\([a-z_]*\)).*/\1/p' \
	agent/policy/policy.h); do
	sed -n '/^\.Sh RULES/,/^\.Sh FILES/p' doc/kvroute.yaml.5 | grep -qx ".It Li $rule"
	result $? "doc/kvroute.yaml.5 describes the rule $rule"
done
for path in $(sed -n 's/^.*{ API_[A-Z]*, { "\([^"]*\)".*/\1/p' agent/prompt/api.c); do
	sed -n '/^\.Ss route$/,/^\.Ss route-1/p' doc/kvroute.8 | grep -qE "^\.Pa $path( |\$)"
	result $? "doc/kvroute.8 lists the path $path"
	grep -v '^#' haproxy-conf/api-paths.lst |
		sed 's,^/v1beta/models/$,:generateContent :streamGenerateContent,' | grep -q -- "$path"
	result $? "haproxy-conf/api-paths.lst has the path $path"
done
for file in *.md */README.md tests/*/README.md doc/*.md; do
	for name in $(grep -oE '\]\([^)#:]+[)#]' "$file" | tr -d ']()#' | sort -u); do
		[ -e "$(dirname "$file")/$name" ]
		result $? "$file names $name"
	done
done
# Rows "name | mean / p99 | mean / p99 | cached, cached %" of both loads: as README.md has them, and
# made of doc/measured.md.
rows() { sed -n '/^| mean \/ p99/,/^$/p' README.md | grep '^| [a-zA-Z*]' | tail -n +2 | tr -d '*'; }
measured() {
	sed -n '/^| pauses of users/,/^$/p' doc/measured.md | awk -F ' *[|] *' '
		$3 !~ /^[a-zA-Z]/ { next }
		!($3 in times) { order[++n] = $3 }
		{ times[$3] = times[$3] " | " $4 " / " $6; cached[$3] = cached[$3] ", " $7 }
		END { for (i = 1; i <= n; i++) {
			gsub(/ %/, "", cached[order[i]])
			print "| " order[i] times[order[i]] " | " substr(cached[order[i]], 3) " % |" } }'
}
out=$(diff <(rows) <(measured))
[ -z "$out" ] && [ "$(rows | wc -l)" -ge 5 ]
result $? "README.md has the rows of doc/measured.md${out:+: $out}"
finish
