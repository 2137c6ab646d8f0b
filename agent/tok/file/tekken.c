/* tekken.c - read Mistral's tekken.json as mistral_common 1.13 does (tokens/tokenizers/tekken.py):
 *
 *   config.pattern                        splits the text
 *   vocab[i].token_bytes                  a token of rank i; its id is
 *                                         i + config.default_num_special_tokens
 *   config.default_vocab_size             the number of ids: higher entries of "vocab" are dropped
 *   special_tokens[].rank, token_str      ids below default_num_special_tokens; unlisted ones are
 *                                         <SPECIAL_i>
 *
 * Special tokens are never searched in a text: "[INST]" in a prompt is six characters. Only the
 * code that renders a conversation gets their ids, by tok_id(). BOS precedes a prompt that is a
 * text. An engine that uses transformers does neither; its ids are those of the tokenizer.json that
 * save_pretrained() writes.
 *
 * tokenizer_config.json is ignored, as in mistral_common. */
#include "agent/tok/file/draft.h"

#include <stdio.h>

#include "agent/tok/file/ranks_in.h"

#define CUT(s)		(int)((s).n < 60 ? (s).n : 60), (s).p
#define BYTES		256u	/* the first tokens are the bytes, in order */
#define OLD_VERSION	7	/* the last that may omit its special tokens */

/* The special tokens of files up to OLD_VERSION that list none, by id. */
static const char *const old_special[] = {
	"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
	"[TOOL_RESULTS]", "[/TOOL_RESULTS]",
	"[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
	"[SUFFIX]", "[SYSTEM_PROMPT]",
	"[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
};

/* Versions that mistral_common knows. */
static const unsigned versions[] = { 1, 2, 3, 7, 11, 13, 15 };

struct tekken {
	struct draft *d;
	struct json_doc *doc;
	struct span pattern;
	const struct json_node *size_at, *special_at;	/* of config, for errors */
	uint32_t size, special;
	unsigned version;
	struct err *e;
};

bool tok_tekken_is(const struct json_doc *doc)
{
	const struct json_node *root = json_doc_root(doc), *config = json_get(root, "config");

	return root->kind == NODE_OBJECT && config != NULL && config->kind == NODE_OBJECT &&
	    json_get(root, "vocab") != NULL && json_get(root, "model") == NULL;
}

/* ---- config ---------------------------------------------------------------------------------- */

static int read_version(struct tekken *t, const struct json_node *config)
{
	const struct json_node *v = json_need(t->doc, config, "version", NODE_STRING, t->e);
	char name[8];

	if (v == NULL)
		return -1;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		snprintf(name, sizeof(name), "v%u", versions[i]);
		if (json_is(v, name)) {
			t->version = versions[i];
			return 0;
		}
	}
	return json_refuse(t->doc, v, t->e,
	    "\"%.*s\" is not understood; understood are: v1, v2, v3, v7, v11, v13, v15", CUT(v->s));
}

static int read_config(struct tekken *t, const struct json_node *config)
{
	if (json_only(t->doc, config,
		"pattern num_vocab_tokens default_vocab_size default_num_special_tokens version",
		t->e) < 0 ||
	    json_need_text(t->doc, config, "pattern", &t->pattern, t->e) < 0 ||
	    (t->size_at = json_need(t->doc, config, "default_vocab_size", NODE_NUMBER, t->e)) ==
		NULL ||
	    json_u32(t->doc, t->size_at, &t->size, t->e) < 0 ||
	    (t->special_at = json_need(t->doc, config, "default_num_special_tokens", NODE_NUMBER,
		 t->e)) == NULL ||
	    json_u32(t->doc, t->special_at, &t->special, t->e) < 0 || read_version(t, config) < 0)
		return -1;
	if (t->special > DRAFT_ADDED_MAX)
		return json_refuse(t->doc, t->special_at, t->e, "more than %u special tokens", DRAFT_ADDED_MAX);
	if (t->size < t->special || t->size - t->special < BYTES)
		return json_refuse(t->doc, t->size_at, t->e,
		    "leaves no room for the %u bytes beside %u special tokens", BYTES, t->special);
	if (t->size > VOCAB_ID_MAX)
		return json_refuse(t->doc, t->size_at, t->e, "more than %u ids", VOCAB_ID_MAX);
	t->d->split[0] = (struct split_step){
		.kind = STEP_REGEX, .behaviour = SPLIT_ISOLATED, .pattern = t->pattern
	};
	t->d->n_split = 1;
	t->d->has_split = true;
	return 0;
}

/* ---- vocab ----------------------------------------------------------------------------------- */

