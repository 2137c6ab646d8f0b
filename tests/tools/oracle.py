#!/usr/bin/env python3
"""oracle.py - compare token ids with those of Hugging Face's tokenizers, tiktoken and
mistral_common, and the speed of each on one thread.

	make oracle                           all vocabularies that are there, natural and generated text
	python3 tests/tools/oracle.py fixtures    writes tests/data/tok/*.json, *.tiktoken and *.cases anew
	python3 tests/tools/oracle.py fixtures tekken    of these only small.tekken.json, with
                                          "wordpiece" those of WordPiece and Unigram, with
                                          "families" those of the families of oracle_families.py

Installs them from PyPI into its own virtual environment, build/oracle. Without PyPI it prints that
and exits with 0. The vocabularies are those of ../shared/data/tokenizers and of mistral_common's
own wheel; without them only the small ones of tests/data/tok are compared.
"""
import base64
import glob
import gzip
import json
import os
import random
import subprocess
import sys
import time
import unicodedata

import oracle_families as families

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HOME = os.path.join(ROOT, "build", "oracle")
DATA = os.path.join(ROOT, "..", "shared", "data", "tokenizers")
PACKAGES = ["tokenizers==0.22.*", "tiktoken"]
# skipped by name where they cannot be had
OPTIONAL = ["mistral-common==1.13.*", "sentencepiece==0.2.*"]
PATTERNS = {"kimi_k2": "kimi", "o200k_base": "o200k"}
BENCH_SECONDS = 1.0


def inside(program=os.path.abspath(__file__)):
    """Run <program> again with the packages, or print that they are not available."""
    python = os.path.join(HOME, "bin", "python")
    if os.path.abspath(sys.prefix) == os.path.abspath(HOME):
        return
    try:
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", HOME], check=True, capture_output=True)
        if subprocess.run([python, "-c", "import tokenizers, tiktoken"],
                          capture_output=True).returncode:
            subprocess.run([python, "-m", "pip", "-q", "install", *PACKAGES], check=True,
                           capture_output=True, timeout=600)
        if subprocess.run([python, "-c", "import mistral_common, sentencepiece"],
                          capture_output=True).returncode:
            subprocess.run([python, "-m", "pip", "-q", "install", *OPTIONAL], capture_output=True,
                           timeout=600)
    except (subprocess.SubprocessError, OSError) as e:
        said = (getattr(e, "stderr", b"") or b"").decode(errors="replace").strip().splitlines()
        print(f"skipped: oracle: PyPI cannot be had ({said[-1] if said else e})")
        sys.exit(0)
    os.execv(python, [python, program, *sys.argv[1:]])


# ---- texts 

def natural():
    """The tree's own prose and code, and the recorded small texts."""
    out = {}
    prose, code = "", ""
    for f in sorted(glob.glob(f"{ROOT}/doc/*.[58]") + glob.glob(f"{ROOT}/*.md")
                    + glob.glob(f"{ROOT}/doc/*.md")):
        prose += open(f, encoding="utf-8").read()
    for f in sorted(glob.glob(f"{ROOT}/agent/*/*.[ch]") + glob.glob(f"{ROOT}/tests/it/*.py")):
        code += open(f, encoding="utf-8").read()
    out["prose"] = prose
    out["code"] = code[:2_000_000]
    return out


SCRIPTS = [(0x20, 0x7e), (0x20, 0x7e), (0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x52f),
           (0x590, 0x6ff), (0x900, 0x97f),
           (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x218f),
           (0x2460, 0x24ff),
           (0x3000, 0x30ff), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0x4e00, 0x9fff), (0xac00, 0xd7a3),
           (0xf900, 0xfaff),
           (0xff00, 0xffef), (0x1f300, 0x1f6ff), (0x20000, 0x2a6df), (0x10000, 0x10fff),
           (0xe000, 0xe0ff)]
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028",
          "\u180e", "\u200b", "\x0b", "\x85", " \n "]
