/* sgl_load.c - one table of fields for three forms: by position and by name in MessagePack, by name
 * in JSON. */
#include "agent/base/num.h"
#include "agent/feed/msgpack.h"
#include "agent/feed/sgl_load.h"

enum field { RUNNING, WAITING, TOKENS, MAX_TOKENS, RANK, N_FIELDS };

static const struct {
	const char *name, *json;
	unsigned at;		/* in the array */
} fields[N_FIELDS] = {
	[RUNNING] = { "num_running_reqs", "num_running_reqs", 1 },
	[WAITING] = { "num_waiting_reqs", "num_waiting_reqs", 2 },
	[TOKENS] = { "num_tokens", "num_used_tokens", 3 },
	[MAX_TOKENS] = { "max_total_num_tokens", "max_total_num_tokens", 4 },
	[RANK] = { "attn_dp_rank", "dp_rank", 5 },
};

#define SEEN(f)		(1u << (f))
#define NEEDED		(SEEN(RUNNING) | SEEN(WAITING))
#define OF_TOKENS	(SEEN(TOKENS) | SEEN(MAX_TOKENS))
#define POSITIONS	6	/* that are read */

const char *sgl_load_strerror(int error)
{
	static const char *const texts[SGL_LOAD_E_COUNT] = {
		"no error",
		"the load report is damaged or incomplete",
		"not a load report",
		"the load report lacks a field, or one has the wrong type",
		"the load report has too many ranks",
	};

	if (error < 0)
		error = -error;
	return error < SGL_LOAD_E_COUNT ? texts[error] : "unknown error";
}

static bool note_field(struct sgl_rank_load *r, int field, uint64_t v)
{
	if ((double)v > ENGINE_COUNT_MAX || (field == RANK && v > UINT16_MAX))
		return false;
	switch (field) {
	case RUNNING: r->running = v; break;
	case WAITING: r->waiting = v; break;
	case TOKENS: r->tokens = v; break;
	case MAX_TOKENS: r->max_tokens = v; break;
	case RANK: r->rank = (uint32_t)v; break;
	}
	return true;
}

static void end_rank(struct sgl_rank_load *r, unsigned seen)
{
	r->has_tokens = (seen & OF_TOKENS) == OF_TOKENS && r->max_tokens > 0;
}

/* ---- messages ----------------------------------------------------------------------------- */

/* Read the value of <field>. Nil counts as not told. */
static int read_field(struct msgpack *m, int field, struct sgl_rank_load *r, unsigned *seen)
{
	struct msgpack_value v;

	if (field < 0)
		return msgpack_skip(m) ? 0 : -SGL_LOAD_E_FORM;
	if (!msgpack_next(m, &v))
		return -SGL_LOAD_E_FORM;
	if (v.type == MSGPACK_NIL)
		return 0;
	if (v.type != MSGPACK_UINT || !note_field(r, field, v.u))
		return -SGL_LOAD_E_FIELD;
	*seen |= SEEN(field);
	return 0;
}

static bool is_tag(const struct msgpack_value *v)
{
	return v->type == MSGPACK_STR && span_eq(v->s, SPAN("LoadStat"));
}

static int field_at(unsigned at)
{
	for (int i = 0; i < N_FIELDS; i++)
		if (fields[i].at == at)
			return i;
	return -1;
}

static int read_array(struct msgpack *m, uint32_t n, struct sgl_rank_load *r, unsigned *seen)
{
	struct msgpack_value tag;
	int rc;

	if (n == 0)
		return -SGL_LOAD_E_OTHER;
	if (!msgpack_next(m, &tag))
		return -SGL_LOAD_E_FORM;
	if (!is_tag(&tag))
		return -SGL_LOAD_E_OTHER;
	for (unsigned at = 1; at < n && at < POSITIONS; at++)
		if ((rc = read_field(m, field_at(at), r, seen)) < 0)
			return rc;
	return 0;
}

static int field_named(struct span name)
{
	for (int i = 0; i < N_FIELDS; i++)
		if (span_eq(name, span_str(fields[i].name)))
			return i;
	return -1;
}

static int read_map(struct msgpack *m, uint32_t n, struct sgl_rank_load *r, unsigned *seen)
{
	struct msgpack_value key, tag;
	bool tagged = false;
	int rc;

	for (; n > 0; n--) {
		if (!msgpack_next(m, &key))
			return -SGL_LOAD_E_FORM;
		if (key.type != MSGPACK_STR)
			return -SGL_LOAD_E_OTHER;
		if (span_eq(key.s, SPAN("type"))) {
			if (!msgpack_next(m, &tag))
				return -SGL_LOAD_E_FORM;
			if (!is_tag(&tag))
				return -SGL_LOAD_E_OTHER;
			tagged = true;
		} else if ((rc = read_field(m, field_named(key.s), r, seen)) < 0) {
			return rc;
		}
	}
	return tagged ? 0 : -SGL_LOAD_E_OTHER;
}

