#!/bin/bash
# completion.sh KVROUTECTL bash|zsh - print the completion of kvroutectl for a shell.
#
# The verbs and options are those that KVROUTECTL -h and KVROUTECTL VERB -h print, so the file is
# made when it is installed and cannot be out of date. An argument whose name has FILE, TRACE, or a
# suffix after a dot (HAPROXY.CFG) is a file.
set -eu
ctl=$1 shell=$2

verbs() { "$ctl" -h | sed -nE 's/^  ([a-z-]+) +([^ ].*)$/\1 \2/p'; }

# "OPTION ARGUMENT" of each option of verb <$1>; ARGUMENT is - if it has none.
options() {
	"$ctl" "$1" -h 2>&1 | awk '!prose || /^  -/; /^$/ { prose = 1 }' |
		grep -oE '(^ +|[[ |])--?[A-Za-z][a-z-]*( [A-Z][A-Za-z.:|=-]*)?' |
		sed -E 's/^[][ |]*//; s/^([^ ]+)$/\1 -/' | sort -u |
		awk '{ a[$1] = a[$1] == "" || a[$1] == "-" ? $2 : a[$1] } END { for (o in a) print o, a[o] }' |
		LC_ALL=C sort
	echo "-h -"
}

is_file() { case $1 in *FILE* | *TRACE* | *.[A-Z][A-Z]*) return 0 ;; *) return 1 ;; esac; }

bash_file() {
	local verb rest option arg words value
	cat <<-'HEAD'
		# Completion of kvroutectl for bash, made by packaging/completion.sh.
		_kvroutectl() {
		    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=
		    COMPREPLY=()
	HEAD
	echo "    if ((COMP_CWORD == 1)); then"
	words=$(verbs | cut -d ' ' -f 1 | tr '\n' ' ')
	echo "        COMPREPLY=(\$(compgen -W \"$words-h -V\" -- \"\$cur\"))"
	echo "        return"
	echo "    fi"
	echo "    case \${COMP_WORDS[1]} in"
	while read -r verb rest; do
		words= value=
		while read -r option arg; do
			words+=" $option"
			[ "$arg" = - ] || is_file "$arg" || value+="${value:+|}$option"
		done < <(options "$verb")
		echo "    $verb)"
		[ -z "$value" ] || echo "        case \$prev in $value) return ;; esac"
		echo "        words='${words# }' ;;"
	done < <(verbs)
	cat <<-'TAIL'
		    esac
		    [[ $cur != -* ]] || COMPREPLY=($(compgen -W "$words" -- "$cur"))
		}
		complete -o default -F _kvroutectl kvroutectl
	TAIL
}

zsh_file() {
	local verb rest option arg
	echo "#compdef kvroutectl"
	echo "# Completion of kvroutectl for zsh, made by packaging/completion.sh."
	echo "local -a verbs options"
	echo "verbs=("
	verbs | sed -E "s/'/'\\\\''/g; s/:/\\\\:/g; s/^([^ ]+) (.*)/  '\1:\2'/"
	echo ")"
	echo 'if ((CURRENT == 2)); then _describe verb verbs; return; fi'
	echo 'case $words[2] in'
	while read -r verb rest; do
		echo "$verb)"
		echo "  options=("
		while read -r option arg; do
			if [ "$arg" = - ]; then echo "    '*$option'"
			elif is_file "$arg"; then echo "    '*$option:${arg//:/ }:_files'"
			else echo "    '*$option:${arg//:/ }: '"; fi
		done < <(options "$verb")
		echo "  ) ;;"
	done < <(verbs)
	echo 'esac'
	echo 'shift words; ((CURRENT--))'
	echo "_arguments \$options '*:file:_files'"
}

case $shell in
bash) bash_file ;;
zsh) zsh_file ;;
*) echo "usage: ${0##*/} KVROUTECTL bash|zsh" >&2; exit 2 ;;
esac