PIECES = ["it's", "I'LL", "we\u2019re", "'\u017f", "don't", "123", "12345", "1.5e-3", "\u00bd",
          "\u2167", "\u0663\u0664", "_x_", "<|", "|>", "<", "[",
          "]", "[INST]", "</s>", "<s>", "http://a.b/c?d=e", "foo_bar", "camelCaseWord",
          "HTTPServer", "\u4eca\u65e5\u306f", "\ud55c\uad6d\uc5b4", "e\u0301",
          "\u1112\u1161\u11ab", "\ufb01", "\u212b", "\u1100", "\u0f73", "\x00"[:0], "\x01", "\x7f",
          "\ufffd", "\ufeff", "\U0001f468\u200d\U0001f469"]


def word(r):
    k = r.random()
    if k < 0.25:
        return r.choice(PIECES)
    if k < 0.5:
        return "".join(r.choice("etaoinshrdlu") for _ in range(r.randint(1, 9)))
    if k < 0.55:
        return r.choice("aeZ=- .\u3042") * r.randint(2, 60)
    if k < 0.62:
        return "".join(chr(r.randint(*r.choice(SCRIPTS))) for _ in range(r.randint(1, 6)))
    lo, hi = r.choice(SCRIPTS)
    return "".join(chr(r.randint(lo, hi)) for _ in range(r.randint(1, 8)))


def generated(seed, n, contents):
    r = random.Random(seed)
    out = [""]
    for _ in range(n):
        s = ""
        for _ in range(r.randint(1, 40)):
            s += word(r) if r.random() < 0.6 else r.choice(SPACES)
            if contents and r.random() < 0.08:
                c = r.choice(contents)
                s += c if r.random() < 0.7 else c[:r.randint(0, len(c))]
        out.append("".join(c for c in s if c != "\0" and not 0xd800 <= ord(c) < 0xe000))
    return out


# ---- encoders 

def ours(args, texts, special=False):
    p = subprocess.run([f"{ROOT}/kvroutectl", "tokenize", "--null", *args,
                        *(["--special"] if special else [])],
                       input=b"".join(t.encode() + b"\0" for t in texts), capture_output=True)
    if p.returncode:
        return p.stderr.decode().strip()
    return [[int(i) for i in line.split()] for line in p.stdout.decode().split("\n")[:-1]]


def our_speed(args, text):
    p = subprocess.run([f"{ROOT}/kvroutectl", "tokenize", "--bench", "--count", *args],
                       input=text.encode(), capture_output=True)
    said = dict(w.split("=") for w in p.stderr.decode().split() if "=" in w)
    return float(said["mb_s"]), float(said["first_mb_s"]), float(said["load_ms"])


def their_speed(encode, text):
    n = len(text.encode())
    encode(text[:2000])
    begun, rounds = time.perf_counter(), 0
    while time.perf_counter() - begun < BENCH_SECONDS:
        encode(text)
        rounds += 1
    return n * rounds / (time.perf_counter() - begun) / 1e6


class Huggingface:
    def __init__(self, path):
        from tokenizers import Tokenizer
        self.t = Tokenizer.from_file(path)
        self.contents = [a.content for a in self.t.get_added_tokens_decoder().values()]

    def ids(self, text, special):
        return self.t.encode(text, add_special_tokens=special).ids

    def encode(self, text):
        self.t.encode(text, add_special_tokens=False)


class Tiktoken:
    def __init__(self, path, pattern, special=None, nfc=False):
        import tiktoken
        ranks = {}
        for line in open(path, "rb"):
            if line.strip():
                token, rank = line.split()
                ranks[base64.b64decode(token)] = int(rank)
        self.special = {name: len(ranks) + i for i, name in enumerate(special or [])}
        self.contents = list(self.special)
        self.nfc = nfc
        self.t = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks,
                                   special_tokens=self.special)

    def ids(self, text, special):
        """Qwen's first models normalise the whole text before they search for special tokens
        (tokenization_qwen.py)."""
        if self.nfc:
            text = unicodedata.normalize("NFC", text)
        return self.t.encode(text, allowed_special="all", disallowed_special=())

    def encode(self, text):
        self.t.encode_ordinary(text)


class Mistral:
    def __init__(self, path):
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
        self.t = Tekkenizer.from_file(path)
        self.contents = [t["token_str"] for t in self.t._all_special_tokens[:40]]

    def ids(self, text, special):
        return self.t.encode(text, bos=special, eos=False)

    def encode(self, text):
        self.t.encode(text, bos=False, eos=False)


