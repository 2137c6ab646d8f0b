/* tok_encode.c - encode a text: cut added tokens out of the raw text, then run each segment through
 * the normalizer, the added tokens of normalized text, the splitter and the vocabulary. Like
 * tokenizers, each step works on a segment, not on the text: the ids of a segment are the same
 * anywhere and may be cached (segcache.h).
 *
 * Text that is not UTF-8 is copied with U+FFFD for its bad parts. Added tokens are whole
 * characters, so the text may be repaired as a whole or by the segment. */
#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/drop.h"
#include "agent/tok/tok_in.h"

#define MENDED_MAX	(SIZE_MAX / 4)

/* Bytes per step of work.h: to repair, search for added tokens and split by hand; to normalize. */
#define STEP_LOOKS	4
#define STEP_NORMAL	5
/* Pieces per step that borders make. */
#define STEP_CUTS	2

struct tok_scratch *tok_scratch_new(void)
{
	struct tok_scratch *c = mem_alloc(sizeof(*c));

	if (c == NULL)
		return NULL;
	c->split = split_scratch_new();
	c->bpe = bpe_scratch_new();
	c->lexicon = lexicon_scratch_new();
	if (c->split == NULL || c->bpe == NULL || c->lexicon == NULL) {
		tok_scratch_free(c);
		return NULL;
	}
	work_unbound(&c->work);
	c->normal.work = &c->work;
	bpe_scratch_work(c->bpe, &c->work);
	split_scratch_work(c->split, &c->work);
	return c;
}

struct work_left *tok_scratch_work(struct tok_scratch *c)
{
	return &c->work;
}

/* Wipe and free what belongs to one text. */
static void forget_text(struct tok_scratch *c)
{
	normal_buf_fini(&c->normal);
	buf_free(&c->mended);
	buf_free(&c->kept);
	mem_wipe(&c->pieces, sizeof(c->pieces));
	mem_wipe(&c->cut, sizeof(c->cut));
}

void tok_scratch_wipe(struct tok_scratch *c)
{
	forget_text(c);
	split_scratch_wipe(c->split);
	bpe_scratch_wipe(c->bpe);
	lexicon_scratch_wipe(c->lexicon);
}

void tok_scratch_free(struct tok_scratch *c)
{
	if (c == NULL)
		return;
	forget_text(c);
	split_scratch_free(c->split);
	bpe_scratch_free(c->bpe);
	lexicon_scratch_free(c->lexicon);
	mem_free(c);
}

size_t tok_scratch_bytes(const struct tok_scratch *c)
{
	return sizeof(*c) + normal_buf_bytes(&c->normal) + c->mended.cap + c->kept.cap +
	       split_scratch_bytes(c->split) + bpe_scratch_bytes(c->bpe) +
	       lexicon_scratch_bytes(c->lexicon);
}

struct tok_scratch_parts tok_scratch_parts(struct tok_scratch *c)
{
	return (struct tok_scratch_parts){ .normal = &c->normal,
		.split = c->split,
		.bpe = c->bpe,
		.lexicon = c->lexicon,
		.kept = &c->kept };
}

/* Repair <text> in the scratch if it is not valid. Returns -1 if there is no memory. */
static int mend(struct tok_scratch *c, struct span *text)
{
	const uint8_t *p = (const uint8_t *)text->p;

	if (utf8_good(p, text->n) == text->n)
		return 0;
	buf_start(&c->mended, 0);
	if (text->n > MENDED_MAX || !buf_room(&c->mended, text->n * 3))
		return -1;
	buf_wrote(&c->mended, utf8_mend(p, text->n, (uint8_t *)c->mended.p));
	*text = span_of(c->mended.p, c->mended.n);
	return 0;
}

/* Encode pieces, without the bytes that the vocabulary lacks. */
static int merge(const struct tok *t, struct tok_scratch *c, const uint8_t *p, uint32_t *end,
    size_t n, struct ids *out)
{
	if (t->bpe == NULL)
		return lexicon_encode(t->lexicon, c->lexicon, &c->work, p, end, n, out);
	if (t->drops && drop_bytes(t->dropped, &c->kept, &p, end, &n) < 0)
		return -1;
	return n == 0 ? 0 : bpe_encode(t->bpe, c->bpe, p, end, n, out);
}

/* Cut a piece that is the whole text where no merge can cross, then encode. */
static int cut_and_merge(const struct tok *t, struct tok_scratch *c, const uint8_t *p,
    uint32_t *end, size_t n, struct ids *out)
{
	size_t left = n > 0 ? end[n - 1] : 0;
	int rc = 0;

	if (t->borders == NULL)
		return merge(t, c, p, end, n, out);
	for (; left > 0 && rc == 0; p += c->cut.used, left -= c->cut.used) {
		borders_cut(t->borders, p, left, &c->cut);
		work_spend(&c->work, c->cut.n / STEP_CUTS);
		rc = bpe_encode(t->bpe, c->bpe, p, c->cut.end, c->cut.n, out);
	}
	return rc;
}

