/* sentencepiece.c - read a model of SentencePiece of kind BPE (Llama 2, Mistral, Gemma) or Unigram
 * (T5): pieces with scores, options of training that matter, the normalizer.
 *
 * BPE: two neighbours merge if both together are a piece; the highest score first, of equal ones
 * the leftmost. So each division of a piece into two is a merge, with a rank by its score.
 *
 * The ids are those of SentencePiece itself, with <s> before a prompt, as mistral_common adds
 * it. Text is never a control piece ("<s>"), so these are hidden, as with tekken.json. Unused
 * pieces and spaces as suffixes are rejected, which no known model has.
 *
 * Pieces that the user defined are matched from left to right, the longest at each place: once in
 * the text, where the normalizer leaves them as they are, except for their spaces, and for BPE
 * again in the normalized text, where they are cut out. So a piece with a space is found only if
 * spaces stay. For Unigram they are pieces of the lattice with a score above all others. */
#include <math.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/file/draft.h"
#include "agent/tok/file/protobuf.h"

#define PIECE_MAX	512u		/* bytes; SentencePiece's own limit is 512 */

/* Dividing a piece of n bytes hashes n parts from its start and n from its end, at a price of
 * n * (n + PART_COST) bytes. 262,144 pieces of 8 bytes cost a seventh of DIVIDE_MAX. Models
 * just below it load in 0.1 s with pieces of 512 bytes, in 0.6 s with 639,000 of 20 bytes. */
#define PART_COST	64u
#define DIVIDE_MAX	(1u << 30)

/* PrefixMatcher of SentencePiece sees the 64 shortest pieces that begin a text. */
#define PREFIXES_SEEN	64u

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p

enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { TRAINER_TYPE = 3, TRAINER_SUFFIX = 24, TRAINER_BYTES = 35, TRAINER_BOS = 46 };
enum { NORMALIZER_MAP = 2, NORMALIZER_PREFIX, NORMALIZER_ONE_SPACE, NORMALIZER_MARKS,
	NORMALIZER_RULES };

struct reader {
	struct draft *d;
	struct err *e;
	uint64_t type;
	bool suffix, has_unk;
	token_id unk;
	uint32_t n_pieces, n_bytes;
	struct span bos;
	VEC(struct user { struct span text; token_id id; }) users;
	uint64_t divided;		/* what dividing has cost */
	VEC(uint8_t) types;		/* both by the index in the vocabulary */
	VEC(float) scores;
};

/* ---- pieces ---------------------------------------------------------------------------------- */

static int read_field(struct reader *r, const struct pb_field *f, struct span *text, float *score,
    uint64_t *type)
{
	if (f->number == PIECE_TEXT && f->wire == PB_BYTES)
		*text = f->bytes;
	else if (f->number == PIECE_SCORE && f->wire == PB_32)
		*score = pb_float(f);
	else if (f->number == PIECE_TYPE && f->wire == PB_VARINT)
		*type = f->value;
	else if (f->number <= PIECE_TYPE)
		return err_set(r->e, "piece %u: a field of a wrong type", r->n_pieces);
	return 0;
}

static int check_piece(struct reader *r, struct span text, float score, uint64_t type)
{
	if (text.n == 0 || text.n > PIECE_MAX || !isfinite(score) ||
	    utf8_good((const uint8_t *)text.p, text.n) != text.n)
		return err_set(r->e, "piece %u: 1 to %u bytes of UTF-8 and a finite score are expected",
		    r->n_pieces, PIECE_MAX);
	if (type == UNUSED || type < NORMAL || type > BYTE)
		return err_set(r->e, "piece %u, \"%.*s\", is unused or of an unknown type: models with such "
		    "pieces are not understood", r->n_pieces, CUT(text));
	if (type != NORMAL && type != USER_DEFINED && utf8_count(text.p, text.n) == 1)
		return err_set(r->e, "piece %u, \"%.*s\", is one character, but no normal piece",
		    r->n_pieces, CUT(text));
	return 0;
}

/* Return the index of a normal piece, or VOCAB_NONE. */
static uint32_t normal(const struct reader *r, const char *p, size_t n)
{
	uint32_t at = vocab_find(&r->d->vocab, span_of(p, n));

	return at != VOCAB_NONE && r->types.p[at] == NORMAL ? at : VOCAB_NONE;
}

/* Tell if <text> is a piece of the user. */
static bool is_user(const struct reader *r, const char *p, size_t n)
{
	uint32_t at = vocab_find(&r->d->added, span_of(p, n));

	return at != VOCAB_NONE && !r->d->latest.p[at].special;
}

