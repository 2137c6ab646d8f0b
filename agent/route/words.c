/* words.c - the words of a request, and the ids of them so far. */
#include "agent/base/mem.h"
#include "agent/route/words.h"

struct words {
	struct prompt_text *text;
};

struct words *words_new(void)
{
	struct words *w = mem_alloc(sizeof(*w));

	if (w != NULL && (w->text = prompt_text_new()) != NULL)
		return w;
	mem_free(w);
	return NULL;
}

void words_free(struct words *w)
{
	if (w == NULL)
		return;
	prompt_text_free(w->text);
	mem_free(w);
}

size_t words_bytes(const struct words *w)
{
	return w == NULL ? 0 : sizeof(*w) + prompt_text_bytes(w->text);
}

void words_reset(struct words *w, enum prompt_api api, uint16_t max_depth)
{
	prompt_text_reset(w->text, api, max_depth);
}

void words_feed(struct words *w, struct span body)
{
	prompt_text_feed(w->text, body.p, body.n);
}

bool words_ids(struct words *w, struct words_ids *out)
{
	const struct prompt_text *t = w->text;

	if (t->lost || t->bad || t->ids.n == 0)
		return false;
	*out = (struct words_ids){ .p = t->ids.p, .runs = t->items.p, .n = t->ids.n, .n_runs = t->items.n };
	return true;
}
