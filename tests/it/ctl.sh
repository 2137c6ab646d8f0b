#!/bin/bash
# ctl.sh - test the command lines of both programs: exit statuses, output, and rejected input.
set -u
cd "$(dirname "$0")/../.."
. tests/lib/results.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Run a command with less memory than the large index needs.
limited() {
	(ulimit -v 4000000; exec timeout 600 "$@")
}

# run NAME STATUS REGEXPS COMMAND... - run a command and check its exit status and output. REGEXPS
# are extended regular expressions, one in a line; all must match.
run() {
	local name=$1 want=$2 words=$3 status bad=
	shift 3
	out=$("$@" 2>&1 < "${stdin:-/dev/null}")
	status=$?
	[ $status -eq "$want" ] || bad="exit $status instead of $want"
	while IFS= read -r w; do
		[ -z "$w" ] || grep -qE -- "$w" <<< "$out" || bad="no /$w/"
	done <<< "$words"
	[ -z "$bad" ]
	result $? "$name${bad:+: $bad}"
	[ -z "$bad" ] || sed 's/^/      /' <<< "$out" | head -n 20
}

# free ports for a start, because another agent may run on this machine
anywhere='spop: {listen: ["127.0.0.1:0"]}
log_feed: {tcp: ["127.0.0.1:0"], udp: ["127.0.0.1:0"]}
metrics: {listen: ["127.0.0.1:0"]}'
echo 'state_dir: '"$tmp"'' > "$tmp/good.yaml"
printf 'threads: many\npolicy: {rule: fastest}\nlisten: x\n' > "$tmp/bad.yaml"
printf '{"messages":[%s,{"role":"user","content":"%0200d"}],"model":"llama"}' \
	'{"role":"system","content":"be brief"}' 1 > "$tmp/chat.json"
head -c 150 "$tmp/chat.json" > "$tmp/cut.json"
printf '{"model":"llama","prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}' > "$tmp/ids.json"
printf '{"model":"llama"}' > "$tmp/none.json"
printf 'no json' > "$tmp/bad.json"

run "kvroute -V" 0 "kvroute [0-9]+\.[0-9]+\.[0-9]+" ./kvroute -V
run "kvroute -h" 0 "Usage" ./kvroute -h
run "kvroute --nonsense" 64 "Usage" ./kvroute --nonsense
run "kvroute -t, good" 0 "valid" ./kvroute -t -f "$tmp/good.yaml"
run "kvroute -t, three mistakes at once" 1 "bad.yaml:1:
bad.yaml:2:
bad.yaml:3:" ./kvroute -t -f "$tmp/bad.yaml"
# a model whose files are not UTF-8: each is named with line and column, and nothing starts
mkdir "$tmp/models"
cp tests/data/tok/llama.tokenizer.json "$tmp/models/tokenizer.json"
printf 'state_dir: %s\nmodels_dir: %s\nmodels: [{name: m, mode: tokens, tokenizer: %s}]\n' \
	"$tmp" "$tmp/models" tokenizer.json > "$tmp/model.yaml"
echo "$anywhere" >> "$tmp/model.yaml"
run "kvroute -t, a model" 0 "valid" ./kvroute -t -f "$tmp/model.yaml"
printf 'x\n {{ "{:\207\207\207<9}" }}' > "$tmp/models/chat_template.jinja"
run "kvroute -t, a chat template that is not UTF-8" 1 \
	"chat_template\.jinja:2:8: .*byte 0x87 is not UTF-8.*save the file as UTF-8" \
		./kvroute -t -f "$tmp/model.yaml"
run "kvroute, the same at the start" 1 "chat_template\.jinja:2:8: " \
	timeout 180 ./kvroute -f "$tmp/model.yaml"
rm "$tmp/models/chat_template.jinja"
printf '{"chat_template":\n"\303"}' > "$tmp/models/tokenizer_config.json"
run "kvroute -t, a tokenizer_config.json that is not UTF-8" 1 \
	"tokenizer_config\.json:2:2: .*byte 0xc3 is not UTF-8" ./kvroute -t -f "$tmp/model.yaml"
