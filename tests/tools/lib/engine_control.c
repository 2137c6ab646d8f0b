/* engine_control.c - faults from outside: POST /control with a query string, a JSON object or both.
 *
 *    slow=FACTOR     every step takes so many times longer (1: as before)
 *    fail=STATUS     requests are answered with this status after 1 ms (0: no more)
 *    stall=1         requests are taken and never answered
 *    drop=N          answers are cut after N tokens
 *    kv=SHARE        this share of the cache is reported as used (0: the true one)
 *    health=ok|fail|hang
 *    dead=refuse     close the listeners and all connections; dead=exit: and leave
 *    reset=cache     forget all cached blocks
 *    restore=1       as new, the cache apart
 *    for=SECONDS     restore by itself after so long
 *
 * If one word is unknown, no fault changes. A listener given with --control stays open during
 * dead=refuse, so that it can receive "restore". */
#include "tests/tools/lib/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/tools/lib/jdom.h"

struct order {
	struct faults faults;
	double seconds;
	bool reset, restore, leave;
	char why[160];
};

static bool bad(struct order *o, const char *key, const char *value)
{
	snprintf(o->why, sizeof(o->why), "\"%.40s\" cannot be \"%.60s\"", key, value);
	return false;
}

static bool number(const char *s, double lo, double hi, double *out)
{
	char *end;
	double v = strtod(s, &end);

	*out = v;
	return *s && *end == 0 && isfinite(v) && v >= lo && v <= hi;
}

static bool set_health(struct order *o, const char *v)
{
	static const char *const words[] = { "ok", "fail", "hang" };

	for (size_t i = 0; i < 3; i++)
		if (strcmp(v, words[i]) == 0) {
			o->faults.health = (enum health)i;
			return true;
		}
	return bad(o, "health", v);
}

static bool set_dead(struct order *o, const char *v)
{
	o->faults.refuse = strcmp(v, "refuse") == 0;
	o->leave = strcmp(v, "exit") == 0;
	return o->faults.refuse || o->leave || bad(o, "dead", v);
}

static bool set(struct order *o, const char *key, const char *v)
{
	double n = 0;

	if (strcmp(key, "health") == 0)
		return set_health(o, v);
	if (strcmp(key, "dead") == 0)
		return set_dead(o, v);
	if (strcmp(key, "reset") == 0) {
		o->reset = true;
		return strcmp(v, "cache") == 0 || bad(o, key, v);
	}
	if (strcmp(key, "restore") == 0) {
		o->restore = true;
		return true;
	}
	if (strcmp(key, "slow") == 0)
		return number(v, 0.001, 1000, &o->faults.slow) || bad(o, key, v);
	if (strcmp(key, "kv") == 0)
		return number(v, 0, 1, &o->faults.kv) || bad(o, key, v);
	if (strcmp(key, "for") == 0)
		return number(v, 0.001, 86400, &o->seconds) || bad(o, key, v);
	if (!number(v, 0, 1000000, &n))
		return bad(o, key, v);
	if (strcmp(key, "fail") == 0) {
		o->faults.fail = (int)n;
		return n == 0 || (n >= 400 && n <= 599) || bad(o, key, v);
	}
	if (strcmp(key, "stall") == 0)
		o->faults.stall = n > 0;
	else if (strcmp(key, "drop") == 0)
		o->faults.drop = (uint32_t)n;
	else
		return bad(o, "a key", key);
	return true;
}

static void copy(char *to, size_t size, struct span s)
{
	size_t n = s.n < size ? s.n : size - 1;

	memcpy(to, s.p ? s.p : "", n);
	to[n] = 0;
}

/* key=value&key=value; a key alone has the value 1. */
static bool read_query(struct order *o, struct span q)
{
	char key[32], v[64];

	while (q.n) {
		const char *amp = memchr(q.p, '&', q.n);
		struct span pair = span_of(q.p, amp ? (size_t)(amp - q.p) : q.n);
		const char *eq = memchr(pair.p, '=', pair.n);
		size_t n = eq ? (size_t)(eq - pair.p) : pair.n;

		copy(key, sizeof(key), span_of(pair.p, n));
		copy(v, sizeof(v), eq ? span_of(eq + 1, pair.n - n - 1) : SPAN("1"));
		if (*key && !set(o, key, v))
			return false;
		q.n -= pair.n + (amp != NULL);
		q.p += pair.n + (amp != NULL);
	}
	return true;
}

static bool read_object(struct order *o, const struct jnode *root)
{
	char key[32], v[64];

	if (!jis(root, J_OBJECT))
		return bad(o, "the body", "no object");
	for (const struct jnode *c = root->first; c; c = c->next) {
		copy(key, sizeof(key), c->key);
		copy(v, sizeof(v), jis(c, J_TRUE) ? SPAN("1") : jis(c, J_FALSE) ? SPAN("0") : c->text);
		if (!set(o, key, v))
			return false;
	}
	return true;
}

