/* engine_work.c - which request gets which answer, and the beat of the simulated engine.
 *
 * A step's end is planned from the end of the step before it, not from the moment the timer was
 * served: a late timer does not make the engine slower. Only a lag above LAG_MAX_S is given up, so
 * that a machine that stood still does not answer in a burst. */
#include "tests/tools/lib/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LAG_MAX_S	0.1
#define FAIL_S		0.001

/* ---- the beat ---- */

static void step_begin(struct engine *e, double at)
{
	double seconds = sched_begin(e->sched, ev_now(e->loop)), wait;

	e->stepping = seconds >= 0;
	if (!e->stepping)
		return;
	e->step_at = at + seconds * e->faults.slow;
	wait = e->step_at - ev_now(e->loop);
	ev_timer_set(&e->step, wait > 0 ? wait : 0, 0);
	ev_timer_start(e->loop, &e->step);
}

void engine_step(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct engine *e = w->data;
	double now = ev_now(loop);

	sched_end(e->sched, now);
	engine_settle(e);
	step_begin(e, now - e->step_at > LAG_MAX_S ? now : e->step_at);
}

void engine_kick(struct engine *e)
{
	if (e->stepping || sched_n_waiting(e->sched) == 0)
		return;
	ev_now_update(e->loop);
	step_begin(e, ev_now(e->loop));
}

/* ---- jobs ---- */

void engine_job_free(struct job *j)
{
	for (size_t i = 0; i < j->ask.n_prompts; i++)
		sched_forget(&j->seqs[i]);
	ask_fini(&j->ask);
	free(j);
}

void engine_abort(struct conn *c)
{
	struct engine *e = c->e;

	if (c->state != CONN_BUSY || !c->asked)
		return;
	if (!c->kill)
		e->counts.aborted++;
	if (c->job == NULL)
		return;
	kv_fetch_cancel(c->job);
	for (size_t i = 0; i < c->job->ask.n_prompts; i++)
		sched_cancel(e->sched, &c->job->seqs[i]);
	engine_job_free(c->job);
	c->job = NULL;
}

static void job_finish(struct conn *c, struct job *j)
{
	struct buf b = { 0 };

	c->e->counts.finished++;
	c->job = NULL;
	if (j->ask.stream) {
		answer_end(j, &b);
		conn_stream(c, buf_span(&b));
		conn_stream_end(c);
	} else {
		answer_json(j, &b);
		if (j->ask.kv.hold)
			kv_params(c->e, j, &b);
		conn_respond(c, 200, "application/json", buf_span(&b));
	}
	buf_free(&b);
	if (j->ask.kv.hold)
		kv_hold(c->e, j);
	else
		engine_job_free(j);
}

static void job_token(struct conn *c, struct job *j, const struct seq *q)
{
	struct buf b = { 0 };

	if (!j->ask.stream)
		return;
	if (!j->started && !c->e->o.headers_early)
		conn_stream_start(c);
	answer_token(j, q, &b);
	conn_stream(c, buf_span(&b));
	buf_free(&b);
}

static bool drops(struct conn *c, const struct seq *q)
{
	uint32_t drop = c->e->faults.drop;

	if (drop == 0 || q->n_out < drop || c->kill)
		return c->kill;
	c->e->counts.dropped++;
	c->kill = true;
	conn_dirty(c);
	return true;
}

void engine_event(void *arg, struct seq *q, bool token)
{
	struct engine *e = arg;
	struct job *j = q->owner;
	struct conn *c = j->owner;

	if (q->n_out <= 1) {
		hist_add(&e->queued, q->admitted - q->arrived);
		hist_add(&e->ttft, q->first - q->arrived);
	}
	if (token)
		job_token(c, j, q);
	if (drops(c, q))
		return;
	if (q->state != SEQ_DONE)
		return;
	hist_add(&e->e2e, q->last - q->arrived);
	if (++j->n_done == j->ask.n_prompts)
		job_finish(c, j);
}

static bool job_start(struct engine *e, struct job *j)
{
	for (size_t i = 0; i < j->ask.n_prompts; i++) {
		struct seq *q = &j->seqs[i];

		q->prompt = j->ask.prompts[i].t;
		q->n_prompt = (uint32_t)j->ask.prompts[i].n;
		q->max_out = j->ask.max_out;
		q->space = j->ask.space;
		q->owner = j;
		q->hold = j->ask.kv.hold;
		if (sched_add(e->sched, q, ev_now(e->loop)))
			continue;
		while (i-- > 0)
			sched_cancel(e->sched, &j->seqs[i]);
		return false;
	}
	return true;
}

static void bad_request(struct conn *c, int status, const char *text)
{
	c->e->counts.bad++;
	conn_respond_error(c, status, text);
}

void engine_begin(struct conn *c)
{
	struct job *j = c->job;

	if (job_start(c->e, j)) {
		if (j->ask.stream && c->e->o.headers_early)
			conn_stream_start(c);
		return;
	}
	c->job = NULL;
	engine_job_free(j);
	bad_request(c, 400, "the prompt and max_tokens are longer than the engine's memory");
}