rm "$tmp/models/tokenizer_config.json"
refused() {	# what, the words of its refusal; its bytes come from standard input
	cat > "$tmp/models/x"
	sed 's/tokenizer\.json/x/' "$tmp/model.yaml" > "$tmp/x.yaml"
	run "kvroute -t, $1" 1 "models/x.*$2" ./kvroute -t -f "$tmp/x.yaml"
}
printf '\012\016\012\005<unk>\025\0\0\0\0\030\002\022\007\012\003a.b\030\002' | \
	refused "a SentencePiece model without pieces" \
	"SentencePiece.*has no normal piece"
printf '{"model": {"type": "Unigram"}}' | \
	refused "Unigram that is half" ":1:11: model: \"unk_id\" is missing"
printf '{"model": {"type": "WordPiece"}}' | \
	refused "WordPiece that is half" ":1:11: model: \"unk_token\" is missing"
printf '{"model": {"type": "WordLevel"}}' | \
	refused "WordLevel" ":1:20: model\.type: .*WordLevel.*leave the model in mode: text"
printf '{"model": {"end_of_word_suffix": "</w>"}}' | \
	refused "a suffix without ByteLevel" ":1:34: model\.end_of_word_suffix: .*ByteLevel"
printf '[PAD]\n[UNK]\n' | \
	refused "vocab.txt" "vocab\.txt.*WordPiece.*save the tokenizer as tokenizer\.json"
rm "$tmp/models/x"
printf '{"chat_template": null}' > "$tmp/models/tokenizer_config.json"
run "kvroute -t, a chat template that is null" 0 "valid" ./kvroute -t -f "$tmp/model.yaml"
run "kvroute -t, no such file" 1 "no-such" ./kvroute -t -f "$tmp/no-such.yaml"
run "kvroute -tv" 0 "max_bytes" ./kvroute -tv -f "$tmp/good.yaml"
./kvroute -tv -f "$tmp/good.yaml" > "$tmp/printed.yaml"
run "what -tv prints loads again" 0 "valid" ./kvroute -t -f "$tmp/printed.yaml"
./kvroute -tv -f "$tmp/printed.yaml" > "$tmp/again.yaml"
run "and prints the same" 0 "" cmp "$tmp/printed.yaml" "$tmp/again.yaml"
printf 'state_dir: %s\nindex: {max_bytes: 16 GiB}\n%s\n' "$tmp" "$anywhere" > "$tmp/large.yaml"
run "-tv takes no memory for the index" 0 "max_bytes: 16 GiB" \
	limited ./kvroute -tv -f "$tmp/large.yaml"
stdin=$tmp/chat.json run "nor does kvroutectl" 0 "^pages +5$" \
	limited ./kvroutectl pages -f "$tmp/large.yaml"
run "a start without enough memory" 1 "index\.max_bytes: cannot allocate 16384 MiB
lower index\.max_bytes" limited ./kvroute -f "$tmp/large.yaml"
run "the example file is valid" 0 "valid" ./kvroute -t -f doc/kvroute.yaml
run "the container's file is valid" 0 "valid" ./kvroute -t -f docker/kvroute.yaml
run "kvroutectl" 64 "usage" ./kvroutectl
run "kvroutectl help" 0 "trial  " ./kvroutectl help
run "kvroutectl help why" 0 "usage: kvroutectl why" ./kvroutectl help why
run "kvroutectl help nonsense" 64 "no verb" ./kvroutectl help nonsense
run "kvroutectl help why top" 64 "usage: kvroutectl VERB" ./kvroutectl help why top
run "kvroutectl nonsense" 64 "no verb" ./kvroutectl nonsense
stdin=$tmp/chat.json run "pages of a chat body" 0 "^model +llama$
^space +[0-9a-f]{32}$
^of  *.*mode=text/64
^pages +5$
^cut +0$" ./kvroutectl pages -f "$tmp/good.yaml"
# a model with tekken.json: a prompt is BOS and its ids, a conversation stays text
printf 'models_dir: %s\nmodels: [{name: llama, mode: tokens, tokenizer: %s, block_size: 4}]\n' \
	"$PWD/tests/data/tok" small.tekken.json > "$tmp/tekken.yaml"
