/* chat_pages.c - conversations in token mode.
 *
 * A conversation that the engine would reject has no pages: the answer says badbody. One whose ids
 * cannot be known stays text and is counted. Most templates put tools before all else, so tools
 * that a truncated body has not shown yet would change all ids. If no stored head says that there
 * are none, such ids live in a space of their own. */
#include "agent/request/request_in.h"

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
			.work = work, .raw = rq->sliced != NULL ? sliced_raw(rq->sliced) : rq->raw,
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
		.tenant = request_whose(rq), .raw = rq->raw,
	};
}

/* Return a hash of all that the pages of a conversation depend on besides its bytes. */
static uint64_t turn_what(const struct request *rq)
{
	const struct hash_key *key = rq->env->key;
	const struct model_opts *m = rq->model_opts;
	uint64_t h = request_agree_key(key, m);

	h = hash_mix(key, h, model_block_of(&rq->env->opts.prompt, m));
	return hash_mix(key, hash_mix(key, h, m->special), request_whose(rq));
}

/* Look for an earlier turn of the conversation. Returns NULL if nothing of it is kept. */
static struct turn_ids *find_turn(struct request *rq, const struct conversation_ask *ask)
{
	const struct cached by = { .tok = ask->by.tok, .cache = ask->by.cache };
	struct turn_ids *t = conversation_turn(rq->scratch->conversation);
	struct turn_place p = place_of(rq);

	t->found = t->good = false;
	if (rq->sliced != NULL || rq->cut || rq->salted || rq->env->turns == NULL ||
	    !tok_cached_goes_on(&by))
		return NULL;
	if (rq->scanned)
		turns_state_again(rq->body, p.turns, rq->raw);
	t->what = turn_what(rq);
	t->page = model_block_of(&rq->env->opts.prompt, rq->model_opts);
	turn_ids_find(t, &p);
	return t;
}

void request_chat_leave(struct request *rq, const struct prompt_ids *ids)
{
	struct conversation *c = rq->scratch->conversation;
	struct turn_ids *t = c != NULL ? conversation_turn(c) : NULL;
	struct turn_place p;

	if (!ids->leaves || t == NULL || (rq->aside && !rq->lasting))
		return;
	p = place_of(rq);
	turn_ids_put(t, &p, &rq->scratch->pages,
	    ids->p + (t->n_ids / t->page * t->page - ids->before));
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
	if (!request_pay_scan(rq)) {		/* the reader of its values looks at each byte, too */
		rq->news.bounded = true;
		return false;
	}
	ask.turn = find_turn(rq, &ask);
	got = conversation_ids(s->conversation, &ask, &ids);
	rq->refused = got == CHAT_REFUSED && !rq->cut;
	rq->unknown = got != CHAT_DONE && got != CHAT_LIMIT && !rq->refused;
	rq->news.bounded = got == CHAT_LIMIT;
	if (got != CHAT_DONE)
		return false;
	*out = ids.ids;
	if (ids.resumed) {
		out->known = &ask.turn->pages;
		out->before = (uint64_t)ask.turn->pages.n * ask.turn->page;
	}
	out->leaves = ask.turn != NULL && ask.turn->good;
	rq->part = ids.part;
	rq->front_unseen = front_may_change(rq, &ids);
	rq->news = (struct ids_news){
		.made = true, .bounded = ids.bounded, .ids = out->before + ids.ids.n
	};
	return true;
}