static void inference(struct conn *c, enum api api)
{
	struct engine *e = c->e;
	struct job *j = calloc(1, sizeof(*j));
	const char *why = "out of memory";

	if (j)
		why = ask_parse(&j->ask, api, c->body.p ? c->body.p : "", c->body.n, &e->o.ask);
	if (why) {
		bad_request(c, 400, why);
		if (j)
			engine_job_free(j);
		return;
	}
	snprintf(j->id, sizeof(j->id), "stub-%.20s-%llu", e->o.name, (unsigned long long)e->next_id++);
	j->created = (int64_t)time(NULL);
	j->owner = c;
	c->job = j;
	buf_free(&c->body);
	if (j->ask.kv.fetch)
		kv_fetch(c);
	else
		engine_begin(c);
}

/* ---- which answer ---- */

static void health(struct conn *c)
{
	switch (c->e->faults.health) {
	case HEALTH_OK:
		conn_respond(c, 200, NULL, (struct span){ "", 0 });
		break;
	case HEALTH_FAIL:
		conn_respond_error(c, 503, "unhealthy, as asked");
		break;
	case HEALTH_HANG:
		break;
	}
}

static void models(struct conn *c)
{
	struct buf b = { 0 };
	const struct sched_opts *s = &c->e->o.sched;

	buf_puts(&b, "{\"object\":\"list\",\"data\":[{\"id\":");
	buf_put_json(&b, span_str(c->e->o.model));
	buf_putf(&b,
	    ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"stub\","
	    "\"max_model_len\":%llu}]}",
	    (long long)c->e->started, (unsigned long long)s->block_size * s->n_blocks);
	conn_respond(c, 200, "application/json", buf_span(&b));
	buf_free(&b);
}

static void metrics(struct conn *c)
{
	struct buf b = { 0 };

	engine_metrics(c->e, &b);
	conn_respond(c, 200, "text/plain; version=0.0.4; charset=utf-8", buf_span(&b));
	buf_free(&b);
}

static void loads(struct conn *c)
{
	struct buf b = { 0 };

	engine_loads(c->e, &b);
	conn_respond(c, 200, "application/json", buf_span(&b));
	buf_free(&b);
}

static void post(struct conn *c, enum api api)
{
	struct engine *e = c->e;

	c->asked = true;
	e->counts.requests++;
	if (e->faults.stall) {
		e->counts.stalled++;
	} else if (e->faults.fail) {
		e->counts.failed++;
		conn_respond_later(c, FAIL_S);
	} else {
		inference(c, api);
	}
}

#define RESPONSES	"/v1/responses/"

/* Return the id in /v1/responses/ID, /v1/responses/ID/cancel or .../ID/input_items. */
static struct span stored_id(struct span path)
{
	size_t n = sizeof(RESPONSES) - 1;
	const char *end;

	if (path.n <= n || memcmp(path.p, RESPONSES, n) != 0)
		return SPAN("");
	path = span_of(path.p + n, path.n - n);
	end = memchr(path.p, '/', path.n);
	return end != NULL ? span_of(path.p, (size_t)(end - path.p)) : path;
}

/* This engine has all that it has answered, whose ids have its name. */
static void stored(struct conn *c, struct span id)
{
	char text[96], mine[96];
	unsigned long long number;
	struct buf b = { 0 };
	const char *last;

	snprintf(text, sizeof(text), "%.*s", (int)(id.n < 95 ? id.n : 95), id.p);
	last = strrchr(text, '-');
	number = last != NULL ? strtoull(last + 1, NULL, 10) : 0;
	snprintf(mine, sizeof(mine), "stub-%.20s-%llu", c->e->o.name, number);
	if (strcmp(text, mine) != 0 || number >= c->e->next_id) {
		bad_request(c, 404, "no such response");
		return;
	}
	buf_putf(&b, "{\"id\":\"%s\",\"object\":\"response\",\"status\":\"completed\"}", mine);
	conn_respond(c, 200, "application/json", buf_span(&b));
	buf_free(&b);
}

void engine_request(struct conn *c)
{
	const char *query = strchr(c->target, '?');
	struct span path = span_of(c->target, query ? (size_t)(query - c->target) : strlen(c->target));
	enum api api = api_of_path(path);

	if (api != API_NONE && c->post)
		post(c, api);
	else if (span_eq(path, SPAN("/control")) && c->post)
		engine_control_set(c, span_str(query ? query + 1 : ""));
	else if (span_eq(path, SPAN("/control")))
		engine_control_get(c);
	else if (span_eq(path, SPAN("/health")) && !c->post)
		health(c);
	else if (span_eq(path, SPAN("/v1/models")) && !c->post)
		models(c);
	else if (span_eq(path, SPAN("/metrics")) && !c->post)
		metrics(c);
	else if (span_eq(path, SPAN("/kv")) && !c->post)
		kv_give(c, span_str(query ? query + 1 : ""));
	else if (span_eq(path, SPAN("/v1/loads")) && !c->post)
		loads(c);
	else if (stored_id(path).n > 0)
		stored(c, stored_id(path));
	else
		bad_request(c, api != API_NONE ? 405 : 404, "there is nothing here");
}
