/* tok_steps.c - encode a segment in steps.
 *
 *   PREPARE     normalize: the text to split, and its first part             once
 *   SPLIT       the next batch of pieces of a part; a part ends at a token of normalized text
 *   PIECES      pieces in runs of RUN_BYTES
 *   LONG        one piece above BPE_LONG bytes, by bpe_long_step()
 *
 * The state of a long piece, and text that a normalizer or splitter has rewritten, stay in a
 * scratch until its next use. The thread's scratch is used for other texts between two steps, so a
 * segment in steps has its own. That is rare and short. */
#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/drop.h"
#include "agent/tok/parts.h"
#include "agent/tok/tok_steps.h"

#define RUN_BYTES	256u
#define LONG_PIECE	1024u		/* a longer one can be interrupted */

/* Bytes per step of work.h: to copy, read and split by hand; to normalize. The encoder and chains
 * of steps charge for themselves. */
#define STEP_LOOKS	4
#define STEP_NORMAL	5
/* Pieces per step that borders make. */
#define STEP_CUTS	2

struct tok_steps {
	struct work_left *work;		/* of the scratch: the rest of this call's budget */
	struct tok_scratch *scratch;
	struct tok_parts with;
	struct tok_scratch_parts in;
	uint8_t *text;			/* valid UTF-8 */
	size_t n;
	struct span normal;		/* the same, normalized */
	struct added_at search;		/* for tokens of normalized text */
	struct added_hit hit;
	bool has_hit;
	enum part part;
	size_t from, end;		/* of the part of <normal> that is split next: up to a token or the end */
	struct pieces pieces;
	struct span rest;		/* the part of a piece that <borders> have not cut yet */
	uint32_t next;			/* next piece */
	enum { STEP_PREPARE, STEP_SPLIT, STEP_PIECES, STEP_LONG, STEP_DONE } at;
};

struct tok_steps *tok_steps_start(const struct tok *t, struct span text, enum part part)
{
	struct tok_steps *s = mem_alloc(sizeof(*s));
	const uint8_t *p = (const uint8_t *)text.p;
	bool good = utf8_good(p, text.n) == text.n;

	if (s == NULL)
		return NULL;
	s->scratch = tok_scratch_new();
	s->text = good ? mem_alloc(text.n) : mem_calloc(text.n, 3);
	if (s->scratch == NULL || s->text == NULL) {
		tok_steps_stop(s);
		return NULL;
	}
	if (good && text.n > 0)
		memcpy(s->text, p, text.n);
	s->n = good ? text.n : utf8_mend(p, text.n, s->text);
	s->with = tok_parts(t);
	s->in = tok_scratch_parts(s->scratch);
	s->work = tok_scratch_work(s->scratch);
	s->part = part;
	return s;
}

void tok_steps_stop(struct tok_steps *s)
{
	if (s == NULL)
		return;
	tok_scratch_free(s->scratch);
	mem_free_wiped(s->text, s->n);
	mem_free_wiped(s, sizeof(*s));
}

size_t tok_steps_bytes(const struct tok_steps *s)
{
	return sizeof(*s) + s->n + tok_scratch_bytes(s->scratch);
}

static int next_part(struct tok_steps *s)
{
	s->has_hit = s->with.normalized != NULL &&
	    added_next(s->with.normalized, s->normal, &s->search, &s->hit);
	if (!s->has_hit && work_spent(s->work))
		return -1;
	s->end = s->has_hit ? s->hit.at : s->normal.n;
	s->at = STEP_SPLIT;
	return 1;
}

static int prepare(struct tok_steps *s)
{
	s->normal = span_of(s->text, s->n);
	work_spend(s->work, s->n / STEP_LOOKS + (s->with.normal != NULL ? s->n / STEP_NORMAL : 0));
	if (work_spent(s->work))
		return -1;
	if (s->with.normal != NULL)
		normal_run_part(s->with.normal, s->in.normal, span_of(s->text, s->n), s->part, &s->normal);
	if (s->normal.p == NULL)
		return -1;
	s->search.work = s->work;
	return next_part(s);
}

/* End a part: append the token after it and start the next part. */
static int end_of_part(struct tok_steps *s, struct ids *out)
{
	if (!s->has_hit) {
		s->at = STEP_DONE;
		return 1;
	}
	if (ids_reserve(out, 1) < 0)
		return -1;
	out->p[out->n++] = s->hit.id;
	s->from = s->search.end;
	return next_part(s);
}

/* Without a splitter, all of it is one piece. */
static int one_piece(struct tok_steps *s, size_t n)
{
	if (n > UINT32_MAX)
		return -1;
	s->pieces.text = (const uint8_t *)s->normal.p + s->from;
	s->pieces.n = 1;
	s->pieces.end[0] = (uint32_t)n;
	s->pieces.used = n;
	return 0;
}

static int cut(struct tok_steps *s)
{
	borders_cut(s->with.borders, (const uint8_t *)s->rest.p, s->rest.n, &s->pieces);
	work_spend(s->work, s->pieces.n / STEP_CUTS);
	s->rest = span_of(s->rest.p + s->pieces.used, s->rest.n - s->pieces.used);
	s->next = 0;
	s->at = STEP_PIECES;
	return 1;
}