static bool read_body(struct order *o, struct span body)
{
	const char *why;
	struct jdom *d;
	bool good;

	if (body.n == 0)
		return true;
	if ((d = jdom_parse(body.p, body.n, &why)) == NULL)
		return bad(o, "the body", why);
	good = read_object(o, jdom_root(d));
	jdom_free(d);
	return good;
}

void engine_faults_clear(struct engine *e)
{
	struct err err;

	ev_timer_stop(e->loop, &e->restore);
	e->faults = (struct faults){ .slow = 1 };
	for (size_t i = 0; i < e->n_listeners; i++)
		if (e->listeners[i].fd < 0 && engine_listen(e, &e->listeners[i], &err))
			fprintf(stderr, "stub_engine: %s\n", err.text);
}

/* Close all listeners and mark all connections to be closed, except <but> and those of control. */
static void close_doors(struct engine *e, struct conn *but)
{
	struct list *l;

	for (size_t i = 0; i < e->n_listeners; i++)
		if (!e->listeners[i].control)
			engine_unlisten(e, &e->listeners[i]);
	for (l = e->conns.next; l != &e->conns; l = l->next) {
		struct conn *c = list_entry(l, struct conn, link);

		if (c == but || c->control)
			continue;
		c->kill = true;
		conn_dirty(c);
	}
	but->keep = but->keep && but->control;
}

static bool has_control(const struct engine *e)
{
	for (size_t i = 0; i < e->n_listeners; i++)
		if (e->listeners[i].control)
			return true;
	return false;
}

void engine_control_set(struct conn *c, struct span query)
{
	struct engine *e = c->e;
	struct order o = { .faults = e->faults };

	if (!read_query(&o, query) || !read_body(&o, buf_span(&c->body))) {
		conn_respond_error(c, 400, o.why);
		return;
	}
	if (o.faults.refuse && o.seconds <= 0 && !has_control(e)) {
		conn_respond_error(c, 400, "dead=refuse needs for=SECONDS or a --control listener");
		return;
	}
	if (o.restore)
		engine_faults_clear(e);
	else
		e->faults = o.faults;
	if (o.reset)
		blocks_forget_all(sched_blocks(e->sched));
	if (e->faults.refuse)
		close_doors(e, c);
	if (o.seconds > 0 && !o.restore) {
		ev_timer_stop(e->loop, &e->restore);
		ev_timer_set(&e->restore, o.seconds, 0);
		ev_timer_start(e->loop, &e->restore);
	}
	e->leaving = o.leave;
	engine_control_get(c);
}

void engine_control_get(struct conn *c)
{
	static const char *const health[] = { "ok", "fail", "hang" };
	struct engine *e = c->e;
	const struct sched_stats *s = sched_stats(e->sched);
	const struct blocks *bl = sched_blocks(e->sched);
	struct buf b = { 0 };

	buf_puts(&b, "{\"name\":");
	buf_put_json(&b, span_str(e->o.name));
	buf_putf(&b, ",\"slow\":%g,\"fail\":%d,\"stall\":%s,\"drop\":%u,\"health\":\"%s\",\"dead\":%s",
		 e->faults.slow, e->faults.fail, e->faults.stall ? "true" : "false", e->faults.drop,
		 health[e->faults.health], e->faults.refuse ? "true" : "false");
	buf_putf(&b, ",\"connections\":%u,\"running\":%u,\"waiting\":%u,\"holding\":%u",
		 e->n_conns, sched_n_running(e->sched), sched_n_waiting(e->sched), e->n_held);
	buf_putf(&b, ",\"block_size\":%u,\"blocks\":%u,\"blocks_free\":%u,\"blocks_cached\":%u,"
		 "\"evicted\":%llu", e->o.sched.block_size, blocks_n_total(bl), blocks_n_free(bl),
		 blocks_n_cached(bl), (unsigned long long)blocks_n_evicted(bl));
#define COUNT(name, value)	buf_putf(&b, ",\"" name "\":%llu", (unsigned long long)(value))
	COUNT("accepted", e->counts.accepted);
	COUNT("requests", e->counts.requests);
	COUNT("finished", e->counts.finished);
	COUNT("failed", e->counts.failed);
	COUNT("dropped", e->counts.dropped);
	COUNT("stalled", e->counts.stalled);
	COUNT("bad", e->counts.bad);
	COUNT("aborted", e->counts.aborted);
	COUNT("held", e->counts.held);
	COUNT("given", e->counts.given);
	COUNT("expired", e->counts.expired);
	COUNT("fetched", e->counts.fetched);
	COUNT("unfetched", e->counts.unfetched);
	COUNT("prompt_tokens", s->prompt_tokens);
	COUNT("given_tokens", s->given_tokens);
	COUNT("cached_tokens", s->cached_tokens);
	COUNT("output_tokens", s->output_tokens);
	COUNT("steps", s->steps);
#undef COUNT
	buf_puts(&b, "}\n");
	conn_respond(c, 200, "application/json", buf_span(&b));
	buf_free(&b);
}
