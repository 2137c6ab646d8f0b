/* world.h - a router for stories: a clock that the test sets, requests whose prompts are written as
 * letters, facts, and views.
 *
 * A letter is a message of TURN_BYTES bytes of its own text. So "ab" is a conversation of two
 * turns, "abc" its next one, and "xb" shares nothing with it. */
#ifndef TESTS_ROUTE_WORLD_H
#define TESTS_ROUTE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/route/route_in.h"
#include "tests/lib/index/index_test.h"
#include "tests/unit/route/preview.h"

#define TURN_BYTES	620	/* nine pages, and a tenth in part */
#define TURN_PAGES	10	/* in text mode, pages of 64 bytes */
#define IDLE4		"lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1"

struct text { char p[1 << 16]; size_t n; };

struct world {
	struct route_opts o;
	struct route *r;
	struct route_scratch *s;
	msec now;
	struct route_request q;		/* the request without uid, seq and body */
	struct route_answer a;		/* the last one */
	struct text body;
};

static inline struct hash_key test_key(void)
{
	struct hash_key k;
	struct rng rng;

	rng_init(&rng, 42);
	for (size_t i = 0; i < sizeof(k.secret); i++)
		k.secret[i] = (uint8_t)rng_next(&rng);
	return k;
}

/* Set options in w->o between these two. */
static inline void world_options(struct world *w)
{
	memset(w, 0, sizeof(*w));
	route_defaults(&w->o);
	w->o.index.max_bytes = 8u << 20;
	w->o.heads.max_bytes = 1u << 20;
	w->now = 1000000;
	w->q = (struct route_request){
		.pool = SPAN("pool"), .load = SPAN(IDLE4), .path = SPAN("/v1/chat/completions"),
		.visible = -1, .whole = -1, .work = ROUTE_WORK_FULL,
	};
}

static inline void world_open(struct world *w)
{
	struct hash_key k = test_key();

	assert_non_null(w->r = route_new(&w->o, &k, 0));
	assert_non_null(w->s = route_scratch_new(w->r));
}

static inline void world_start(struct world *w)
{
	world_options(w);
	world_open(w);
}

/* Failures cost a server nothing, so requests can be refused without an effect on later ones. */
static inline void world_start_unpunished(struct world *w)
{
	world_options(w);
	w->o.pool_default.policy.penalty_failure = 0;
	world_open(w);
}

static inline void world_end(struct world *w)
{
	const char *broken = index_check(w->r->index);

	if (broken != NULL)
		fail_msg("index: %s", broken);
	route_scratch_free(w->s);
	route_free(w->r);
}

/* ---- bodies ------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static inline void say(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	t->n += (size_t)vsnprintf(t->p + t->n, sizeof(t->p) - t->n, fmt, ap);
	va_end(ap);
	assert_true(t->n < sizeof(t->p));
}

static inline void say_turn(struct text *t, char letter)
{
	struct rng rng;

	rng_init(&rng, (uint64_t)letter);
	assert_true(t->n + TURN_BYTES < sizeof(t->p));
	for (size_t i = 0; i < TURN_BYTES; i++)
		t->p[t->n++] = (char)('a' + rng_below(&rng, 26));
}

/* {<before>"messages":[...]<after>} */
static inline void chat(struct text *t, const char *before, const char *turns, const char *after)
{
	t->n = 0;
	say(t, "{%s\"messages\":[", before);
	for (size_t i = 0; turns[i] != '\0'; i++) {
		say(t, "%s{\"role\":\"%s\",\"content\":\"", i ? "," : "",
		    i % 2 ? "assistant" : "user");
		say_turn(t, turns[i]);
		say(t, "\"}");
	}
	say(t, "]%s}", after);
}

/* A completions body of the token ids 1000, 1001, ... */
static inline void ids(struct text *t, unsigned n)
{
	t->n = 0;
	say(t, "{\"model\":\"m\",\"prompt\":[");
	for (unsigned i = 0; i < n; i++)
		say(t, "%s%u", i ? "," : "", 1000 + i);
	say(t, "]}");
}

/* ---- requests ----------------------------------------------------------------------------- */

static inline void send_body(struct world *w, const char *uid, struct span body)
{
	w->q.uid = span_str(uid);
	w->q.seq = -1;
	w->q.body = body;
	route_decide(w->r, w->s, &w->q, w->now, &w->a);
}

/* Send w->body. */
static inline void send(struct world *w, const char *uid)
{
	send_body(w, uid, span_of(w->body.p, w->body.n));
}

static inline void ask(struct world *w, const char *uid, const char *turns)
{
	chat(&w->body, "", turns, ",\"model\":\"m\"");
	send(w, uid);
}

