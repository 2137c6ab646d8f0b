/* tokenizer_json.c - read the outside of tokenizer.json: its parts, the model, the vocabulary, the
 * merges, the added tokens. tokenizer_json_steps.c reads the chain of normalizers and
 * pre-tokenizers, tokenizer_json_post.c the post-processor.
 *
 * The rule: everything in the file is done as tokenizers 0.22 does it, or rejected with its name
 * and place. An unknown key is rejected too, because it could change the meaning of known ones.
 * Exceptions: "truncation" and "padding", because transformers disables both before it encodes;
 * "decoder", because encoding does not use it.
 *
 * Parts are read in the order of their dependencies: steps first, because they tell if the
 * vocabulary is byte-level; then vocabulary, merges, added tokens. Vocabulary and merges take
 * nearly all of the time: about 12 ns a byte of the file. */
#include "agent/tok/file/draft.h"

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p

/* Read the mark of the last token of a word (CLIP). */
static int read_suffix(struct draft *d, const struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	const struct json_node *v = json_get(model, "end_of_word_suffix");

	if (json_get_text(doc, model, "end_of_word_suffix", &d->suffix, e) < 0)
		return -1;
	if (d->suffix.n == 0)
		return 0;
	if (!d->byte_level || !d->has_split)
		return json_refuse(doc, v, e,
		    "only null or \"\" is understood here without the pre-tokenizer ByteLevel");
	if (d->spec.ignore_merges)
		return json_refuse(doc, v, e, "with ignore_merges only null or \"\" is understood here");
	if (d->n_split == DRAFT_STEPS_MAX)
		return json_refuse(doc, v, e, "more than %u pre-tokenizers", DRAFT_STEPS_MAX);
	d->split[d->n_split++] = (struct split_step){ .kind = STEP_MARK_END };
	return 0;
}

/* Rejects continuing_subword_prefix: with it a character inside a piece is another token than the
 * same one at its beginning, but bpe.h finds tokens by their bytes alone. No known model has it. */
static int read_options(struct draft *d, const struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	const struct json_node *v = json_get(model, "continuing_subword_prefix");

	if (v != NULL && !json_is(v, ""))
		return json_refuse(doc, v, e, "only null or \"\" is understood here");
	if ((v = json_get(model, "dropout")) != NULL &&
	    (v->kind != NODE_NUMBER || strspn(v->s.p, "0.") < v->s.n))
		return json_refuse(doc, v, e,
		    "only null is understood here: dropout makes ids a matter of chance");
	if (json_get_bool(doc, model, "fuse_unk", &d->spec.fuse_unk, e) < 0 ||
	    json_get_bool(doc, model, "byte_fallback", &d->spec.byte_fallback, e) < 0 ||
	    json_get_bool(doc, model, "ignore_merges", &d->spec.ignore_merges, e) < 0)
		return -1;
	if (d->byte_level && d->spec.byte_fallback)
		return json_refuse(doc, json_get(model, "byte_fallback"), e,
		    "with ByteLevel only false is understood here");
	return read_suffix(d, doc, model, e);
}

static int read_ids(struct draft *d, struct json_doc *doc, const struct json_node *vocab,
    struct err *e)
{
	struct span key;
	struct json_cursor c;
	token_id id;
	int more;

	if (!json_cursor_open(&c, doc, vocab, '{'))
		return json_refuse(doc, vocab, e, "an object is expected");
	while ((more = json_cursor_next(&c, e)) > 0) {
		const char *at = c.p;

		if (json_cursor_key(&c, &key, e) < 0 || json_cursor_u32(&c, &id, e) < 0)
			return -1;
		if (id > VOCAB_ID_MAX)
			return json_refuse_at(doc, at, e,
			    "model.vocab: the id of \"%.*s\" is above %u", CUT(key), VOCAB_ID_MAX);
		if (vocab_has_id(&d->vocab, id))
			return json_refuse_at(doc, at, e,
			    "model.vocab: \"%.*s\" has the id %u of another token", CUT(key), id);
		switch (vocab_add(&d->vocab, key, id)) {
		case 0: break;
		case 1: return json_refuse_at(doc, at, e, "model.vocab: \"%.*s\" stands there twice", CUT(key));
		default: return err_set(e, "not enough memory");
		}
	}
	return more;
}

static int read_unk(struct draft *d, const struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	const struct json_node *v = json_get(model, "unk_token");
	uint32_t at;

	if (v == NULL)
		return 0;
	if (v->kind != NODE_STRING)
		return json_refuse(doc, v, e, "is %s; a string is expected", json_kind_text(v->kind));
	if ((at = vocab_find(&d->vocab, v->s)) == VOCAB_NONE)
		return json_refuse(doc, v, e, "\"%.*s\" is not in the vocabulary", CUT(v->s));
	d->spec.has_unk = true;
	d->spec.unk = d->vocab.entries.p[at].id;
	return 0;
}

