/* job_tokens.c - pages of token ids: the very ids the engine will see, in blocks as large as its own.
 *
 * job_ids() is the one place that knows how a body becomes ids:
 *
 *   a prompt of ids            as it stands in the body
 *   a conversation             not yet: its engine's template makes a text of it first
 *
 * What it cannot make stays text: the scanner has made pages of that anyway, and the space says which of both a page is.
 * The words are taken beside the scanner (words.h), and only where somebody wants them: from a body that comes whole when its
 * model is known, and from slices as they come, as they are gone when the model is known. */
#include "agent/route/job.h"

/* Ids are paged by the scanner already where blocks are as large as it takes them to be. */
static bool wants_words(const struct route_opts *o, const struct model_opts *m)
{
	return m->block_size != 0 && m->block_size != o->prompt.token_page;
}

bool job_wants_words(const struct route_opts *o, enum prompt_api api)
{
	if (!prompt_text_possible(api))
		return false;
	for (size_t i = 0; i < o->n_models; i++) {
		if (wants_words(o, &o->models[i]))
			return true;
	}
	return wants_words(o, &o->model_default);
}

/* NULL: they were not kept, or there is no memory. */
static struct words *words_of(struct job *j)
{
	struct route_scratch *s = j->scratch;

	if (j->sliced != NULL)
		return j->sliced->words;
	if (s->words == NULL && (s->words = words_new()) == NULL)
		return NULL;
	words_reset(s->words, j->prompt->api, j->opts->prompt.max_depth);
	words_feed(s->words, j->raw);
	return s->words;
}

/* What the engine makes of the body as far as it was seen. False: it stays what it is. */
static bool job_ids(struct job *j, struct words_ids *out)
{
	struct words *w;

	if (j->prompt->mode != PROMPT_TOKENS || !wants_words(j->opts, j->model_opts))
		return false;
	w = words_of(j);
	return w != NULL && words_ids(w, out);
}

static int page_ids(const struct route *r, const struct job *j, const struct words_ids *ids, uint32_t page, struct page_vec *out)
{
	size_t from = 0;

	out->n = 0;
	for (size_t i = 0; i < ids->n_runs; i++) {
		if (prompt_pages_of_ids(&r->key, ids->p + from, ids->runs[i].end - from, page, from > 0, j->opts->prompt.max_pages,
					out) < 0)
			return -1;
		from = ids->runs[i].end;
	}
	return 0;
}

bool job_token_pages(struct route *r, struct job *j)
{
	uint32_t page = j->model_opts->block_size;
	struct words_ids ids;

	if (!job_ids(j, &ids) || page_ids(r, j, &ids, page, &j->scratch->pages) < 0)
		return false;
	j->mode = PROMPT_TOKENS;
	j->page = page;
	j->tokens = ids.n;
	return true;
}
