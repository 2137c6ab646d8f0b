/* job_answer.c - the choice as its answer: names, pages and tokens. In shadow mode it names no
 * server. */
#include "agent/route/job_in.h"

static void copy_name(char *to, const struct server *s, struct span *out)
{
	size_t n = strlen(s->name);

	memcpy(to, s->name, n + 1);
	*out = span_of(to, n);
}

/* Pages of text are taken for a fixed number of tokens. If the engine's own counts are known, they
 * tell how many a page really has. */
uint64_t job_as_counted(const struct job *j, uint64_t tokens)
{
	uint64_t taken = (uint64_t)j->rq.page_tokens * ROOM_OF_TOKEN, room = j->rq.space.page_room;

	return j->rq.mode == PROMPT_TEXT && taken > 0 && tokens < UINT32_MAX ? tokens * room / taken :
	    tokens;
}

uint64_t job_as_taken(const struct job *j, uint64_t tokens)
{
	uint64_t taken = (uint64_t)j->rq.page_tokens * ROOM_OF_TOKEN, room = j->rq.space.page_room;

	return j->rq.mode == PROMPT_TEXT && room > 0 && tokens < UINT32_MAX ? tokens * taken / room :
	    tokens;
}

void job_answer(struct route *r, struct job *j, struct route_answer *a)
{
	const struct candidate *c = j->scratch->candidates;

	copy_name(j->scratch->server, r->fleet.by_id[c[j->choice.first].id], &a->server);
	if (j->choice.second >= 0)
		copy_name(j->scratch->alt, r->fleet.by_id[c[j->choice.second].id], &a->alt);
	a->prefill = span_str(j->prefill.split ? j->scratch->prefill_address : "");
	a->pages = c[j->choice.first].depth;
	a->rank = c[j->choice.first].rank;
	a->wait_ms = j->expected_s >= 0 ? (int64_t)(j->expected_s * 1000 + 0.5) : -1;
	a->tokens = job_as_counted(j, j->asks.tokens);
	a->hit_tokens = job_as_counted(j, c[j->choice.first].cached);
	if (a->hit_tokens > a->tokens)
		a->hit_tokens = a->tokens;
	if (j->rq.mode == PROMPT_TOKENS && j->rq.tokens > 0)
		a->hit = (uint32_t)((uint64_t)a->pages * j->rq.page_tokens * 1000 / j->rq.tokens);
	else if (j->rq.n_pages > 0)
		a->hit = (uint32_t)((uint64_t)a->pages * 1000 / j->rq.n_pages);
}

void job_hide_choice(struct job *j, struct route_answer *a)
{
	j->would.why = a->why;
	j->would.hit = a->hit;
	j->would.pages = a->pages;
	if (j->pool_opts->mode == MODE_ON || j->choice.first < 0)
		return;
	a->server = a->alt = a->prefill = (struct span){ 0 };
	a->why = WHY_SHADOW;
	a->hit = a->pages = 0;
	a->hit_tokens = 0;
	a->rank = -1;
	a->wait_ms = -1;
}
