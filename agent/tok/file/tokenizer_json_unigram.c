/* tokenizer_json_unigram.c - read a model of type Unigram (T5, XLM-R, bge-m3). The id of a token is
 * its place in the vocabulary.
 *
 * Scores are the doubles that serde_json reads, which is not always the nearest one: it rounds the
 * digits, then divides by a power of ten. Sums that are equal or nearly so decide between ways. */
#include "agent/base/mem.h"
#include "agent/tok/file/draft.h"

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p
#define POWER_MAX	22		/* 1e22 is exact; higher powers are rejected */

static bool is_digit(const char *p, const char *end)
{
	return p < end && *p >= '0' && *p <= '9';
}

/* Read digits into *m, at most 19 of them significant. Returns the end, or NULL if there is none or
 * too many. */
static const char *digits(const char *p, const char *end, uint64_t *m, int *n)
{
	const char *from = p;

	for (; is_digit(p, end); p++) {
		if (*m > (UINT64_MAX - 9) / 10)
			return NULL;
		*m = *m * 10 + (uint64_t)(*p - '0');
	}
	*n = (int)(p - from);
	return p > from ? p : NULL;
}

/* Read a number at *p as serde_json does, and go to its end. Returns false if it is none or has an
 * exponent or digits for which that is not known. */
static bool read_score(const char **at, const char *end, double *out)
{
	static const double power[POWER_MAX + 1] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
		1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	const char *p = *at;
	bool minus = p < end && *p == '-', down = true;
	int n, decimals = 0, exponent = 0;
	uint64_t m = 0, e = 0;

	if ((p = digits(p + minus, end, &m, &n)) == NULL || (n > 1 && (*at)[minus] == '0'))
		return false;
	if (p < end && *p == '.' && (p = digits(p + 1, end, &m, &decimals)) == NULL)
		return false;
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		down = p < end && *p == '-';
		p += p < end && (*p == '-' || *p == '+');
		if ((p = digits(p, end, &e, &n)) == NULL || e > 2 * POWER_MAX)
			return false;
		exponent = down ? -(int)e : (int)e;
	}
	exponent -= decimals;
	if (exponent < -POWER_MAX || exponent > POWER_MAX)
		return false;
	*out = exponent < 0 ? (double)m / power[-exponent] : (double)m * power[exponent];
	*out = minus ? -*out : *out;
	*at = p;
	return true;
}

/* Read ["token", score] at the cursor. */
static int read_entry(struct json_cursor *c, struct span *text, double *score, struct err *e)
{
	struct json_cursor in = *c;
	const char *at = c->p;
	int more;

	if (at >= c->end || *at != '[')
		return json_refuse_at(c->d, at, e, "model.vocab: an array is expected");
	in.p++;
	in.n = 0;
	if ((more = json_cursor_next(&in, e)) <= 0 || json_cursor_string(&in, text, e) < 0)
		return more == 0 ? json_refuse_at(c->d, at, e, "model.vocab: a token is missing") : -1;
	if ((more = json_cursor_next(&in, e)) <= 0)
		return more == 0 ? json_refuse_at(c->d, at, e, "model.vocab: a score is missing") : -1;
	if (!read_score(&in.p, in.end, score))
		return json_refuse_at(c->d, in.p, e,
		    "model.vocab: a score of at most 19 digits and small exponent is expected");
	if ((more = json_cursor_next(&in, e)) != 0)
		return more > 0 ? json_refuse_at(c->d, at, e, "model.vocab: a token and its score are expected")
				: -1;
	c->p = in.p;
	return 0;
}

static int read_entries(struct draft *d, struct json_doc *doc, const struct json_node *vocab,
    struct err *e)
{
	struct json_cursor c;
	struct span text;
	double score = 0;
	int more;

	if (!json_cursor_open(&c, doc, vocab, '['))
		return json_refuse(doc, vocab, e, "an array is expected");
	while ((more = json_cursor_next(&c, e)) > 0) {
		const char *at = c.p;

		if (read_entry(&c, &text, &score, e) < 0)
			return -1;
		if (d->vocab.entries.n > VOCAB_ID_MAX)
			return json_refuse_at(doc, at, e, "model.vocab: more than %u tokens", VOCAB_ID_MAX);
		switch (vocab_add(&d->vocab, text, d->vocab.entries.n)) {
		case 0: break;
		case 1: return json_refuse_at(doc, at, e, "model.vocab: \"%.*s\" stands there twice", CUT(text));
		default: return err_set(e, "not enough memory");
		}
		if (vec_push(&d->scores, ((struct draft_score){ score, false })) < 0)
			return err_set(e, "not enough memory");
	}
	return more;
}

int tok_json_unigram(struct draft *d, struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	const struct json_node *vocab, *unk;

	if (json_only(doc, model, "type unk_id vocab byte_fallback", e) < 0 ||
	    json_get_bool(doc, model, "byte_fallback", &d->words.byte_fallback, e) < 0 ||
	    (unk = json_need(doc, model, "unk_id", NODE_NUMBER, e)) == NULL ||
	    json_u32(doc, unk, &d->words.unk, e) < 0 ||
	    (vocab = tok_json_raw(doc, model, "vocab", e)) == NULL || read_entries(d, doc, vocab, e) < 0)
		return -1;
	if (d->words.unk >= d->vocab.entries.n)
		return json_refuse(doc, unk, e, "is not in the vocabulary");
	if (d->byte_level)
		return json_refuse(doc, json_get(model, "type"), e,
		    "Unigram is understood only without ByteLevel");
	d->words.kind = LEXICON_UNIGRAM;
	d->lexicon = true;
	return 0;
}
