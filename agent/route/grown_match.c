/* grown_match.c - how much more of a prompt a server holds than the index says, because it
 * generated it: grown_in.h. */
#include "agent/route/job_in.h"
#include "agent/prompt/text.h"

/* Hash the first <depth> pages. O(depth / 8), because the marks have the rest. */
static uint64_t end_key(const struct route *r, const struct job *j, uint32_t depth)
{
	const struct marks *m = &j->scratch->marks;
	uint32_t from = 0, i = m->n;
	uint64_t h = j->rq.space.h[0];

	while (i > 0 && m->depth[i - 1] > depth)
		i--;
	if (i > 0) {
		from = m->depth[i - 1];
		h = m->key[i - 1];
	}
	return hash_mix(&r->key, h,
		   hash64(
		       &r->key, j->scratch->rq.pages.p + from, (depth - from) * sizeof(page_key))) |
	    1;
}

static uint32_t tail_hash(const struct route *r, const struct job *j, uint64_t from, uint64_t n)
{
	const token_id *ids = request_ids(&j->rq, from, n);

	return ids != NULL ? (uint32_t)hash64(&r->key, ids, n * sizeof(*ids)) | 1 : 0;
}

/* Return the pages that stay the same when the prompt continues: of a text without messages the
 * whole ones; a message ends in a page of its own. */
static uint32_t end_depth(const struct job *j)
{
	if (j->rq.mode == PROMPT_TEXT && prompt_text_possible(j->rq.prompt->api) && j->rq.n_pages > 0)
		return j->rq.prompt->n_units % j->rq.page != 0 ? j->rq.n_pages - 1 : j->rq.n_pages;
	return j->rq.n_pages;
}

void job_ends(const struct route *r, struct job *j)
{
	const struct index_match *m = &j->scratch->match;
	uint32_t depth = end_depth(j);

	j->n_grown = 0;
	for (uint32_t i = 0; i < m->n_bands && j->n_grown < JOB_GROWN; i++)
		if (m->bands[i].depth < j->rq.n_pages) {
			struct job_grown *g = &j->grown[j->n_grown++];

			*g = (struct job_grown){ m->bands[i].depth, end_key(r, j, m->bands[i].depth) };
			grown_prefetch(r->grown, g->key);
		}
	if (j->rq.cut || j->rq.part || j->rq.news.bounded || j->rq.unseen_tokens > 0 || depth == 0)
		return;
	j->end = (struct grown_end){ .key = end_key(r, j, depth), .tokens = j->rq.tokens };
	if (j->rq.mode == PROMPT_TEXT)
		j->end.tokens = (uint64_t)depth * j->rq.page_tokens;
	else if (j->rq.ids != NULL && j->rq.tokens > (uint64_t)depth * j->rq.page) {
		j->end.n_tail = (uint16_t)(j->rq.tokens - (uint64_t)depth * j->rq.page);
		j->end.tail = tail_hash(r, j, (uint64_t)depth * j->rq.page, j->end.n_tail);
	}
}

/* Return about how many tokens the assistant's message has that begins after <depth> pages of text;
 * UINT64_MAX if there are no messages. In pages of ids, the length of the last one. */
static uint64_t answer_room(const struct job *j, uint32_t depth)
{
	const struct prompt *p = j->rq.prompt;
	uint32_t text_tokens = j->opts->prompt.text_page / TEXT_BYTES_PER_TOKEN,
		 n = p->n_answer - p->n_history;

	if (prompt_text_possible(p->api))
		return UINT64_MAX;
	if (p->n_answer == 0 ||
	    (j->rq.mode == PROMPT_TEXT && j->rq.n_pages - (p->messages.n - p->n_history) != depth))
		return 0;
	return (uint64_t)n * text_tokens;
}

static bool goes_on(
    const struct route *r, const struct job *j, const struct grown_place *g, uint32_t depth)
{
	uint64_t from = (uint64_t)depth * j->rq.page;

	if (j->rq.mode == PROMPT_TEXT || g->n_tail == 0 || j->rq.ids == NULL)
		return true;
	return from + g->n_tail <= j->rq.n_ids && tail_hash(r, j, from, g->n_tail) == g->tail;
}

#define ANSWER_IDS_MOST	4096u	/* that are looked at */

/* Count the ids of the assistant's message that begins at <from>, up to the added token that ends
 * it. Returns 0 if there are no ids, or not about <tokens> of them. */
static uint32_t answer_ids(const struct job *j, uint64_t from, uint64_t tokens)
{
	const struct tok *t = j->rq.model_opts != NULL ? j->rq.model_opts->tok : NULL;
	uint64_t most = 2 * tokens + 8, n = 0;
	const token_id *ids;

	if (j->rq.mode == PROMPT_TEXT || t == NULL || j->rq.ids == NULL || most > ANSWER_IDS_MOST ||
	    prompt_text_possible(j->rq.prompt->api) || from > j->rq.n_ids ||
	    (ids = request_ids(&j->rq, from, j->rq.n_ids - from)) == NULL)
		return 0;
	while (n <= most && from + n < j->rq.n_ids && !tok_is_added(t, ids[n]))
		n++;
	return n <= most && from + n < j->rq.n_ids && n >= tokens / 2 ? (uint32_t)n : 0;
}

/* Return the tokens of the answer that a server holds of those in the prompt: of <held> in its
 * cache. The ids of the message replace an estimate. The last of them may be the last one
 * generated, which was not computed. */
static uint64_t answer_held(const struct job *j, const struct grown_place *g, uint32_t depth,
    uint64_t held, uint32_t *ids)
{
	uint64_t room = answer_room(j, depth);

	*ids = g->told ? 0 : answer_ids(j, (uint64_t)depth * j->rq.page + g->n_tail, held + 1);
	if (*ids > 0)
		return *ids - 1;
	if (room < held / 2)		/* thoughts were dropped: the rest follows other text */
		return 0;
	if (room == UINT64_MAX && !g->told)	/* a guess by bytes, and no message that bounds it */
		return 0;
	return room < held && (j->rq.mode == PROMPT_TEXT || !g->told) ? room : held;
}

uint32_t job_grown_pages(const struct route *r, const struct job *j, const struct server *s,
    uint32_t depth, struct job_grown_at *at)
{
	struct grown_place *g = NULL;
	uint64_t end = (uint64_t)depth * j->rq.page_tokens, held;
	uint32_t pages;

	for (uint32_t i = 0; i < j->n_grown && g == NULL; i++)
		if (j->grown[i].depth == depth)
			g = grown_find(r->grown, j->grown[i].key, s->name_hash);
	if (g == NULL || g->tokens < end + g->n_tail || !goes_on(r, j, g, depth) ||
	    index_output_gone(r->index, s->id, g->at))
		return 0;
	at->place = g;
	held = answer_held(j, g, depth, g->tokens - end - g->n_tail, &at->ids);
	if (held == 0)
		return 0;
	pages = (uint32_t)((g->n_tail + held) / j->rq.page_tokens);
	return pages < j->rq.n_pages - depth ? pages : j->rq.n_pages - depth;
}
