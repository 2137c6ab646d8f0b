/* unigram.c - the way through a piece with the highest sum of scores, as tokenizers 0.22 finds it:
 * from each character on, all tokens that begin there, the shorter first; a later way to the same
 * place counts only if its sum is higher. Sums are of doubles in the same order, so ties and
 * roundings are the same.
 *
 * SentencePiece does the same with floats (LEXICON_SENTENCE). From 0.2.2 on a sum is rounded before
 * it is compared, and sums below -100,000 begin anew; up to 0.2.1 it is rounded only when it is
 * kept, so of nearly equal ways the later one may win. Here it is as from 0.2.2 on. Pieces of the
 * user have scores above 0, so sums above 100,000 begin anew, too. Rounding the double sum of two
 * floats is the sum of floats. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/lexicon/lexicon_in.h"

#define REBASE_BEYOND	100000.0
#define REBASE_BYTES	512u		/* of a piece: sentencepiece.c */

int unigram_start(struct lexicon_scratch *c)
{
	if (c->n >= BEST_NONE)
		return -1;
	c->best.n = 0;
	if (vec_reserve(&c->best, c->n + 1) < 0)
		return -1;
	for (size_t i = 0; i <= c->n; i++)
		c->best.p[i].from = BEST_NONE;
	c->best.p[0] = (struct lex_best){ .score = 0, .from = 0 };
	c->best.n = c->n + 1;
	return 0;
}

static double sum(const struct lexicon *x, double a, double b)
{
	return x->head->kind == LEXICON_SENTENCE ? (double)(float)(a + b) : a + b;
}

static void offer(struct lex_best *to, double score, size_t from, token_id id)
{
	if (to->from != BEST_NONE && !(score > to->score))
		return;
	to->score = score;
	to->from = (uint32_t)from;
	to->id = id;
}

/* Extend the way to <at> by each token there. Returns the number of bytes looked up. */
static size_t extend(const struct lexicon *x, struct lexicon_scratch *c, size_t at, size_t len)
{
	double score = c->best.p[at].score;
	uint32_t node = NODE_ROOT;
	bool single = false;
	size_t i = at;

	while (i < c->n && (node = lex_child(x, node, c->p[i])) != 0) {
		i++;
		if (x->id[node] == BPE_NO_ID)
			continue;
		offer(&c->best.p[i], sum(x, x->score[node], score), at, x->id[node]);
		single |= i - at == len;
	}
	if (!single)
		offer(&c->best.p[at + len], sum(x, x->head->unk_score, score), at, x->head->unk);
	return i - at + 1;
}

/* Return the id of a token with this text, or BPE_NO_ID. */
static token_id find(const struct lexicon *x, const uint8_t *p, size_t n)
{
	uint32_t node = NODE_ROOT;

	for (size_t i = 0; i < n && node != 0; i++)
		node = lex_child(x, node, p[i]);
	return node != 0 ? x->id[node] : BPE_NO_ID;
}

/* Append the ids of characters without tokens: of their bytes if all of these have one. <out> has
 * room. */
static void put_unknown(const struct lexicon *x, const uint8_t *p, size_t n, struct ids *out)
{
	token_id id = find(x, p, n);
	size_t i = 0;

	if (id == BPE_NO_ID && x->head->byte_fallback) {
		while (i < n && (id = x->head->byte_id[p[i]]) != BPE_NO_ID)
			out->p[out->n + i++] = id;
		if (i == n) {
			out->n += n;
			return;
		}
	}
	out->p[out->n++] = id != BPE_NO_ID ? id : x->head->unk;
}

/* Follow the way back, then forward. */
static int put_way(const struct lexicon *x, struct lexicon_scratch *c, struct ids *out)
{
	struct lex_best *b = c->best.p;
	size_t at, tokens = 0, unknown = 0, end;

	for (at = c->n; at > 0; at = b[at].from) {
		b[b[at].from].next = (uint32_t)at;
		tokens++;
		unknown += b[at].id == x->head->unk ? at - b[at].from : 0;
	}
	if (ids_reserve(out, tokens + unknown) < 0)
		return -1;
	for (at = 0; at < c->n; at = end) {
		end = b[at].next;
		if (b[end].id != x->head->unk) {
			out->p[out->n++] = b[end].id;
			continue;
		}
		while (end < c->n && b[b[end].next].id == x->head->unk)
			end = b[end].next;
		put_unknown(x, c->p + at, end - at, out);
	}
	return 0;
}

/* Subtract the sum at the current place from it and from all later ones, as SentencePiece does, so
 * that sums of long texts keep their precision. */
static void rebase(struct lexicon_scratch *c)
{
	double base = c->best.p[c->at].score;
	size_t end = c->n - c->at < REBASE_BYTES ? c->n : c->at + REBASE_BYTES;

	for (size_t i = c->at; i <= end; i++) {
		if (c->best.p[i].from != BEST_NONE)
			c->best.p[i].score = (double)(float)(c->best.p[i].score - base);
	}
}

int unigram_step(const struct lexicon *x, struct lexicon_scratch *c, struct work_left *w,
    struct ids *out)
{
	size_t len, looks;
	uint32_t cp;

	for (; c->at < c->n; c->at += len) {
		if (work_spent(w))
			return 1;
		if (x->head->kind == LEXICON_SENTENCE && fabs(c->best.p[c->at].score) > REBASE_BEYOND) {
			rebase(c);
			work_spend(w, REBASE_BYTES / 4);
		}
		len = utf8_get(c->p + c->at, c->n - c->at, &cp);
		looks = extend(x, c, c->at, len);
		work_spend(w, LEX_STEPS_CHAR + (uint64_t)looks * x->look);
	}
	return put_way(x, c, out);
}
