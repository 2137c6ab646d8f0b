/* tokenizer.json, its outside: which parts there are, the model, the vocabulary, the merges, the added tokens. The chain of
 * normalizers and pre-tokenizers is tok_json_steps.c, what stands around a text tok_json_around.c.
 *
 * The rule for all of it: what the file says is done as tokenizers 0.22 does it, or refused by its name and place. An unknown
 * key is refused as well, as it could change what the known ones mean. "truncation" and "padding" are the exception:
 * transformers switches both off before it encodes; "decoder" is not asked on this way.
 *
 * Parts are read in the order in which they need each other and not in the file's: steps, since they say whether the vocabulary
 * is byte-level, then vocabulary, merges, added tokens. Nearly all time goes into vocabulary and merges: about 12 ns a byte of
 * the file. */
#include "agent/tok/draft.h"

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p

/* Without continuing_subword_prefix and end_of_word_suffix, which are of older models than are served. */
static int read_options(struct draft *d, const struct jdoc *doc, const struct jnode *model, struct err *e)
{
	static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix" };
	const struct jnode *v;

	for (size_t i = 0; i < 2; i++) {
		if ((v = j_get(model, empty[i])) != NULL && !j_is(v, ""))
			return j_refuse(doc, v, e, "only null or \"\" is understood here");
	}
	if ((v = j_get(model, "dropout")) != NULL && (v->kind != J_NUMBER || strspn(v->s.p, "0.") < v->s.n))
		return j_refuse(doc, v, e, "only null is understood here: dropout makes ids a matter of chance");
	if (j_bool(doc, model, "fuse_unk", &d->spec.fuse_unk, e) < 0 ||
	    j_bool(doc, model, "byte_fallback", &d->spec.byte_fallback, e) < 0 ||
	    j_bool(doc, model, "ignore_merges", &d->spec.ignore_merges, e) < 0)
		return -1;
	if (d->byte_level && d->spec.byte_fallback)
		return j_refuse(doc, j_get(model, "byte_fallback"), e, "with ByteLevel only false is understood here");
	return 0;
}

static int read_vocab(struct draft *d, struct jdoc *doc, const struct jnode *vocab, struct err *e)
{
	struct span key;
	struct jcur c;
	token_id id;
	int more;

	if (!jcur_open(&c, doc, vocab, '{'))
		return j_refuse(doc, vocab, e, "an object is expected");
	while ((more = jcur_next(&c, e)) > 0) {
		const char *at = c.p;

		if (jcur_key(&c, &key, e) < 0 || jcur_u32(&c, &id, e) < 0)
			return -1;
		if (id > VOCAB_ID_MAX)
			return j_refuse_at(doc, at, e, "model.vocab: the id of \"%.*s\" is above %u", CUT(key), VOCAB_ID_MAX);
		if (vocab_has_id(&d->vocab, id))
			return j_refuse_at(doc, at, e, "model.vocab: \"%.*s\" has the id %u of another token", CUT(key), id);
		switch (vocab_add(&d->vocab, key, id)) {
		case 0: break;
		case 1: return j_refuse_at(doc, at, e, "model.vocab: \"%.*s\" stands there twice", CUT(key));
		default: return err_set(e, "not enough memory");
		}
	}
	return more;
}

static int read_unk(struct draft *d, const struct jdoc *doc, const struct jnode *model, struct err *e)
{
	const struct jnode *v = j_get(model, "unk_token");
	uint32_t at;

	if (v == NULL)
		return 0;
	if (v->kind != J_STRING)
		return j_refuse(doc, v, e, "is %s; a string is expected", jkind_text(v->kind));
	if ((at = vocab_find(&d->vocab, v->s)) == VOCAB_NONE)
		return j_refuse(doc, v, e, "\"%.*s\" is not in the vocabulary", CUT(v->s));
	d->spec.has_unk = true;
	d->spec.unk = d->vocab.entries.p[at].id;
	return 0;
}

