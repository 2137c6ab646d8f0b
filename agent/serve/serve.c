/* serve.c - frames in, ACKs out; each NOTIFY is answered before the next frame is read.
 *
 * The bytes of a NOTIFY are never copied: arguments point into the connection's buffer until its
 * decision is finished, which is after the ACK, but before the next message is handled. So effects
 * have the order of messages, and of the frames that came together only the last answer is sent
 * before its decision is finished. The ACK of a message with a fact sets only
 * <more>, because HAProxy still writes its log line from the variables of the decision. */
#include "agent/base/count.h"
#include "agent/route/vars.h"
#include "agent/serve/message_in.h"

const uint32_t serve_us_bounds[SERVE_SECONDS_BUCKETS] = {
	5, 10, 20, 35, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000, 20000, UINT32_MAX
};

/* one ACK: two names of 127 bytes, a model's of 255, 16 variables of at most 25, and a reserve */
#define ANSWER_MAX	1024u

#define HURRIED_WORK	0u	/* pages of text, no tokenizer */

_Static_assert(ANSWER_MAX >= SPOP_REPLY_MAX, "a reply needs no more room than an answer");
_Static_assert(SERVE_OUT_MIN >= ANSWER_MAX, "one answer must fit an empty buffer");

void serve_init(struct serve *s, struct serve_env *env, const struct spop_conn_opts *o)
{
	memset(s, 0, sizeof(*s));
	spop_conn_init(&s->conn, o);
	s->env = env;
}

void serve_fini(struct serve *s)
{
	serve_finish(s->env);
	spop_conn_fini(&s->conn);
}

static void count_time(struct serve_counters *c, usec us)
{
	unsigned b = 0;

	while (b + 1 < SERVE_SECONDS_BUCKETS && us > serve_us_bounds[b])
		b++;
	count_add(&c->us_bucket[b], 1);
	count_add(&c->us_sum, (uint64_t)us);
	count_add(&c->us_count, 1);
}

/* An ACK that is being written. */
struct answering {
	struct spop_ack ack;
	uint32_t vars;		/* set of variables that are wanted */
	bool later;		/* the answer to an earlier slice may have set them */
};

static bool is_wanted(const struct answering *w, enum route_var v)
{
	return w->vars >> v & 1;
}

static void unset(struct answering *w, enum route_var v)
{
	if (w->later)
		spop_ack_unset(&w->ack, SPOP_SCOPE_TXN, route_var_names[v].p);
}

static void set_name(struct answering *w, enum route_var v, struct span name)
{
	if (!is_wanted(w, v))
		return;
	if (name.n > 0)
		spop_ack_set_str(&w->ack, SPOP_SCOPE_TXN, route_var_names[v].p, name.p, name.n);
	else
		unset(w, v);
}

static void set_int(struct answering *w, enum route_var v, int64_t n)
{
	if (is_wanted(w, v))
		spop_ack_set_int(&w->ack, SPOP_SCOPE_TXN, route_var_names[v].p, n);
}

static void set_known(struct answering *w, enum route_var v, bool known, int64_t n)
{
	if (known)
		set_int(w, v, n);
	else if (is_wanted(w, v))
		unset(w, v);
}

/* In the order of ROUTE_VARS. */
static void put_decision(struct answering *w, const struct route_answer *d, usec us)
{
	bool chosen = d->server.n > 0;

	set_name(w, VAR_SERVER, d->server);
	set_int(w, VAR_MORE, d->more);
	set_name(w, VAR_WHY, span_str(why_text(d->why)));
	set_name(w, VAR_ALT, d->alt);
	set_name(w, VAR_PREFILL, d->prefill);
	set_known(w, VAR_WAIT, d->wait_ms >= 0, d->wait_ms);
	set_known(w, VAR_TOKENS, d->tokens > 0, (int64_t)d->tokens);
	set_known(w, VAR_HIT_TOKENS, chosen, (int64_t)d->hit_tokens);
	set_int(w, VAR_HIT, d->hit);
	set_int(w, VAR_PAGES, d->pages);
	set_int(w, VAR_PROMPT_PAGES, d->prompt_pages);
	set_int(w, VAR_CUT, d->cut);
	set_int(w, VAR_US, us);
	set_known(w, VAR_RANK, d->rank >= 0, d->rank);
	set_known(w, VAR_PRIORITY, d->priority != 0, d->priority);
}

static void put_model(struct spop_ack *a, const struct route_model *m)
{
	const char *from = model_from_text(m->from);

	if (m->n > 0)
		spop_ack_set_str(a, SPOP_SCOPE_TXN, "model", m->name, m->n);
	else
		spop_ack_unset(a, SPOP_SCOPE_TXN, "model");
	spop_ack_set_str(a, SPOP_SCOPE_TXN, "model_from", from, strlen(from));
}