printf '{"model":"llama","prompt":"the router, the routers and the routing"}' > "$tmp/routers.json"
stdin=$tmp/routers.json run "pages of a prompt, tekken.json" 0 "mode=tokens/4
^tokens +17$
^pages +4$" ./kvroutectl pages -f "$tmp/tekken.yaml" --path /v1/completions
stdin=$tmp/chat.json run "pages of a conversation, tekken.json" 0 "mode=text/64
^pages +5$" ./kvroutectl pages -f "$tmp/tekken.yaml"
stdin=$tmp/cut.json run "pages of a cut one" 0 "headless
^cut +1$" ./kvroutectl pages -f "$tmp/good.yaml"
stdin=$tmp/cut.json run "a cut one with a model named" 0 "^model +m7$" \
	./kvroutectl pages -f "$tmp/good.yaml" --model m7
stdin=$tmp/ids.json run "pages of token ids" 0 "mode=tokens/16
^tokens +17$
^pages +1$" ./kvroutectl pages -f "$tmp/good.yaml" --path /v1/completions
printf 'models_dir: %s\nmodels: [{name: m, mode: tokens, tokenizer: %s, block_size: 4}]\n' \
	"$PWD/tests/data/tok" llama.tokenizer.json > "$tmp/tok.yaml"
printf '{"model":"m","prompt":"The server has 12345 pages."}' > "$tmp/text.json"
stdin=$tmp/text.json run "pages of a text in token mode" 0 "^model +m$
mode=tokens/4
^tokens +14$
^pages +3$" ./kvroutectl pages -f "$tmp/tok.yaml" --path /v1/completions
head -c 44 "$tmp/text.json" > "$tmp/half.json"
stdin=$tmp/half.json run "pages of a cut one in token mode" 0 "mode=tokens/4
^pages +1$
^cut +1$" ./kvroutectl pages -f "$tmp/tok.yaml" --path /v1/completions
sed 's/llama/none/' "$tmp/tok.yaml" > "$tmp/notok.yaml"
stdin=$tmp/text.json run "pages without the tokenizer's file" 1 "none.tokenizer.json: " \
	./kvroutectl pages -f "$tmp/notok.yaml" --path /v1/completions
{ cat "$tmp/chat.json"; printf '\0{"messages":[{"role":"user","content":"a"}],"model":"m9"}\0'; } \
	> "$tmp/two.nul"
stdin=$tmp/two.nul run "pages of several bodies" 0 "^pages +5$
^model +m9$" ./kvroutectl pages -f "$tmp/good.yaml" --null
stdin=$tmp/none.json run "no prompt" 1 "noprompt" ./kvroutectl pages -f "$tmp/good.yaml"
stdin=$tmp/bad.json run "no JSON" 1 "badbody" ./kvroutectl pages -f "$tmp/good.yaml"
stdin=$tmp/chat.json run "pages with a bad file" 1 "bad.yaml:1:" \
	./kvroutectl pages -f "$tmp/bad.yaml"

# chat templates
printf '{%%- for m in messages %%}\n<|{{ m.role }}|>{{ m.content }}\n{%%- endfor %%}\n%s' \
	'{{- bos_token if add_generation_prompt }}{{ tools }}{{ strftime_now("%d %b %Y") }}{{ x }}' \
	> "$tmp/t.jinja"
printf '{"bos_token": {"content": "<BOS>"}, "chat_template": [%s, %s]}' \
	'{"name": "default", "template": "d"}' \
	'{"name": "tool_use", "template": "{{ tools|tojson }}"}' > "$tmp/tok.json"
printf '{"messages":[{"role":"user","content":"hi \\u00e9"}],"chat_template_kwargs":{"x":[1.0]}}' \
	> "$tmp/m.json"