/* One merge: "a b", or ["a","b"]. */
static int merge_parts(struct jcur *c, struct span part[2], struct err *e)
{
	const char *at = c->p, *blank;
	struct jcur in = *c;

	if (at < c->end && *at == '[') {
		in.p++;
		in.n = 0;
		for (int i = 0; i < 2; i++) {
			int more = jcur_next(&in, e);

			if (more == 0)
				return j_refuse_at(c->d, at, e, "a merge has two parts");
			if (more < 0 || jcur_string(&in, &part[i], e) < 0)
				return -1;
		}
		switch (jcur_next(&in, e)) {
		case 0: break;
		case 1: return j_refuse_at(c->d, at, e, "a merge has two parts");
		default: return -1;
		}
		c->p = in.p;
		return 0;
	}
	if (jcur_string(c, &part[0], e) < 0)
		return -1;
	blank = memchr(part[0].p, ' ', part[0].n);
	if (blank == NULL || memchr(blank + 1, ' ', (size_t)(part[0].p + part[0].n - blank - 1)) != NULL)
		return j_refuse_at(c->d, at, e, "a merge is two parts with one blank between them");
	part[1] = span_of(blank + 1, (size_t)(part[0].p + part[0].n - blank - 1));
	part[0].n = (size_t)(blank - part[0].p);
	return 0;
}

#define BOTH_MAX	65536u

/* What merges make comes in about the order of the vocabulary: <guess> is where the last one was. */
static uint32_t find_whole(const struct draft *d, struct span whole, uint32_t *guess)
{
	if (vocab_is(&d->vocab, *guess, whole))
		return *guess;
	if (vocab_is(&d->vocab, *guess + 1, whole))
		return ++*guess;
	return *guess = vocab_find(&d->vocab, whole);
}

static int find_merge(struct draft *d, const struct jdoc *doc, const char *at, const struct span part[2], char *both,
		      uint32_t *guess, struct bpe_merge *m, struct err *e)
{
	uint32_t found[2], whole;

	for (int i = 0; i < 2; i++) {
		if ((found[i] = vocab_find(&d->vocab, part[i])) == VOCAB_NONE)
			return j_refuse_at(doc, at, e, "model.merges: \"%.*s\" is not in the vocabulary", CUT(part[i]));
	}
	if (part[0].n + part[1].n > BOTH_MAX)
		return j_refuse_at(doc, at, e, "model.merges: a token of more than %u bytes", BOTH_MAX);
	if (part[0].n == 0 || part[1].n == 0)
		return j_refuse_at(doc, at, e, "model.merges: a part of this merge is empty");
	memcpy(both, part[0].p, part[0].n);
	memcpy(both + part[0].n, part[1].p, part[1].n);
	whole = find_whole(d, span_of(both, part[0].n + part[1].n), guess);
	if (whole == VOCAB_NONE)
		return j_refuse_at(doc, at, e, "model.merges: what this merge makes, \"%.*s\", is not in the vocabulary",
				   CUT(span_of(both, part[0].n + part[1].n)));
	*m = (struct bpe_merge){ d->vocab.entries.p[found[0]].id, d->vocab.entries.p[found[1]].id, d->vocab.entries.p[whole].id };
	return 0;
}

static int read_merges(struct draft *d, struct jdoc *doc, const struct jnode *merges, struct err *e)
{
	char both[BOTH_MAX];
	struct span part[2];
	struct bpe_merge m;
	uint32_t guess = 0;
	struct jcur c;
	int more;

	if (!jcur_open(&c, doc, merges, '['))
		return j_refuse(doc, merges, e, "an array is expected");
	while ((more = jcur_next(&c, e)) > 0) {
		const char *at = c.p;

		if (merge_parts(&c, part, e) < 0 || find_merge(d, doc, at, part, both, &guess, &m, e) < 0)
			return -1;
		if (draft_merge(d, m) < 0)
			return err_set(e, "not enough memory");
	}
	return more;
}

static const struct jnode *raw_member(const struct jdoc *doc, const struct jnode *model, const char *key, struct err *e)
{
	const struct jnode *v = j_get(model, key);

	if (v == NULL)
		j_refuse(doc, model, e, "\"%s\" is missing", key);
	else if (v->kind != J_RAW)
		j_refuse(doc, v, e, "is %s; %s is expected", jkind_text(v->kind), *key == 'v' ? "an object" : "an array");
	else
		return v;
	return NULL;
}

