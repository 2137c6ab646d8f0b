/* stream.c - encode a text that arrives in parts.
 *
 *   buf  | seen | chunk to come ........ | may become an added token | half a character |
 *               start                  settled                      avail              n
 *
 * No pieces or merges inside a chunk are kept: a chunk is encoded when it is complete, by the same
 * code as a whole text. So there is one way to encode, and the cache serves both. The cost: up to
 * CHUNK_MOST bytes wait, 1 % of a prompt that is long enough to matter; and a text without a place
 * to cut, such as a megabyte of letters, waits for its end.
 *
 * An added token is cut out when no later byte can extend it, undo it, or add white space to strip
 * (tok_cut_tail()). A few bytes before <start> are kept, because some tokens count only if no word
 * precedes them.
 *
 * Invariants: start <= settled <= avail <= n; buf[0 .. start) is encoded; if <has_cut>, the token
 * at <cut> is settled and no other one is between <start> and it. Cost: each byte is copied once,
 * moved about once, and read twice for added tokens. */
#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/chunk.h"
#include "agent/tok/tok_steps.h"
#include "agent/tok/stream.h"

#define CONTEXT		8u		/* bytes kept before <start>: two characters */
#define AT_ONCE		(CHUNK_MOST + CHUNK_AHEAD)	/* a longer chunk is encoded in steps */
#define KEEP_ROOM	65536u		/* a larger buffer is freed between texts */

struct stream {
	struct stream_opts o;
	struct cached c;
	struct tok_segments seg;
	struct ids *out;
	struct buf buf;
	size_t start, settled, avail;
	struct tok_cut cut;
	bool has_cut, ended, closed;		/* <closed>: the last ids are written */
	enum part part;				/* what <start> begins */
	bool strict;				/* no chunk may cost more than the rest of the budget */
	enum stream_result failed;
	struct chunk_search search;
	struct tok_steps *steps;		/* of the chunk of <steps_n> bytes at <start> */
	struct segcache_key key;	/* of that chunk */
	size_t steps_n, steps_from;
	size_t base;				/* bytes of the text before <buf> */
	size_t note;				/* stream_note() */
	size_t noted, noted_n, noted_ids;
};

/* ---- the buffer ------------------------------------------------------------------------------ */

static void drop_steps(struct stream *s)
{
	tok_steps_stop(s->steps);
	s->steps = NULL;
}

/* Drop encoded bytes, except for a few. */
static void move_down(struct stream *s)
{
	size_t by = s->start > CONTEXT ? s->start - CONTEXT : 0;

	if (by == 0)
		return;
	memmove(s->buf.p, s->buf.p + by, s->buf.n - by);
	s->buf.n -= by;
	s->base += by;
	s->start -= by;
	s->settled -= by;
	s->avail -= by;
	if (s->has_cut)
		s->cut.at -= by;
}

static enum stream_result fail(struct stream *s, enum stream_result why)
{
	drop_steps(s);
	s->failed = why;
	return why;
}

enum stream_result stream_feed(struct stream *s, struct span part)
{
	if (s->failed < 0 || part.n == 0)
		return s->failed;
	if (part.n > s->o.max_bytes - (s->buf.n - s->start))
		return fail(s, STREAM_TOO_LONG);
	if (s->buf.cap - s->buf.n < part.n)
		move_down(s);
	buf_span(&s->buf, part);
	return s->buf.failed ? fail(s, STREAM_NO_MEMORY) : STREAM_DONE;
}

/* ---- a text ---------------------------------------------------------------------------------- */

static enum stream_result append(struct stream *s, const token_id *ids, size_t n)
{
	if (n == 0)
		return STREAM_DONE;
	if (ids_reserve(s->out, n) < 0)
		return fail(s, STREAM_NO_MEMORY);
	memcpy(s->out->p + s->out->n, ids, n * sizeof(*ids));
	s->out->n += n;
	return STREAM_DONE;
}

static bool special(const struct stream *s)
{
	return (s->o.flags & TOK_SPECIAL) != 0;
}

enum stream_result stream_begin(struct stream *s, const struct cached *c, struct ids *out)
{
	struct ids prefix = tok_prefix(c->tok);

	drop_steps(s);
	buf_wipe(&s->buf, KEEP_ROOM);
	buf_start(&s->buf, s->o.max_bytes + CONTEXT);
	s->start = s->settled = s->avail = s->base = 0;
	s->note = s->noted = s->noted_n = s->noted_ids = 0;
	s->c = *c;
	s->seg = tok_segments(c->tok);
	s->out = out;
	s->has_cut = s->ended = s->closed = false;
	s->part = PART_FIRST;
	s->failed = STREAM_DONE;
	s->search = (struct chunk_search){ 0 };
	return special(s) && s->seg.independent ? append(s, prefix.p, prefix.n) : STREAM_DONE;
}

