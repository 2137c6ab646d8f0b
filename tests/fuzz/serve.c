/* serve - connections, messages, facts, log lines, stats rows, reports of engines and reloads on
 * one router, with a clock that the input sets.
 *
 * Input: a script; each byte selects an action, and the bytes after it its arguments. Names come
 * from small sets, so that they repeat. Limits are small, so that they are reached.
 *   - each NOTIFY gets one ACK with at least one action, not larger than agreed
 *   - at the end the index is consistent and within its limit; ledger, servers and slots have the
 *     same counts; slices and heads are within their limits
 *   - after all timeouts there is no open request, pending slice, claim or backlog */
#include "agent/feed/logline.h"
#include "agent/route/route_in.h"
#include "agent/serve/serve.h"
#include "spoe/wire.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/fuzz/lib/tok.h"
#include "tests/lib/index/index_test.h"
#include "tests/unit/route/preview.h"

#define CONNS		3
#define STEPS_MOST	400

struct conn {
	struct serve s;
	bool open;
	uint64_t notifies, acks;
};

struct world {
	struct route_opts o;
	struct route *r;
	struct serve_env env;
	struct serve_counters count;
	struct conn conn[CONNS];
	enum serve_wait wait;	/* of every frame */
	usec now, look;		/* time between two readings of the clock */
	uint8_t *out;
	struct spop_wr in;
	uint64_t stream;
};

/* ---- words ------------------------------------------------------------------------------- */

static const char *const pools[] = { "llm", "llm", "llm", "emb", "p2", "p3", "", "*" };
static const char *const servers[] = { "s1", "s2", "s3", "s4", "s5", "<NOSRV>", "", "<CACHE>" };
static const char *const tenants[] = { "", "", "a", "b" };
static const char *const models[] = { "", "", "m", "other" };
static const char *const types[] = {
	"text/event-stream", "text/event-stream; charset=utf-8", "application/json", ""
};
static const char *const ends[] = { "--", "--", "CD", "SC", "SH", "sQ", "PH", "KD" };
static const char *const paths[] = {
	"/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
	"/v1/embeddings", "/generate", "/x"
};
static const int statuses[] = { 200, 200, 200, 500, 429, 404, 503, -1 };

static struct span pick(const char *const *words, unsigned n, struct input *in)
{
	return span_str(words[in_u8(in) % n]);
}

/* Few of them, so that facts find their request; now and then one of many, so that limits are met.
 */
static struct span pick_uid(struct input *in)
{
	static char uid[8];
	uint8_t b = in_u8(in);

	snprintf(uid, sizeof(uid), "u%u", b < 0xc0 ? b & 7u : b & 63u);
	return b == 0xbf ? SPAN("") : span_str(uid);
}

#define PICK(words, in)	pick(words, sizeof(words) / sizeof((words)[0]), in)

/* ---- frames ------------------------------------------------------------------------------ */

static void put_arg(struct world *w, const char *name, const struct spop_data *d)
{
	spop_put_str(&w->in, name, strlen(name));
	spop_put_data(&w->in, d);
}

static void put_text(struct world *w, const char *name, struct span s)
{
	put_arg(w, name, &(struct spop_data){ .type = SPOP_T_STR, .s = { s.p, s.n } });
}

static void put_int(struct world *w, const char *name, int64_t v)
{
	put_arg(w, name, &(struct spop_data){ .type = SPOP_T_INT64, .i = v });
}

/* Servers of the process as the input has them. */
static void put_load(struct world *w, struct input *in)
{
	uint8_t how = in_u8(in);
	struct trace t = { 0 };
	unsigned i, n = how & 7;

	if (how & 0x80) {	/* any bytes */
		put_text(w, "load", in_bytes(in, in_u8(in)));
		return;
	}
	trace_say(&t, "lb1/%u;", how & 0x40 ? in_u8(in) : how >> 3 & 3u);
	for (i = 0; i < n; i++) {
		uint8_t b = in_u8(in);

		trace_say(&t, "s%u=%d,%u,%u,%u;", i + 1, (b & 0xc0) != 0, b & 7u, b >> 3 & 3u, b >> 5 & 3u);
	}
	put_text(w, "load", span_of(t.p, t.n));
	free(t.p);
}

