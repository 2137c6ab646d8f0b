/* hostile.h - bodies that cost as much as possible: `make bench-hostile` measures their time, and
 * tests/unit/route/test_hostile.c counts.
 *
 *   texts    hard for a tokenizer: pieces that no cache has, endless pieces, alternating scripts,
 *            almost tokens
 *   shapes   hard for a scanner, a reader of JSON or a template: many messages, tools, parts, keys,
 *            levels, escapes
 *
 * A text is the prompt of a completion, or the content of one message; a shape is a whole body. All
 * of a kind, a size and a seed. */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rng.h"
#include "agent/tok/unicode/unicode.h"

#define HOSTILE_ROOM	65536u		/* more than the requested size */

static const char *const hostile_texts[] = {
	"english",
	"words",
	"long-words",
	"short-words",
	"camel",
	"one-letter",
	"two-letters",
	"spaces",
	"lines",
	"digits",
	"hex",
	"base64",
	"punctuation",
	"scripts",
	"ideographs",
	"kana",
	"jamo",
	"emoji",
	"marks",
	"rare",
	"near-merges",
	"special",
	"bomb",
	"english-cut",
	"controls",
	"tail",
	"code",
	"chinese",
};
/* What people send: its ids must not be lost. */
static inline bool hostile_is_benign(const char *kind)
{
	return strcmp(kind, "english") == 0 || strcmp(kind, "code") == 0 || strcmp(kind, "chinese") == 0;
}

#define HOSTILE_TEXTS	(sizeof(hostile_texts) / sizeof(*hostile_texts))

static const char *const hostile_shapes[] = {
	"messages",
	"tools",
	"deep-tool",
	"wide-tool",
	"null-tool",
	"calls",
	"call-values",
	"parts",
	"escapes",
	"keys",
	"values",
	"levels",
	"again",
	"prompts",
	"arguments",
	"think",
	"empty-dicts",
	"blanks",
	"cut-messages",
	"long-key",
	"numbers",
	"tags",
	"spaced",
	"quotes",
	"tool-controls",
};
#define HOSTILE_SHAPES	(sizeof(hostile_shapes) / sizeof(*hostile_shapes))

struct hostile {
	char *p;
	size_t n, most;
	struct rng rng;
};

/* Room for HOSTILE_ROOM more bytes than <most>. */
static inline void hostile_start(struct hostile *h, char *p, size_t most, uint64_t seed)
{
	*h = (struct hostile){ .p = p, .most = most };
	rng_init(&h->rng, seed);
}

static inline bool hostile_more(const struct hostile *h)
{
	return h->n < h->most;
}

__attribute__((format(printf, 2, 3)))
static inline void hostile_say(struct hostile *h, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	h->n += (size_t)vsnprintf(h->p + h->n, HOSTILE_ROOM / 2, fmt, ap);
	va_end(ap);
}

static inline void hostile_put(struct hostile *h, uint32_t cp)
{
	h->n += utf8_put((uint8_t *)h->p + h->n, cp);
}

static inline uint32_t hostile_of(struct hostile *h, uint32_t first, uint32_t last)
{
	return first + rng_below(&h->rng, last - first + 1);
}

static inline void hostile_word(struct hostile *h, uint32_t least, uint32_t most)
{
	for (uint32_t n = hostile_of(h, least, most); n > 0; n--)
		h->p[h->n++] = (char)hostile_of(h, 'a', 'z');
}

static inline void hostile_pick(struct hostile *h, const char *from)
{
	h->p[h->n++] = from[rng_below(&h->rng, (uint32_t)strlen(from))];
}

static inline void hostile_english(struct hostile *h)
{
	static const char *const words[] = {
		"the",
		"request",
		"of",
		"a",
		"server",
		"and",
		"to",
		"that",
		"pages",
		"which",
		"holds",
		"longest",
		"part",
		"prompt",
		"in",
		"its",
		"cache",
		"when",
		"it",
		"is",
		"sent",
		"by",
		"people",
		"house",
		"river",
		"morning",
		"would",
		"have",
		"been",
		"other",
		"only",
		"time",
	};

	hostile_say(h, "%s%s", words[rng_below(&h->rng, 32)], rng_below(&h->rng, 12) == 0 ? ". " : " ");
}