static int read_model(struct draft *d, struct jdoc *doc, const struct jnode *model, struct err *e)
{
	const struct jnode *type = j_get(model, "type"), *vocab, *merges;

	if (type != NULL && !j_is(type, "BPE"))
		return j_refuse(doc, type, e, "\"%.*s\" is not understood; models that are: BPE", CUT(type->s));
	if (j_only(doc, model, "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
		   "ignore_merges vocab merges", e) < 0 || read_options(d, doc, model, e) < 0)
		return -1;
	if ((vocab = raw_member(doc, model, "vocab", e)) == NULL || (merges = raw_member(doc, model, "merges", e)) == NULL)
		return -1;
	return read_vocab(d, doc, vocab, e) < 0 || read_unk(d, doc, model, e) < 0 || read_merges(d, doc, merges, e) < 0 ? -1 : 0;
}

/* ---- added tokens ------------------------------------------------------------------------------------- */

int tok_json_token(const struct jdoc *doc, const struct jnode *v, const char *keys, bool all, struct draft_added *t,
		   struct err *e)
{
	int (*get)(const struct jdoc *, const struct jnode *, const char *, bool *, struct err *) = all ? j_need_bool : j_bool;

	if (j_only(doc, v, keys, e) < 0 || j_need_text(doc, v, "content", &t->content, e) < 0)
		return -1;
	if (get(doc, v, "special", &t->special, e) < 0)
		return -1;
	t->normalized = !t->special;
	return get(doc, v, "single_word", &t->single_word, e) < 0 || get(doc, v, "lstrip", &t->lstrip, e) < 0 ||
	       get(doc, v, "rstrip", &t->rstrip, e) < 0 || get(doc, v, "normalized", &t->normalized, e) < 0 ? -1 : 0;
}

static int read_token(struct draft *d, const struct jdoc *doc, const struct jnode *v, struct err *e)
{
	struct draft_added t = { .id = 0 };
	const struct jnode *id;
	token_id said, got;

	if (tok_json_token(doc, v, "id content single_word lstrip rstrip normalized special", true, &t, e) < 0 ||
	    (id = j_need(doc, v, "id", J_NUMBER, e)) == NULL || j_u32(doc, id, &said, e) < 0)
		return -1;
	if (draft_add(d, &t, false, &got, e) < 0)
		return j_refuse(doc, v, e, "%s", e != NULL ? e->text : "");
	if (t.content.n > 0 && got != said)
		return j_refuse(doc, id, e, "\"%.*s\" would not have the id %u but %u in the engine: tokenizers gives an added "
				"token the id that its content has in the vocabulary, or the next one that is free",
				CUT(t.content), said, got);
	return 0;
}

int tok_json_added(struct draft *d, const struct jdoc *doc, const struct jnode *tokens, struct err *e)
{
	if (tokens == NULL)
		return 0;
	if (tokens->kind != J_ARRAY)
		return j_refuse(doc, tokens, e, "is %s; an array is expected", jkind_text(tokens->kind));
	for (const struct jnode *v = tokens->child; v != NULL; v = v->next) {
		if (read_token(d, doc, v, e) < 0)
			return -1;
	}
	return 0;
}

int tok_json_read(struct draft *d, struct jdoc *doc, struct err *e)
{
	const struct jnode *root = jdoc_root(doc), *model;

	if (j_only(doc, root, "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model",
		   e) < 0 || (model = j_need(doc, root, "model", J_OBJECT, e)) == NULL)
		return -1;
	return tok_json_steps(d, doc, j_get(root, "normalizer"), j_get(root, "pre_tokenizer"), e) < 0 ||
	       read_model(d, doc, model, e) < 0 ||
	       tok_json_added(d, doc, j_get(root, "added_tokens"), e) < 0 ||
	       tok_json_around(d, doc, j_get(root, "post_processor"), e) < 0 ? -1 : 0;
}