/* A text for the model that has a tokenizer. */
static void make_text(struct trace *t, struct input *in, unsigned n)
{
	static const char *const words[] = { "the ", "server", " 12", "\\n", "\xc3\xa9", "<|end|>",
		"aaaaaaaa", "\\ud83d" };

	trace_say(t, "{\"model\":\"m1\",\"prompt\":\"");
	for (n *= 32; n > 0; n--)
		trace_say(t, "%s", words[n < 32 ? in_u8(in) & 7 : n * n % 7]);
	trace_say(t, "\"}");
}

/* A conversation: turns named by letters, each of its own text; or the input's own bytes. */
static void make_body(struct trace *t, struct input *in)
{
	uint8_t how = in_u8(in);
	unsigned i, k, n = how & 7;
	struct span raw;

	if (how & 0x80) {
		raw = in_bytes(in, in_u16(in) & 0xfff);
		trace_bytes(t, raw.p, raw.n);
		return;
	}
	if ((how & 0x58) == 0x58) {
		make_text(t, in, n);
		return;
	}
	trace_say(t, "{\"model\":\"m%u\",\"%s\":[", how >> 5 & 1u, how & 0x40 ? "prompt" : "messages");
	for (i = 0; i < n; i++) {
		uint8_t b = in_u8(in);

		if (how & 0x40) {
			for (k = 0; k < (b & 31u); k++)
				trace_say(t, "%s%u", i + k ? "," : "", b + k);
			continue;
		}
		trace_say(t, "%s{\"role\":\"%s\",\"content\":\"", i ? "," : "", b & 1 ? "user" : "system");
		for (k = 0; k < 10u + (b >> 4) * 20u; k++)
			trace_say(t, "%c ", 'a' + (b & 15));
		trace_say(t, "\"}");
	}
	trace_say(t, "]%s", how & 8 ? ",\"tools\":[{\"type\":\"function\"}]" : "");
	trace_say(t, "%s}", how & 16 ? ",\"cache_salt\":\"x\"" : "");
}

static void put_body(struct world *w, struct input *in)
{
	struct trace t = { 0 };
	size_t from, n;

	make_body(&t, in);
	from = t.n * in_u8(in) / 255;		/* a slice of it */
	n = (t.n - from) * (255u - in_u8(in)) / 255;
	put_int(w, "blen", (int64_t)t.n - (in_u8(in) & 3) * 100);
	put_int(w, "bsize", (int64_t)t.n);
	put_arg(w, "body", &(struct spop_data){ .type = SPOP_T_BIN, .s = { t.p ? t.p + from : "", n } });
	free(t.p);
}

/* One more argument, of a known name and any type. */
static bool put_any(struct world *w, struct input *in)
{
	static const char *const names[] = {
		"seq", "blen", "bsize", "uid", "st", "rc", "tr", "load", "ts", "pool", "nobody", ""
	};
	uint8_t how = in_u8(in);
	struct span s, name;
	struct spop_data d;

	if (how & 0x80 || in->left == 0)
		return false;
	name = PICK(names, in);
	d = (struct spop_data){ .type = (enum spop_type)(how % (SPOP_T_BIN + 1)) };
	if (d.type == SPOP_T_STR || d.type == SPOP_T_BIN) {
		s = in_bytes(in, in_u8(in) & 31);
		d.s = (struct spop_str){ s.p, s.n };
	} else if (d.type == SPOP_T_BOOL) {
		d.b = how & 16;
	} else if (d.type < SPOP_T_IPV4) {
		d.i = (int64_t)(int8_t)in_u8(in) * (1ll << (how >> 4) * 8 % 56);
		if (d.type != SPOP_T_INT64 && d.type != SPOP_T_UINT64)
			d.i &= INT32_MAX;
	}
	spop_put_str(&w->in, name.p, name.n);
	spop_put_data(&w->in, &d);
	return true;
}

