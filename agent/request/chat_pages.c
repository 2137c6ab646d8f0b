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

bool request_chat_ids(struct request *rq, struct prompt_ids *out)
{
	const struct model_opts *m = rq->model_opts;
	struct request_scratch *s = rq->scratch;
	struct conversation_ask ask = {
		.chat = m->chat,
		.by = {
			.tok = m->tok, .scratch = s->tok, .cache = rq->env->segments, .tenant = request_whose(rq),
			.special = m->special == SPECIAL_ADD ? SPECIAL_ADD : SPECIAL_AUTO, .work = &rq->work,
		},
		.body = {
			.work = &rq->work, .raw = rq->sliced != NULL ? sliced_raw(rq->sliced) : rq->raw,
			.cut = rq->cut, .now = time_of(rq->wall_s),
		},
	};
	struct conversation_ids ids;
	enum chat_result got;

	if (m->chat == NULL || !api_of(rq->prompt->api, &ask.body.api) ||
	    ask.body.raw.n < rq->prompt->n_bytes)
		return false;
	if (s->conversation == NULL && (s->conversation = conversation_new(rq->env->key)) == NULL)
		return false;
	if (!request_pay_scan(rq)) {		/* the reader of its values looks at each byte, too */
		rq->news.bounded = true;
		return false;
	}
	got = conversation_ids(s->conversation, &ask, &ids);
	rq->refused = got == CHAT_REFUSED && !rq->cut;
	rq->unknown = got != CHAT_DONE && got != CHAT_LIMIT && !rq->refused;
	rq->news.bounded = got == CHAT_LIMIT;
	if (got != CHAT_DONE)
		return false;
	*out = ids.ids;
	rq->part = ids.part;
	rq->front_unseen = front_may_change(rq, &ids);
	rq->news = (struct ids_news){ .made = true, .bounded = ids.bounded, .ids = ids.ids.n };
	return true;
}