printf '{"messages":[],"tools":[{"a":1}]}' > "$tmp/tools.json"
printf 'a\n{%% nope %%}' > "$tmp/bad.jinja"
printf 'a\n{{ raise_exception("not so") }}' > "$tmp/raise.jinja"
stdin=$tmp/m.json run "render" 0 "^<.user.>hi é<BOS>None01 Aug 2026\[1\.0\]$" \
	./kvroutectl render --template "$tmp/t.jinja" --config "$tmp/tok.json" --date 2026-08-01
stdin=$tmp/m.json run "render with the time of day" 0 "01 Aug 2026" \
	./kvroutectl render --template "$tmp/t.jinja" --config "$tmp/tok.json" --date 2026-08-01T23:59:59
stdin=$tmp/m.json run "the template of the configuration" 0 "^d$" \
	./kvroutectl render --config "$tmp/tok.json"
stdin=$tmp/tools.json run "the one for tools" 0 '^\[\{"a": 1\}\]$' \
	./kvroutectl render --config "$tmp/tok.json"
stdin=$tmp/m.json run "a template that is refused" 1 "bad.jinja:2: .*nope" \
	./kvroutectl render --template "$tmp/bad.jinja"
stdin=$tmp/m.json run "a template that raises" 1 "raise.jinja:2: raised: TemplateError: not so" \
	./kvroutectl render --template "$tmp/raise.jinja"
stdin=$tmp/bad.json run "render no JSON" 1 "standard input: not JSON at byte 0" \
	./kvroutectl render --template "$tmp/t.jinja"
run "render no such file" 1 "no-such" ./kvroutectl render --template "$tmp/no-such"
run "render without a template" 64 "usage" ./kvroutectl render
run "render with a wrong date" 64 "not a time" \
	./kvroutectl render --template "$tmp/t.jinja" --date 2026-13-01
run "render -h" 0 "usage" ./kvroutectl render -h

# a trace of 60 requests, eight prompts that come again
for i in $(seq 0 59); do
	printf '{"timestamp":%d,"input_length":2000,"output_length":20,"hash_ids":[%d,%d,%d]}\n' \
		$((i * 100)) $((i % 8)) $((100 + i % 8)) $((200 + i % 8))
done > "$tmp/trace.jsonl"
{ head -n 2 "$tmp/trace.jsonl"; echo '{"timestamp":1}'; } > "$tmp/short.jsonl"
echo '{"block_size": 1000}' > "$tmp/trace.meta.json"
run "models -h" 0 "usage: kvroutectl models" ./kvroutectl models -h
run "models, nobody there" 1 "127.0.0.1:1: Connection refused" ./kvroutectl models 127.0.0.1:1
run "models, two addresses" 64 "usage" ./kvroutectl models 127.0.0.1:1 127.0.0.1:2
run "why -h" 0 "usage: kvroutectl why" ./kvroutectl why -h
run "why, nobody there" 1 "127.0.0.1:1: Connection refused" ./kvroutectl why 127.0.0.1:1
run "why of a uid" 1 "127.0.0.1:1: Connection refused" ./kvroutectl why 5f3c-77 127.0.0.1:1
run "why of a uid with colons" 1 "127.0.0.1:1: Connection refused" \
	./kvroutectl why 7F000001:8296_7F000001:1F90_4B7E_0001:0012 127.0.0.1:1
run "why, two uids" 64 "usage" ./kvroutectl why one two
run "why, a socket and an address" 64 "usage" ./kvroutectl why -s /x 127.0.0.1:1
run "why, no such runtime socket" 1 "/no-such.sock: No such file" \
	./kvroutectl why -s "$tmp/no-such.sock" one
run "-s without a socket" 64 "usage" ./kvroutectl -s
run "-s, no such socket" 1 "No such file or directory; the agent makes it at its start" \
	./kvroutectl -s "$tmp/no-such.sock" show info