static int stands_twice(struct reader *r, struct span text)
{
	return err_set(r->e, "piece %u: \"%.*s\" stands there twice", r->n_pieces, CUT(text));
}

/* Add a piece that text never is, or one that it always is. */
static int add_token(struct reader *r, struct span text, bool control)
{
	struct draft_added t = { .content = text, .id = r->n_pieces, .special = control,
		.hidden = control, .normalized = !control };
	token_id id;

	if (vocab_find(&r->d->added, text) != VOCAB_NONE ||
	    (!control && normal(r, text.p, text.n) != VOCAB_NONE))
		return stands_twice(r, text);
	if (!control && vec_push(&r->users, ((struct user){ text, r->n_pieces })) < 0)
		return err_set(r->e, "not enough memory");
	return draft_add(r->d, &t, true, &id, r->e);
}

static int add_piece(struct reader *r, struct span text, float score, uint64_t type)
{
	struct draft *d = r->d;

	if (type == NORMAL && is_user(r, text.p, text.n))
		return stands_twice(r, text);
	if (type == UNKNOWN && r->has_unk)
		return err_set(r->e, "piece %u: a second unknown piece", r->n_pieces);
	if (type == UNKNOWN) {
		r->has_unk = true;
		r->unk = r->n_pieces;
	}
	r->n_bytes += type == BYTE;
	switch (vocab_add(&d->vocab, text, r->n_pieces)) {
	case 0: break;
	case 1: return stands_twice(r, text);
	default: return err_set(r->e, "not enough memory");
	}
	if (vec_push(&r->scores, score) < 0 || vec_push(&r->types, (uint8_t)type) < 0)
		return err_set(r->e, "not enough memory");
	return 0;
}

static int read_piece(struct reader *r, struct span bytes)
{
	struct pb m = pb_of(bytes);
	struct span text = { NULL, 0 };
	struct pb_field f;
	uint64_t type = NORMAL;
	float score = 0;
	int more;

	while ((more = pb_next(&m, &f)) > 0) {
		if (read_field(r, &f, &text, &score, &type) < 0)
			return -1;
	}
	if (more < 0)
		return err_set(r->e, "piece %u: damaged", r->n_pieces);
	if (r->n_pieces > VOCAB_ID_MAX)
		return err_set(r->e, "more than %u pieces", VOCAB_ID_MAX);
	if (check_piece(r, text, score, type) < 0 ||
	    (type == CONTROL || type == USER_DEFINED ? add_token(r, text, type == CONTROL)
						     : add_piece(r, text, score, type)) < 0)
		return -1;
	r->n_pieces++;
	return 0;
}

static int by_text(const void *a, const void *b)
{
	const struct user *x = a, *y = b;
	size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
	int c = memcmp(x->text.p, y->text.p, n);

	return c != 0 ? c : (x->text.n > y->text.n) - (x->text.n < y->text.n);
}

static bool begins(struct span a, struct span b)
{
	return a.n <= b.n && memcmp(a.p, b.p, a.n) == 0;
}

/* Hide pieces of the user that begin with so many others that the longest one is not seen. Sorted,
 * the pieces that begin one stand before it: open[0 .. depth), each the begin of the next. */
static void hide_unseen(struct reader *r)
{
	const struct user *u = r->users.p;
	uint32_t open[PIECE_MAX], depth = 0;

	if (r->users.n > 0)
		qsort(r->users.p, r->users.n, sizeof(*u), by_text);
	for (uint32_t i = 0; i < r->users.n; i++) {
		while (depth > 0 && !begins(u[open[depth - 1]].text, u[i].text))
			depth--;
		if (depth >= PREFIXES_SEEN)
			r->d->latest.p[vocab_find(&r->d->added, u[i].text)].hidden = true;
		open[depth++] = i;
	}
}

/* ---- options --------------------------------------------------------------------------------- */

static int read_trainer(struct reader *r, struct span bytes)
{
	struct pb m = pb_of(bytes);
	struct pb_field f;
	int more;

	while ((more = pb_next(&m, &f)) > 0) {
		enum pb_wire wire = f.number == TRAINER_BOS ? PB_BYTES : PB_VARINT;

		if (f.number != TRAINER_TYPE && f.number != TRAINER_SUFFIX && f.number != TRAINER_BYTES &&
		    f.number != TRAINER_BOS)
			continue;
		if (f.wire != wire)
			return err_set(r->e, "training option %u: a field of a wrong type", f.number);
		if (f.number == TRAINER_TYPE)
			r->type = f.value;
		else if (f.number == TRAINER_SUFFIX)
			r->suffix = f.value != 0;
		else if (f.number == TRAINER_BYTES)
			r->d->spec.byte_fallback = f.value != 0;
		else
			r->bos = f.bytes;
	}
	return more < 0 ? err_set(r->e, "the training options are damaged") : 0;
}

