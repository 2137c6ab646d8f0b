/* lesson.c - what first tokens and ends teach.
 *
 *      how it ended        the penalty of its server
 *      first token         rules that want times, expected waits, the size of the cache
 *      headers             speeds and expected waits, where no first token is reported
 *      counts of tokens    the usual answer, bytes of a token, what the engine found in its cache
 *      an end, served      what the cache holds besides the pages of the prompt
 *
 * Only what was served teaches speeds and sizes. An answer that is no stream ends with its fact
 * "first", but only its log line has counts: so that entry leaves a struct answered, with its
 * struct lesson, from which the line teaches the rest. A later request with the same place replaces
 * it; then the line teaches only the usual answer. */
#include "agent/base/num.h"
#include "agent/feed/response_id.h"
#include "agent/route/learn_in.h"

/* ---- penalties --------------------------------------------------------------------------- */

void judge_server(
    struct route *r, server_id id, enum verdict v, bool ours, msec sent, msec now)
{
	struct server *s = id != SERVER_NONE ? r->fleet.by_id[id] : NULL;
	const struct policy_opts *po;

	if (s == NULL || v == VERDICT_NONE)
		return;
	po = &s->pool->opts->policy;
	if (v == VERDICT_WORKED) {
		penalty_success(&s->penalty, po->penalty_half_life_ms, sent, now);
		return;
	}
	r->stats.failures[v] += ours;
	s->failures += ours;
	penalty_failure(&s->penalty, v == VERDICT_429 ? po->penalty_429 : po->penalty_failure,
			s->pool->busiest, po->penalty_half_life_ms, sent, now);
}

/* Tell if HAProxy tried a server and then went elsewhere. Without a try ("+0") the server was only
 * full. */
static bool retried_elsewhere(const struct fact *f)
{
	return f->redispatched && f->retries > 0;
}

static void answered_put(
    struct route *r, const struct ledger_entry *e, server_id at, bool failed, msec now)
{
	const struct open_request *open = (const struct open_request *)e;

	r->answered[e->uid % ANSWERED_MAX] = (struct answered){
		.uid = e->uid,
		.sent = e->since,
		.closed = now,
		.at = at,
		.from = e->from,
		.part = open->part,
		.ours = open->owner == NULL,
		.failed = failed,
		.session = open->session,
		.prompt_tokens = e->prompt_tokens,
		.hit_tokens = open->hit_tokens,
		.lesson = open->lesson,
	};
	r->answered[e->uid % ANSWERED_MAX].lesson.whole = true;
}

void learn_verdict(struct route *r, const struct ledger_entry *e, const struct fact *f,
    enum verdict v, const struct server *to, msec now)
{
	server_id at = to != NULL && !is_of_haproxy(f->server) ? to->id : SERVER_NONE;
	bool ours = ((const struct open_request *)e)->owner == NULL;

	if (is_first_token(f))
		return;
	judge_server(r, at, v, ours, e->since, now);
	if (f->kind == FACT_FIRST)
		answered_put(r, e, at, v >= VERDICT_FAILURE, now);
	else if (retried_elsewhere(f))
		judge_server(r, e->from, VERDICT_CONNECT, ours, e->since, now);
}

/* ---- times ------------------------------------------------------------------------------- */

static void tell_rule(const struct ledger_entry *e, msec now)
{
	struct pool *p = e->server->pool;

	if (e->work.uncertain ||
	    (!policy_wants_answers(p->opts->policy.rule) && !compare_wants_answers(p->route->compare)))
		return;
	pthread_mutex_lock(&p->route->rule_lock);
	compare_answered(p->route->compare, e->server->id, e->work.tokens, now - e->since);
	policy_answered(p->route->memory, e->server->id, e->work.tokens, now - e->since);
	pthread_mutex_unlock(&p->route->rule_lock);
}

static void tell_capacity(struct route *r, const struct ledger_entry *e, msec now)
{
	struct server *s = e->server;

	if (s != s->pool->nowhere &&
	    capacity_first(&s->capacity, &s->pool->capacity, &s->pool->opts->policy, e->uid, now))
		room_infer(r, s);
}

