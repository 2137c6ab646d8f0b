#!/bin/sh
# hostile.sh BENCH DIRECTORY - run bench_hostile with one tokenizer of each family in DIRECTORY and
# a template, and with the small tokenizers of the tree: "make bench-hostile".
set -u
bench=$1 data=$2
cpu=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)
echo "# $cpu, load $(cut -d ' ' -f 1-3 /proc/loadavg)"
tok=tests/data/tok
set -- $tok/llama.tokenizer.json $tok/fallback.tokenizer.json $tok/metaspace.tokenizer.json
with() {
	file=$1 template=$2
	[ "$template" = harmony ] || template=$data/chat/templates/$template.jinja
	[ "$template" = harmony ] || [ -f "$template" ] || return
	[ -f "$data/$file" ] && echo "$data/$file $template"
}
pairs=$(
	with tokenizer_json/llama-3.2.tokenizer.json.gz meta-llama-Llama-3.3-70B-Instruct
	with tokenizer_json/qwen3.tokenizer.json.gz Qwen-Qwen3-0.6B
	with tokenizer_json/gpt-oss.tokenizer.json.gz harmony
	with tiktoken/o200k_base.tiktoken.gz openai-gpt-oss-120b
	with tiktoken/kimi_k2.tiktoken.gz Kimi-K2-Instruct
	with tokenizer_json/gguf-deepseek-llm.tokenizer.json.gz deepseek-ai-DeepSeek-V3.1
	with tokenizer_json/gguf-deepseek-coder.tokenizer.json.gz deepseek-ai-DeepSeek-V3.2
	with tokenizer_json/kitoken-mistral03.tokenizer.json.gz mistral-common-v3
	with tokenizer_json/gguf-llama-spm.tokenizer.json.gz google-gemma-2-2b-it
	with tokenizer_json/gguf-phi-3.tokenizer.json.gz microsoft-Phi-3.5-mini-instruct
	with tokenizer_json/gguf-falcon.tokenizer.json.gz GLM-4.6
	with tokenizer_json/gguf-mpt.tokenizer.json.gz MiniMax-M2
	with tokenizer_json/gguf-gpt-2.tokenizer.json.gz mistralai-Ministral-3-14B-Reasoning-2512
	with tokenizer_json/kitoken-modernbert.tokenizer.json.gz google-gemma-4-31B-it
)
exec "$bench" ${HOSTILE_FLAGS:-} "$@" $pairs