/* Read one merge: "a b", or ["a","b"]. */
static int merge_parts(struct json_cursor *c, struct span part[2], struct err *e)
{
	const char *at = c->p, *blank;
	struct json_cursor in = *c;

	if (at < c->end && *at == '[') {
		in.p++;
		in.n = 0;
		for (int i = 0; i < 2; i++) {
			int more = json_cursor_next(&in, e);

			if (more == 0)
				return json_refuse_at(c->d, at, e, "a merge has two parts");
			if (more < 0 || json_cursor_string(&in, &part[i], e) < 0)
				return -1;
		}
		switch (json_cursor_next(&in, e)) {
		case 0: break;
		case 1: return json_refuse_at(c->d, at, e, "a merge has two parts");
		default: return -1;
		}
		c->p = in.p;
		return 0;
	}
	if (json_cursor_string(c, &part[0], e) < 0)
		return -1;
	blank = memchr(part[0].p, ' ', part[0].n);
	if (blank == NULL || memchr(blank + 1, ' ', (size_t)(part[0].p + part[0].n - blank - 1)) != NULL)
		return json_refuse_at(c->d, at, e, "a merge is two parts with one blank between them");
	part[1] = span_of(blank + 1, (size_t)(part[0].p + part[0].n - blank - 1));
	part[0].n = (size_t)(blank - part[0].p);
	return 0;
}

#define BOTH_MAX	65536u

/* Find the result of a merge. Results come in about the order of the vocabulary: <guess> is the
 * place of the last. */
static uint32_t find_whole(const struct draft *d, struct span whole, uint32_t *guess)
{
	if (vocab_is(&d->vocab, *guess, whole))
		return *guess;
	if (vocab_is(&d->vocab, *guess + 1, whole))
		return ++*guess;
	return *guess = vocab_find(&d->vocab, whole);
}

static int find_merge(struct draft *d, const struct json_doc *doc, const char *at,
    const struct span part[2], char *both, uint32_t *guess, struct bpe_merge *m, struct err *e)
{
	uint32_t found[2], whole;

	for (int i = 0; i < 2; i++) {
		if ((found[i] = vocab_find(&d->vocab, part[i])) == VOCAB_NONE)
			return json_refuse_at(doc, at, e,
			    "model.merges: \"%.*s\" is not in the vocabulary", CUT(part[i]));
	}
	if (part[0].n + part[1].n > BOTH_MAX)
		return json_refuse_at(doc, at, e, "model.merges: a token of more than %u bytes", BOTH_MAX);
	if (part[0].n == 0 || part[1].n == 0)
		return json_refuse_at(doc, at, e, "model.merges: a part of this merge is empty");
	memcpy(both, part[0].p, part[0].n);
	memcpy(both + part[0].n, part[1].p, part[1].n);
	/* a suffix is at the end of a piece, and only there */
	if (d->suffix.n > 0 && (draft_ends(d, part[0]) || span_eq(part[1], d->suffix) ||
		draft_ends(d, span_of(both, part[0].n + part[1].n)) != draft_ends(d, part[1])))
		return json_refuse_at(doc, at, e, "model.merges: end_of_word_suffix within a token");
	whole = find_whole(d, span_of(both, part[0].n + part[1].n), guess);
	if (whole == VOCAB_NONE)
		return json_refuse_at(doc, at, e,
		    "model.merges: what this merge makes, \"%.*s\", is not in the vocabulary",
		    CUT(span_of(both, part[0].n + part[1].n)));
	*m = (struct bpe_merge){ d->vocab.entries.p[found[0]].id,
		d->vocab.entries.p[found[1]].id, d->vocab.entries.p[whole].id };
	return 0;
}

static int read_merges(struct draft *d, struct json_doc *doc, const struct json_node *merges,
    struct err *e)
{
	char both[BOTH_MAX];
	struct span part[2];
	struct bpe_merge m;
	uint32_t guess = 0;
	struct json_cursor c;
	int more;

	if (!json_cursor_open(&c, doc, merges, '['))
		return json_refuse(doc, merges, e, "an array is expected");
	while ((more = json_cursor_next(&c, e)) > 0) {
		const char *at = c.p;

		if (merge_parts(&c, part, e) < 0 || find_merge(d, doc, at, part, both, &guess, &m, e) < 0)
			return -1;
		if (draft_merge(d, m) < 0)
			return err_set(e, "not enough memory");
	}
	return more;
}

const struct json_node *tok_json_raw(const struct json_doc *doc, const struct json_node *model,
    const char *key, struct err *e)
{
	const struct json_node *v = json_get(model, key);

	if (v == NULL)
		json_refuse(doc, model, e, "\"%s\" is missing", key);
	else if (v->kind != NODE_RAW)
		json_refuse(doc, v, e, "is %s; %s is expected", json_kind_text(v->kind),
		    *key == 'v' ? "an object" : "an array");
	else
		return v;
	return NULL;
}

int tok_json_vocab(struct draft *d, struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	const struct json_node *vocab = tok_json_raw(doc, model, "vocab", e);

	return vocab == NULL ? -1 : read_ids(d, doc, vocab, e);
}

