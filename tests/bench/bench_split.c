/* bench_split.c - speed of splitting text: the scanner of each family, and PCRE2 with the same
 * pattern, on one core.
 *
 * Texts are generated: English prose, C code, Japanese and Chinese, from words and lines below,
 * mixed by a seeded generator; 1 MB each, in batches as in the tokenizer. For comparison: memcpy of
 * the same bytes, and NFC of text that is already normal. Best of the rounds. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/rng.h"
#include "agent/tok/normal.h"
#include "agent/tok/split/split.h"
#include "tests/lib/bench.h"

#define BYTES	((size_t)1 << 20)
#define ROUNDS	15

static const char *const english[] = {
	"the ",
	"of ",
	"and ",
	"a ",
	"to ",
	"in ",
	"is ",
	"was ",
	"that ",
	"which ",
	"router ",
	"prefix, ",
	"language ",
	"tokens. ",
	"because ",
	"It ",
	"holds ",
	"longest ",
	"match; ",
	"then ",
	"waiting ",
	"isn't ",
	"they've ",
	"1984 ",
	"\"quoted\" ",
	"(perhaps) ",
	"however, ",
	"understanding ",
	"of course. ",
	"The ",
	"Mr. ",
	"people ",
	"time ",
	"has ",
	"been ",
	"their ",
	"would ",
	"there\n",
	"again.\n\n",
	"25% ",
};
static const char *const code[] = {
	"static int parse(const char *p, size_t n)\n{\n",
	"\tif (n == 0)\n\t\treturn -1;\n",
	"\tprintf(\"%s: %d\\n\", name, (int)n);\n",
	"\tfor (i = 0; i < n; i++)\n",
	"\t\tsum += table[p[i] & 0xff];\n",
	"}\n\n",
	"#include \"agent/base/json.h\"\n",
	"/* what is left */\n",
	"\tswitch (kind) {\n\tcase KIND_ONE:\n\t\tbreak;\n\t}\n",
	"        self.assertEqual(len(x), 12)\n",
	"#define BYTES_MOST\t(64 * 1024)\n",
	"\tstruct node *next = node->next;\n",
	"\tmemcpy(out + at, p, n);\n\tat += n;\n",
	"\treturn rc < 0 ? NULL : &list[rc];\n",
};
static const char *const japanese[] = {
	"これは",
	"日本語",
	"の",
	"文章",
	"です。",
	"プログラム",
	"を",
	"書く",
	"ときに",
	"、",
	"言語",
	"モデル",
	"は",
	"長い",
	"入力",
	"から",
	"始まる",
	"。\n",
	"「",
	"」",
	"東京",
	"2024年",
	"使って",
	"います",
	"が",
	"コンピュータ",
	"考える",
	"した。",
};
static const char *const chinese[] = {
	"我们",
	"的",
	"语言",
	"模型",
	"是",
	"在",
	"中国",
	"一个",
	"，",
	"。",
	"可以",
	"使用",
	"这个",
	"方法",
	"来",
	"计算",
	"和",
	"问题",
	"\n",
	"他们",
	"2023年",
	"北京",
	"大学",
	"研究",
	"人工智能",
	"“",
	"”",
	"因为",
	"所以",
	"不",
};
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static const struct text {
	const char *name;
	const char *const *word;
	uint32_t n;
} texts[] = {
	{ "english", english, COUNT(english) }, { "code", code, COUNT(code) },
	{ "japanese", japanese, COUNT(japanese) }, { "chinese", chinese, COUNT(chinese) },
};

static double now_s(void)
{
	return now_ns() / 1e9;
}

static size_t make(const struct text *t, uint8_t *out)
{
	struct rng rng;
	size_t at = 0, n;
	const char *w;

	rng_init(&rng, 1);
	for (;;) {
		w = t->word[rng_below(&rng, t->n)];
		n = strlen(w);
		if (at + n > BYTES)
			return at;
		memcpy(out + at, w, n);
		at += n;
	}
}