int sgl_load_message(struct span payload, struct sgl_rank_load *out)
{
	struct msgpack whole = msgpack_of(payload), m = whole;
	struct msgpack_value head;
	unsigned seen = 0;
	int rc;

	*out = (struct sgl_rank_load){ .rank = 0 };
	if (!msgpack_skip(&whole) || whole.p != whole.end)
		return -SGL_LOAD_E_FORM;
	msgpack_next(&m, &head);
	if (head.type == MSGPACK_ARRAY)
		rc = read_array(&m, head.n, out, &seen);
	else if (head.type == MSGPACK_MAP)
		rc = read_map(&m, head.n, out, &seen);
	else
		rc = -SGL_LOAD_E_OTHER;
	if (rc < 0)
		return rc;
	end_rank(out, seen);
	return (seen & NEEDED) == NEEDED ? 0 : -SGL_LOAD_E_FIELD;
}

/* ---- the ranks of a server ---------------------------------------------------------------- */

int sgl_loads_put(struct sgl_loads *l, const struct sgl_rank_load *one)
{
	uint32_t i;

	for (i = 0; i < l->n && l->of[i].rank != one->rank; i++)
		;
	if (i == SGL_LOAD_RANKS_MAX)
		return -SGL_LOAD_E_RANKS;
	if (i == l->n)
		l->n++;
	l->of[i] = *one;
	return 0;
}

void sgl_loads_sum(const struct sgl_loads *l, struct engine_load *out)
{
	uint64_t running = 0, waiting = 0, tokens = 0, max = 0;
	bool all = l->n > 0;

	*out = ENGINE_LOAD_NONE;
	for (uint32_t i = 0; i < l->n; i++) {
		running += l->of[i].running;
		waiting += l->of[i].waiting;
		tokens += l->of[i].tokens;
		max += l->of[i].max_tokens;
		all &= l->of[i].has_tokens;
	}
	if (l->n == 0)
		return;
	out->running = (int64_t)running;
	out->waiting = (int64_t)waiting;
	if (all) {
		out->kv_used = tokens < max ? (double)tokens / (double)max : 1;
		out->capacity = max;
	}
}

/* ---- /v1/loads ---------------------------------------------------------------------------- */

static int field_in_json(struct span name)
{
	for (int i = 0; i < N_FIELDS; i++)
		if (span_eq(name, span_str(fields[i].json)))
			return i;
	return -1;
}

static void fail(struct sgl_loads_answer *a, int error)
{
	if (a->error == 0)
		a->error = -error;
}

static void rank_done(struct sgl_loads_answer *a)
{
	if ((a->seen & NEEDED) != NEEDED) {
		fail(a, SGL_LOAD_E_FIELD);
		return;
	}
	end_rank(&a->rank, a->seen);
	if (sgl_loads_put(&a->loads, &a->rank) < 0)
		fail(a, SGL_LOAD_E_RANKS);
}

/* {"loads": [{"field": 1}]}: the array is at depth 1, its objects at 2, their keys at 3. */
static void on_json(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct sgl_loads_answer *a = arg;
	int64_t v;

	if (j->depth == 1 && ev == JSON_KEY) {
		a->in_loads = span_eq(text, SPAN("loads"));
	} else if (!a->in_loads) {
		return;
	} else if (j->depth == 1) {
		a->any |= ev == JSON_ARRAY;
	} else if (j->depth == 2 && ev == JSON_OBJECT) {
		a->rank = (struct sgl_rank_load){ .rank = a->loads.n };
		a->seen = 0;
	} else if (j->depth == 2 && ev == JSON_OBJECT_END) {
		rank_done(a);
	} else if (j->depth == 3 && ev == JSON_KEY) {
		a->field = field_in_json(text);
	} else if (j->depth == 3 && a->field >= 0 && ev == JSON_NUMBER) {
		if (!num_parse(text, &v) || v < 0 || !note_field(&a->rank, a->field, (uint64_t)v))
			fail(a, SGL_LOAD_E_FIELD);
		a->seen |= SEEN(a->field);
	}
}

void sgl_loads_answer_init(struct sgl_loads_answer *a)
{
	memset(a, 0, sizeof(*a));
	a->field = -1;
	json_init(&a->json, 16, on_json, a);
}

int sgl_loads_answer_feed(struct sgl_loads_answer *a, const char *p, size_t n)
{
	if (a->error < 0)
		return a->error;
	if (n > SGL_LOAD_ANSWER_MAX - a->bytes) {
		fail(a, SGL_LOAD_E_FORM);
		return a->error;
	}
	a->bytes += (uint32_t)n;
	if (json_feed(&a->json, p, n) == JSON_BAD)
		fail(a, SGL_LOAD_E_FORM);
	return a->error;
}

int sgl_loads_answer_end(struct sgl_loads_answer *a, struct engine_load *out)
{
	if (a->json.state != JSON_DONE)
		fail(a, SGL_LOAD_E_FORM);
	if (!a->any || a->loads.n == 0)
		fail(a, SGL_LOAD_E_OTHER);
	if (a->error < 0)
		return a->error;
	sgl_loads_sum(&a->loads, out);
	return 0;
}