static size_t put_name(struct world *w, const char *name)
{
	spop_put_str(&w->in, name, strlen(name));
	spop_put_u8(&w->in, 0);
	return w->in.n - 1;
}

static void put_route(struct world *w, struct input *in)
{
	static const char *const names[] = {
		"route", "route", "model", "route-1", "route-2", "route-9", "route-x", "route-999999999"
	};
	size_t count = put_name(w, PICK(names, in).p);
	uint8_t seq = in_u8(in);

	put_text(w, "uid", pick_uid(in));
	put_text(w, "pool", PICK(pools, in));
	put_load(w, in);
	put_text(w, "path", PICK(paths, in));
	put_text(w, "tenant", PICK(tenants, in));
	put_text(w, "model", PICK(models, in));
	put_text(w, "session", PICK(tenants, in));
	w->in.p[count] = 10;
	if (seq & 0x80) {
		put_int(w, "seq", seq & 7);
		w->in.p[count]++;
	}
	put_body(w, in);
	w->in.p[count] += put_any(w, in);
}

static void put_fact(struct world *w, struct input *in, const char *name)
{
	size_t count = put_name(w, name);

	put_text(w, "uid", pick_uid(in));
	put_text(w, "srv", PICK(servers, in));
	put_int(w, "st", statuses[in_u8(in) & 7]);
	put_text(w, "ct", PICK(types, in));
	put_text(w, "ts", PICK(ends, in));
	put_int(w, "tr", (int8_t)in_u8(in));
	put_text(w, "rc", in_u8(in) & 1 ? SPAN("+1") : SPAN("0"));
	w->in.p[count] = 7;
	w->in.p[count] += put_any(w, in);
}

/* ---- connections ------------------------------------------------------------------------- */

static usec clock_now(void *arg)
{
	struct world *w = arg;

	w->now += w->look;
	return w->now;
}

static const enum serve_wait waits[4] = { SERVE_IN_TIME, SERVE_LATE, SERVE_HURRY, SERVE_BUSY };

static enum serve_wait wait_now(void *arg, usec now, msec asked)
{
	return ((struct world *)arg)->wait;
}

/* Read the answers of one feeding. */
static void check_out(struct world *w, struct conn *c, const struct spop_wr *out)
{
	const uint8_t *p = out->p;
	size_t left = out->n;
	char text[4096];

	while (left > 0) {
		uint32_t n = left >= 4 ? spop_load_u32(p) : 0;

		must(n >= SPOP_HEADER_MIN && n <= left - 4);
		spop_frame_print(p + 4, n, text, sizeof(text));
		must(strstr(text, "bad=") == NULL);
		if (p[4] == SPOP_FRAME_ACK) {
			must(n <= c->s.conn.frame_size);
			must(strstr(text, "set txn.") != NULL);
			c->acks++;
		}
		p += n + 4;
		left -= n + 4;
	}
	must(c->acks == c->s.conn.n_notify);
}

static void feed(struct world *w, struct conn *c)
{
	struct spop_wr out;
	size_t used = 0, took;

	do {
		out = (struct spop_wr){ .p = w->out, .cap = SERVE_OUT_MIN };
		took = serve_feed(&c->s, w->in.p + used, w->in.n - used, &out);
		used += took;
		must(used <= w->in.n && !out.full);
		check_out(w, c, &out);
		serve_finish(&w->env);
	} while (took > 0 && used < w->in.n);
	w->in.n = 0;
}

static void conn_end(struct world *w, struct conn *c)
{
	if (c->open)
		serve_fini(&c->s);
	memset(c, 0, sizeof(*c));
}

static void conn_open(struct world *w, struct conn *c, uint32_t size, bool healthcheck)
{
	struct spop_conn_opts o = { .max_frame_size = 65536, .max_joined = 65536, .max_open = 4 };
	size_t start;

	conn_end(w, c);
	serve_init(&c->s, &w->env, &o);
	c->open = true;
	start = spop_frame_begin(&w->in, SPOP_FRAME_HAPROXY_HELLO, 0, 0);
	put_text(w, "supported-versions", SPAN("2.0"));
	put_arg(w, "max-frame-size", &(struct spop_data){ .type = SPOP_T_UINT32, .i = size });
	put_text(w, "capabilities", SPAN("pipelining"));
	put_arg(w, "healthcheck", &(struct spop_data){ .type = SPOP_T_BOOL, .b = healthcheck });
	spop_frame_end(&w->in, start);
	feed(w, c);
	must(c->s.conn.state == (healthcheck ? SPOP_CONN_CLOSED : SPOP_CONN_READY));
	must(c->s.closing == healthcheck);
}

