/* Writes pages of decisions. Records are copied out of the ring a few at a time, so that threads
 * that decide never wait for a reader. Numbers only go down while a list is written, so records
 * that are added meanwhile cause no gap and no duplicate. */
#include <stdio.h>
#include <time.h>

#include "agent/base/mem.h"
#include "agent/base/num.h"
#include "agent/loop/decisions_page_in.h"
#include "agent/route/decisions.h"
#include "agent/route/truth.h"
#include "agent/fleet/fleet.h"

#define SLICE		16u	/* records copied at once: some microseconds */
#define N_DEFAULT	100
#define TYPE_JSON	"application/json"
#define TYPE_LINES	"application/x-ndjson"

struct page_query {
	int64_t n, before;
	struct span uid;		/* in <text> */
	bool lines, blocks;
	char text[256];			/* the whole uid, because its hash is looked up */
};

struct decisions_page {
	struct route *route;
	struct decisions *d;
	struct buf *t;
	msec now;
	int64_t wall;
	struct page_query query;
	bool uids;			/* of closed requests are shown */
	bool begun, some;		/* of a list: the first line, the first record was written */
	uint64_t at, last;		/* list: records before <at> follow; lines: those after <at>, up to <last> */
	uint64_t left;			/* records of a list still to write */
	struct decision slice[SLICE];
	uint32_t blocks[DECISION_BLOCKS_MAX];
};

/* What one step may still write. */
struct step {
	size_t records;
	size_t until;			/* length of the text at which the step ends */
};

/* ---- the query -------------------------------------------------------------------------- */

/* Decode "%41" to "A". Returns false if the text is too long or invalid. */
static bool decode_percent(struct span s, char *out, size_t cap, struct span *to)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (n == cap)
			return false;
		if (c == '%') {
			if (s.n - i < 3 || num_hex(s.p[i + 1]) < 0 || num_hex(s.p[i + 2]) < 0)
				return false;
			c = (char)(num_hex(s.p[i + 1]) * 16 + num_hex(s.p[i + 2]));
			i += 2;
		}
		out[n++] = c;
	}
	*to = span_of(out, n);
	return true;
}

static struct span split_at(struct span *s, char stop)
{
	const char *at = s->n > 0 ? memchr(s->p, stop, s->n) : NULL;
	struct span head = span_of(s->p, at != NULL ? (size_t)(at - s->p) : s->n);

	*s = at != NULL ? span_of(at + 1, s->n - head.n - 1) : span_of(NULL, 0);
	return head;
}

static bool take_parameter(struct page_query *a, struct span name, struct span value)
{
	if (span_eq(name, SPAN("n")))
		return num_parse(value, &a->n) && a->n > 0;
	if (span_eq(name, SPAN("before")))
		return num_parse(value, &a->before) && a->before > 0;
	if (span_eq(name, SPAN("uid")))
		return decode_percent(value, a->text, sizeof(a->text), &a->uid) && a->uid.n > 0;
	if (span_eq(name, SPAN("blocks"))) {
		a->blocks = span_eq(value, SPAN("1"));
		return a->blocks || span_eq(value, SPAN("0"));
	}
	if (!span_eq(name, SPAN("format")))
		return false;
	a->lines = span_eq(value, SPAN("lines"));
	return a->lines || span_eq(value, SPAN("json"));
}

static bool parse_query(struct span query, struct page_query *a)
{
	*a = (struct page_query){ .n = N_DEFAULT, .before = INT64_MAX };
	while (query.n > 0) {
		struct span value = split_at(&query, '&'), name = split_at(&value, '=');

		if (name.n > 0 && !take_parameter(a, name, value))
			return false;
	}
	if (a->n > DECISIONS_PAGE_MAX)
		a->n = DECISIONS_PAGE_MAX;
	return true;
}

/* ---- JSON ------------------------------------------------------------------------------- */

/* Each byte that is not ASCII is written as \u00XX. So any bytes give valid JSON, and different
 * names stay different. */
static void put_string(struct buf *t, const char *name, const char *s)
{
	page_addf(t, ",\"%s\":", name);
	page_json(t, s);
}

static void put_count(struct buf *t, const char *name, uint64_t v)
{
	page_addf(t, ",\"%s\":%llu", name, (unsigned long long)v);
}

static void put_seconds(struct buf *t, const char *name, double v)
{
	page_addf(t, ",\"%s\":%.6g", name, v);
}

static void put_server(struct decisions_page *p, const char *name, struct decision_server s)
{
	char text[SERVER_NAME_MAX + 1];

	if (s.id == SERVER_NONE)
		return;
	decisions_name_of(p->d, s, text, sizeof(text));
	put_string(p->t, name, text);
}