def tekkens():
    """Return the files in mistral_common's wheel; None: it is not installed."""
    try:
        import mistral_common
    except ImportError:
        return None
    return sorted(glob.glob(os.path.join(os.path.dirname(mistral_common.__file__), "data",
                                         "tekken*.json")))


def models():
    """Return models of SentencePiece: ours, those of the data, those in mistral_common's wheel."""
    try:
        import sentencepiece    # noqa: F401
    except ImportError:
        print("skipped: models of SentencePiece: sentencepiece cannot be had")
        return []
    out = [f"{ROOT}/tests/data/tok/{n}.model" for n in families.MODELS]
    out += [f if f.endswith("model") else unpacked(f) for f in sorted(glob.glob(f"{DATA}/spm/*"))]
    for f in tekkens() or []:
        if f.endswith("240911.json"):
            out += sorted(glob.glob(os.path.dirname(f) + "/*.model*"))
    return out


def old_marks(text):
    """Return the text without marks and composites newer than Unicode 9, because NFC of the
    tokenizers library and ours knows those of 9, unicodedata those of 14."""
    newer = [(0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xc3c, 0xc3c), (0x105c9, 0x105c9), (0x105e4, 0x105e4),
             (0x10d24, 0x10d27), (0x10d69, 0x10d6d), (0x10eab, 0x10eac),
             (0x10efd, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85)]
    return "".join(c for c in text if not any(a <= ord(c) <= b for a, b in newer))


def compare(name, args, theirs, texts, rounds):
    """Compare our ids and theirs of every text, and print the first that differ."""
    bad = n = 0
    for special in (False, True):
        all_texts = texts + generated(len(name) + special, rounds, theirs.contents[:200])
        if getattr(theirs, "nfc", False):
            all_texts = [old_marks(t) for t in all_texts]
        got = ours(args, all_texts, special)
        if isinstance(got, str):
            print(f"FAIL  {name}: {got}")
            return 1
        for t, mine in zip(all_texts, got):
            want = theirs.ids(t, special)
            n += 1
            if mine != want:
                bad += 1
                at = next((i for i, (a, b) in enumerate(zip(mine, want)) if a != b),
                          min(len(mine), len(want)))
                if bad <= 3:
                    print(f"FAIL  {name}: {t[:300]!r}\n      at {at}: ours {mine[at:at + 8]}, "
                          f"theirs {want[at:at + 8]}")
    print(f"{'ok   ' if not bad else 'FAIL '} {name}: {n - bad} of {n} texts")
    return 1 if bad else 0


def unpacked(path):
    out = os.path.join(HOME, os.path.basename(path)[:-3])
    if not os.path.exists(out):
        with gzip.open(path) as f, open(out + ".part", "wb") as o:
            o.write(f.read())
        os.rename(out + ".part", out)
    return out


def vocabularies():
    for path in sorted(glob.glob(f"{ROOT}/tests/data/tok/*.tokenizer.json")):
        yield os.path.basename(path)[:-len(".tokenizer.json")], path, None
    for path in sorted(glob.glob(f"{DATA}/tokenizer_json/*.gz")):
        name = os.path.basename(path)[:-len(".tokenizer.json.gz")]
        if name != "kimi-k2":	# its ids have gaps, which tokenizers closes and we reject
            yield name, unpacked(path), None
    for path in sorted(glob.glob(f"{DATA}/tiktoken/*.gz")):
        name = os.path.basename(path)[:-len(".tiktoken.gz")]
        yield name + ".tiktoken", unpacked(path), PATTERNS[name]


Q2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| "
      r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>",
                "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
SPELLED = ["e\u0301", "n\u0303o", "<|im_end|>\u0338", "<|im_end|>\u0301\u0338",
           "<|im_end|>\u0335\u0338", "<|im_end|>\u0301", "\u1112\u1161\u11ab", "\u0958",
           "<|im_start|>user\nA\u030a<|im_end|>", "\u212b", "\u0344", "<|extra_204|>\u0f73",
           "<|im_end|>\u093c"]


