/* test_benign.c - ordinary text is encoded whole: English of 16, 64 and 250 KB, by every kind of
 * pre-tokenizer, with counted steps.
 *
 * The vocabulary has the words of tests/hostile.h and no others, like a real one has those of its
 * language. So the steps are those of splitting and looking up, whose prices are tested here. They
 * are the same on any machine. */
#include "tests/hostile.h"
#include "tests/unit/route/tokens.h"
#include "tests/unit/tok/small.h"

#define MOST	250000u

static const struct hash_key key = { { 1 } };
static char body[MOST + HOSTILE_ROOM];

static const char *const words[] = {
	"the",   "request", "of",    "a",       "server", "and",    "to",     "that",
	"pages", "which",   "holds", "longest", "part",   "prompt", "in",     "its",
	"cache", "when",    "it",    "is",      "sent",   "by",     "people", "house",
	"river", "morning", "would", "have",    "been",   "other",  "only",   "time",
};

/* ---- a vocabulary -------------------------------------------------------------------------- */

/* The beginnings of " word", each from the one before it and a letter; none twice. */
struct beginnings {
	char text[300][16];
	size_t n;
};

static void begin_words(struct beginnings *b)
{
	b->n = 0;
	for (size_t i = 0; i < 32; i++)
		for (size_t k = 1; k <= strlen(words[i]); k++) {
			char s[16];
			size_t j;

			snprintf(s, sizeof(s), "%.*s", (int)k, words[i]);
			for (j = 0; j < b->n && strcmp(b->text[j], s) != 0; j++)
				;
			if (j == b->n)
				strcpy(b->text[b->n++], s);
		}
}

static void say_merges(struct small_text *t, const struct beginnings *b, const char *space)
{
	small_say(t, "},\"merges\":[");
	for (size_t i = 0; i < b->n; i++) {
		const char *s = b->text[i];
		size_t n = strlen(s);
		char merge[64];

		if (n == 1)
			snprintf(merge, sizeof(merge), "%s[\"%s\",\"%s\"]", i > 0 ? "," : "", space,
				 s);
		else
			snprintf(merge, sizeof(merge), "%s[\"%s%.*s\",\"%c\"]", i > 0 ? "," : "",
				 space, (int)n - 1, s, s[n - 1]);
		small_say(t, merge);
	}
	small_say(t, "]}}");
}

static void say_beginnings(struct small_text *t, const struct beginnings *b, const char *space,
			   unsigned id)
{
	for (size_t i = 0; i < b->n; i++) {
		small_say(t, ",\"");
		small_say(t, space);
		small_say(t, b->text[i]);
		small_say(t, "\":");
		small_id(t, id++);
	}
	say_merges(t, b, space);
}

static void say_model(struct small_text *t, bool characters)
{
	static struct beginnings b;
	struct small_entry e = { .n = 1 };
	unsigned id = 0;
	char byte[32];

	begin_words(&b);
	small_say(t, "\"model\":{\"type\":\"BPE\",\"byte_fallback\":");
	small_say(t, characters ? "true,\"unk_token\":\"<0x00>\",\"fuse_unk\":true,\"vocab\":{"
				: "false,\"vocab\":{");
	for (; id < 256; id++) {
		small_say(t, id > 0 ? "," : "");
		e.p[0] = (uint8_t)id;
		if (characters)
			small_add(t, byte,
				  (size_t)snprintf(byte, sizeof(byte), "\"<0x%02X>\"", id));
		else
			small_entry(t, &e);
		small_say(t, ":");
		small_id(t, id);
	}
	if (characters) {
		for (char c = 'a'; c <= 'z'; c++)
			small_add(t, byte,
				  (size_t)snprintf(byte, sizeof(byte), ",\"%c\":%u", c, id++));
		small_add(t, byte,
			  (size_t)snprintf(byte, sizeof(byte), ",\".\":%u,\"▁\":%u", id, id + 1));
		id += 2;
	}
	say_beginnings(t, &b, characters ? "▁" : "Ġ", id);
}

/* ---- tokenizers ---------------------------------------------------------------------------- */