static void put_time(struct decisions_page *p, const struct decision *x)
{
	int64_t ms = p->wall - (p->now - x->at);
	time_t s = (time_t)(ms / 1000);
	char text[32] = "";
	struct tm tm;

	if (gmtime_r(&s, &tm) != NULL)
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	page_addf(p->t, ",\"time\":\"%s.%03dZ\"", text, (int)(ms % 1000));
}

static void put_candidates(struct decisions_page *p, const struct decision *x)
{
	put_count(p->t, "n_candidates", x->n_candidates);
	page_addf(p->t, ",\"candidates\":[");
	for (uint32_t i = 0; i < x->n_kept; i++) {
		const struct decision_candidate *c = &x->candidate[i];

		page_addf(p->t, "%s{\"load\":%u", i ? "," : "", c->load);
		put_server(p, "server", c->server);
		put_seconds(p->t, "wait_s", c->wait_s);
		put_count(p->t, "cached_tokens", c->cached);
		if (c->by_session > 0)
			put_count(p->t, "session_tokens", c->by_session);
		put_string(p->t, "truth", truth_text((enum truth)c->truth));
		if (c->cause != CAUSE_NONE)
			put_string(p->t, "truth_cause", truth_cause_text((enum truth_cause)c->cause));
		put_seconds(p->t, "compute_s", c->compute_s);
		if (c->shared_s > 0)
			put_seconds(p->t, "shared_s", c->shared_s);
		if (c->load_s > 0)
			put_seconds(p->t, "load_s", c->load_s);
		if (c->kv_s > 0)
			put_seconds(p->t, "kv_s", c->kv_s);
		if (c->adapter_s > 0)
			put_seconds(p->t, "adapter_s", c->adapter_s);
		if (c->promised_s > 0)
			put_seconds(p->t, "promised_s", c->promised_s);
		put_count(p->t, "penalty", c->penalty);
		put_seconds(p->t, "cost_s", c->cost_s);
		buf_str(p->t, "}");
	}
	buf_str(p->t, "]");
}

static void put_compared(struct decisions_page *p, const struct decision *x)
{
	if (x->n_compared == 0)
		return;
	page_addf(p->t, ",\"compare\":[");
	for (uint32_t i = 0; i < x->n_compared; i++) {
		const struct decision_compared *c = &x->compared[i];

		page_addf(p->t, "%s{\"rule\":\"%s\"", i ? "," : "", policy_rule_text(c->rule));
		put_server(p, "server", c->server);
		put_count(p->t, "cached_tokens", c->cached);
		put_seconds(p->t, "regret_s", c->regret_s);
		buf_str(p->t, "}");
	}
	buf_str(p->t, "]");
}

static void put_after(struct decisions_page *p, const struct decision *x)
{
	static const char *const state[] = { "open", "first", "done" };

	page_addf(p->t, ",\"after\":{\"state\":\"%s\"", state[x->after]);
	put_server(p, "server", x->went);
	if (x->status >= 0)
		page_addf(p->t, ",\"status\":%d", x->status);
	if (x->after == AFTER_DONE && x->cause != CAUSE_OF_UNKNOWN)
		put_string(p->t, "end", fact_cause_word((enum fact_cause)x->cause));
	if (x->after == AFTER_DONE && x->ts[0] != '\0')
		page_addf(p->t, ",\"ts\":\"%c%c\"", x->ts[0], x->ts[1]);
	if (x->first_ms >= 0)
		put_count(p->t, "first_ms", (uint64_t)x->first_ms);
	if (x->done_ms >= 0)
		put_count(p->t, "done_ms", (uint64_t)x->done_ms);
	if (x->retries > 0)
		put_count(p->t, "retries", (uint64_t)x->retries);
	if (x->output_tokens > 0)
		put_count(p->t, "output_tokens", x->output_tokens);
	if (x->engine_tokens > 0)
		put_count(p->t, "engine_tokens", (uint64_t)x->engine_tokens);
	if (x->cached_tokens >= 0)
		put_count(p->t, "cached_tokens", (uint64_t)x->cached_tokens);
	buf_str(p->t, "}");
}

static void put_session(struct decisions_page *p, const struct decision *x)
{
	put_string(p->t, "session", session_state_text((enum session_state)x->session));
	if (x->session_turns > 0)
		put_count(p->t, "session_turns", x->session_turns);
	put_server(p, "session_server", x->session_at);
}