def qwen_ranks():
    """Qwen's vocabulary as the rank file that its first models had, or the small one."""
    source, out = f"{DATA}/tokenizer_json/qwen3.tokenizer.json.gz", os.path.join(
        HOME, "qwen.tiktoken")
    if not os.path.exists(source):
        return f"{ROOT}/tests/data/tok/small.tiktoken"
    if not os.path.exists(out):
        inverse = {c: b for b, c in bytes_to_unicode().items()}
        vocab = json.load(open(unpacked(source)))["model"]["vocab"]
        with open(out + ".part", "w") as f:
            for k, v in sorted(vocab.items(), key=lambda kv: kv[1]):
                f.write(base64.b64encode(bytes(inverse[c] for c in k)).decode() + f" {v}\n")
        os.rename(out + ".part", out)
    return out


def other_files(texts, rounds):
    """tekken.json and rank files with NFC, where their libraries are."""
    path = qwen_ranks()
    spelled = [a + w + b for a in ("", "x ", "<|im_start|>") for w in SPELLED
               for b in ("", " y", "\u0301")]
    yield compare("qwen.tiktoken", ["--tokenizer", path, "--pattern", "qwen"],
                  Tiktoken(path, Q2, QWEN_SPECIAL, True), texts + spelled, rounds)
    path = f"{ROOT}/tests/data/tok/small.tiktoken"
    yield compare("small.tiktoken, an expression and nfc",
                  ["--tokenizer", path, "--pattern", Q2, "--normalizer", "nfc"],
                  Tiktoken(path, Q2, None, True), texts + spelled, rounds)
    for path in models():
        yield compare(os.path.basename(path), ["--tokenizer", path], families.Sentencepiece(path),
                      texts, rounds)
    files = tekkens()
    if files is None:
        print("skipped: tekken.json: mistral-common cannot be had")
        return
    for path in [f"{ROOT}/tests/data/tok/small.tekken.json", *files]:
        yield compare(os.path.basename(path), ["--tokenizer", path], Mistral(path), texts, rounds)


def kimi_in_tiktoken(pattern_json):
    return json.load(open(pattern_json))["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]


def compare_all(rounds):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    text = natural()
    texts = [text["prose"], text["code"][:300_000]]
    bad = n = 0
    for name, path, pattern in vocabularies():
        if pattern is None:
            args, theirs = ["--tokenizer", path], Huggingface(path)
        else:
            source = {"kimi": "kimi-k2", "o200k": "gpt-oss"}[pattern]
            regex = kimi_in_tiktoken(unpacked(f"{DATA}/tokenizer_json/{source}.tokenizer.json.gz"))
            args, theirs = ["--tokenizer", path, "--pattern", pattern], Tiktoken(path, regex)
        n += 1
        wrong = compare(name, args, theirs, texts, rounds)
        bad += wrong
        if isinstance(ours(args, []), str):
            continue
        for kind, t in text.items():
            warm, first, load = our_speed(args, t[:1_000_000])
            other = their_speed(theirs.encode, t[:1_000_000])
            print(f"bench tokenize vocabulary={name} text={kind} "
                  f"bytes={len(t[:1_000_000].encode())} ours_mb_s={warm:.1f} "
                  f"ours_first_mb_s={first:.1f} theirs_mb_s={other:.1f} load_ms={load:.0f}",
                  flush=True)
    for wrong in other_files(texts, rounds):
        n += 1
        bad += wrong
    print(f"{n - bad} passed, {bad} failed")
    return 1 if bad else 0


# ---- fixtures 

CASES = ["", "a", " ", "Hello world, it's 12345!", "the router, the routers and the routing",
         "  two  spaces \n\n and lines\r\n", "na\u00efve caf\u00e9 \u65e5\u672c\u8a9e",
         "e\u0301 and \u00e9", "<|end|>x<|end|><|endless|>", "a <|strip|>  b", "a  <|left|>  b",
         "wordy word word. sword", "\u0000 \u007f \U0001f600",
         "UPPER Case", "x<|END|>y", "<s>[PAD]</s> <pad>", "tab\tand\u00a0more\u3000",
         "        eight spaces", "request requests requested",
         "word", "(word)", "word\u00b2", "word_", " word\u0301", "<|strip|>        <|strip|>    x",
         "<|left|>\u3000<|left|>", "<|end|", "|>", "\u2581under"]


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def write_cases(name, path, theirs=None, who="tokenizers 0.22", more=None):
    theirs = theirs or Huggingface(path)
    out = (f"Texts and what {who} makes of them by {os.path.basename(path)}, without and with "
           f"special tokens. The text is JSON.\n")
    for t in CASES + (more or []):
        out += f"\n{json.dumps(t)}\n" + " ".join(map(str,
                                                     theirs.ids(t, False))) + "\n" + " ".join(
                                                         map(str, theirs.ids(t, True))) + "\n"
    write(f"{ROOT}/tests/data/tok/{name}.cases", out)


def save(t, name, change=None, more=None):
    path = f"{ROOT}/tests/data/tok/{name}.tokenizer.json"
    d = json.loads(t.to_str())
    if change:
        change(d)
    write(path, json.dumps(d, ensure_ascii=False, indent=1) + "\n")
    write_cases(name, path, more=more)
    return d


TEKKEN_SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]",
                  "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
                  "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]",
                  "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
                  "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[TRANSCRIBE]", "[AUDIO]", "[BEGIN_AUDIO]",
                  "<SPECIAL_23>", "<SPECIAL_24>", "<SPECIAL_25>",
                  "<SPECIAL_26>", "<SPECIAL_27>", "<SPECIAL_28>", "<SPECIAL_29>", "<SPECIAL_30>",
                  "<SPECIAL_31>", "[ARGS]", "[CALL_ID]",
                  "[THINK]", "[/THINK]", "[MODEL_SETTINGS]", "[/MODEL_SETTINGS]"]