/* Encode normalized text without added tokens. */
static int pieces(const struct tok *t, struct tok_scratch *c, struct span text, enum part part,
    struct ids *out)
{
	const uint8_t *p = (const uint8_t *)text.p;
	size_t n = text.n;
	uint32_t end = (uint32_t)n;
	int rc;

	if (n > UINT32_MAX)
		return -1;
	if (n > 0 && t->split == NULL)
		return cut_and_merge(t, c, p, &end, 1, out);
	split_scratch_forget(c->split);		/* a failed encoding may have left pieces */
	while (n > 0) {
		if (split_next(t->split, c->split, p, n, part, true, &c->pieces) < 0)
			return work_spent(&c->work) ? TOK_SPENT : -1;
		if ((rc = cut_and_merge(t, c, c->pieces.text, c->pieces.end, c->pieces.n, out)) != 0)
			return rc;
		p += c->pieces.used;
		n -= c->pieces.used;
		part = PART_SEGMENT;
	}
	return 0;
}

static int put_id(struct ids *out, token_id id)
{
	if (ids_reserve(out, 1) < 0)
		return -1;
	out->p[out->n++] = id;
	return 0;
}

/* Encode valid text of one segment. */
static int segment(const struct tok *t, struct tok_scratch *c, struct span text, enum part part,
    struct ids *out)
{
	struct added_at at = { .work = &c->work };
	struct added_hit hit;
	size_t from;
	int rc;

	if (text.n == 0)
		return 0;
	work_spend(&c->work, text.n / STEP_LOOKS);		/* indivisible, so the budget must hold all of it */
	if (work_spent(&c->work))
		return TOK_SPENT;
	if (t->normal != NULL) {
		work_spend(&c->work, text.n / STEP_NORMAL);
		normal_run_part(t->normal, &c->normal, text, part, &text);
		if (text.p == NULL)
			return work_spent(&c->work) ? TOK_SPENT : -1;
	}
	for (from = 0; added_next(t->normalized, text, &at, &hit); from = at.end) {
		if (hit.at > from &&
		    (rc = pieces(t, c, span_of(text.p + from, hit.at - from),
			 from == 0 ? part : PART_SEGMENT, out)) != 0)
			return rc;
		if (put_id(out, hit.id) < 0)
			return -1;
	}
	if (work_spent(&c->work))
		return TOK_SPENT;
	return pieces(t, c, span_of(text.p + from, text.n - from), from == 0 ? part : PART_SEGMENT, out);
}

static int all(const struct tok *t, struct tok_scratch *c, struct span text, struct ids *out)
{
	struct added_at at = { 0, 0 };
	struct added_hit hit;
	size_t from;
	int rc;

	for (from = 0; added_next(t->raw, text, &at, &hit); from = at.end) {
		if (hit.at > from &&
		    (rc = segment(t, c, span_of(text.p + from, hit.at - from),
			 from == 0 ? PART_FIRST : PART_SEGMENT, out)) != 0)
			return rc;
		if (put_id(out, hit.id) < 0)
			return -1;
	}
	return segment(t, c, span_of(text.p + from, text.n - from),
	    from == 0 ? PART_FIRST : PART_SEGMENT, out);
}

static int put_ids(struct ids *out, const struct ids *more)
{
	if (more->n == 0)
		return 0;
	if (ids_reserve(out, more->n) < 0)
		return -1;
	memcpy(out->p + out->n, more->p, more->n * sizeof(*more->p));
	out->n += more->n;
	return 0;
}

int tok_encode(const struct tok *t, struct tok_scratch *c, struct span text, unsigned flags,
    struct ids *out)
{
	size_t before = out->n;
	int rc = -1;

	if (text.p == NULL)
		text = SPAN("");
	if (mend(c, &text) == 0 && ((flags & TOK_SPECIAL) == 0 || put_ids(out, &t->prefix) == 0))
		rc = all(t, c, text, out);
	if (rc == 0 && (flags & TOK_SPECIAL) != 0)
		rc = put_ids(out, &t->suffix);
	if (rc < 0)
		out->n = before;
	return rc;
}

int tok_encode_segment(const struct tok *t, struct tok_scratch *c, struct span text, enum part part,
    struct ids *out)
{
	size_t before = out->n;
	int rc = -1;

	if (text.n == 0)
		return 0;
	if (mend(c, &text) == 0)
		rc = segment(t, c, text, part, out);
	if (rc < 0)
		out->n = before;
	return rc;
}

bool tok_next_cut(const struct tok *t, struct span text, size_t from, struct tok_cut *cut)
{
	struct added_at at = { .search = from, .end = from };
	struct added_hit hit = { .at = text.n };
	bool is = added_next(t->raw, text, &at, &hit);

	*cut = (struct tok_cut){ .at = hit.at, .n = hit.n, .id = hit.id, .looks = at.looks };
	return is;
}

size_t tok_cut_tail(const struct tok *t, struct span text)
{
	struct added_at at = { 0, 0 };

	return added_tail(t->raw, text, &at);
}