/* Results of all messages of one NOTIFY. */
struct outcome {
	bool decided, later, asked_model;
	bool begun;		/* <answer> is of route_begin() */
	uint32_t vars;		/* of the decision, that are wanted */
	struct route_answer answer;
	struct route_model model;
};

static enum serve_wait wait_of(const struct serve_env *env, usec start, msec asked)
{
	return env->wait != NULL ? env->wait(env->wait_arg, start, asked) : SERVE_IN_TIME;
}

/* Reduce the work of <q> if it has waited. */
static void bound_by_wait(struct serve_env *env, enum serve_wait wait, struct route_request *q)
{
	if (wait == SERVE_IN_TIME)
		return;
	q->no_compare = true;
	if (wait == SERVE_BUSY) {
		count_add(&env->count->uncompared, 1);
		return;
	}
	count_add(&env->count->hurried, 1);
	q->work = HURRIED_WORK;
}

static uint32_t vars_of(struct serve_list *last, struct span names)
{
	if (names.n > 0 && names.n == last->n && memcmp(names.p, last->text, names.n) == 0)
		return last->vars;
	if (names.n == 0 || names.n > sizeof(last->text))
		return route_vars(names);
	memcpy(last->text, names.p, names.n);
	last->n = (uint8_t)names.n;
	return last->vars = route_vars(names);
}

static void on_route(
    struct serve *s, struct spop_message *m, usec start, msec now, struct outcome *o)
{
	struct serve_env *env = s->env;
	struct route_request q;
	enum serve_wait wait;

	message_request(m, &q);
	wait = wait_of(env, start, q.asked_ms);
	q.frame_size = s->conn.frame_size;
	q.wall_s = env->message_clock != NULL ? now / 1000
	    : env->wall != NULL               ? env->wall(env->clock_arg)
					      : 0;
	o->decided = true;
	o->begun = wait != SERVE_LATE;
	o->later = q.seq > 0;
	o->vars = vars_of(&env->list, q.vars);
	if (wait == SERVE_LATE) {
		route_decline(env->route, &q, &o->answer);
		return;
	}
	bound_by_wait(env, wait, &q);
	route_begin(env->route, env->scratch, &q, now, &o->answer);
}

static void on_model(
    struct serve *s, struct spop_message *m, usec start, msec now, struct outcome *o)
{
	struct serve_env *env = s->env;
	struct route_request q;

	message_request(m, &q);
	o->asked_model = true;
	if (wait_of(env, start, q.asked_ms) == SERVE_LATE)
		route_model_decline(env->route, &o->model);
	else
		route_model(env->route, env->scratch, &q, now, &o->model);
}

static void on_fact(struct serve *s, struct spop_message *m, enum fact_kind kind, msec now)
{
	struct fact f;

	message_fact(m, kind, &f);
	route_learn(s->env->route, &f, now);
}

/* Ten times a simulated second, as the housekeeping thread does in real time. */
#define TICK_MS	100

static msec clock_of_messages(struct serve_env *env, const struct spop_message *m)
{
	struct message_clock *c = env->message_clock;
	msec now = message_now(m), last = __atomic_load_n(&c->now, __ATOMIC_RELAXED);

	if (now < last)
		return last;
	__atomic_store_n(&c->now, now, __ATOMIC_RELAXED);
	if (now - __atomic_load_n(&c->ticked, __ATOMIC_RELAXED) >= TICK_MS) {
		__atomic_store_n(&c->ticked, now, __ATOMIC_RELAXED);
		route_tick(env->route, now);
		while (route_work(env->route))
			;
	}
	return now;
}

static void on_message(struct serve *s, struct spop_message *m, usec start, struct outcome *o)
{
	msec now;

	route_finish(s->env->route, s->env->scratch);	/* of the message before */
	now = s->env->message_clock != NULL ? clock_of_messages(s->env, m) : start / 1000;
	count_add(&s->env->count->messages, 1);
	switch (message_kind(m)) {
	case MESSAGE_ROUTE:
		on_route(s, m, start, now, o);
		break;
	case MESSAGE_MODEL:
		on_model(s, m, start, now, o);
		break;
	case MESSAGE_FIRST:
		on_fact(s, m, FACT_FIRST, now);
		break;
	case MESSAGE_DONE:
		on_fact(s, m, FACT_DONE, now);
		break;
	case MESSAGE_UNKNOWN:
		count_add(&s->env->count->messages_unknown, 1);
		break;
	}
}

static void put_outcome(struct serve *s, const struct spop_event *ev, const struct outcome *o,
    usec us, struct spop_wr *out)
{
	struct answering w = { .vars = o->vars, .later = o->later };
	bool decided = o->decided && !o->answer.stands;

	spop_ack_begin(&w.ack, &s->conn, out, ev->stream_id, ev->frame_id);
	if (o->asked_model)
		put_model(&w.ack, &o->model);
	if (decided) {
		put_decision(&w, &o->answer, us);
		w.later = false;
		if (!o->asked_model)
			set_name(&w, VAR_MODEL, o->answer.model);
	}
	if (decided ? w.ack.n_actions == 0 && !w.ack.dropped : o->decided || !o->asked_model)
		spop_ack_set_int(&w.ack, SPOP_SCOPE_TXN, "more", o->decided && o->answer.more);
	if (spop_ack_end(&w.ack))
		count_add(&s->env->count->acks, 1);
}