static struct conn *conn_of(struct world *w, struct input *in)
{
	struct conn *c = &w->conn[in_u8(in) % CONNS];

	if (!c->open || c->s.closing)
		conn_open(w, c, 65536, false);
	return c;
}

/* The messages of one NOTIFY; returns how many of them are known to be good. */
static unsigned put_messages(struct world *w, struct input *in, unsigned n)
{
	unsigned i, good = 0;
	struct span s;

	for (i = 0; i < n; i++) {
		uint8_t what = in_u8(in) % 8;

		good += what < 7;
		if (what < 4) {
			put_route(w, in);
		} else if (what < 7) {
			put_fact(w, in, what == 6 ? "done" : "first");
		} else {	/* any bytes, so later messages are unknown */
			s = in_bytes(in, in_u8(in));
			spop_put_bytes(&w->in, s.p, s.n);
			return 0;
		}
	}
	return good;
}

/* Replace the payload after <start> by fragments of <piece> bytes; the second may abort it. */
static void cut_payload(struct world *w, size_t start, size_t payload, size_t piece, bool give_up)
{
	size_t n = w->in.n - payload, i, k, len;
	uint8_t *copy = (uint8_t *)exact(w->in.p + payload, n);

	w->in.n = start;
	for (i = 0; i < n || i == 0; i += len + (len == 0)) {
		len = n - i < piece ? n - i : piece;
		k = spop_frame_begin(&w->in, i ? SPOP_FRAME_UNSET : SPOP_FRAME_NOTIFY, w->stream, 1);
		w->in.p[k + 8] = i > 0 && i + len == n;
		if (i > 0 && give_up)
			w->in.p[k + 8] = SPOP_FLAG_ABORT;
		spop_put_bytes(&w->in, copy + i, len);
		spop_frame_end(&w->in, k);
	}
	free(copy);
}

/* A NOTIFY of some messages: once, many times at once, or with its payload in fragments. */
static void notify(struct world *w, struct input *in)
{
	struct conn *c = conn_of(w, in);
	uint8_t how = in_u8(in);
	uint64_t acks = c->acks, messages = w->count.messages;
	unsigned good, i, times = how & 0x40 ? 1 + (how >> 2 & 15u) * 4 : 1;
	size_t start, payload, n;

	w->stream++;
	start = spop_frame_begin(&w->in, SPOP_FRAME_NOTIFY, w->stream, 1);
	payload = w->in.n;
	good = put_messages(w, in, 1 + (how & 1u));
	if (how & 2) {
		cut_payload(w, start, payload, 1 + (how >> 2 & 31) * 32u, how & 0x80);
		times = 1;
	} else {
		spop_frame_end(&w->in, start);
	}
	n = w->in.n;
	for (i = 1; i < times && 2 * n < w->in.cap - w->in.n; i++)
		spop_put_bytes(&w->in, w->in.p, n);
	feed(w, c);
	must(c->acks - acks <= times);
	if (good > 0 && c->acks > acks)		/* each of them was looked at */
		must(w->count.messages - messages == good * (c->acks - acks));
}

static void raw(struct world *w, struct input *in)
{
	struct conn *c = conn_of(w, in);
	struct span s = in_bytes(in, in_u8(in));

	spop_put_bytes(&w->in, s.p, s.n);
	feed(w, c);
}

static void stop(struct world *w, struct input *in)
{
	struct conn *c = conn_of(w, in);
	struct spop_wr out = { .p = w->out, .cap = SERVE_OUT_MIN };

	serve_stop(&c->s, SPOP_STATUS_NORMAL, &out);
	check_out(w, c, &out);
	must(c->s.closing);
}