static int read_normalizer(struct reader *r, struct span bytes)
{
	struct normal_step *s = &r->d->normal[0];
	struct pb m = pb_of(bytes);
	struct pb_field f;
	int more;

	while ((more = pb_next(&m, &f)) > 0) {
		unsigned flag = f.number == NORMALIZER_PREFIX ? NORMAL_PREFIX
		    : f.number == NORMALIZER_ONE_SPACE        ? NORMAL_ONE_SPACE
							      : NORMAL_MARKS;

		bool is_flag = f.number > NORMALIZER_MAP && f.number < NORMALIZER_RULES;

		if (f.number > NORMALIZER_RULES)
			return err_set(r->e, "the normalizer has a field %u, which is not known", f.number);
		if (f.wire != (is_flag ? PB_VARINT : PB_BYTES))
			return err_set(r->e, "the normalizer's field %u: a field of a wrong type", f.number);
		if (f.number == NORMALIZER_MAP)
			s->pattern = f.bytes;
		else if (is_flag)
			s->flags = f.value != 0 ? s->flags | flag : s->flags & ~flag;
	}
	return more < 0 ? err_set(r->e, "the normalizer is damaged") : 0;
}

static int read_all(struct reader *r, struct span file)
{
	struct pb m = pb_of(file);
	struct pb_field f;
	int more, rc = 0;

	while (rc == 0 && (more = pb_next(&m, &f)) > 0) {
		if (f.wire != PB_BYTES)
			return err_set(r->e, "field %u: a field of a wrong type", f.number);
		if (f.number == MODEL_PIECE)
			rc = read_piece(r, f.bytes);
		else if (f.number == MODEL_TRAINER)
			rc = read_trainer(r, f.bytes);
		else if (f.number == MODEL_NORMALIZER)
			rc = read_normalizer(r, f.bytes);
	}
	return rc < 0 ? -1 : more < 0 ? err_set(r->e, "this SentencePiece model is damaged or cut") : 0;
}

/* ---- merges of BPE --------------------------------------------------------------------------- */

struct scored {
	float score;
	uint32_t n, at;			/* its bytes; its place in the vocabulary */
};