enum stream_result stream_begin_on(
    struct stream *s, const struct cached *c, struct span shown, struct ids *out)
{
	unsigned flags = s->o.flags;
	enum stream_result r;

	s->o.flags &= ~(unsigned)TOK_SPECIAL;
	r = stream_begin(s, c, out);
	s->o.flags = flags;
	if (r != STREAM_DONE || shown.n > STREAM_SHOWN || (r = stream_feed(s, shown)) != STREAM_DONE)
		return fail(s, STREAM_NO_MEMORY);
	s->start = s->settled = s->avail = shown.n;
	s->part = PART_SEGMENT;
	return r;
}

void stream_note(struct stream *s, size_t settled)
{
	s->note = settled;
}

bool stream_noted(const struct stream *s, size_t *cut, size_t *cut_n, size_t *n_ids)
{
	*cut = s->noted;
	*cut_n = s->noted_n;
	*n_ids = s->noted_ids;
	return s->noted > 0;
}

void stream_end(struct stream *s)
{
	s->ended = true;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Settle bytes that have arrived since: those that nothing later can change. */
static void settle(struct stream *s)
{
	size_t avail =
		   s->ended ? s->buf.n : s->buf.n - utf8_cut((const uint8_t *)s->buf.p, s->buf.n),
	       from = s->settled, tail;

	if (avail <= s->avail && !s->ended)
		return;
	s->avail = avail;
	tail = s->ended ? 0 : tok_cut_tail(s->c.tok, span_of(s->buf.p + from, avail - from));
	s->settled = avail - tail;
}

static void next_cut(struct stream *s, size_t from)
{
	struct tok_cut cut;

	if (!tok_next_cut(s->c.tok, span_of(s->buf.p, s->avail), from, &cut))
		return;
	if (cut.at + cut.n <= s->settled) {
		s->cut = cut;
		s->has_cut = true;
	} else if (cut.at < s->settled) {
		s->settled = cut.at;
	}
}

static void look_for_cut(struct stream *s)
{
	size_t from = s->settled, was = s->avail;

	if (s->has_cut)
		return;
	settle(s);
	if (s->avail > was || s->ended)
		next_cut(s, from);
}

/* ---- one step -------------------------------------------------------------------------------- */

static void chunk_done(struct stream *s, size_t n)
{
	s->start += n;
	s->part = PART_INSIDE;
}

static enum stream_result start_steps(struct stream *s, size_t n)
{
	s->steps = tok_steps_start(s->c.tok, span_of(s->buf.p + s->start, n), s->part);
	if (s->steps == NULL)
		return fail(s, STREAM_NO_MEMORY);
	s->steps_n = n;
	s->steps_from = s->out->n;
	return STREAM_DONE;
}

/* Encode the <n> bytes at <start> as a chunk. */
static enum stream_result chunk(struct stream *s, size_t n)
{
	struct span text = span_of(s->buf.p + s->start, n);
	size_t from = s->out->n;
	int got = cached_find(&s->c, text, s->part, &s->key, s->out);

	if (got < 0)
		return fail(s, STREAM_NO_MEMORY);
	if (got == 0 && n > AT_ONCE)
		return start_steps(s, n);
	if (got == 0) {
		got = tok_encode_segment(s->c.tok, s->c.scratch, text, s->part, s->out);
		if (got == TOK_SPENT) {
			s->out->n = from;
			return STREAM_MORE;
		}
		if (got < 0)
			return fail(s, STREAM_NO_MEMORY);
		cached_keep(&s->c, &s->key, s->out->p + from, s->out->n - from);
	}
	chunk_done(s, n);
	return STREAM_DONE;
}

/* Charge chunk() to *budget. */
static enum stream_result paid_chunk(struct stream *s, size_t n, uint64_t *budget)
{
	struct work_left *w = tok_scratch_work(s->c.scratch);
	uint64_t had = s->strict ? *budget : WORK_ANY, spent;
	enum stream_result r;

	w->left = had;
	r = chunk(s, n);
	spent = had - w->left;
	*budget = spent < *budget ? *budget - spent : 0;
	work_unbound(w);
	return r;
}

static enum stream_result go_on(struct stream *s, uint64_t *budget)
{
	int r = tok_steps_run(s->steps, budget, s->strict, s->out);

	if (r == TOK_STEPS_SPENT)
		return fail(s, STREAM_SPENT);
	if (r < 0)
		return fail(s, STREAM_NO_MEMORY);
	if (r > 0)
		return STREAM_MORE;
	cached_keep(&s->c, &s->key, s->out->p + s->steps_from, s->out->n - s->steps_from);
	drop_steps(s);
	chunk_done(s, s->steps_n);
	return STREAM_DONE;
}

/* Encode all at once, at the end, because the segments depend on each other. */
static enum stream_result whole(struct stream *s, uint64_t *budget)
{
	struct work_left *w = tok_scratch_work(s->c.scratch);
	int rc;

	if (!s->ended || s->closed)
		return STREAM_DONE;
	s->closed = true;
	w->left = s->strict ? *budget : WORK_ANY;
	rc = tok_encode(s->c.tok, s->c.scratch, span_of(s->buf.p, s->buf.n), s->o.flags, s->out);
	*budget = s->strict ? w->left : 0;
	work_unbound(w);
	if (rc < 0)
		return fail(s, STREAM_NO_MEMORY);
	return rc > 0 ? fail(s, STREAM_SPENT) : STREAM_DONE;
}

static enum stream_result close_text(struct stream *s)
{
	struct ids suffix = tok_suffix(s->c.tok);

	if (!s->ended || s->closed)
		return STREAM_DONE;
	s->closed = true;
	return special(s) ? append(s, suffix.p, suffix.n) : STREAM_DONE;
}

static enum stream_result take_cut(struct stream *s)
{
	token_id id = s->cut.id;

	s->has_cut = false;
	s->start = s->cut.at + s->cut.n;
	s->part = PART_SEGMENT;
	if (append(s, &id, 1) != STREAM_DONE)
		return STREAM_NO_MEMORY;
	if (s->base + s->start <= s->note) {
		s->noted = s->base + s->start;
		s->noted_n = s->cut.n;
		s->noted_ids = s->out->n;
	}
	next_cut(s, s->start);
	return STREAM_DONE;
}

/* Encode the next chunk or token. Sets *any if there was one. */
static enum stream_result advance(struct stream *s, uint64_t *budget, bool *any)
{
	size_t limit, n;

	look_for_cut(s);
	limit = s->has_cut ? s->cut.at : s->settled;
	*any = true;
	if (limit > s->start) {
		n = chunk_next(s->seg.places, &s->search,
		    span_of(s->buf.p + s->start, limit - s->start), s->has_cut || s->ended);
		*any = n > 0;
		return n > 0 ? paid_chunk(s, n, budget) : STREAM_DONE;
	}
	if (s->has_cut)
		return take_cut(s);
	*any = false;
	return close_text(s);
}

static enum stream_result run(struct stream *s, uint64_t *budget, bool strict)
{
	enum stream_result r = STREAM_DONE;
	bool any = true;

	if (s->failed < 0)
		return s->failed;
	s->strict = strict;
	if (!s->seg.independent)
		return whole(s, budget);
	while (any && r == STREAM_DONE) {
		if (*budget == 0)
			return STREAM_MORE;
		if (s->steps != NULL)
			r = go_on(s, budget);
		else
			r = advance(s, budget, &any);
	}
	return r;
}

enum stream_result stream_work(struct stream *s, uint64_t *budget)
{
	return run(s, budget, true);
}

enum stream_result stream_step(struct stream *s, size_t budget)
{
	uint64_t left = budget > 0 ? budget : 1;

	return run(s, &left, false);
}

/* ---- in between ------------------------------------------------------------------------------ */

void stream_scratch(struct stream *s, struct tok_scratch *scratch)
{
	s->c.scratch = scratch;
}

size_t stream_left(const struct stream *s)
{
	return s->closed ? 0 : s->buf.n - s->start;
}

/* Bypasses the cache, because the end of this text occurs only once. */
int stream_peek(struct stream *s, struct ids *out, size_t *n, uint64_t *budget)
{
	struct work_left *w = tok_scratch_work(s->c.scratch);
	size_t had = out->n;
	const uint8_t *p;
	int rc;

	*n = 0;
	if (*budget == 0 || s->failed < 0 || !s->seg.independent || s->ended || s->has_cut ||
	    s->steps != NULL || s->settled <= s->start)
		return 0;
	p = (const uint8_t *)s->buf.p + s->start;
	*n = chunk_last(s->seg.places, span_of(p, s->settled - s->start));
	if (*n == 0)
		return 0;
	w->left = *budget;
	rc = tok_encode_segment(s->c.tok, s->c.scratch, span_of(p, *n), s->part, out);
	*budget = w->left;
	work_unbound(w);
	if (rc == TOK_SPENT) {
		out->n = had;
		*n = 0;
	}
	return rc < 0 ? -1 : 0;
}

/* ---- made and freed -------------------------------------------------------------------------- */

struct stream *stream_new(const struct stream_opts *o)
{
	struct stream *s = mem_alloc(sizeof(*s));

	if (s == NULL)
		return NULL;
	s->o = *o;
	return s;
}

void stream_free(struct stream *s)
{
	if (s == NULL)
		return;
	drop_steps(s);
	buf_free(&s->buf);
	mem_free_wiped(s, sizeof(*s));
}

size_t stream_bytes(const struct stream *s)
{
	return sizeof(*s) + s->buf.cap + (s->steps != NULL ? tok_steps_bytes(s->steps) : 0);
}
