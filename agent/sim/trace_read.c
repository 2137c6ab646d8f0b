/* trace_read.c - JSON lines to a trace.
 *
 * The fields of a line decide its kind: with "hash_ids" it is a request of a published trace, with
 * "cached" one that an agent recorded. */
#include <math.h>
#include <stdlib.h>

#include "agent/base/json.h"
#include "agent/base/mem.h"
#include "agent/base/num.h"
#include "agent/base/vec.h"
#include "agent/sim/trace.h"

#define LINE_MAX_BYTES	((size_t)64 << 20)
#define LINE_DEPTH	16
#define STAMP_MAX	1e15		/* ms */
#define SPREAD_MAX_S	5.0		/* a longer pause after requests of one timestamp counts as this */

enum field {
	F_OTHER,
	F_STAMP,
	F_IN,
	F_OUT,
	F_IDS,
	F_SESSION,
	F_BLOCK,
	F_CACHED,
	F_FIRST,
	F_STATUS,
	F_SERVER,
	F_COUNT
};

static const char *const field_name[F_COUNT] = {
	[F_STAMP] = "timestamp", [F_IN] = "input_length", [F_OUT] = "output_length", [F_IDS] = "hash_ids",
	[F_SESSION] = "session", [F_BLOCK] = "block_size",
	[F_CACHED] = "cached", [F_FIRST] = "first_ms", [F_STATUS] = "status", [F_SERVER] = "server",
};

/* ---- one line ---- */

struct line {
	enum field field;
	unsigned seen;			/* 1 << field */
	double number[F_COUNT];		/* of fields that are numbers */
	uint64_t session, server;
	VEC(uint64_t) ids;
	uint64_t hash;			/* of the string that comes in parts */
	const char *why;		/* what is wrong with it */
};

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void take_id(struct line *l, uint64_t id)
{
	if (vec_push(&l->ids, id) < 0)
		l->why = "not enough memory";
}

/* Read an id or a session: any number or string; equal ones must give equal results. */
static void take_name(struct line *l, const struct json *j, uint64_t name)
{
	if (l->field == F_IDS && j->depth == 2) {
		take_id(l, name);
	} else if ((l->field == F_SESSION || l->field == F_SERVER) && j->depth == 1) {
		*(l->field == F_SESSION ? &l->session : &l->server) = name;
		l->seen |= 1u << l->field;
	}
}

static void hash_more(struct line *l, struct span text)
{
	for (size_t i = 0; i < text.n; i++)
		l->hash = (l->hash ^ (uint8_t)text.p[i]) * 0x100000001b3ull;
}

static bool is_number(enum field f)
{
	const unsigned numbers = 1u << F_STAMP | 1u << F_IN | 1u << F_OUT | 1u << F_BLOCK |
	    1u << F_CACHED | 1u << F_FIRST | 1u << F_STATUS;

	return (numbers >> f & 1) != 0;
}

static void take_number(struct line *l, const struct json *j, struct span text)
{
	char copy[JSON_NUMBER_MAX + 1];
	int64_t v;

	if (is_number(l->field) && j->depth == 1) {
		memcpy(copy, text.p, text.n);
		copy[text.n] = '\0';
		l->number[l->field] = strtod(copy, NULL);
		l->seen |= 1u << l->field;
	} else if (num_parse(text, &v)) {
		take_name(l, j, (uint64_t)v);
	} else {
		l->hash = 0xcbf29ce484222325ull;
		hash_more(l, text);
		take_name(l, j, mix(l->hash));
	}
}

static enum field field_of(struct span name)
{
	for (unsigned i = F_OTHER + 1; i < F_COUNT; i++) {
		if (span_eq(name, span_str(field_name[i])))
			return i;
	}
	return F_OTHER;
}

static void sink(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct line *l = arg;

	switch (ev) {
	case JSON_KEY:
		if (j->depth == 1)
			l->field = field_of(text);
		break;
	case JSON_ARRAY:
		if (l->field == F_IDS && j->depth == 1) {
			l->seen |= 1u << F_IDS;
			l->ids.n = 0;
		}
		break;
	case JSON_NUMBER: take_number(l, j, text); break;
	case JSON_STRING: l->hash = 0xcbf29ce484222325ull; break;
	case JSON_STRING_PART: hash_more(l, text); break;
	case JSON_STRING_END: take_name(l, j, mix(l->hash)); break;
	default: break;
	}
}