static inline void hostile_code(struct hostile *h)
{
	static const char *const names[] = {
		"request",
		"n_bytes",
		"self",
		"index",
		"value",
		"get_name",
		"res",
		"i",
		"buffer",
		"parse_header",
		"MAX_SIZE",
		"node",
		"err",
		"data",
	};
	static const char *const lines[] = {
		"    %s = %s(%s, %u)\\n",
		"    if %s is None or %s > %s[%u]:\\n",
		"        return %s.%s(%s)  # %u\\n",
		"def %s(%s, %s=%u):\\n",
		"for (%s = 0; %s < %s; %s++) {\\n",
		"\\t%s->%s = &%s[%u];\\n",
		"}\\n\\nstatic int %s(struct %s *%s)\\n{\\n",
		"    %s['%s'] += %s * 0.%u\\n",
		"import %s.%s as %s\\n",
		"    assert %s == '%s/%s.c:%u'\\n",
	};
	const char *a = names[rng_below(&h->rng, 14)], *b = names[rng_below(&h->rng, 14)],
		   *c = names[rng_below(&h->rng, 14)];
	uint32_t line = rng_below(&h->rng, 10), number = rng_below(&h->rng, 300);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (line == 4)
		hostile_say(h, lines[line], a, a, b, a);
	else
		hostile_say(h, lines[line], a, b, c, number);
#pragma GCC diagnostic pop
}

static inline void hostile_chinese(struct hostile *h)
{
	static const char *const words[] = {
		"的", "我们", "在", "一个", "中国", "人民", "可以", "时间", "问题", "这个", "没有", "工作", "学习", "生活", "世界", "发展",
		"北京", "今天", "因为", "所以", "但是", "如果", "知道", "看到", "说", "他", "她", "很", "不", "是", "了", "和",
		"服务器", "请求", "缓存", "长度", "文章", "语言", "模型", "数据", "技术", "公司", "朋友", "天气", "城市", "历史", "经济", "文化",
	};
	uint32_t mark = rng_below(&h->rng, 16);

	hostile_say(h, "%s%s", words[rng_below(&h->rng, 48)], mark == 0 ? "。" : mark == 1 ? "，" : "");
	if (mark == 0 && rng_below(&h->rng, 8) == 0)
		hostile_say(h, "\\n");
}

/* What tokens begin with, again and again, and then not. */
static inline void hostile_near(struct hostile *h)
{
	static const char *const starts[] = { "internationa", "administrat", "characte",
		"understandin", "respons", "differen", "XXXXXXX", "======" };

	hostile_say(h, "%s", starts[rng_below(&h->rng, 8)]);
	hostile_word(h, 1, 2);
}