static const struct kind {
	const char *name;
	enum small_kind small;
	double most;			/* steps for a byte of English */
} kinds[] = {
	{ "cl100k", SMALL_L3, 1 },
	{ "qwen2", SMALL_QWEN, 1.2 },
	{ "o200k", SMALL_O200K, 1 },
	{ "tekken", SMALL_TEKKEN, 1 },
	{ "kimi", SMALL_KIMI, 1 },
	{ "deepseek", SMALL_DEEPSEEK, 1 },
	{ "gpt2", SMALL_GPT2, 1 },
	{ "deepseek-coder", SMALL_ROWS, 1.2 },
	{ "deepseek-llm", SMALL_ROWS + 1, 1.2 },
	{ "falcon", SMALL_FALCON, 1.3 },
	{ "Prepend", SMALL_SPM, 1.5 },
	{ "Metaspace", SMALL_METASPACE, 1.5 },
	{ "unknown pattern", SMALL_KINDS, 4.1 },
};

static struct tok *load(const struct kind *k)
{
	bool characters = k->small == SMALL_SPM || k->small == SMALL_METASPACE;
	struct small_text t = { 0 };
	struct tok_source src = { .name = k->name };
	struct tok *tok;
	struct err e;

	small_say(&t, "{\"version\":\"1.0\",\"added_tokens\":[],\"decoder\":null,\"post_"
		      "processor\":null,");
	small_normalizer(&t, k->small);
	if (k->small == SMALL_KINDS) {
		small_say(&t, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
			      "\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:");
		small_say(&t, small_pattern(SMALL_L3));
		small_say(&t, ")\"},\"behavior\":\"Isolated\",\"invert\":false},"
			      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":"
			      "true,\"use_regex\":false}]},");
	} else {
		small_pre_tokenizer(&t, k->small);
	}
	say_model(&t, characters);
	src.file = span_of(t.p, t.n);
	if ((tok = tok_load(&src, &e)) == NULL)
		fail_msg("%s: %s", k->name, e.text);
	free(t.p);
	return tok;
}

static void world(struct world *w, struct tok *t)
{
	struct chat_source src = { .template = SPAN(
					   "{% for m in messages %}{{ m.content }}{% endfor %}"),
				   .template_name = "t" };
	struct err e;

	token_world(w, t, 16);
	src.config = SPAN("{}");
	src.config_name = "c";
	if ((token_models[0].chat = chat_load(&src, &key, &e)) == NULL)
		fail_msg("%s", e.text);
	world_open(w);
}

static void one(struct world *w, const struct kind *k, size_t size, bool chat)
{
	static unsigned count;
	struct hostile h;
	char uid[16];

	snprintf(uid, sizeof(uid), "%u", ++count);
	hostile_start(&h, body, size, count);
	hostile_body(&h, "english", chat);
	w->q.tenant = span_str(uid);
	w->q.path = chat ? SPAN("/v1/chat/completions") : SPAN("/v1/completions");
	w->now += 60000;
	send_body(w, uid, span_of(body, h.n));
	if (w->a.work > (double)h.n * k->most + 3000)
		fail_msg("%s, %zu bytes: %u steps", k->name, h.n, w->a.work);
	if (k->most < 2 ||
	    size < 80000) /* up to there one pattern of PCRE2 is within the bound */
		if (stats(w).tokenize_bounded > 0)
			fail_msg("%s, %zu bytes: bounded after %u steps", k->name, h.n, w->a.work);
	if (w->a.server.n == 0 ||
	    w->a.prompt_pages < h.n / 16 / (stats(w).tokenize_bounded > 0 ? 32 : 16))
		fail_msg("%s, %zu bytes: %u pages", k->name, h.n, w->a.prompt_pages);
}

static void english_is_encoded_whole(void **state)
{
	static const size_t sizes[] = { 16000, 65000, 249000 };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct tok *t = load(&kinds[i]);
		struct world w;

		world(&w, t);
		for (unsigned k = 0; k < 6; k++)
			one(&w, &kinds[i], sizes[k / 2], k % 2);
		world_end(&w);
		chat_unref(token_models[0].chat);
		token_models[0].chat = NULL;
		tok_unref(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(english_is_encoded_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