/* Returns false and sets <why> if the line is wrong. Keeps the memory of the ids for the next
 * line. */
static bool line_scan(struct line *l, struct span text)
{
	struct json j;

	l->ids.n = 0;
	*l = (struct line){ .ids = l->ids };
	json_init(&j, LINE_DEPTH, sink, l);
	if (json_feed(&j, text.p, text.n) != JSON_DONE)
		l->why = "it is not JSON: a trace has one object a line";
	return l->why == NULL;
}

/* Return the block size of the line; 0: missing or out of range. */
static uint32_t block_of(const struct line *l)
{
	double b = l->number[F_BLOCK];

	return b >= 1 && b <= SIM_BLOCK_MAX ? (uint32_t)b : 0;
}

uint32_t trace_block_of(struct span meta)
{
	struct line l = { 0 };
	bool ok = line_scan(&l, meta);

	vec_free(&l.ids);
	return ok ? block_of(&l) : 0;
}

/* ---- names to small numbers ---- */

struct names {
	uint64_t *key;
	uint32_t *number;	/* + 1; 0: free */
	size_t n, n_slots;	/* a power of two */
};

static void names_free(struct names *m)
{
	mem_free(m->key);
	mem_free(m->number);
}

static size_t names_slot(const struct names *m, uint64_t key)
{
	size_t i = mix(key + 0x9e3779b97f4a7c15ull) & (m->n_slots - 1);

	while (m->number[i] != 0 && m->key[i] != key)
		i = (i + 1) & (m->n_slots - 1);
	return i;
}

static int names_grow(struct names *m)
{
	struct names next = { .n = m->n, .n_slots = m->n_slots ? m->n_slots * 2 : 1024 };
	size_t i, at;

	next.key = mem_calloc(next.n_slots, sizeof(*next.key));
	next.number = mem_calloc(next.n_slots, sizeof(*next.number));
	if (next.key == NULL || next.number == NULL) {
		names_free(&next);
		return -1;
	}
	for (i = 0; i < m->n_slots; i++) {
		if (m->number[i] == 0)
			continue;
		at = names_slot(&next, m->key[i]);
		next.key[at] = m->key[i];
		next.number[at] = m->number[i];
	}
	names_free(m);
	*m = next;
	return 0;
}

/* Return the number of a name; -1: no memory. */
static int64_t names_number(struct names *m, uint64_t key)
{
	size_t i;

	if (m->n * 2 >= m->n_slots && names_grow(m) < 0)
		return -1;
	i = names_slot(m, key);
	if (m->number[i] == 0) {
		m->key[i] = key;
		m->number[i] = (uint32_t)++m->n;
	}
	return m->number[i] - 1;
}

/* ---- a request ---- */

struct reader {
	struct sim_trace *t;
	struct line line;
	struct names blocks, sessions;
	VEC(uint32_t) ids;	/* of the line, as small numbers */
	VEC(uint32_t) last;	/* by block: its last request + 1 */
	bool has_sessions;
	bool own_block;		/* its size was given, or is that of the first line with one */
	struct names servers;
};

static bool is_length(double v)
{
	return v >= 0 && v <= SIM_TOKENS_MAX && v == floor(v);
}

static const char *line_wrong(const struct reader *rd)
{
	const struct line *l = &rd->line;
	const unsigned all = 1u << F_STAMP | 1u << F_IN | 1u << F_OUT | 1u << F_IDS;

	if ((l->seen & all) != all)
		return "it needs timestamp, input_length, output_length and hash_ids";
	if (!(l->number[F_STAMP] >= 0 && l->number[F_STAMP] <= STAMP_MAX))
		return "timestamp has to be milliseconds from 0 on";
	if (!is_length(l->number[F_IN]) || !is_length(l->number[F_OUT]))
		return "input_length and output_length have to be tokens, 16777216 at most";
	if (l->ids.n > 2 * ((size_t)l->number[F_IN] / rd->t->block + 1) + 8)
		return "there are far more hash_ids than input_length has blocks: say --block";
	return NULL;
}