TEK = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
       r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
       r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def tekken_fixture(corpus):
    """A tekken.json of 256 bytes, 160 words, 8 words above its size, and 40 special tokens of which
    the last two are not listed."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(TEK), "isolated"),
                                               pre_tokenizers.ByteLevel(False, use_regex=False)])
    t.train_from_iterator(corpus,
                          trainers.BpeTrainer(vocab_size=424, show_progress=False,
                                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    inverse = {c: b for b, c in bytes_to_unicode().items()}
    words = sorted(((v, bytes(inverse[c] for c in k)) for k, v in t.get_vocab().items()
                    if len(k) > 1))
    tokens = [bytes([b]) for b in range(256)] + [w for _, w in words]

    def text_of(b):
        try:
            return b.decode()
        except UnicodeDecodeError:
            return None
    d = {"config": {"pattern": TEK, "num_vocab_tokens": len(tokens), "default_vocab_size": 40 + 416,
                    "default_num_special_tokens": 40, "version": "v13"},
         "vocab": [{"rank": i, "token_bytes": base64.b64encode(b).decode(), "token_str": text_of(b)}
                   for i, b in enumerate(tokens)],
         "special_tokens": [{"rank": i, "token_str": s, "is_control": True}
                            for i, s in enumerate(TEKKEN_SPECIAL)]}
    path = f"{ROOT}/tests/data/tok/small.tekken.json"
    head = json.dumps({"config": d["config"]}, indent=1)[:-2]
    write(path,
          head + ',\n "vocab": [\n  '
          + ",\n  ".join(json.dumps(v, ensure_ascii=False) for v in d["vocab"])
          + '\n ],\n "special_tokens": [\n  ' +
          ",\n  ".join(json.dumps(v) for v in d["special_tokens"]) + "\n ]\n}\n")
    write_cases("small.tekken", path, Mistral(path), "mistral_common 1.13",
                ["[INST]hi[/INST]</s>", "<SPECIAL_38>\u00e9", "ROUTERs and\r\n/x"])


WORDPIECE_CASES = ["Caf\u00e9 \u00c5ngstr\u00f6m \u0130stanbul e\u0301\u0327",
                   "\u6771\u4eac\u90fd\u3092 router\u6771 \ufa0e \U0002b820 \U0002b920",
                   "a\u0000b\u00adc\u200bd\ufffde\u0085f\u180eg",
                   "tab\tnew\nline\rnbsp\u00a0thin\u2009ideographic\u3000end",
                   "don't-stop... (the) [router] {why}? \u00bfqu\u00e9? \u201cso\u201d $5+3=8",
                   "\u0903\u093e \u0e33 \u1734 \u20dd \u0483", "r" * 100, "r" * 101,
                   "ro" * 60, "\u00e9" * 50 + "r" * 51, "routerrouter", "q\u2603", "\u2603",
                   "[CLS] the [SEP][MASK] [mask]  the[UNK]", "\U0001f600the", "## ##s #s"]


FAMILY_CASES = [
    "\ufb01ne \u2122 \uff21\u3000x\u200by",
    "e\u0301 o\u0301 o on one\u0301 \u0928\u093c",
    "\u0600a \xa9\u200d \xa9\u200d\xa9 \xe9\u0301\u0301 o\u0301\u0301\u0301",
    "\r\n \r \n\r \t\t x\t",
    "\U0001f600\U0001f600\ufe0f \U0001f1e9\U0001f1ea\U0001f1e9",
    "\uac00\u11a8 \u1100\u1161\u11a8 \uac00",
    "\u0915\u094d\u0937\u093f \u0915\u094d \u0e01\u0e33",
    "\x01\x02\x8f\x9f\ufeff \u2581\u2581 \u212b",
    "   a    b     ",
    "<user>x <user>y<user",
    "</w> x</w>y router</w> routers",
    "\xff\xe9\u6771",
    "</s><s><unk><0x41>"]


def wordpiece_fixture(corpus):
    """WordPiece with BertNormalizer, as uncased BERT has them, and the same cased."""
    from tokenizers import (AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors,
                            trainers)
    for name, cased in (("wordpiece", False), ("wordpiece_cased", True)):
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer(lowercase=not cased)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
        t.train_from_iterator(corpus + ["caf\u00e9 \u6771\u4eac e\u0301"] * 9,
                              trainers.WordPieceTrainer(vocab_size=600, show_progress=False,
                                                        special_tokens=named))
        t.add_special_tokens([AddedToken("[MASK]", special=True, lstrip=True)])
        t.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        save(t, name, more=WORDPIECE_CASES)


def unigram_fixture(corpus):
    """Unigram with byte_fallback."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(corpus, trainers.UnigramTrainer(
        vocab_size=700, show_progress=False, unk_token="<unk>",
        special_tokens=["<s>", "</s>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]))
    t.post_processor = processors.TemplateProcessing(single="$A </s>",
                                                     special_tokens=[("</s>", 1)])

    def fallback(d):
        d["added_tokens"] = d["added_tokens"][:3]
        d["model"]["byte_fallback"] = True
    save(t, "unigram", fallback, WORDPIECE_CASES + ["x<unk>\u2603\u2604<unk >"])


def precompiled_fixture(corpus):
    """Unigram with a table of replacements, as bge-m3 has it, and Nmt."""
    from tokenizers import (Regex, Tokenizer, models, normalizers, pre_tokenizers, processors,
                            trainers)
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(families.charsmap()),
                                         normalizers.Nmt(),
                                         normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "\u2581")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(corpus, trainers.UnigramTrainer(
        vocab_size=600, show_progress=False, unk_token="<unk>",
        special_tokens=["<s>", "</s>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[
        ("<s>", 0), ("</s>", 1)])

    def fallback(d):
        d["added_tokens"] = d["added_tokens"][:3]
        d["model"]["byte_fallback"] = True
    save(t, "precompiled", fallback, FAMILY_CASES)


def suffix_fixture(corpus):
    """Byte-level BPE whose words end in </w>, as CLIP has it."""
    from tokenizers import (AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers,
                            trainers)
    t = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                         normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"),
                             "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    letters = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=900, show_progress=False, end_of_word_suffix="</w>",
        initial_alphabet=letters))

    def ends(d):
        v = d["model"]["vocab"]
        for c in sorted(letters):
            v.setdefault(c + "</w>", len(v))
        v["<|end|>"] = len(v)
        d["model"]["unk_token"] = "<|end|>"
        d["added_tokens"] = [{"id": v["<|end|>"], "content": "<|end|>", "single_word": False,
                              "lstrip": False, "rstrip": False, "normalized": False,
                              "special": True}]
    save(t, "suffix", ends, FAMILY_CASES)