/* ---- other actions ----------------------------------------------------------------------- */

static void log_line(struct world *w, struct input *in)
{
	static struct logline l;
	struct trace t = { 0 };
	struct span raw_line;
	struct fact f;

	if (in_u8(in) & 0x80) {
		raw_line = in_bytes(in, in_u8(in));
		trace_bytes(&t, raw_line.p, raw_line.n);
	} else {
		trace_say(&t, "{\"uid\":\"%s\",\"be\":\"llm\"", pick_uid(in).p);
		trace_say(&t, ",\"srv\":\"%s\",\"want\":\"%s\"", PICK(servers, in).p, PICK(servers, in).p);
		trace_say(&t, ",\"st\":%d,\"ts\":\"%s\"", statuses[in_u8(in) & 7], PICK(ends, in).p);
		trace_say(&t, ",\"tr\":%d,\"ta\":50", (int8_t)in_u8(in));
		trace_say(&t, ",\"rc\":\"%s1\"}", in_u8(in) & 1 ? "+" : "");
	}
	if (logline_parse(&l, t.p ? t.p : "", t.n, &f) == 0)
		route_learn(w->r, &f, w->now / 1000);
	free(t.p);
}

/* Preview a body like kvroutectl: changes nothing. */
static void preview(struct world *w, struct input *in)
{
	struct route_request q = { .seq = -1, .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL };
	struct route_stats before, after;
	struct request_preview v;
	struct trace t = { 0 };

	q.pool = PICK(pools, in);
	q.path = PICK(paths, in);
	q.tenant = PICK(tenants, in);
	make_body(&t, in);
	q.body = span_of(t.p ? t.p : "", t.n);
	q.whole = in_u8(in) & 1 ? (int64_t)t.n + 9 : -1;
	route_stats(w->r, &before);
	preview_body(w->r, w->env.scratch, &q, &v);
	route_stats(w->r, &after);
	must(before.requests == after.requests && before.open == after.open);
	must(before.index.bytes == after.index.bytes && before.heads.openings == after.heads.openings);
	must(v.found == REQUEST_PROMPT
		? v.page > 0
		: v.found == REQUEST_NO_PROMPT || v.found == REQUEST_BAD_BODY);
	free(t.p);
}

/* A reload: other pools, rules, ages and models. */
static void reload(struct world *w, uint8_t how)
{
	static struct pool_opts pool[2];
	static struct model_opts model[2];
	struct route_opts o = w->o;

	pool[0] = o.pool_default;
	strcpy(pool[0].name, "llm");
	policy_preset(&pool[0].policy, (enum policy_rule)(how & 1 ? how >> 3 : 0) % RULE_COUNT);
	pool[0].isolate_tenants = how & 2;
	pool[0].policy.balance_abs_threshold = how & 4 ? 1 : 64;
	pool[1] = o.pool_default;
	strcpy(pool[1].name, "emb");
	strcpy(pool[1].model, how & 8 ? "m" : "");
	model[0] = o.model_default;
	strcpy(model[0].name, "m");
	model[0].text_order = (struct text_order){ { TEXT_TOOLS, TEXT_SYSTEM, TEXT_MESSAGES } };
	o.pools = pool;
	o.n_pools = how >> 4 & 3 ? 2 : 0;
	model[1] = w->o.models[0];
	model[1].block_size = how & 4 ? 3 : 0;
	o.models = model;
	o.n_models = how >> 5 & 2;
	o.ledger_max_entries = how & 0x80 ? 3 : 16;
	must(route_reconfigure(w->r, &o) == 0);
}

/* ---- observations ------------------------------------------------------------------------ */