/* An id that comes twice in a prompt stands for no prefix, so it is an error. */
static const char *number_ids(struct reader *rd)
{
	const struct line *l = &rd->line;
	uint32_t stamp = (uint32_t)rd->t->n + 1;
	int64_t k;

	rd->ids.n = 0;
	for (size_t i = 0; i < l->ids.n; i++) {
		if ((k = names_number(&rd->blocks, l->ids.p[i])) < 0 ||
		    ((size_t)k == rd->last.n && vec_push(&rd->last, 0) < 0) ||
		    vec_push(&rd->ids, (uint32_t)k) < 0)
			return "not enough memory";
		if (rd->last.p[k] == stamp)
			return "an id comes twice in hash_ids; it has to stand for all of the prompt up to its block";
		rd->last.p[k] = stamp;
	}
	return NULL;
}

static uint32_t at_least_1(double v)
{
	return v >= 1 ? (uint32_t)v : 1;
}

/* Returns false if there is no memory. */
static bool note_recorded(struct reader *rd)
{
	struct sim_recorded *r = &rd->t->recorded;
	const struct line *l = &rd->line;

	if (!(l->seen & 1u << F_CACHED))
		return true;
	r->n++;
	r->tokens += (uint64_t)l->number[F_IN];
	if (l->number[F_CACHED] > 0 && l->number[F_CACHED] <= l->number[F_IN])
		r->cached += (uint64_t)l->number[F_CACHED];
	if (l->seen & 1u << F_FIRST && l->number[F_FIRST] >= 0 && l->number[F_FIRST] <= STAMP_MAX) {
		r->n_first++;
		r->first_s += l->number[F_FIRST] / 1000;
	}
	if (l->seen & 1u << F_SERVER && rd->servers.n < SIM_SERVERS_MAX &&
	    names_number(&rd->servers, l->server) < 0)
		return false;
	r->servers = (uint32_t)rd->servers.n;
	return true;
}

/* Return whether a recorded line is left out. The first line with a block size sets it. */
static bool leave_out(struct reader *rd)
{
	const struct line *l = &rd->line;
	uint32_t block = block_of(l);

	if (l->number[F_STATUS] >= 300) {
		rd->t->recorded.failed++;
		return true;
	}
	if (l->seen & 1u << F_CACHED && l->number[F_IN] > SIM_TOKENS_MAX) {
		rd->t->recorded.too_long++;
		return true;
	}
	if (block == 0 || rd->t->block == block)
		return false;
	if (!rd->own_block && rd->t->n == 0) {
		rd->t->block = block;
		return false;
	}
	rd->t->recorded.unlike++;
	return true;
}

static const char *add_request(struct reader *rd)
{
	const struct line *l = &rd->line;
	const char *why;
	int64_t session;

	if (leave_out(rd))
		return NULL;
	why = line_wrong(rd);
	if (why != NULL || (why = number_ids(rd)) != NULL)
		return why;
	rd->has_sessions |= (l->seen & 1u << F_SESSION) != 0;
	session = names_number(
	    &rd->sessions, l->seen & 1u << F_SESSION ? l->session : mix(~(uint64_t)rd->t->n));
	if (session < 0 || !note_recorded(rd))
		return "not enough memory";
	if (trace_add(rd->t, l->number[F_STAMP] / 1000, at_least_1(l->number[F_IN]),
		at_least_1(l->number[F_OUT]), rd->ids.p, l->ids.n, (uint32_t)session) < 0)
		return "not enough memory, or the trace is too large";
	return NULL;
}

/* ---- times and sessions ---- */

/* Send requests that share a timestamp evenly up to the next one, because stamps are often
 * coarse. */
static void spread_stamps(struct sim_trace *t)
{
	size_t i = 0, k, n;
	double gap, before = 0, at;

	for (; i < t->n; i += n) {
		at = t->r[i].at;
		for (n = 1; i + n < t->n && t->r[i + n].at == at; n++)
			;
		gap = i + n < t->n ? t->r[i + n].at - at : i > 0 ? at - before : 1;
		gap = gap < SPREAD_MAX_S ? gap : SPREAD_MAX_S;
		for (k = 0; k < n; k++)
			t->r[i + k].at = at + gap * (double)k / (double)n;
		before = at;
	}
}