/* Older files (t5-small, bert-base-cased) have no type: tokenizers tries BPE first, then those that
 * have <member>. */
static bool model_is(const struct json_node *model, const char *type, const char *member)
{
	const struct json_node *t = json_get(model, "type");

	return t != NULL ? json_is(t, type)
			 : json_get(model, "merges") == NULL && json_get(model, member) != NULL;
}

static int read_model(struct draft *d, struct json_doc *doc, const struct json_node *model,
    struct err *e)
{
	const struct json_node *type = json_get(model, "type"), *merges;

	if (model_is(model, "WordPiece", "max_input_chars_per_word"))
		return tok_json_wordpiece(d, doc, model, e);
	if (model_is(model, "Unigram", "unk_id"))
		return tok_json_unigram(d, doc, model, e);
	if (type != NULL && !json_is(type, "BPE"))
		return json_refuse(doc, type, e,
		    "\"%.*s\" is not understood; models that are: BPE, WordPiece, Unigram",
		    CUT(type->s));
	if (json_only(doc, model,
		"type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
		"ignore_merges vocab merges",
		e) < 0 ||
	    read_options(d, doc, model, e) < 0)
		return -1;
	if ((merges = tok_json_raw(doc, model, "merges", e)) == NULL)
		return -1;
	return tok_json_vocab(d, doc, model, e) < 0 || read_unk(d, doc, model, e) < 0 ||
		read_merges(d, doc, merges, e) < 0
	    ? -1
	    : 0;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

int tok_json_token(const struct json_doc *doc, const struct json_node *v, const char *keys,
    bool all, struct draft_added *t, struct err *e)
{
	int (*get)(const struct json_doc *, const struct json_node *, const char *, bool *,
	    struct err *) = all ? json_need_bool : json_get_bool;

	if (json_only(doc, v, keys, e) < 0 || json_need_text(doc, v, "content", &t->content, e) < 0)
		return -1;
	if (get(doc, v, "special", &t->special, e) < 0)
		return -1;
	t->normalized = !t->special;
	return get(doc, v, "single_word", &t->single_word, e) < 0 ||
		get(doc, v, "lstrip", &t->lstrip, e) < 0 ||
		get(doc, v, "rstrip", &t->rstrip, e) < 0 ||
		get(doc, v, "normalized", &t->normalized, e) < 0
	    ? -1
	    : 0;
}

static int read_token(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct err *e)
{
	struct draft_added t = { .id = 0 };
	const struct json_node *id;
	token_id said, got;

	if (tok_json_token(doc, v, "id content single_word lstrip rstrip normalized special", true,
		&t, e) < 0 ||
	    (id = json_need(doc, v, "id", NODE_NUMBER, e)) == NULL ||
	    json_u32(doc, id, &said, e) < 0)
		return -1;
	if (draft_add(d, &t, false, &got, e) < 0)
		return json_refuse(doc, v, e, "%s", e != NULL ? e->text : "");
	if (t.content.n > 0 && got != said)
		return json_refuse(doc, id, e,
		    "\"%.*s\" would not have the id %u but %u in the engine: tokenizers gives an added "
		    "token the id that its content has in the vocabulary, or the next one that is free",
		    CUT(t.content), said, got);
	return 0;
}

int tok_json_added(struct draft *d, const struct json_doc *doc, const struct json_node *tokens,
    struct err *e)
{
	if (tokens == NULL)
		return 0;
	if (tokens->kind != NODE_ARRAY)
		return json_refuse(doc, tokens, e, "is %s; an array is expected", json_kind_text(tokens->kind));
	for (const struct json_node *v = tokens->child; v != NULL; v = v->next) {
		if (read_token(d, doc, v, e) < 0)
			return -1;
	}
	return 0;
}

bool tok_json_is_raw(const struct json_node *v)
{
	const struct json_node *up = v->parent;

	if (up != NULL && up->parent == NULL && up->kind == NODE_OBJECT)
		return span_eq(v->key, SPAN("vocab"));
	return up != NULL && up->parent != NULL && up->parent->parent == NULL && up->kind == NODE_OBJECT &&
	       up->parent->kind == NODE_OBJECT && span_eq(up->key, SPAN("model")) &&
	       (span_eq(v->key, SPAN("vocab")) || span_eq(v->key, SPAN("merges")));
}

int tok_json_read(struct draft *d, struct json_doc *doc, struct err *e)
{
	const struct json_node *root = json_doc_root(doc), *model;

	if (json_only(doc, root,
		"version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model",
		e) < 0 ||
	    (model = json_need(doc, root, "model", NODE_OBJECT, e)) == NULL)
		return -1;
	return tok_json_steps(d, doc, json_get(root, "normalizer"), json_get(root, "pre_tokenizer"),
		   e) < 0 ||
		read_model(d, doc, model, e) < 0 ||
		tok_json_added(d, doc, json_get(root, "added_tokens"), e) < 0 ||
		tok_json_around(d, doc, json_get(root, "post_processor"), e) < 0
	    ? -1
	    : 0;
}