/* One more unit of text <kind>, without what JSON escapes. */
static inline void hostile_unit(struct hostile *h, const char *kind)
{
	static const char *const scripts[] = { "a", "\xd0\xb6", "\xe4\xb8\xad", "\xce\xb2",
		"\xd7\x90", "\xe0\xa4\x95", "1", "-", "\xed\x95\x9c" };
#define IS(name) (strcmp(kind, name) == 0)
	if (IS("english") || IS("english-cut")) {
		hostile_english(h);
	} else if (IS("code")) {
		hostile_code(h);
	} else if (IS("chinese")) {
		hostile_chinese(h);
	} else if (IS("words")) {
		hostile_word(h, 1, 16);
		h->p[h->n++] = ' ';
	} else if (IS("long-words")) {
		hostile_word(h, 100, 300);
		h->p[h->n++] = ' ';
	} else if (IS("short-words")) {
		hostile_word(h, 2, 5);
		h->p[h->n++] = ' ';
	} else if (IS("camel")) {
		hostile_pick(h, " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	} else if (IS("one-letter")) {
		h->p[h->n++] = 'a';
	} else if (IS("two-letters")) {
		hostile_pick(h, "ab");
	} else if (IS("spaces")) {
		h->p[h->n++] = ' ';
	} else if (IS("lines")) {
		hostile_say(h, "%s", rng_below(&h->rng, 3) ? "\\n" : " ");
	} else if (IS("digits")) {
		hostile_pick(h, "0123456789");
	} else if (IS("hex")) {
		hostile_pick(h, "0123456789abcdef");
	} else if (IS("base64")) {
		hostile_pick(h, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
	} else if (IS("punctuation")) {
		hostile_pick(h, "!@#$%^&*()_+-=[]{}|;:<>,.?/'~`");
	} else if (IS("scripts")) {
		hostile_say(h, "%s", scripts[rng_below(&h->rng, 9)]);
	} else if (IS("ideographs")) {
		hostile_put(h, hostile_of(h, 0x4e00, 0x9fff));
	} else if (IS("kana")) {
		hostile_put(h, hostile_of(h, 0x3041, 0x30fa));
	} else if (IS("jamo")) {
		hostile_put(h, hostile_of(h, 0x1100, 0x11f9));
	} else if (IS("emoji")) {
		hostile_put(h, hostile_of(h, 0x1f300, 0x1faff));
	} else if (IS("marks")) {
		hostile_put(h, rng_below(&h->rng, 60) == 0 ? 'a' : hostile_of(h, 0x300, 0x36f));
	} else if (IS("rare")) {
		hostile_put(h,
		    rng_below(&h->rng, 2) ? hostile_of(h, 0x10000, 0x1fff0)
					  : hostile_of(h, 0xa000, 0xd7ff));
	} else if (IS("near-merges")) {
		hostile_near(h);
	} else if (IS("special")) {
		hostile_say(h, "%s", rng_below(&h->rng, 2) ? "<|im_start|>" : "<|end");
	} else if (IS("bomb")) {
		hostile_say(h, "%s", rng_below(&h->rng, 200) ? "a" : "!");
	} else if (IS("controls")) {
		hostile_say(h, "\\u00%02x", hostile_of(h, 1, 0x1f));
	} else {
		hostile_say(h, "%s", h->n + 64 < h->most ? "x" : " end. ");	/* "tail" */
	}
#undef IS
}

static inline void hostile_text(struct hostile *h, const char *kind)
{
	while (hostile_more(h))
		hostile_unit(h, kind);
}

/* A body that holds the text; "english-cut": its end is missing. */
static inline void hostile_body(struct hostile *h, const char *kind, bool chat)
{
	hostile_say(h, chat ? "{\"messages\":[{\"role\":\"user\",\"content\":\"" : "{\"prompt\":\"");
	hostile_text(h, kind);
	if (strcmp(kind, "english-cut") != 0)
		hostile_say(h, "%s", chat ? "\"}]}" : "\"}");
}

static inline void hostile_schema(struct hostile *h, unsigned levels)
{
	for (unsigned i = 0; i < levels; i++)
		hostile_say(h, "{\"type\":\"object\",\"properties\":{\"a\":");
	hostile_say(h, "{\"type\":\"string\"}");
	for (unsigned i = 0; i < levels; i++)
		hostile_say(h, "}}");
}

static inline void hostile_tools(struct hostile *h, const char *kind)
{
	bool wide = strcmp(kind, "wide-tool") == 0;
	unsigned i = 0;

	hostile_say(h, "{\"tools\":[");
	if (wide)
		hostile_say(h,
		    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
		    "\"parameters\":{\"type\":\"object\",\"properties\":{");
	for (; hostile_more(h); i++) {
		hostile_say(h, "%s", i > 0 ? "," : "");
		if (wide) {
			hostile_say(h, "\"p%u\":{\"type\":\"string\",\"description\":\"dd\"}", i);
			continue;
		}
		hostile_say(h, "{\"type\":\"function\",\"function\":{\"name\":\"f%u\",\"parameters\":", i);
		hostile_schema(h, strcmp(kind, "deep-tool") == 0 ? 50 : 0);
		hostile_say(h, "}}");
	}
	hostile_say(h, "%s],\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", wide ? "}}}}" : "");
}

/* A tool whose levels are all nullable, around as many properties as fit. */
static inline void hostile_nulls(struct hostile *h)
{
	unsigned i, levels = 40;

	hostile_say(h, "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":");
	for (i = 0; i < levels; i++)
		hostile_say(h, "{\"type\":\"object\",\"nullable\":true,\"properties\":{\"a\":");
	hostile_say(h, "{\"type\":\"object\",\"properties\":{\"z\":0");
	for (i = 0; hostile_more(h); i++)
		hostile_say(h, ",\"%x\":0", i);
	hostile_say(h, "}}");
	for (i = 0; i < levels; i++)
		hostile_say(h, "}}");
	hostile_say(h, "}}],\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}");
}

static inline void hostile_message(struct hostile *h, const char *kind, unsigned i)
{
#define IS(name) (strcmp(kind, name) == 0)
	if (IS("calls"))
		hostile_say(h,
		    ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c%08u\","
		    "\"type\":\"function\",\"function\":"
		    "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":%u}\"}}]},{\"role\":\"tool\","
		    "\"tool_call_id\":\"c%08u\",\"content\":\"y\"}",
		    i, i, i);
	else if (IS("think"))
		hostile_say(h,
		    ",{\"role\":\"assistant\",\"content\":\"<think>a</think>a</think>a</think>b\"},"
		    "{\"role\":\"user\",\"content\":\"y\"}");
	else
		hostile_say(h, ",{\"role\":\"%s\",\"content\":\"%u\"}", i % 2 ? "user" : "assistant", i % 10);
#undef IS
}

static inline void hostile_messages(struct hostile *h, const char *kind)
{
	unsigned i = 0;

	hostile_say(h, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}");
	for (; hostile_more(h); i++)
		hostile_message(h, kind, i);
	if (strcmp(kind, "cut-messages") == 0)
		return;
	hostile_say(h, "%s]}", i % 2 ? "" : ",{\"role\":\"user\",\"content\":\"x\"}");
}

/* <open>, then <unit> as often as it fits, <between> two, then <close>. */
static inline void hostile_repeat(
    struct hostile *h, const char *open, const char *unit, const char *between, const char *close)
{
	hostile_say(h, "%s", open);
	for (unsigned i = 0; hostile_more(h); i++) {
		hostile_say(h, "%s", i > 0 ? between : "");
		hostile_say(h, "%s", unit);
	}
	hostile_say(h, "%s", close);
}

/* What a template cuts at tags, strips and writes as JSON, in one message. */
#define HOSTILE_SAID(role)						\
	"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"	\
	"{\"role\":\"" role "\",\"content\":\""
#define HOSTILE_END	"\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"

static inline void hostile_shape(struct hostile *h, const char *kind)
{
#define IS(name) (strcmp(kind, name) == 0)
	if (IS("tools") || IS("deep-tool") || IS("wide-tool"))
		hostile_tools(h, kind);
	else if (IS("null-tool"))
		hostile_nulls(h);
	else if (IS("parts"))
		hostile_repeat(h, "{\"messages\":[{\"role\":\"user\",\"content\":[",
		    "{\"type\":\"text\",\"text\":\"x\"}", ",", "]}]}");
	else if (IS("escapes"))
		hostile_repeat(h, "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\\u0061\\n", "", "\"}]}");
	else if (IS("keys"))
		hostile_repeat(h, "{", "\"k\":1", ",", "," HOSTILE_END);
	else if (IS("values"))
		hostile_repeat(h, "{\"x\":[", "[]", ",", "]," HOSTILE_END);
	else if (IS("empty-dicts"))
		hostile_repeat(h, "{\"x\":[", "{}", ",", "]," HOSTILE_END);
	else if (IS("numbers"))
		hostile_repeat(h, "{\"x\":[", "1.5e3", ",", "]," HOSTILE_END);
	else if (IS("blanks"))
		hostile_repeat(h, "{", " ", "", HOSTILE_END);
	else if (IS("levels"))
		hostile_repeat(h, "{\"x\":", "[", "", "");
	else if (IS("long-key"))
		hostile_repeat(h, "{\"", "kkkkkkkkkkkkkkkk", "", "\":1," HOSTILE_END);
	else if (IS("again"))
		hostile_repeat(h, "{", "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]", ",", "}");
	else if (IS("arguments"))
		hostile_repeat(h, "{\"chat_template_kwargs\":{\"z\":1", ",\"k\":[1]", "", "}," HOSTILE_END);
	else if (IS("prompts"))
		hostile_repeat(h, "{\"prompt\":[\"x\"", ",\"a\"", "", "]}");
	else if (IS("call-values"))
		hostile_repeat(h,
		    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\","
		    "\"content\":\"\",\"tool_calls\":[{\"id\":\"c12345678\","
		    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[",
		    "[],", "",
		    "1]}\"}}]},"
		    "{\"role\":\"tool\",\"tool_call_id\":\"c12345678\",\"content\":\"y\"},{\"role\":\"user\","
		    "\"content\":\"x\"}]}");
	else if (IS("tags"))
		hostile_repeat(h, HOSTILE_SAID("assistant"), "</think>", "",
		    "\"},{\"role\":\"user\",\"content\":\"x\"}]}");
	else if (IS("spaced"))
		hostile_repeat(h, HOSTILE_SAID("assistant"), "    ", "",
		    "\"},{\"role\":\"user\",\"content\":\"x\"}]}");
	else if (IS("quotes"))
		hostile_repeat(h, HOSTILE_SAID("tool"), "\\\"", "",
		    "\"},{\"role\":\"user\",\"content\":\"x\"}]}");
	else if (IS("tool-controls"))
		hostile_repeat(h, HOSTILE_SAID("tool"), "\\u0001", "",
		    "\"},{\"role\":\"user\",\"content\":\"x\"}]}");
	else
		hostile_messages(h, kind);
#undef IS
}

#endif