void learn_first_token(struct route *r, const struct ledger_entry *e, msec now)
{
	tell_rule(e, now);
	doubt_first(e, now);
	wait_first(e, now);
	compare_came(e->server->pool->route->compare, e->uid, e->server->id, now, -1);
	tell_capacity(r, e, now);
}

/* Judge compared rules by the headers (%Tr of the log line), if first tokens are not reported. <s>
 * served <uid> and is where it was sent first. */
static void compare_headers(uint64_t uid, const struct server *s, const struct fact *f, msec now)
{
	struct pool *p = s->pool;

	if (p->step != STEP_FIRST && f->response_ms >= 0)
		compare_came(p->route->compare, uid, s->id, now, f->response_ms);
}

/* Learn the time of its headers, if nothing told its first token. */
static void learn_headers(
    struct ledger_entry *e, struct server *to, const struct fact *f, msec now)
{
	if (e->answered || e->from != SERVER_NONE || f->retries > 0)
		return;
	if (!e->work.uncertain)
		rate_headers(&to->rate, e->work.nominal_s, f->response_ms, now);
	if (e->server->pool->step != STEP_FIRST)
		wait_headers(e, f, now);
	compare_headers(e->uid, to, f, now);
}

/* ---- tokens ------------------------------------------------------------------------------ */

static void count_output(
    struct route *r, const struct fact *f, const struct lesson *l, struct outcome *out)
{
	if (f->kind != FACT_DONE || !l->generates)
		return;
	answer_learn(&r->answer_size, f, l->whole);
	out->output_tokens = answer_tokens(&r->answer_size, f, l->whole);
}

/* Tell if the fact has the engine's count of the prompt. */
static bool tells_count(const struct fact *f)
{
	return f->kind == FACT_DONE && f->prompt_tokens > 0 && is_served(f);
}

void learn_tokens(struct route *r, const struct lesson *l, const struct fact *f,
    struct outcome *out, msec now)
{
	count_output(r, f, l, out);
	if (!tells_count(f))
		return;
	if (l->exact)
		agree_learn(&r->requests.agree, &l->agree, l->counted, (uint64_t)f->prompt_tokens, now);
	else
		density_learn(&r->requests.density, l->density, l->density_part, l->text_bytes,
		    (uint64_t)f->prompt_tokens);
}

void learn_cached(
    struct route *r, const struct fact *f, uint64_t prompt_tokens, uint64_t expected)
{
	uint64_t prompt = f->prompt_tokens > 0 ? (uint64_t)f->prompt_tokens : prompt_tokens;

	if (f->kind != FACT_DONE || f->cached_tokens < 0 || !is_served(f) ||
	    (uint64_t)f->cached_tokens > prompt)
		return;
	r->stats.told_hit_tokens += (uint64_t)f->cached_tokens;
	r->stats.told_prompt_tokens += prompt;
	r->stats.told_expected_tokens += expected;
}

/* Return the tokens that an answer of <tokens> to a prompt of <n> leaves in a cache: whole blocks,
 * the first one begun by the prompt. The last token is not cached, because nothing was computed
 * from it. <block> is 0 if it is unknown. */
static uint32_t kept_of(uint64_t n, uint32_t block, uint32_t tokens)
{
	if (block == 0 || tokens == 0)
		return tokens;
	return (uint32_t)(((n + tokens - 1) / block - n / block) * block);
}

/* Return the tokens for which no page stands: they are a guess from bytes, and an image has many
 * bytes. With the engine's count no more than the rest of that; without it no more than half of the
 * cache, so that no guess evicts all else. */
static uint32_t hidden_of(const struct server *s, const struct lesson *l, const struct fact *f)
{
	enum capacity_source by;
	uint64_t most = server_capacity(s, &by) / 2, told = (uint64_t)f->prompt_tokens;

	if (f->kind == FACT_DONE && f->prompt_tokens > 0)
		most = told > l->seen ? told - l->seen : 0;
	else if (most == 0)
		return l->hidden;
	return l->hidden < most ? l->hidden : (uint32_t)most;
}

