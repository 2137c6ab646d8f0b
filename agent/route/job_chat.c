/* job_chat.c - conversations in token mode.
 *
 * Where the engine would refuse one, there is nothing to route by: the answer says badbody. What cannot be known here stays
 * text, and is counted. Tools that a cut body has not shown yet would stand in front of everything in most templates; unless the head
 * that is remembered of its opening says that there are none, such ids live in a space of their own. */
#include "agent/route/job.h"
#include "agent/route/talk.h"

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

bool job_wants_raw(const struct route_opts *o, enum prompt_api api)
{
	enum chat_api of;

	if (!api_of(api, &of))
		return false;
	for (size_t i = 0; i < o->n_models; i++) {
		if (o->models[i].chat != NULL)
			return true;
	}
	return o->model_default.chat != NULL;
}

/* The day of a time, and the time of that day (Howard Hinnant, "chrono-compatible low-level date algorithms": civil_from_days). */
static struct jinja_time time_of(int64_t wall_s)
{
	int64_t s = wall_s > 0 ? wall_s : 0, days = s / 86400 + 719468, era = days / 146097;
	int64_t doe = days - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	int month = (int)(mp < 10 ? mp + 3 : mp - 9);

	s %= 86400;
	return (struct jinja_time){
		.year = (int)(yoe + era * 400) + (month <= 2), .month = month, .day = (int)(doy - (153 * mp + 2) / 5) + 1,
		.hour = (int)(s / 3600), .minute = (int)(s / 60 % 60), .second = (int)(s % 60),
	};
}

static bool front_may_change(const struct job *j, const struct talk_ids *ids)
{
	return (ids->tools_unseen && !j->prompt->tools_seen && (j->head == NULL || j->head->n_tools > 0)) ||
	       (ids->system_unseen && !j->prompt->system_seen && (j->head == NULL || j->head->n_system > 0)) ||
	       (ids->developer_unseen && (j->head == NULL || j->head->developer));
}

bool job_chat_ids(struct route *r, struct job *j, struct words_ids *out)
{
	const struct model_opts *m = j->model_opts;
	struct route_scratch *s = j->scratch;
	struct talk_ask ask = {
		.chat = m->chat,
		.by = { .tok = m->tok, .scratch = s->tok, .cache = r->segments, .tenant = job_whose(r, j), .special = m->special == SPECIAL_ADD ?
			SPECIAL_ADD : SPECIAL_AUTO, .work = &j->work },
		.body = { .work = &j->work, .raw = j->sliced != NULL ? sliced_raw(j->sliced) : j->raw, .cut = j->cut, .now = time_of(j->wall_s) },
	};
	struct talk_ids ids;
	enum chat_result got;

	if (m->chat == NULL || !api_of(j->prompt->api, &ask.body.api) || ask.body.raw.n < j->prompt->n_bytes)
		return false;
	if (s->talk == NULL && (s->talk = talk_new(&r->key)) == NULL)
		return false;
	if (!job_pay_scan(j)) {		/* the reader of its values looks at each byte, too */
		j->news.bounded = true;
		return false;
	}
	got = talk_ids(s->talk, &ask, &ids);
	j->refused = got == CHAT_REFUSED && !j->cut;
	j->unknown = got != CHAT_DONE && got != CHAT_LIMIT && !j->refused;
	j->news.bounded = got == CHAT_LIMIT;
	if (got != CHAT_DONE)
		return false;
	*out = ids.ids;
	j->part = ids.part;
	j->front_unseen = front_may_change(j, &ids);
	j->news = (struct words_news){ .made = true, .bounded = ids.bounded, .ids = ids.ids.n };
	return true;
}