static void put_offer(struct decisions_page *p, const struct decision *x)
{
	if (x->offer.server.id == SERVER_NONE)
		return;
	if (x->prefill.id != SERVER_NONE)
		put_server(p, "prefill", x->prefill);
	put_server(p, "prefill_best", x->offer.server);
	put_seconds(p->t, "prefill_wait_s", x->offer.wait_s);
	put_count(p->t, "prefill_cached_tokens", x->offer.cached);
	put_seconds(p->t, "prefill_s", x->offer.ready_s);
	put_seconds(p->t, "transfer_s", x->offer.transfer_s);
	put_seconds(p->t, "here_s", x->offer.here_s);
	put_seconds(p->t, "there_s", x->offer.there_s);
}

static void put_choice(struct decisions_page *p, const struct decision *x)
{
	put_server(p, "server", x->chosen);
	put_server(p, "alt", x->second);
	put_offer(p, x);
	put_count(p->t, "matched_tokens", x->matched);
	put_count(p->t, "hit", x->hit);
	put_count(p->t, "pages", x->pages);
	page_addf(p->t, ",\"facts\":\"%s\"", fact_step_text((enum fact_step)x->step));
	put_seconds(p->t, "pressure", x->pressure);
	put_seconds(p->t, "sacrifice", x->sacrifice);
	page_addf(p->t, ",\"imbalanced\":%s", x->imbalanced ? "true" : "false");
	put_count(p->t, "min_load", x->min_load);
	put_count(p->t, "max_load", x->max_load);
	if (x->expected_ms >= 0)
		put_count(p->t, "expected_ms", (uint64_t)x->expected_ms);
	put_seconds(p->t, "cost_s", x->cost_s);
	put_seconds(p->t, "regret_s", x->regret_s);
	put_candidates(p, x);
	put_compared(p, x);
}

static void put_blocks(
    struct decisions_page *p, const struct decision *x, const uint32_t *blocks, uint32_t n)
{
	put_count(p->t, "block_tokens", x->block_tokens);
	page_addf(p->t, ",\"blocks\":[");
	for (uint32_t i = 0; i < n; i++)
		page_addf(p->t, "%s%u", i ? "," : "", blocks[i]);
	buf_str(p->t, "]");
}

static bool shows_uid(const struct decisions_page *p, const struct decision *x)
{
	return p->query.uid.n > 0 || (p->uids && !route_uid_counts(p->route, x->uid_hash));
}

static void put_decision(struct decisions_page *p, const struct decision *x)
{
	struct buf *t = p->t;

	page_addf(t, "{\"decision\":%llu", (unsigned long long)x->number);
	put_time(p, x);
	if (x->uid[0] != '\0' && shows_uid(p, x))
		put_string(t, "uid", x->uid);
	put_string(t, "pool", x->pool != NULL ? x->pool : "");
	if (p->query.uid.n > 0 && x->model[0] != '\0')
		put_string(t, "model", x->model);
	page_addf(t, ",\"mode\":\"%s\",\"rule\":\"%s\",\"why\":\"%s\"",
	    pool_mode_text((enum pool_mode)x->mode), policy_rule_text((enum policy_rule)x->rule),
	    why_text((enum why)x->why));
	put_count(t, "us", x->us);
	page_addf(t, ",\"cut\":%s", x->cut ? "true" : "false");
	put_count(t, "prompt_tokens", x->tokens);
	if (x->tokens > 0)
		page_addf(t, ",\"matched_as\":\"%s\"", x->text ? "text" : "tokens");
	put_count(t, "unseen_tokens", x->unseen);
	put_count(t, "prompt_pages", x->prompt_pages);
	if (x->rank >= 0)
		put_count(t, "rank", (uint64_t)x->rank);
	put_count(t, "work", x->work);
	if (x->bounded)
		page_addf(t, ",\"bounded\":\"%s\"", work_bound_text((enum work_bound)x->bound));
	if (x->session != SESSION_NONE)
		put_session(p, x);
	if (x->chosen.id != SERVER_NONE)
		put_choice(p, x);
	put_after(p, x);
	if (p->query.blocks)
		put_blocks(p, x, p->blocks, decisions_blocks_of(p->d, x, p->blocks));
	buf_str(t, "}");
}

/* Write one line in the format of kvroutectl sim. */
static void put_line(struct decisions_page *p, const struct decision *x)
{
	uint32_t n = decisions_blocks_of(p->d, x, p->blocks);

	if (n == 0 || x->tokens == 0)
		return;
	page_addf(p->t, "{\"timestamp\":%lld,\"input_length\":%llu,\"output_length\":%llu,\"hash_ids\":[",
		  (long long)x->at, (unsigned long long)x->tokens, (unsigned long long)x->output_tokens);
	for (uint32_t i = 0; i < n; i++)
		page_addf(p->t, "%s%u", i ? "," : "", p->blocks[i]);
	page_addf(p->t, "],\"block_size\":%u}\n", x->block_tokens);
}