static void on_notify(struct serve *s, const struct spop_event *ev, usec start, struct spop_wr *out)
{
	struct serve_env *env = s->env;
	struct spop_rd messages = ev->messages;
	struct spop_message m;
	struct outcome o = { .decided = false };
	unsigned n = 0;
	usec us;

	while (n++ < SERVE_MESSAGES_MAX && spop_message_next(&messages, &m) > 0)
		on_message(s, &m, start, &o);
	if (messages.left > 0)
		count_add(&env->count->args_bad, 1);
	us = env->clock(env->clock_arg) - start;
	put_outcome(s, ev, &o, us, out);
	if (!o.decided)
		return;
	env->unfinished = (struct serve_unfinished){
		.any = true, .recorded = o.begun, .later = o.later,
		.answer = o.answer, .us = us,
	};
	if (s->conn.joined.p != NULL)		/* freed with the next look at the input */
		serve_finish(env);
}

void serve_finish(struct serve_env *env)
{
	struct serve_unfinished *u = &env->unfinished;
	uint64_t record;
	usec start;

	if (!u->any)
		return;
	u->any = false;
	start = env->clock(env->clock_arg);
	record = route_finish(env->route, env->scratch);
	u->us += env->clock(env->clock_arg) - start;
	u->answer.decision = u->recorded ? record : 0;
	count_time(env->count, u->us);
	route_took(env->route, &u->answer, u->us);
	serve_pool_count(env->pools, &u->answer, u->later, u->us);
}

static void on_close(struct serve *s, const struct spop_event *ev)
{
	struct serve_counters *c = s->env->count;

	s->closing = true;
	s->why = *ev;
	s->why.messages = (struct spop_rd){ NULL, 0 };
	if (s->conn.healthcheck && ev->by_peer)
		count_add(&c->healthchecks, 1);
	else if (ev->by_peer)
		count_add(&c->closed_by_peer, 1);
	else
		count_add(&c->closed_bad[(unsigned)ev->status <= SPOP_STATUS_UNKNOWN ?
					 (unsigned)ev->status : SPOP_STATUS_UNKNOWN], 1);
}

static void on_event(struct serve *s, const struct spop_event *ev, usec start, struct spop_wr *out)
{
	struct serve_counters *c = s->env->count;

	switch (ev->kind) {
	case SPOP_EV_NONE:
		break;
	case SPOP_EV_HELLO:
		count_add(&c->hellos, 1);
		break;
	case SPOP_EV_NOTIFY:
		count_add(&c->notifies, 1);
		count_add(&c->lost, ev->lost);
		on_notify(s, ev, start, out);
		break;
	case SPOP_EV_ABORT:
		count_add(&c->aborts, 1);
		break;
	case SPOP_EV_CLOSE:
		on_close(s, ev);
		break;
	}
}

typedef ssize_t take_frame(struct spop_conn *c, const uint8_t *buf, size_t n, struct spop_wr *out,
			   struct spop_event *ev);

/* Answer one frame. Returns the bytes used; 0 if it is not complete. */
static size_t one_frame(struct serve *s, take_frame *take, const uint8_t *in, size_t n,
			struct spop_wr *out)
{
	uint64_t fragments = s->conn.n_fragments;
	usec start = s->env->clock(s->env->clock_arg);
	struct spop_event ev;
	ssize_t took = take(&s->conn, in, n, out, &ev);

	if (took <= 0)
		return 0;
	count_add(&s->env->count->frames, 1);
	count_add(&s->env->count->fragments, s->conn.n_fragments - fragments);
	on_event(s, &ev, start, out);
	return (size_t)took;
}

size_t serve_feed(struct serve *s, const uint8_t *in, size_t n, struct spop_wr *out)
{
	size_t used = 0, took = 1;

	while (took > 0 && !s->closing && out->cap - out->n >= ANSWER_MAX) {
		if (n - used >= SPOP_LENGTH_BYTES)	/* maybe a frame */
			serve_finish(s->env);
		took = one_frame(s, spop_conn_next, in + used, n - used, out);
		used += took;
	}
	return used;
}

void serve_lose(struct serve *s, const uint8_t *in, size_t n, struct spop_wr *out)
{
	serve_finish(s->env);
	one_frame(s, spop_conn_lose, in, n, out);
}

void serve_stop(struct serve *s, int status, struct spop_wr *out)
{
	spop_conn_disconnect(&s->conn, status, out);
	s->closing = true;
}