static int by_score(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* Add all divisions of a piece. None if a character of it is a piece of the user, which is cut out
 * before. */
static int divide(struct reader *r, uint32_t piece, uint32_t rank)
{
	const struct vocab_entry *v = r->d->vocab.entries.p;
	struct span s = span_of(v[piece].p, v[piece].n);
	size_t len;
	uint32_t cp;

	r->divided += s.n * (s.n + PART_COST);
	if (r->divided > DIVIDE_MAX)
		return err_set(r->e, "its pieces are too many and too long to divide");
	for (size_t at = 0; at < s.n; at += len) {
		len = utf8_get((const uint8_t *)s.p + at, s.n - at, &cp);
		if (is_user(r, s.p + at, len))
			return 0;
		if (normal(r, s.p + at, len) == VOCAB_NONE)
			return err_set(r->e, "\"%.*s\" is a piece, but one of its characters is not", CUT(s));
	}
	for (size_t at = 0; at < s.n; at += len) {
		uint32_t left = at > 0 ? normal(r, s.p, at) : VOCAB_NONE, right;

		len = utf8_get((const uint8_t *)s.p + at, s.n - at, &cp);
		if (left == VOCAB_NONE || (right = normal(r, s.p + at, s.n - at)) == VOCAB_NONE)
			continue;
		if (draft_merge(r->d, (struct bpe_merge){ v[left].id, v[right].id, v[piece].id }) < 0 ||
		    vec_push(&r->d->ranks, rank) < 0)
			return err_set(r->e, "not enough memory");
	}
	return 0;
}

static int divide_all(struct reader *r, struct scored *s)
{
	const struct vocab_entry *v = r->d->vocab.entries.p;
	uint32_t n = 0, rank = 0;

	for (uint32_t i = 0; i < r->types.n; i++) {
		if (r->types.p[i] == NORMAL)
			s[n++] = (struct scored){ r->scores.p[i], v[i].n, i };
	}
	if (n > 0)
		qsort(s, n, sizeof(*s), by_score);
	for (uint32_t i = 0; i < n; i++) {
		if (i == 0 || s[i].score != s[i - 1].score)
			rank = (uint32_t)r->d->merges.n;
		if (divide(r, s[i].at, rank) < 0)
			return -1;
	}
	return 0;
}

static int make_merges(struct reader *r)
{
	struct scored *s = mem_calloc(r->types.n + 1, sizeof(*s));
	int rc = s == NULL ? err_set(r->e, "not enough memory") : divide_all(r, s);

	mem_free(s);
	r->d->spec.fuse_unk = r->d->spec.has_unk = true;
	r->d->spec.unk = r->unk;
	return rc;
}

/* ---- Unigram --------------------------------------------------------------------------------- */

/* As GetUserDefinedScore() from 0.2.2 on: one piece has more than two of the same length. */
static int add_users(struct reader *r)
{
	for (size_t i = 0; i < r->users.n; i++) {
		const struct user *u = &r->users.p[i];
		double score = (double)(float)(0.1 * (double)(u->text.n - 1));

		if (vocab_add(&r->d->vocab, u->text, u->id) != 0 ||
		    vec_push(&r->d->scores, ((struct draft_score){ score, false })) < 0)
			return err_set(r->e, "not enough memory");
	}
	return 0;
}

/* Text is never the unknown piece or one for a byte. Scores are sums of logarithms: one above 0
 * could make two unknown characters better than a piece. */
static int make_words(struct reader *r)
{
	for (uint32_t i = 0; i < r->types.n; i++) {
		const struct vocab_entry *v = &r->d->vocab.entries.p[i];

		if (r->scores.p[i] > 0)
			return err_set(r->e, "\"%.*s\": a score above 0", (int)(v->n < 60 ? v->n : 60), v->p);
		if (vec_push(&r->d->scores,
			((struct draft_score){ r->scores.p[i], r->types.p[i] != NORMAL })) < 0)
			return err_set(r->e, "not enough memory");
	}
	if (add_users(r) < 0)
		return -1;
	r->d->words.kind = LEXICON_SENTENCE;
	r->d->words.byte_fallback = r->d->spec.byte_fallback;
	r->d->words.unk = r->unk;
	r->d->lexicon = true;
	return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int check(struct reader *r)
{
	if (r->type != TOK_SPM_BPE && r->type != TOK_SPM_UNIGRAM)
		return err_set(r->e, "this SentencePiece model is not of kind BPE or Unigram");
	if (r->types.n == r->n_bytes + r->has_unk)
		return err_set(r->e, "this SentencePiece model has no normal piece");
	if (!r->has_unk)
		return err_set(r->e, "this SentencePiece model has no unknown piece");
	if (r->suffix)
		return err_set(r->e, "treat_whitespace_as_suffix is not understood");
	if (r->d->spec.byte_fallback ? r->n_bytes != 256 : r->n_bytes > 0)
		return err_set(r->e, "this SentencePiece model has %u pieces for bytes", r->n_bytes);
	return 0;
}

int tok_spm_read(struct draft *d, struct span file, struct err *e)
{
	struct reader r = { .d = d, .e = e, .type = TOK_SPM_UNIGRAM, .bos = SPAN("<s>") };
	int rc = -1;
	uint32_t bos;

	d->normal[0] = (struct normal_step){ .kind = NORMAL_SENTENCE,
		.flags = NORMAL_PREFIX | NORMAL_ONE_SPACE | NORMAL_MARKS };
	d->n_normal = 1;
	d->has_normal = true;
	if (read_all(&r, file) == 0 && check(&r) == 0) {
		hide_unseen(&r);
		rc = r.type == TOK_SPM_BPE ? make_merges(&r) : make_words(&r);
	}
	if (rc == 0 && (bos = vocab_find(&d->added, r.bos)) != VOCAB_NONE && d->latest.p[bos].hidden)
		d->before[d->n_before++] = d->added.entries.p[bos].id;
	vec_free(&r.types);
	vec_free(&r.scores);
	vec_free(&r.users);
	return rc;
}

uint64_t tok_spm_type(struct span file)
{
	struct pb m = pb_of(file), in;
	struct pb_field f;
	uint64_t type = TOK_SPM_UNIGRAM;	/* the default */
	bool pieces = false;
	int more;

	while ((more = pb_next(&m, &f)) > 0 && f.number == MODEL_PIECE && f.wire == PB_BYTES)
		pieces = true;
	if (more <= 0 || !pieces || f.number != MODEL_TRAINER || f.wire != PB_BYTES)
		return 0;
	for (in = pb_of(f.bytes); pb_next(&in, &f) > 0; ) {
		if (f.number == TRAINER_TYPE && f.wire == PB_VARINT)
			type = f.value;
	}
	return type;
}