struct entry {
	uint32_t rank;
	struct span bytes;	/* in base64 */
	const char *rank_at, *bytes_at;
};

static int skip_text(struct json_cursor *c, struct err *e)
{
	struct span unused;

	if (c->end - c->p >= 4 && memcmp(c->p, "null", 4) == 0) {
		c->p += 4;
		return 0;
	}
	return json_cursor_string(c, &unused, e);
}

static int read_member(struct tekken *t, struct json_cursor *c, struct entry *v)
{
	const char *at = c->p;
	struct span key;

	if (json_cursor_key(c, &key, t->e) < 0)
		return -1;
	if (span_eq(key, SPAN("rank"))) {
		v->rank_at = c->p;
		return json_cursor_u32(c, &v->rank, t->e);
	}
	if (span_eq(key, SPAN("token_bytes"))) {
		v->bytes_at = c->p;
		return json_cursor_string(c, &v->bytes, t->e);
	}
	if (span_eq(key, SPAN("token_str")))
		return skip_text(c, t->e);
	return json_refuse_at(t->doc, at, t->e,
	    "vocab: \"%.*s\" is not understood; understood are: rank, token_bytes, token_str",
	    CUT(key));
}

/* Read {"rank": 300, "token_bytes": "IHRo", "token_str": " th"}. */
static int read_entry(struct tekken *t, struct json_cursor *c, struct entry *v)
{
	struct json_cursor in = *c;
	const char *at = c->p;
	int more;

	*v = (struct entry){ .rank = 0 };
	if (at >= c->end || *at != '{')
		return json_refuse_at(t->doc, at, t->e, "vocab: an object is expected here");
	in.p++;
	in.n = 0;
	while ((more = json_cursor_next(&in, t->e)) > 0) {
		if (read_member(t, &in, v) < 0)
			return -1;
	}
	if (more < 0)
		return -1;
	if (v->rank_at == NULL || v->bytes_at == NULL)
		return json_refuse_at(t->doc, at, t->e, "vocab: \"%s\" is missing",
		    v->rank_at == NULL ? "rank" : "token_bytes");
	c->p = in.p;
	return 0;
}

/* Decode the token of <rank> to <out>. Returns its length. */
static ssize_t take_entry(struct tekken *t, const struct entry *v, uint32_t rank, char *out)
{
	ssize_t n;

	if (v->rank != rank)
		return json_refuse_at(t->doc, v->rank_at, t->e,
		    "vocab: the rank %u is expected here: ranks count from 0", rank);
	if (v->bytes.n / 4 * 3 > RANKS_TOKEN_MAX || (n = ranks_base64(v->bytes.p, v->bytes.n, out)) <= 0)
		return json_refuse_at(t->doc, v->bytes_at, t->e,
		    "vocab: this is not base64 of 1 to %u bytes", RANKS_TOKEN_MAX);
	if (rank < BYTES && (n != 1 || (uint8_t)out[0] != rank))
		return json_refuse_at(t->doc, v->bytes_at, t->e,
		    "vocab: the byte %u is expected here: the first %u tokens are the "
		    "bytes in order",
		    rank, BYTES);
	switch (vocab_add(&t->d->vocab, span_of(out, (size_t)n), t->special + rank)) {
	case 0: return n;
	case 1: return json_refuse_at(t->doc, v->bytes_at, t->e, "vocab: this token stands there twice");
	default: return err_set(t->e, "not enough memory");
	}
}

static int read_vocab(struct tekken *t, const struct json_node *vocab)
{
	uint32_t rank, n = t->size - t->special;
	struct entry v;
	struct json_cursor c;
	char *out;
	ssize_t got;

	if (!json_cursor_open(&c, t->doc, vocab, '['))
		return json_refuse(t->doc, vocab, t->e, "an array is expected");
	/* decoded tokens are shorter than their entries, so they fit */
	if ((out = draft_keep(t->d, vocab->s.p, vocab->s.n)) == NULL)
		return err_set(t->e, "not enough memory");
	for (rank = 0; rank < n; rank++, out += got) {
		int more = json_cursor_next(&c, t->e);

		if (more == 0)
			return json_refuse(t->doc, t->size_at, t->e,
			    "asks for %u tokens beside the special ones, and \"vocab\" has %u", n,
			    rank);
		if (more < 0 || read_entry(t, &c, &v) < 0 || (got = take_entry(t, &v, rank, out)) < 0)
			return -1;
	}
	return 0;
}

/* ---- special tokens -------------------------------------------------------------------------- */