/* Give a request the session of an earlier one if it has a block of it. Blocks that many share,
 * those of system prompts, do not count. */
static int guess_sessions(struct sim_trace *t)
{
	uint32_t *count = mem_calloc((size_t)t->n_blocks + 1, sizeof(*count));
	uint32_t *owner = mem_calloc((size_t)t->n_blocks + 1, sizeof(*owner));
	uint32_t next = 0, many = t->n / 100 > 50 ? (uint32_t)(t->n / 100) : 50;

	for (size_t i = 0; count != NULL && i < t->n_ids; i++)
		count[t->ids[i]]++;
	for (size_t i = 0; count != NULL && owner != NULL && i < t->n; i++) {
		struct sim_request *r = &t->r[i];
		const uint32_t *ids = t->ids + r->first;
		uint32_t k = r->n_full;

		while (k > 0 && (owner[ids[k - 1]] == 0 || count[ids[k - 1]] > many))
			k--;
		r->session = k > 0 ? owner[ids[k - 1]] - 1 : next++;
		for (k = 0; k < r->n_full; k++) {
			if (count[ids[k]] <= many)
				owner[ids[k]] = r->session + 1;
		}
	}
	mem_free(owner);
	mem_free(count);
	return count != NULL && owner != NULL ? 0 : -1;
}

/* The last stamp of a trace has no next one, so traces are read whole before the limit applies. */
static int finish_trace(struct reader *rd, const struct trace_opts *o)
{
	struct sim_trace *t = rd->t;

	trace_finish(t);
	if (o->limit > 0 && t->n > o->limit)
		t->n = o->limit;
	if (!o->keep_stamps)
		spread_stamps(t);
	return rd->has_sessions ? 0 : guess_sessions(t);
}

/* ---- all lines ---- */

static bool is_blank(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != ' ' && s.p[i] != '\t' && s.p[i] != '\r')
			return false;
	}
	return true;
}

static const char *take_line(struct reader *rd, struct span s)
{
	if (is_blank(s))
		return NULL;
	if (s.n > LINE_MAX_BYTES)
		return "it is longer than 64 MiB";
	if (!line_scan(&rd->line, s))
		return rd->line.why;
	return add_request(rd);
}

/* Return true if a line without an end is the beginning of one: a full disk or a crash cuts the
 * line that is being written. */
static bool is_cut(const struct reader *rd, struct span s)
{
	struct line l = { 0 };
	struct json j;
	bool cut;

	if (rd->t->n == 0 || is_blank(s))
		return false;
	json_init(&j, LINE_DEPTH, sink, &l);
	cut = json_feed(&j, s.p, s.n) == JSON_MORE;
	vec_free(&l.ids);
	return cut;
}

static const char *take_lines(struct reader *rd, struct span text, int *line)
{
	const char *why = NULL, *end;
	struct span s;

	for (*line = 1; text.n > 0 && why == NULL; ++*line) {
		end = memchr(text.p, '\n', text.n);
		s = span_of(text.p, end ? (size_t)(end - text.p) : text.n);
		if (end == NULL && is_cut(rd, s)) {
			rd->t->recorded.cut = true;
			break;
		}
		why = take_line(rd, s);
		text = span_of(text.p + s.n + (end != NULL), text.n - s.n - (end != NULL));
	}
	return why;
}

int trace_read(struct sim_trace *t, struct span text, const struct trace_opts *o, struct err *e)
{
	struct reader rd = { .t = t, .own_block = o->block != 0 };
	const char *why;
	int line;

	trace_init(t, o->block);
	*e = (struct err){ 0 };
	why = take_lines(&rd, text, &line);
	e->line = why != NULL ? line - 1 : 0;
	if (why == NULL && t->n == 0)
		why = "it has no request";
	if (why == NULL && finish_trace(&rd, o) < 0)
		why = "not enough memory";
	vec_free(&rd.line.ids);
	vec_free(&rd.ids);
	vec_free(&rd.last);
	names_free(&rd.blocks);
	names_free(&rd.sessions);
	names_free(&rd.servers);
	if (why == NULL)
		return 0;
	trace_free(t);
	return err_set(e, "%s", why);
}