static void note_output(struct server *s, uint64_t prompt_tokens, const struct lesson *l,
    const struct fact *f, struct outcome *out)
{
	out->at = s->id;
	hints_learn(s->pool, out->output_tokens);
	out->kept_tokens = kept_of(prompt_tokens, l->block, out->output_tokens);
	capacity_output(&s->capacity, out->kept_tokens);
	out->hidden_tokens = hidden_of(s, l, f);
}

/* Store where the prompt ends, for the next turn of its conversation. */
static void remember_end(struct route *r, const struct server *s, const struct lesson *l,
    const struct fact *f, const struct outcome *out, msec now)
{
	const struct grown_answer a = {
		.tokens = out->output_tokens, .told = f->output_tokens > 0, .at = now,
		.bytes = l->whole || f->output_tokens >= 0 ? 0 : answer_stream_bytes(f),
	};

	grown_put(r->grown, &l->end, s->name_hash, &a);
}

/* Return the tokens of the prompt and its answer, which the next request has before its own input;
 * 0: unknown. */
static uint32_t history_of(
    const struct lesson *l, const struct fact *f, const struct outcome *out)
{
	uint64_t n = f->prompt_tokens > 0 ? (uint64_t)f->prompt_tokens : l->counted;

	return n > 0 ? (uint32_t)at_most(n + out->output_tokens, UINT32_MAX) : 0;
}

void learn_response(struct route *r, struct lesson *l, const struct server *to,
    const struct fact *f, struct outcome *out)
{
	struct span id = response_id_checked(f->response);

	if (to == NULL || to == to->pool->nowhere || !is_served(f))
		return;
	out->stored = f->stored;
	if (out->stored == 0 && l->stores != 0 && !l->named)
		out->stored = response_key(r, l->stores, prompt_response_hash(&r->key, id));
	if (out->stored != 0) {
		l->stores = out->stored;
		l->named = true;
	}
	if (l->named)
		responses_put(r->responses, l->stores, to->id, history_of(l, f, out));
}

/* ---- ends -------------------------------------------------------------------------------- */

void learn_served(struct route *r, struct ledger_entry *e, struct server *to,
    const struct fact *f, struct outcome *out, msec now)
{
	const struct lesson *l = &open_of(e)->lesson;

	learn_headers(e, to, f, now);
	note_output(to, e->prompt_tokens, l, f, out);
	/* else no tail keeps them, and the next turn counts them as its own */
	if (open_of(e)->session != 0 && !sessions_alone(r->sessions, open_of(e)->session))
		out->hidden_tokens = 0;
	open_of(e)->hidden = out->hidden_tokens;
	remember_end(r, to, l, f, out, now);
}

void learn_answered(
    struct route *r, uint64_t uid, const struct fact *f, struct outcome *out, msec now)
{
	struct answered *a = &r->answered[uid % ANSWERED_MAX];
	struct lesson *l = &a->lesson;
	enum verdict v = fact_verdict(f);
	struct server *s;

	if (uid == 0 || a->uid != uid || f->kind != FACT_DONE) {
		count_output(r, f, &(struct lesson){ .generates = true }, out);
		return;
	}
	s = a->at != SERVER_NONE ? r->fleet.by_id[a->at] : NULL;
	out->answered_by = s;
	learn_tokens(r, l, f, out, now);
	if (a->ours) {
		learn_cached(r, f, a->prompt_tokens, a->hit_tokens);
		if (s != NULL)
			times_end(s->pool, uid, now - a->sent);
	}
	if (retried_elsewhere(f))
		judge_server(r, a->from, VERDICT_CONNECT, a->ours, a->sent, now);
	if (!a->failed && v >= VERDICT_FAILURE)
		judge_server(r, a->at, v, a->ours, a->sent, now);
	if (is_served(f) && s != NULL) {
		learn_response(r, l, s, f, out);
		if (a->from == SERVER_NONE && f->retries <= 0)
			compare_headers(uid, s, f, now);
		note_output(s, a->prompt_tokens, l, f, out);
		if (!sessions_counted(
			r->sessions, a->session, a->at, a->closed, out->hidden_tokens, now))
			out->hidden_tokens = 0;
		remember_end(r, s, l, f, out, now);
	}
	a->uid = 0;
}
