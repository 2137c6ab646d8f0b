/* chat_pages.c - conversations in token mode.
 *
 * A conversation that the engine would reject has no pages: the answer says badbody. One whose ids
 * cannot be known stays text and is counted. Most templates put tools before all else, so tools
 * that a truncated body has not shown yet would change all ids. If no stored head says that there
 * are none, such ids live in a space of their own. */
#include "agent/request/request_in.h"

enum { CUT = 0x435554 };

static bool api_of(enum prompt_api api, enum chat_api *of)
{
	switch (api) {
	case API_CHAT:
		*of = CHAT_COMPLETIONS;
		return true;
	case API_MESSAGES:
		*of = CHAT_MESSAGES;
		return true;
	case API_RESPONSES:
		*of = CHAT_RESPONSES;
		return true;
	default:
		return false;
	}
}

bool request_wants_raw(const struct request_env *env, enum prompt_api api)
{
	const struct model_table *t = &env->opts.models;
	enum chat_api of;

	if (!api_of(api, &of))
		return false;
	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].chat != NULL)
			return true;
	}
	return t->fallback->chat != NULL;
}

/* Split a time into date and time of day (Howard Hinnant, "chrono-compatible low-level date
 * algorithms": civil_from_days). */
static struct jinja_time time_of(int64_t wall_s)
{
	int64_t s = wall_s > 0 ? wall_s : 0, days = s / 86400 + 719468, era = days / 146097;
	int64_t doe = days - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	int month = (int)(mp < 10 ? mp + 3 : mp - 9);

	s %= 86400;
	return (struct jinja_time){
		.year = (int)(yoe + era * 400) + (month <= 2), .month = month,
		.day = (int)(doy - (153 * mp + 2) / 5) + 1,
		.hour = (int)(s / 3600), .minute = (int)(s / 60 % 60), .second = (int)(s % 60),
	};
}

static bool front_may_change(const struct request *rq, const struct conversation_ids *ids)
{
	const struct prompt *p = rq->prompt;
	const struct prompt_head *h = rq->head;

	return (ids->tools_unseen && !p->tools_seen && (h == NULL || h->n_tools > 0)) ||
	       (ids->system_unseen && !p->system_seen && (h == NULL || h->n_system > 0)) ||
	       (ids->developer_unseen && (h == NULL || h->developer));
}

static struct span body_so_far(const struct request *rq)
{
	return rq->sliced != NULL ? sliced_raw(rq->sliced) : rq->raw;
}

static bool ask_for(const struct request *rq, struct work_left *work, struct conversation_ask *ask)
{
	const struct model_opts *m = rq->model_opts;
	struct request_scratch *s = rq->scratch;

	*ask = (struct conversation_ask){
		.chat = m->chat,
		.by = {
			.tok = m->tok, .scratch = s->tok, .cache = rq->env->segments, .tenant = request_whose(rq),
			.special = m->special == SPECIAL_ADD ? SPECIAL_ADD : SPECIAL_AUTO, .work = work,
		},
		.body = {
			.work = work, .raw = body_so_far(rq),
			.cut = rq->cut, .now = time_of(rq->wall_s),
		},
		.key = rq->env->key,
	};
	return m->chat != NULL && api_of(rq->prompt->api, &ask->body.api) &&
	       ask->body.raw.n >= rq->prompt->n_bytes;
}

/* ---- turns ---- */

static struct turn_place place_of(const struct request *rq)
{
	return (struct turn_place){
		.body = rq->body, .turns = rq->env->turns, .cache = rq->env->segments,
		.tenant = request_whose(rq), .raw = body_so_far(rq),
	};
}

/* Return a hash of all that the pages of a conversation depend on besides its bytes. A cut body is
 * rendered without tools and other members after the messages: what it leaves may not fit the whole
 * one. */
static uint64_t turn_what(const struct request *rq, bool cut)
{
	const struct hash_key *key = rq->env->key;
	const struct model_opts *m = rq->model_opts;
	uint64_t h = request_agree_key(key, m);

	h = hash_mix(key, h, model_block_of(&rq->env->opts.prompt, m));
	h = hash_mix(key, hash_mix(key, h, m->special), request_whose(rq));
	if (rq->prompt->api != API_MESSAGES)	/* of harmony they count */
		h = hash_mix(key, h, turns_state_hole(rq->body, rq->env->turns, body_so_far(rq)));
	return cut ? hash_mix(key, h, CUT) : h;
}

/* Look for what a cut body has left, or a whole one. */
static void find_kind(struct request *rq, struct turn_ids *t, bool cut)
{
	struct turn_place p = place_of(rq);
	uint64_t border;

	t->state.near = rq->sliced != NULL ? rq->sliced->state_chunk : SIZE_MAX;
	t->what = turn_what(rq, cut);
	if (rq->cut && (border = turns_state_border(rq->body)) > 0 && border <= p.raw.n)
		p.raw.n = (size_t)border - 1;	/* a message that has ended must follow */
	turn_ids_find(t, &p);
}

/* Look for an earlier turn of the conversation. Returns NULL if nothing of it is kept. */
static struct turn_ids *find_turn(struct request *rq, const struct conversation_ask *ask)
{
	const struct cached by = { .tok = ask->by.tok, .cache = ask->by.cache };
	struct turn_ids *t = conversation_turn(rq->scratch->conversation);