run "top, nobody there" 1 "127.0.0.1:1: Connection refused" ./kvroutectl top -1 127.0.0.1:1
run "trial, no address" 1 "nonsense: the address must be host:port" ./kvroutectl trial nonsense
run "why, no such socket" 1 "No such file" ./kvroutectl why "unix@$tmp/no-such.sock"
run "why, no number" 64 "usage" ./kvroutectl why -n many
run "why, two addresses" 64 "usage" ./kvroutectl why 127.0.0.1:1 127.0.0.1:2
run "sim of a trace" 0 "54 requests, 2 engines
^cost +0\.
^oracle +0\." ./kvroutectl sim "$tmp/trace.jsonl" --preset cost --engines 2 --speed 2
run "sim, without a rule named" 0 "^cost
^cache_aware
^leastconn
^oracle_ext10" ./kvroutectl sim "$tmp/trace.jsonl" --speed 1 -f "$tmp/good.yaml"
run "sim --json" 0 '^\{"policy":"cache_aware",.*"ttft_mean":0\.' \
	./kvroutectl sim "$tmp/trace.jsonl" --preset cache_aware --json --speed 1
run "sim, no such preset" 64 "no preset .nonsense.
round_robin" ./kvroutectl sim "$tmp/trace.jsonl" --preset nonsense
run "sim, keys of a rule" 0 "^cost:load_ms=60,sacrifice_max=2 +0
^cost +0" ./kvroutectl sim "$tmp/trace.jsonl" --preset cost:load_ms=60,sacrifice_max=2 --preset cost
run "sim, no such key" 64 "lunch=1.: not a key" \
	./kvroutectl sim "$tmp/trace.jsonl" --preset cost:lunch=1
run "sim, a value beyond its range" 64 "load_ms=-1" \
	./kvroutectl sim "$tmp/trace.jsonl" --preset cost:load_ms=-1
run "sim of a workload" 0 "^chat: 270 requests
^leastconn +[0-9]" ./kvroutectl sim --workload chat --limit 300 --engines 2 --preset leastconn
run "sim with prefill servers" 0 \
	"^cost .* ms between tokens, .* s to the end, 0\.[0-9]*[1-9][0-9]* computed" \
	./kvroutectl sim --workload chat --limit 300 --engines 4 --prefill 1 --transfer 5:2 --preset cost
run "sim, only prefill servers" 64 "prefill: fewer than --engines" \
	./kvroutectl sim --workload chat --limit 300 --engines 2 --prefill 2
run "sim, no transfer" 64 "transfer: .20." ./kvroutectl sim --workload chat --transfer 20
run "sim, no such workload" 1 "lunch
there are: chat agents" ./kvroutectl sim --workload lunch
for i in 1 2; do
	./kvroutectl sim --workload prefixes --limit 500 --json --preset cost 2>&1 |
		sed 's/,"decide_us.*//' > "$tmp/sim$i"
done
run "sim over seeds" 0 "54 requests, 2 engines 8b-h100, .*, 3 seeds
^policy .* \\+- mean s +least +most$
^cost .*
^cost +engine +requests
^ +1 +[0-9.]+ +[0-9]+" \
	./kvroutectl sim "$tmp/trace.jsonl" --preset cost --engines 2 --speed 2 --seeds 3 --servers
run "sim over seeds, --json" 0 '"ttft_mean_se":0\.[0-9]*[1-9].*"servers":\[\{"requests":' \
	./kvroutectl sim --workload crowd-4 --limit 300 --json --preset random --seeds 2 --servers
run "sim, too many seeds" 64 "seeds: .1000." ./kvroutectl sim "$tmp/trace.jsonl" --seeds 1000
run "sim says the same twice" 0 "" cmp "$tmp/sim1" "$tmp/sim2"
run "sim, a wrong value" 64 "engines: .many." ./kvroutectl sim "$tmp/trace.jsonl" --engines many
run "sim, no trace" 64 "usage" ./kvroutectl sim
run "sim, no such file" 1 "no-such" ./kvroutectl sim "$tmp/no-such.jsonl"
run "sim, a wrong line" 1 "short.jsonl:3: it needs" ./kvroutectl sim "$tmp/short.jsonl"
run "sim, a prompt larger than a cache" 1 "kv-tokens" \
	./kvroutectl sim "$tmp/trace.jsonl" --kv-tokens 1024 --block 200