KEPT_CASES = [
    "<user>", "<user>x<us", "x<user", "<user>xer>x", "<us<user><user>xx", "a<user> <user>x b",
    "<s><user></s>\u2581<unk>", "a b", " a b c ", "aa b c d  b c  ", "a  b", "a\u2581b c",
    "\ufb01 \ufb01n \ufb01ne \ufb01ner", "e\u0301e\u0301\u0301 \u00e9 one\u0301", "on one oon moon",
    "\u2581\u2581 \u2581\u2581the the \u2581the", "<user>\u2581<user>x\u2581\u2581\u2581<us",
    " the router the routers the  router", "\r\n\n\r\n \r\n", "\u65e5\u672c\u8a9e\u672c\u8a9e",
    "x.\u00a9\u200d.\u00a9\u212b ...", "  \u2581\u2581", "\u2581\u2581", "\u2581", "     ",
    " x\u2581 ",
    "z" * 63, "z" * 64, "z" * 65, "z" * 71 + "y", "yz " + "z" * 141, "o " * 20]


def model_fixtures():
    """Models of SentencePiece."""
    families.write_models(f"{ROOT}/tests/data/tok")
    for name in families.MODELS:
        path = f"{ROOT}/tests/data/tok/{name}.model"
        write_cases(name + ".model", path, families.Sentencepiece(path), "SentencePiece 0.2",
                    FAMILY_CASES + (KEPT_CASES if name in ("lattice", "kept", "spaces") else []))