/* ---- step by step ----------------------------------------------------------------------- */

static bool is_over(const struct decisions_page *p, const struct step *s)
{
	return s->records == 0 || p->t->n >= s->until || p->t->failed;
}

/* Returns the number of records to copy next. */
static size_t slice_of(const struct step *s, uint64_t left)
{
	size_t n = s->records < SLICE ? s->records : SLICE;

	return left < n ? (size_t)left : n;
}

/* Write the next records, newest first. Returns true at the end. */
static bool step_list(struct decisions_page *p, struct step *s)
{
	size_t got;

	if (!p->begun)
		page_addf(p->t, "{\"decisions\":[");
	p->begun = true;
	while (!is_over(p, s)) {
		if (p->left == 0 || (got = decisions_read(p->d, p->at, p->slice, slice_of(s, p->left))) == 0) {
			page_addf(p->t, "\n]}\n");
			return true;
		}
		for (size_t i = 0; i < got && !is_over(p, s); i++, p->some = true) {
			page_addf(p->t, "%s\n", p->some ? "," : "");
			put_decision(p, &p->slice[i]);
			p->at = p->slice[i].number;
			p->left--;
			s->records--;
		}
	}
	return p->t->failed;
}

/* Write the next lines, oldest first. The range ends at the newest record, or at the one named.
 * Returns true at the end. */
static bool step_lines(struct decisions_page *p, struct step *s)
{
	size_t got, n;

	while (!is_over(p, s)) {
		if (p->at >= p->last)
			return true;
		n = slice_of(s, p->last - p->at);
		got = decisions_read(p->d, p->at + n + 1, p->slice, n);
		for (n += p->at; got > 0 && !is_over(p, s); got--) {
			if (p->slice[got - 1].number <= p->at)
				continue;
			put_line(p, &p->slice[got - 1]);
			p->at = p->slice[got - 1].number;
			s->records--;
		}
		if (got == 0)
			p->at = n;	/* older records are not kept any more */
	}
	return p->t->failed;
}

static bool put_one(struct decisions_page *p)
{
	page_addf(p->t, "{\"decisions\":[\n");
	if (decisions_find(p->d, route_uid_hash(p->route, p->query.uid), &p->slice[0]))
		put_decision(p, &p->slice[0]);
	page_addf(p->t, "\n]}\n");
	return true;
}

int decisions_page_step(struct decisions_page *p)
{
	struct step s = { DECISIONS_STEP, p->t->n + DECISIONS_STEP_BYTES };
	bool done;

	if (p->query.uid.n > 0)
		done = put_one(p);
	else
		done = p->query.lines ? step_lines(p, &s) : step_list(p, &s);
	if (!done)
		return 0;
	return p->t->failed ? 500 : 200;
}

static void find_start(struct decisions_page *p)
{
	p->at = (uint64_t)p->query.before;
	p->left = (uint64_t)p->query.n;
	if (!p->query.lines)
		return;
	if (decisions_read(p->d, p->at, p->slice, 1) > 0)
		p->last = p->slice[0].number;
	p->at = p->last > p->left ? p->last - p->left : 0;
}

int decisions_page_begin(struct decisions_page **out, struct route *r, struct span query, bool uids,
    msec now, int64_t wall, struct buf *t, const char **type)
{
	struct decisions *d = route_decisions(r);
	struct decisions_page *p;

	if (d == NULL) {
		page_addf(t, "no decisions are kept: decisions.keep is 0\n");
		return 404;
	}
	if ((p = mem_alloc(sizeof(*p))) == NULL) {
		t->failed = true;
		return 500;
	}
	if (!parse_query(query, &p->query)) {
		page_addf(t, "invalid query: it may have n, before, uid, blocks (0, 1) and "
		    "format (json, lines)\n");
		mem_free(p);
		return 400;
	}
	p->route = r;
	p->d = d;
	p->t = t;
	p->now = now;
	p->wall = wall;
	p->uids = uids;
	find_start(p);
	*type = p->query.lines ? TYPE_LINES : TYPE_JSON;
	*out = p;
	return 200;
}

void decisions_page_one(
    struct route *r, const struct decision *x, msec now, int64_t wall, struct buf *t)
{
	struct decisions_page *p = mem_alloc(sizeof(*p));

	if (p == NULL) {
		t->failed = true;
		return;
	}
	*p = (struct decisions_page){ .route = r, .d = route_decisions(r), .t = t, .now = now,
		.wall = wall, .query = { .uid = SPAN("named") } };
	put_decision(p, x);
	mem_free(p);
}

void decisions_page_free(struct decisions_page *p)
{
	mem_free(p);
}