	t->found = t->good = false;
	if ((rq->sliced != NULL && rq->sliced->raw_from > 0) || rq->salted || rq->env->turns == NULL ||
	    !tok_cached_goes_on(&by))
		return NULL;
	if (rq->scanned)
		turns_state_again(rq->body, rq->env->turns, rq->raw);
	t->page = model_block_of(&rq->env->opts.prompt, rq->model_opts);
	t->pages = &rq->scratch->pages;
	find_kind(rq, t, rq->cut);
	return t;
}

/* Exchange <t>, of earlier turns, for what an earlier look at this body has left, if that is of
 * more bytes. Returns false if it is not. */
static bool find_own_look(struct request *rq, struct turn_ids *t)
{
	const struct sliced *sl = rq->sliced;
	bool found = t->found;
	size_t at = found ? t->state.at : 0;

	if (sl == NULL || rq->cut || sl->state_chunk == SIZE_MAX ||
	    grid_of(turns_options(rq->env->turns)->chunk_bytes, at) > sl->state_chunk)
		return false;
	find_kind(rq, t, true);
	t->what = turn_what(rq, false);
	if (t->found && t->state.at > at) {
		t->apart = true;
		return true;
	}
	if (found)
		find_kind(rq, t, false);
	else
		t->found = false;
	return false;
}

static uint64_t known_bytes(const struct turn_ids *t)
{
	return t != NULL && t->found ? t->state.at : 0;
}

/* Make ids; on from an earlier turn, or from an earlier look at this body, if that is possible. */
static enum chat_result ids_of_chat(
    struct request *rq, struct conversation_ask *ask, struct conversation_ids *ids)
{
	struct turn_ids *t = ask->turn = find_turn(rq, ask);
	uint64_t known, seen = UINT64_MAX;
	enum chat_result got = CHAT_LIMIT;

	ids->resumed = false;
	ask->only = t != NULL && find_own_look(rq, t);
	known = known_bytes(t);
	if (!request_pay_scan(rq, known, seen))		/* its values are read, too */
		return CHAT_LIMIT;
	got = conversation_ids(rq->scratch->conversation, ask, ids);
	if (ask->only && !(got == CHAT_DONE && ids->resumed)) {
		ask->only = false;
		find_kind(rq, t, false);
		seen = known;
		known = known_bytes(t);
		if (!request_pay_scan(rq, known, seen))
			return CHAT_LIMIT;
		got = conversation_ids(rq->scratch->conversation, ask, ids);
	}
	if (known > 0 && !(got == CHAT_DONE && ids->resumed))
		(void)request_pay_scan(rq, 0, known);
	return got;
}

void request_chat_leave(struct request *rq, const struct prompt_ids *ids)
{
	struct conversation *c = rq->scratch->conversation;
	struct turn_ids *t = c != NULL ? conversation_turn(c) : NULL;
	struct turn_place p;

	if (!ids->leaves || t == NULL || (rq->aside && !rq->lasting))
		return;
	p = place_of(rq);
	if (rq->sliced != NULL)
		rq->sliced->state_chunk = grid_of(turns_options(p.turns)->chunk_bytes, t->at);
	turn_ids_put(t, &p, ids->p + (t->n_ids / t->page * t->page - ids->before));
}

const token_id *request_ids(const struct request *rq, uint64_t from, uint64_t n)
{
	struct work_left work = { REQUEST_WORK_FULL };
	struct conversation_ask ask;
	const token_id *all;

	if (rq->ids == NULL || from > rq->n_ids || n > rq->n_ids - from)
		return NULL;
	if (from >= rq->ids_from)
		return rq->ids + (from - rq->ids_from);
	if (!ask_for(rq, &work, &ask))
		return NULL;
	all = conversation_all(rq->scratch->conversation, &ask, rq->n_ids);
	return all != NULL ? all + from : NULL;
}

bool request_chat_ids(struct request *rq, struct prompt_ids *out)
{
	struct request_scratch *s = rq->scratch;
	struct conversation_ask ask;
	struct conversation_ids ids;
	enum chat_result got;

	if (!ask_for(rq, &rq->work, &ask))
		return false;
	if (s->conversation == NULL && (s->conversation = conversation_new(rq->env->key)) == NULL)
		return false;
	got = ids_of_chat(rq, &ask, &ids);
	rq->refused = got == CHAT_REFUSED && !rq->cut;
	rq->unknown = got != CHAT_DONE && got != CHAT_LIMIT && !rq->refused;
	rq->news.bounded = got == CHAT_LIMIT;
	if (got != CHAT_DONE)
		return false;
	*out = ids.ids;
	if (ids.resumed) {
		out->known = ask.turn->n_pages;
		out->before = (uint64_t)ask.turn->n_pages * ask.turn->page;
	}
	out->leaves = ask.turn != NULL && ask.turn->good;
	rq->part = ids.part;
	rq->front_unseen = front_may_change(rq, &ids);
	rq->news = (struct ids_news){
		.made = true, .bounded = ids.bounded, .ids = out->before + ids.ids.n
	};
	return true;
}