run "sim with a bad file" 1 "bad.yaml:1:" ./kvroutectl sim "$tmp/trace.jsonl" -f "$tmp/bad.yaml"

# tokenizers
tok=tests/data/tok/small.tokenizer.json
printf 'the <|end|>' > "$tmp/text"
printf 'the \0\0<|end|>' > "$tmp/texts"
gzip -c $tok > "$tmp/tok.json.gz"
printf '{"model":\n {"type": "WordLevel"}}' > "$tmp/words.json"
run "tokenize -h" 0 "usage: kvroutectl tokenize" ./kvroutectl tokenize -h
run "tokenize without a tokenizer" 64 "usage" ./kvroutectl tokenize
stdin=$tmp/text run "tokenize" 0 "^83 259 220 401$" ./kvroutectl tokenize --tokenizer $tok
stdin=$tmp/text run "tokenize --special" 0 "^400 83 259 220 401 401$" \
	./kvroutectl tokenize --tokenizer $tok --special
stdin=$tmp/text run "tokenize --count" 0 "^4$" ./kvroutectl tokenize --tokenizer $tok --count
stdin=$tmp/texts run "tokenize --null" 0 "^83 259 220$
^$
^401$" ./kvroutectl tokenize --tokenizer $tok --null
stdin=$tmp/text run "tokenize, a rank file" 0 "^83 259 220 27 91 " \
	./kvroutectl tokenize --tokenizer tests/data/tok/small.tiktoken --pattern gpt2
run "tokenize, a rank file without a pattern" 1 "needs a pattern" \
	./kvroutectl tokenize --tokenizer tests/data/tok/small.tiktoken
stdin=$tmp/text run "tokenize, tekken.json" 0 "^1 156 299 72 100 164 303 140 164 102$" \
	./kvroutectl tokenize --tokenizer tests/data/tok/small.tekken.json --special
printf 'e\314\201' > "$tmp/e"
stdin=$tmp/e run "tokenize, a rank file with NFC" 0 "^127 102$" \
	./kvroutectl tokenize --tokenizer tests/data/tok/small.tiktoken \
	--pattern gpt2 --normalizer nfc
stdin=$tmp/e run "tokenize, a normalizer that is none" 64 "usage" \
	./kvroutectl tokenize --tokenizer tests/data/tok/small.tiktoken \
	--pattern gpt2 --normalizer nfkc
run "tokenize, an unsupported file" 1 \
	"words.json:2:11: model.type: a tokenizer of kind WordLevel.*leave the model in mode: text" \
	./kvroutectl tokenize --tokenizer "$tmp/words.json"
printf 'The \346\235\261 caf\303\251' > "$tmp/bert"
stdin=$tmp/bert run "tokenize, WordPiece" 0 "^2 108 68 314 3$" \
	./kvroutectl tokenize --tokenizer tests/data/tok/wordpiece.tokenizer.json --special
run "tokenize, a packed file" 1 "gzip -dk" ./kvroutectl tokenize --tokenizer "$tmp/tok.json.gz"
run "tokenize, no such file" 1 "no-such.json: No such file" \
	./kvroutectl tokenize --tokenizer "$tmp/no-such.json"
run "tokenize, no such configuration" 1 "no-such.json: No such file" \
	./kvroutectl tokenize --tokenizer $tok --config "$tmp/no-such.json"

# no command prints any part of a prompt
printf '{"messages":[{"role":"user","content":"canary-7531"}],"model":"llama"}' > "$tmp/canary.json"
out=$(./kvroutectl pages -f "$tmp/good.yaml" --keys < "$tmp/canary.json" 2>&1)
! grep -q canary <<< "$out"
result $? "the output contains no text"
finish
