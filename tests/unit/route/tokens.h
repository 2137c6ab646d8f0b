/* tokens.h - a world whose model "m" has a tokenizer: a small one in the style of Llama 3
 * (tests/data/tok). */
#ifndef TESTS_ROUTE_TOKENS_H
#define TESTS_ROUTE_TOKENS_H

#include "agent/request/request_in.h"
#include "tests/unit/route/world.h"

#define SMALL_TOKENIZER	"tests/data/tok/llama.tokenizer.json"
#define BOS		400u

/* Load the tokenizer with the first <from> replaced by <to>, of the same length; NULL: unchanged.
 * To be released by the caller. */
static inline struct tok *tok_with(const char *from, const char *to)
{
	static char text[65536];
	struct tok_source src = { .name = SMALL_TOKENIZER };
	FILE *f = fopen(SMALL_TOKENIZER, "r");
	struct tok *t;
	struct err e;
	char *at;

	assert_non_null(f);
	memset(text, 0, sizeof(text));
	src.file = span_of(text, fread(text, 1, sizeof(text) - 1, f));
	fclose(f);
	if (from != NULL) {
		assert_non_null(at = strstr(text, from));
		memcpy(at, to, strlen(to));
	}
	if ((t = tok_load(&src, &e)) == NULL)
		fail_msg("%s", e.text);
	return t;
}

static struct model_opts token_models[2];

/* Set options in w->o and token_models[] between this and world_open(); tok_unref() is the
 * caller's. */
static inline void token_world(struct world *w, struct tok *t, uint32_t block)
{
	world_options(w);
	token_models[0] = w->o.model_default;
	strcpy(token_models[0].name, "m");
	strcpy(token_models[0].aliases[0], "alias");
	token_models[0].mode = t != NULL ? MODEL_TOKENS : MODEL_TEXT;
	token_models[0].tok = t;
	token_models[0].block_size = block;
	w->o.models = token_models;
	w->o.n_models = 1;
	w->q.path = SPAN("/v1/completions");
	w->q.model = SPAN("m");
}

/* Words that are in the vocabulary, and some that are not; digits, line ends, other scripts. */
static inline void say_words(struct text *t, uint64_t seed, size_t n)
{
	static const char *const words[] = {
		" the",
		" server",
		" has",
		" pages",
		" and",
		" that",
		" is",
		" of",
		" agent",
		",",
		".",
		" with",
		" 12345",
		"\\n\\n",
		" caf\\u00e9",
		" \xe4\xb8\xad\xe6\x96\x87",
		"  ",
		" request's",
		" {x}",
		" Zebra",
		"<|end|>",
		" are",
		"\\ttests",
	};
	size_t end = t->n + n;
	struct rng rng;

	rng_init(&rng, seed);
	while (t->n < end)
		say(t, "%s", words[rng_below(&rng, sizeof(words) / sizeof(*words))]);
}

/* {"prompt":"..."<after>} */
static inline void completion(struct text *t, uint64_t seed, size_t n, const char *after)
{
	t->n = 0;
	say(t, "{\"prompt\":\"");
	say_words(t, seed, n);
	say(t, "\"%s}", after);
}

static inline struct request_preview preview(struct world *w)
{
	struct request_preview v;

	w->q.body = span_of(w->body.p, w->body.n);
	preview_body(w->r, w->s, &w->q, &v);
	return v;
}

#endif