/* A row with names like HAProxy's, of few processes, but more than there are slots. */
static void stats_row(struct world *w, struct input *in)
{
	static const char *const processes[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10" };
	struct hastats_row r = { .pool = span_str(pools[in_u8(in) % 6]),
		.server = span_str(servers[in_u8(in) % 5]) };
	uint8_t how = in_u8(in);
	msec now = w->now / 1000;

	r.state = (enum hastats_state)(how % 4);
	r.backup = how % 5 == 4;
	r.weight = how >> 2 & 3;
	r.sessions = how >> 4 == 15 ? INT32_MAX : how >> 4;
	r.queue = how >> 4 == 15 ? INT32_MAX : how >> 6;
	route_observe_server(w->r, PICK(processes, in), &r, now, now + in_u8(in) * 100);
}

static void engine_report(struct world *w, struct input *in)
{
	struct span pool = PICK(pools, in), name = PICK(servers, in);
	struct engine_report e = { .waiting = (int64_t)in_u8(in) - 1, .running = (int64_t)in_u8(in) - 1 };
	msec now = w->now / 1000;

	e.kv_used = (in_u8(in) - 1) / 254.0;
	e.block_size = in_u8(in);
	e.capacity = in_u8(in) * 8u;
	e.n_adapters = in_u8(in) % (ENGINE_ADAPTERS_MAX + 1);
	for (uint32_t i = 0; i < e.n_adapters; i++) {
		strcpy(e.adapter[i].name, models[2 + i % 2]);
		e.adapter[i].running = i & 1;
		e.adapter[i].waiting = i & 2;
	}
	route_observe_engine(w->r, pool, name, &e, now, now + in_u8(in) * 100);
}

static void start_conn(struct world *w, struct input *in)
{
	uint8_t which = in_u8(in);

	conn_open(w, &w->conn[which % CONNS], 256u + in_u8(in) * 256u, which >= 0xf0);
}

/* The list of problems to log ends, and its names are bounded. */
static void hear_problems(struct world *w)
{
	struct problem_event e;
	unsigned n = 0;

	while (route_problem_next(w->r, w->now / 1000, &e)) {
		must(++n <= w->r->problems.n * PROBLEM_COUNT && e.what < PROBLEM_COUNT);
		must(strlen(e.example.text[0]) <= PROBLEM_NAME_MAX &&
		    strlen(e.example.text[1]) <= PROBLEM_NAME_MAX);
		must(strlen(e.pool) <= POOL_NAME_MAX && (e.over || e.bad <= e.seen));
	}
}

static void no_problem(void *arg, const struct problem_view *v)
{
	must(!v->raised);
}

static void step(struct world *w, struct input *in)
{
	uint8_t what = in_u8(in) % 16;

	switch (what) {
	case 0: start_conn(w, in); break;
	case 1: raw(w, in); break;
	case 2: log_line(w, in); break;
	case 3: w->now += (usec)in_u8(in) * 50000; break;
	case 4:
		w->now += (usec)in_u8(in) * 25500000;
		w->look = 1 + (usec)in_u8(in) * 100;
		break;
	case 5: route_tick(w->r, w->now / 1000); route_work(w->r); hear_problems(w); break;
	case 6: reload(w, in_u8(in)); break;
	case 7: w->wait = waits[in_u8(in) % 4]; break;
	case 8: in_u8(in) & 1 ? stop(w, in) : conn_end(w, &w->conn[in_u8(in) % CONNS]); break;
	case 9: preview(w, in); break;
	case 13: stats_row(w, in); break;
	case 14: engine_report(w, in); break;
	default: notify(w, in); break;
	}
}

/* ---- invariants -------------------------------------------------------------------------- */

static void check_server(const struct server *s, uint64_t *open)
{
	const struct list *l, *end;
	double work_s = 0;
	uint64_t n = 0, k;

	for (unsigned i = 0; i < s->n_slots; i++) {
		k = 0;
		end = &s->slots[i]->open;
		for (l = end->next; l != end; l = l->next, k++) {
			const struct ledger_entry *e = list_entry(l, struct ledger_entry, in_slot);

			work_s += e->answered ? 0 : e->work.s;
		}
		must(k == s->slots[i]->n_open);
		n += k;
	}
	must(n == s->n_open && s->fluid_s > -1e-6);
	must(s->unanswered_s - work_s < 1e-6 && work_s - s->unanswered_s < 1e-6);
	must(s->penalty.p >= 0 && s->penalty.p <= PENALTY_MAX);
	*open += n;
}

static void check_route(const struct world *w)
{
	struct route_stats st;
	uint64_t open = 0;

	for (unsigned i = 0; i < SERVERS_MAX; i++)
		if (w->r->fleet.by_id[i] != NULL)
			check_server(w->r->fleet.by_id[i], &open);
	route_stats(w->r, &st);
	must(open == w->r->ledger.n && st.open == open);
	must(index_check(w->r->index) == NULL);
	must(st.index.bytes <= st.index.max_bytes && st.index.claims <= open);
	must(st.segments.used_bytes <= w->o.segcache_max_bytes && st.tokenized <= st.requests);
	must(st.slices_bytes <= w->o.slices_max_bytes && st.heads.bytes <= w->o.heads.max_bytes);
	must(st.open <= 16 && w->r->fleet.n_pools <= w->o.max_pools);
}

static void each_server(void *arg, const struct route_server_view *v)
{
	must(v->name[0] != '\0' && v->backlog_s >= 0 && v->penalty >= 0);
	must(v->watchers == 0 && !v->closed && !v->engine);	/* all of that is too old */
}

static void each_pool(void *arg, const struct route_pool_view *v)
{
	must(v->facts != NULL && v->pressure >= 0);
}

static void check_old(struct world *w)
{
	struct route_stats st;
	int i;

	for (i = 0; i < 20; i++) {
		w->now += 60000000;
		route_tick(w->r, w->now / 1000);
		while (route_work(w->r))
			;
		hear_problems(w);
	}
	route_each_problem(w->r, w->now / 1000, no_problem, NULL);
	route_clear_problems(w->r);
	route_stats(w->r, &st);
	must(st.open == 0 && st.slices_waiting == 0 && st.slices_bytes == 0 && st.index.claims == 0);
	must(index_check(w->r->index) == NULL);
	route_each_server(w->r, w->now / 1000, each_server, NULL);
	route_each_pool(w->r, each_pool, NULL);
}

/* Of the model m1. */
static void token_mode(struct world *w)
{
	static struct model_opts model[1];

	model[0] = w->o.model_default;
	strcpy(model[0].name, "m1");
	model[0].mode = MODEL_TOKENS;
	model[0].tok = fuzz_tok();
	w->o.models = model;
	w->o.n_models = 1;
	w->o.segcache_max_bytes = 2 * SEGCACHE_LEAST;
}

static void world_init(struct world *w)
{
	memset(w, 0, sizeof(*w));
	route_defaults(&w->o);
	w->o.index.max_bytes = 1u << 16;
	w->o.prompt.text_page = 16;	/* many pages of few bytes, so that they are evicted */
	w->o.prompt.token_page = 2;
	w->o.heads.max_bytes = 1u << 16;
	w->o.heads.max_tenant_bytes = 3000;
	w->o.slices_max_bytes = 40000;
	w->o.ledger_max_entries = 16;
	w->o.max_pools = 3;
	w->o.server_max_age_ms = 60000;
	token_mode(w);
	w->now = 1000000000;
	w->look = 1;
	w->r = must_alloc(route_new(&w->o, fuzz_key(), 0));
	w->env = (struct serve_env){
		.route = w->r, .scratch = must_alloc(route_scratch_new(w->r)), .count = &w->count,
		.clock = clock_now, .clock_arg = w, .wait = wait_now, .wait_arg = w,
	};
	w->out = must_alloc(malloc(SERVE_OUT_MIN));
	w->in = (struct spop_wr){ .p = must_alloc(malloc(1 << 20)), .cap = 1 << 20 };
}

static void world_end(struct world *w)
{
	for (int i = 0; i < CONNS; i++)
		conn_end(w, &w->conn[i]);
	route_scratch_free(w->env.scratch);
	route_free(w->r);
	free(w->out);
	free(w->in.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	static struct world w;
	unsigned i;

	world_init(&w);
	for (i = 0; in.left > 0 && i < STEPS_MOST; i++) {
		step(&w, &in);
		if (i % 16 == 0)
			check_route(&w);
	}
	check_route(&w);
	must(w.count.acks == w.count.notifies);
	check_old(&w);
	world_end(&w);
	return 0;
}
