# results.sh - for bash scripts of tests, by ". tests/lib/results.sh" at the top of the tree: counts
# what passed, failed and was skipped, and prints it as tests/run.sh reads it. In a subshell, which
# each part of a pipe is, results are lost and finish ends only that.
#
#   result STATUS WHAT      one check: STATUS is 0 if it passed
#   skipped WHAT            one check that is not possible here
#   add_results LINE        those of another suite, "N passed, N failed[, N skipped]"
#   finish                  run at_end (of the script, if it has one), print the last line, exit
#   skip WHAT               skipped, then finish: nothing of the script is possible here
passed=0 failed=0 skipped=0

result() {
	if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; fi
}

skipped() {
	skipped=$((skipped + 1))
	echo "skipped: $1"
}

# Without such a line the suite counts as one failure.
add_results() {
	local p f s
	if [[ $1 =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
		p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
	else
		p=0 f=1 s=0
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

finish() {
	[ "$(type -t at_end)" != function ] || at_end
	echo "$passed passed, $failed failed$( ((skipped == 0)) || echo ", $skipped skipped")"
	exit $((failed > 0))
}

skip() {
	skipped "$1"
	finish
}