static size_t run(const struct split *s, struct split_scratch *c, const uint8_t *p, size_t n)
{
	static struct pieces out;
	size_t count = 0;

	while (n > 0) {
		if (split_next(s, c, p, n, true, true, &out) < 0) {
			fprintf(stderr, "bench_split: split_next\n");
			exit(1);
		}
		count += out.n;
		p += out.used;
		n -= out.used;
	}
	return count;
}

static void bench(const char *family, const char *how, const struct split *s,
    struct split_scratch *c, const struct text *t, const uint8_t *p, size_t n)
{
	double best = 1e9, start;
	size_t pieces = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		start = now_s();
		pieces = run(s, c, p, n);
		if (now_s() - start < best)
			best = now_s() - start;
	}
	printf("bench split family=%s by=%s text=%s mb_s=%.0f pieces=%zu bytes_each=%.1f\n", family,
	    how, t->name, (double)n / best / 1e6, pieces, (double)n / (double)pieces);
}

/* NFC, which Qwen applies first, of text that is already in NFC. */
static void bench_nfc(const struct text *t, const uint8_t *p, size_t n)
{
	struct normal_step step = { .kind = NORMAL_NFC };
	struct normal *m = normal_new(&step, 1, NULL);
	struct normal_buf b = { .work = NULL };
	double best = 1e9, start;
	struct span out;
	int i;

	for (i = 0; m != NULL && i < ROUNDS; i++) {
		start = now_s();
		normal_run(m, &b, span_of(p, n), &out);
		if (now_s() - start < best)
			best = now_s() - start;
	}
	printf("bench split family=none by=nfc text=%s mb_s=%.0f copied=%d\n", t->name,
	    (double)n / best / 1e6, out.p != (const char *)p);
	normal_buf_fini(&b);
	normal_free(m);
}

static void bench_copy(const struct text *t, const uint8_t *p, size_t n, uint8_t *to)
{
	double best = 1e9, start;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		start = now_s();
		memcpy(to, p, n);
		__asm__ volatile("" : : "r"(to) : "memory");
		if (now_s() - start < best)
			best = now_s() - start;
	}
	printf("bench split family=none by=memcpy text=%s mb_s=%.0f\n", t->name, (double)n / best / 1e6);
}

/* <wrap>: in a group, so that the pattern is not known by hand. */
static struct split *make_split(const char *const *pattern, bool wrap)
{
	struct split_step step[4] = { 0 };
	static char text[4][2048];
	struct err e;
	struct split *s;
	size_t n = 0;

	for (; pattern[n] != NULL; n++) {
		snprintf(text[n], sizeof(text[n]), wrap ? "(?:%s)" : "%s", pattern[n]);
		step[n] = (struct split_step){ .kind = STEP_REGEX,
			.pattern = span_str(text[n]),
			.behaviour = SPLIT_ISOLATED };
	}
	if ((s = split_new(step, n, &e)) != NULL)
		return s;
	fprintf(stderr, "bench_split: %s\n", e.text);
	exit(1);
}

#define DEEPSEEK	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" \
	"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
			" ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

int main(void)
{
	static const char *const family[] = { "cl100k", "qwen2", "qwen3.5", "o200k", "tekken",
		"kimi", "gpt2", "deepseek" };
	uint8_t *p = malloc(BYTES), *to = malloc(BYTES);
	struct split_scratch *c = split_scratch_new();
	size_t i, k, n;

	if (p == NULL || to == NULL || c == NULL)
		return 1;
	for (k = 0; k < COUNT(texts); k++) {
		n = make(&texts[k], p);
		bench_copy(&texts[k], p, n, to);
		bench_nfc(&texts[k], p, n);
		for (i = 0; i < COUNT(family); i++) {
			const char *known[2] = { split_known_pattern(family[i]).p, NULL };
			const char *three[4] = { "\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK, NULL };
			const char *const *pattern = known[0] ? known : three;
			struct split *hand = make_split(pattern, false), *pcre = make_split(pattern, true);

			bench(family[i], "hand", hand, c, &texts[k], p, n);
			bench(family[i], "pcre2", pcre, c, &texts[k], p, n);
			split_free(hand);
			split_free(pcre);
		}
	}
	split_scratch_free(c);
	free(p);
	free(to);
	return 0;
}