static int add_special(struct tekken *t, const struct json_node *at, struct span content,
    uint32_t rank)
{
	struct draft_added a = { .content = content, .id = rank, .special = true, .hidden = true };
	token_id got;

	if (rank >= t->special)
		return json_refuse(t->doc, at, t->e,
		    "the rank %u is not below config.default_num_special_tokens", rank);
	if (vocab_find(&t->d->added, content) != VOCAB_NONE || vocab_has_id(&t->d->added, rank))
		return json_refuse(t->doc, at, t->e,
		    "the rank %u or the content \"%.*s\" is another's", rank, CUT(content));
	if (content.n == 0)
		return json_refuse(t->doc, at, t->e, "the content is empty");
	return draft_add(t->d, &a, true, &got, t->e) < 0
	    ? json_refuse(t->doc, at, t->e, "%s", t->e != NULL ? t->e->text : "")
	    : 0;
}

static int read_special(struct tekken *t, const struct json_node *v)
{
	const struct json_node *rank;
	struct span content;
	uint32_t n;
	bool control;

	if (v->kind != NODE_OBJECT)
		return json_refuse(t->doc, v, t->e, "is %s; an object is expected", json_kind_text(v->kind));
	if (json_only(t->doc, v, "rank token_str is_control", t->e) < 0 ||
	    json_need_text(t->doc, v, "token_str", &content, t->e) < 0 ||
	    json_get_bool(t->doc, v, "is_control", &control, t->e) < 0 ||
	    (rank = json_need(t->doc, v, "rank", NODE_NUMBER, t->e)) == NULL ||
	    json_u32(t->doc, rank, &n, t->e) < 0)
		return -1;
	return add_special(t, v, content, n);
}

static int add_fillers(struct tekken *t, uint32_t from)
{
	char name[32], *kept;

	for (uint32_t i = from; i < t->special; i++) {
		int n = snprintf(name, sizeof(name), "<SPECIAL_%u>", i);

		if ((kept = draft_keep(t->d, name, (size_t)n)) == NULL)
			return err_set(t->e, "not enough memory");
		if (add_special(t, t->special_at, span_of(kept, (size_t)n), i) < 0)
			return -1;
	}
	return 0;
}

static int read_specials(struct tekken *t, const struct json_node *root)
{
	const struct json_node *all = json_get(root, "special_tokens");
	uint32_t n = 0;

	if (all == NULL && t->version > OLD_VERSION)
		return json_refuse(t->doc, root, t->e,
		    "special_tokens is missing; only files up to v%d may do without", OLD_VERSION);
	if (all != NULL && all->kind != NODE_ARRAY)
		return json_refuse(t->doc, all, t->e, "is %s; an array is expected", json_kind_text(all->kind));
	for (const struct json_node *v = all ? all->child : NULL; v != NULL; v = v->next, n++) {
		if (read_special(t, v) < 0)
			return -1;
	}
	for (; all == NULL && n < sizeof(old_special) / sizeof(old_special[0]); n++) {
		if (add_special(t, t->special_at, span_str(old_special[n]), n) < 0)
			return -1;
	}
	return add_fillers(t, n);
}

static int put_bos(struct tekken *t, const struct json_node *root)
{
	token_id bos = draft_id(t->d, SPAN("<s>"));

	if (vocab_find(&t->d->added, SPAN("<s>")) == VOCAB_NONE)
		return json_refuse(t->doc, root, t->e,
		    "no special token is \"<s>\", which stands before every prompt");
	t->d->before[t->d->n_before++] = bos;
	return 0;
}

int tok_tekken_read(struct draft *d, struct json_doc *doc, struct err *e)
{
	struct tekken t = { .d = d, .doc = doc, .e = e };
	const struct json_node *root = json_doc_root(doc), *config, *vocab = json_get(root, "vocab");

	ranks_begin(d);
	if (json_only(doc, root,
		"config vocab special_tokens image multimodal audio version type model_settings_builder",
		e) < 0 ||
	    (config = json_need(doc, root, "config", NODE_OBJECT, e)) == NULL ||
	    read_config(&t, config) < 0)
		return -1;
	if (vocab == NULL || vocab->kind != NODE_RAW)
		return json_refuse(doc, vocab ? vocab : root, e, "vocab: an array is expected");
	if (json_get(root, "model_settings_builder") != NULL && t.version < 15)
		return json_refuse(doc, json_get(root, "model_settings_builder"), e,
		    "only files from v15 on have it");
	return read_vocab(&t, vocab) < 0 || ranks_merges(d, e) < 0 || read_specials(&t, root) < 0 ||
		put_bos(&t, root) < 0
	    ? -1
	    : 0;
}