/* Remove the bytes that the vocabulary lacks from the pieces. */
static int drop(struct tok_steps *s)
{
	size_t n = s->pieces.n;

	if (s->with.dropped == NULL || n == 0)
		return 1;
	work_spend(s->work, s->pieces.end[n - 1] / STEP_LOOKS);
	if (drop_bytes(s->with.dropped, s->in.kept, &s->pieces.text, s->pieces.end, &n) < 0)
		return -1;
	s->pieces.n = (uint32_t)n;
	return 1;
}

static int split(struct tok_steps *s, struct ids *out)
{
	const uint8_t *p = (const uint8_t *)s->normal.p + s->from;
	int r;

	if (s->rest.n > 0)
		return cut(s);
	if (s->from >= s->end)
		return end_of_part(s, out);
	r = s->with.split == NULL ? one_piece(s, s->end - s->from)
				  : split_next(s->with.split, s->in.split, p, s->end - s->from,
					s->from == 0 ? s->part : PART_SEGMENT, true, &s->pieces);
	if (r < 0)
		return -1;
	s->from += s->pieces.used;
	if (s->with.borders != NULL && s->pieces.n > 0) {
		s->rest = span_of(s->pieces.text, s->pieces.end[s->pieces.n - 1]);
		return cut(s);
	}
	s->next = 0;
	s->at = STEP_PIECES;
	return drop(s);
}

static uint32_t begin_of(const struct tok_steps *s, uint32_t piece)
{
	return piece ? s->pieces.end[piece - 1] : 0;
}

/* Encode some short pieces, at least one. */
static int encode_run(struct tok_steps *s, struct ids *out)
{
	uint32_t end[SPLIT_BATCH], from = begin_of(s, s->next), n = 0, i = s->next;
	uint64_t had = s->work->left, spent;
	size_t left = RUN_BYTES;
	int r;

	for (; i < s->pieces.n && left > 0; i++) {
		uint32_t bytes = s->pieces.end[i] - begin_of(s, i);

		if (bytes > LONG_PIECE)
			break;
		end[n++] = s->pieces.end[i] - from;
		left = bytes < left ? left - bytes : 0;
	}
	s->next = i;
	work_unbound(s->work);
	r = s->with.bpe != NULL
	    ? bpe_encode(s->with.bpe, s->in.bpe, s->pieces.text + from, end, n, out)
	    : lexicon_encode(s->with.lexicon, s->in.lexicon, s->work, s->pieces.text + from, end, n,
		  out);
	spent = WORK_ANY - s->work->left;
	s->work->left = had;
	work_spend(s->work, spent);
	return r < 0 ? -1 : 1;
}

static int start_long(struct tok_steps *s)
{
	uint32_t from = begin_of(s, s->next), n = s->pieces.end[s->next] - from;
	const uint8_t *p = s->pieces.text + from;
	int r = s->with.bpe != NULL ? bpe_long_start(s->with.bpe, s->in.bpe, p, n)
				    : lexicon_long_start(s->with.lexicon, s->in.lexicon, p, n);

	s->at = STEP_LONG;
	return r < 0 ? -1 : 1;
}

static int pieces(struct tok_steps *s, struct ids *out)
{
	if (s->next == s->pieces.n) {
		s->at = STEP_SPLIT;
		return 1;
	}
	if (s->pieces.end[s->next] - begin_of(s, s->next) > LONG_PIECE)
		return start_long(s);
	return encode_run(s, out);
}

static int long_piece(struct tok_steps *s, struct ids *out)
{
	int r = s->with.bpe != NULL
	    ? bpe_long_step(s->with.bpe, s->in.bpe,
		  s->work->left < BPE_BUDGET ? s->work->left : BPE_BUDGET, out)
	    : lexicon_long_step(s->with.lexicon, s->in.lexicon, s->work, out);

	if (r == 0) {
		s->next++;
		s->at = STEP_PIECES;
	}
	return r < 0 ? -1 : 1;
}

/* Normalize or split all of a text. That cannot be interrupted, so it may use the rest of the
 * budget if <strict>, otherwise all that it needs. */
static int in_one_go(struct tok_steps *s, bool strict, struct ids *out)
{
	uint64_t had = s->work->left;
	int r;

	if (!strict)
		work_unbound(s->work);
	r = s->at == STEP_PREPARE ? prepare(s) : split(s, out);
	if (r < 0 && work_spent(s->work))
		r = TOK_STEPS_SPENT;
	if (!strict) {
		uint64_t spent = WORK_ANY - s->work->left;

		s->work->left = had;
		work_spend(s->work, spent);
	}
	return r;
}

int tok_steps_run(struct tok_steps *s, uint64_t *budget, bool strict, struct ids *out)
{
	int r = 1;

	s->work->left = *budget > 0 ? *budget : 1;
	while (r == 1 && !work_spent(s->work) && s->at != STEP_DONE) {
		switch (s->at) {
		case STEP_PREPARE:
		case STEP_SPLIT:
			r = in_one_go(s, strict, out);
			break;
		case STEP_PIECES:
			r = pieces(s, out);
			break;
		case STEP_LONG:
			r = long_piece(s, out);
			break;
		case STEP_DONE:
			break;
		}
	}
	*budget = s->work->left;
	return r < 0 ? r : s->at != STEP_DONE;
}