/* ---- facts -------------------------------------------------------------------------------- */

static inline void tell_first(struct world *w, const char *uid, const char *srv, int st,
			      const char *type)
{
	struct fact f;

	fact_init(&f, FACT_FIRST);
	f.uid = span_str(uid);
	f.server = span_str(srv);
	f.status = st;
	f.type = span_str(type);
	route_learn(w->r, &f, w->now);
}

/* <tr>: -1 when there never were headers. */
static inline void tell_done(struct world *w, const char *uid, const char *srv, int st,
			     const char *ts, int64_t tr)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = span_str(uid);
	f.server = span_str(srv);
	f.status = st;
	fact_take_end(&f, span_str(ts));
	f.response_ms = tr;
	route_learn(w->r, &f, w->now);
}

/* The log line of a request that s1 has served, to be completed and sent. */
static inline struct fact served_fact(const char *uid)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = span_str(uid);
	f.server = SPAN("s1");
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 20;
	return f;
}

#define STREAM	"text/event-stream"

/* The server of the last answer serves it to the end. */
static inline void served(struct world *w, const char *uid)
{
	char srv[SERVER_NAME_MAX + 1];

	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	tell_first(w, uid, srv, 200, STREAM "; charset=utf-8");
	tell_done(w, uid, srv, 200, "--", 20);
}

/* The request of the last answer failed before its first token, so its claim is removed. */
static inline void refused(struct world *w, const char *uid)
{
	tell_done(w, uid, "<NOSRV>", 503, "SC", -1);
}

/* Sends <n> new prompts and refuses each. Returns the digits of the servers s0 to s9 that answers
 * named, as server or alt: each once, ascending, valid until the next call. */
static inline const char *named(struct world *w, unsigned n)
{
	static char digits[11];
	char uid[16], turns[2] = "A";
	bool hit[10] = { false };
	size_t k = 0;

	for (unsigned i = 0; i < n; i++) {
		snprintf(uid, sizeof(uid), "w%u", i);
		turns[0] = (char)('A' + i % 50);
		ask(w, uid, turns);
		if (w->a.server.n == 2)
			hit[w->a.server.p[1] - '0'] = true;
		if (w->a.alt.n == 2)
			hit[w->a.alt.p[1] - '0'] = true;
		refused(w, uid);
		w->now++;
	}
	for (size_t i = 0; i < 10; i++)
		if (hit[i])
			digits[k++] = (char)('0' + i);
	digits[k] = '\0';
	return digits;
}

/* ---- views -------------------------------------------------------------------------------- */

static inline bool is(struct span s, const char *text)
{
	return span_eq(s, span_str(text));
}

#define assert_span(s, text)	assert_span_((s), (text), __FILE__, __LINE__)
static inline void assert_span_(struct span s, const char *text, const char *file, int line)
{
	if (!is(s, text)) {
		print_error("\"" SPAN_FMT "\" is not \"%s\"\n", SPAN_ARG(s), text);
		_fail(file, line);
	}
}

#define assert_why(w, y)	assert_string_equal(why_text((w)->a.why), why_text(y))

static inline struct route_stats stats(struct world *w)
{
	struct route_stats s;

	route_stats(w->r, &s);
	return s;
}

struct server_find { const char *name; struct route_server_view v; bool found; };

static inline void server_look(void *arg, const struct route_server_view *v)
{
	struct server_find *f = arg;

	if (strcmp(v->name, f->name) == 0) {
		f->v = *v;
		f->found = true;
	}
}

/* Find a server's view; <found> is false if there is none. */
static inline struct server_find server(struct world *w, const char *name)
{
	struct server_find f = { .name = name };

	route_each_server(w->r, w->now, server_look, &f);
	return f;
}

static inline void pool_look(void *arg, const struct route_pool_view *v)
{
	*(struct route_pool_view *)arg = *v;
}

/* Return the view of the last pool. */
static inline struct route_pool_view pool(struct world *w)
{
	struct route_pool_view v = { 0 };

	route_each_pool(w->r, pool_look, &v);
	return v;
}

/* Bytes <from> .. <to> of w->body as slice <seq>. Only the first brings more than uid and seq. */
static inline void slice_at(struct world *w, struct route_scratch *s, const char *uid,
    int64_t seq, size_t from, size_t to)
{
	struct route_request q = { .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL };

	if (seq == 0) {
		q = w->q;
		q.visible = q.whole = (int64_t)w->body.n;
	}
	q.uid = span_str(uid);
	q.seq = seq;
	q.body = span_of(w->body.p + from, to - from);
	route_decide(w->r, s, &q, w->now, &w->a);
}

#endif