def fixtures():
    from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                            processors, trainers)
    corpus = open(f"{ROOT}/README.md", encoding="utf-8").read().split("\n")
    os.makedirs(f"{ROOT}/tests/data/tok", exist_ok=True)
    if sys.argv[2:] == ["families"]:
        precompiled_fixture(corpus)
        suffix_fixture(corpus)
        model_fixtures()
        return
    if sys.argv[2:] == ["wordpiece"]:
        wordpiece_fixture(corpus)
        unigram_fixture(corpus)
        return
    if tekkens() is None:
        print("skipped: small.tekken.json: mistral-common cannot be had")
    else:
        tekken_fixture(corpus)
    if sys.argv[2:] == ["tekken"]:
        return
    wordpiece_fixture(corpus)
    unigram_fixture(corpus)
    precompiled_fixture(corpus)
    suffix_fixture(corpus)
    model_fixtures()

    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=400, show_progress=False,
                                                      initial_alphabet=letters))
    t.add_special_tokens([AddedToken("<|begin|>", special=True),
                          AddedToken("<|end|>", special=True),
                          AddedToken("<|endless|>", special=True),
                          AddedToken("<|strip|>", special=True, lstrip=True, rstrip=True),
                          AddedToken("<|left|>", special=True, lstrip=True)])
    t.add_tokens([AddedToken("word", single_word=True, normalized=True),
                  AddedToken("    ", normalized=False),
                  AddedToken("caf\u00e9", normalized=True), AddedToken("e\u0301", normalized=True)])
    t.post_processor = processors.TemplateProcessing(single="<|begin|> $A <|end|>", special_tokens=[
        ("<|begin|>", t.token_to_id("<|begin|>")), ("<|end|>", t.token_to_id("<|end|>"))])
    d = save(t, "small")
    ranked = sorted(d["model"]["vocab"].items(), key=lambda kv: kv[1])
    inverse = {c: b for b, c in bytes_to_unicode().items()}
    write(f"{ROOT}/tests/data/tok/small.tiktoken", "".join(
        base64.b64encode(bytes(inverse[c] for c in k)).decode() + f" {v}\n" for k, v in ranked))

    f = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    f.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                         normalizers.Replace(" ", "\u2581")])
    f.train_from_iterator(corpus,
                          trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=[
"<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    f.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])

    def only_three(d):
        d["added_tokens"] = d["added_tokens"][:3]
        d["model"]["merges"] = [" ".join(m) for m in d["model"]["merges"]]
    d = save(f, "fallback", only_three)

    def metaspace(d):
        only_three(d)
        d["normalizer"] = None
        d["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581",
                              "prepend_scheme": "first", "split": False}
    save(f, "metaspace", metaspace)


def bytes_to_unicode():
    seen = list(range(0x21, 0x7f)) + list(range(0xa1, 0xad)) + list(range(0xae, 0x100))
    other = [b for b in range(256) if b not in seen]
    return {**{b: chr(b) for b in seen}, **{b: chr(0x100 + i) for i, b in enumerate(other)}}


if __name__ == "__main__":
    inside()
    if sys.argv[1:2] == ["fixtures"]:
        fixtures()
    else:
        sys.exit(compare_all(int(os.environ.get("ROUNDS", "2000"))))
