/* tok_steps.c - a segment encoded in steps.
 *
 *   PREPARE     normalized: the text that is split; its first part           once
 *   SPLIT       the next batch of pieces of a part; a token that is found in normalized text ends a part
 *   PIECES      pieces by the run, as many as the budget has bytes for
 *   LONG        one piece above BPE_LONG bytes, by bpe_long_step()
 *
 * The state of a long piece, and the text that a normalizer or a splitter has rewritten, lie in a scratch until its next
 * use. The one of the thread is used by others between two steps, so there is another one here, for the little time and the
 * few texts it takes. */
#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/parts.h"
#include "agent/tok/tok_steps.h"

struct tok_steps {
	struct tok_scratch *scratch;
	struct tok_parts with;
	struct tok_scratch_parts in;
	uint8_t *text;			/* valid */
	size_t n;
	struct span normal;		/* the same, normalized */
	struct added_at search;		/* for the tokens of normalized text in it */
	struct added_hit hit;
	bool has_hit, first;
	size_t from, end;		/* of the part of <normal> that is split next: up to a token or the end */
	struct pieces pieces;
	uint32_t next;			/* piece */
	enum { STEP_PREPARE, STEP_SPLIT, STEP_PIECES, STEP_LONG, STEP_DONE } at;
};

struct tok_steps *tok_steps_start(const struct tok *t, struct span text, bool first)
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
	s->first = first;
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

static void next_part(struct tok_steps *s)
{
	s->has_hit = s->with.normalized != NULL && added_next(s->with.normalized, s->normal, &s->search, &s->hit);
	s->end = s->has_hit ? s->hit.at : s->normal.n;
	s->at = STEP_SPLIT;
}

static int prepare(struct tok_steps *s)
{
	s->normal = span_of(s->text, s->n);
	if (s->with.normal != NULL)
		normal_run(s->with.normal, s->in.normal, span_of(s->text, s->n), &s->normal);
	if (s->normal.p == NULL)
		return -1;
	next_part(s);
	return 1;
}

/* A part is done: the token behind it, and the part behind that. */
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
	next_part(s);
	return 1;
}

/* No splitter: all of it is one piece. */
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

static int split(struct tok_steps *s, struct ids *out)
{
	const uint8_t *p = (const uint8_t *)s->normal.p + s->from;
	int r;

	if (s->from >= s->end)
		return end_of_part(s, out);
	r = s->with.split == NULL ? one_piece(s, s->end - s->from)
				  : split_next(s->with.split, s->in.split, p, s->end - s->from, s->first && s->from == 0,
					       true, &s->pieces);
	if (r < 0)
		return -1;
	s->from += s->pieces.used;
	s->next = 0;
	s->at = STEP_PIECES;
	return 1;
}

static uint32_t begin_of(const struct tok_steps *s, uint32_t piece)
{
	return piece ? s->pieces.end[piece - 1] : 0;
}

/* As many short pieces as the budget has bytes for, one at least. */
static int encode_run(struct tok_steps *s, size_t *budget, struct ids *out)
{
	uint32_t end[SPLIT_BATCH], from = begin_of(s, s->next), n = 0, i = s->next;
	size_t left = *budget;

	for (; i < s->pieces.n && left > 0; i++) {
		uint32_t bytes = s->pieces.end[i] - begin_of(s, i);

		if (bytes > BPE_LONG)
			break;
		end[n++] = s->pieces.end[i] - from;
		left = bytes < left ? left - bytes : 0;
	}
	*budget = left;
	s->next = i;
	return bpe_encode(s->with.bpe, s->in.bpe, s->pieces.text + from, end, n, out) < 0 ? -1 : 1;
}

static int start_long(struct tok_steps *s)
{
	uint32_t from = begin_of(s, s->next);

	s->at = STEP_LONG;
	return bpe_long_start(s->with.bpe, s->in.bpe, s->pieces.text + from, s->pieces.end[s->next] - from) < 0 ? -1 : 1;
}

static int pieces(struct tok_steps *s, size_t *budget, struct ids *out)
{
	if (s->next == s->pieces.n) {
		s->at = STEP_SPLIT;
		return 1;
	}
	if (s->pieces.end[s->next] - begin_of(s, s->next) > BPE_LONG)
		return start_long(s);
	return encode_run(s, budget, out);
}

static int long_piece(struct tok_steps *s, size_t *budget, struct ids *out)
{
	int r = bpe_long_step(s->with.bpe, s->in.bpe, *budget, out);

	*budget = 0;
	if (r == 0) {
		s->next++;
		s->at = STEP_PIECES;
	}
	return r < 0 ? -1 : 1;
}

/* What goes over the rest of the text in one go ends a step. */
int tok_steps_run(struct tok_steps *s, size_t budget, struct ids *out)
{
	int r = 1;

	while (r == 1 && budget > 0 && s->at != STEP_DONE) {
		switch (s->at) {
		case STEP_PREPARE:
			r = prepare(s);
			budget = 0;
			break;
		case STEP_SPLIT:
			r = split(s, out);
			if (s->pieces.used > BPE_LONG)
				budget = 0;
			break;
		case STEP_PIECES:
			r = pieces(s, &budget, out);
			break;
		case STEP_LONG:
			r = long_piece(s, &budget, out);
			break;
		case STEP_DONE:
			break;
		}
	}
	return r < 0 ? -1 : s->at != STEP_DONE;
}
