/* tokenizer_config.c - apply what transformers (4.57) changes, by tokenizer_config.json, in a
 * tokenizer from tokenizer.json.
 *
 *   added_tokens_decoder   each is added again: existing ones keep their id and get these flags
 *   bos_token, ...         are added if no added token has their content
 *   add_bos_token, ...     count for some classes only, which then replace the post-processor
 *                          (<classes>); ignored for others: Qwen2Tokenizer has false,
 *                          PreTrainedTokenizerFast may have anything
 *   add_prefix_space       for a pre-tokenizer that is only ByteLevel; default false
 *   split_special_tokens   true is rejected
 * Without tokenizer_class, the class would follow from the model's config.json, which is not
 * available: then add_bos_token must agree with the tokenizer's own post-processor. */
#include "agent/tok/file/draft.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p

/* Classes with update_post_processor() in transformers/models/<dir>/tokenization_<dir>_fast.py;
 * "Fast" may follow the name. */
static const struct class {
	const char *name;
	bool bos;			/* the default of add_bos_token */
	const char *tokens[3];		/* defaults of bos, eos, unk */
} classes[] = {
	{ "LlamaTokenizer", true, { "<s>", "</s>", "<unk>" } },
	{ "CodeLlamaTokenizer", true, { "<s>", "</s>", "<unk>" } },
	{ "GemmaTokenizer", true, { "<bos>", "<eos>", "<unk>" } },
	{ "CohereTokenizer", true, { "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>" } },
	{ "GPTNeoXTokenizer", false, { "<|endoftext|>", "<|endoftext|>", "<|endoftext|>" } },
};

static const char *const token_keys[] = {
	"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
};
#define N_TOKEN_KEYS	(sizeof(token_keys) / sizeof(token_keys[0]))

static const char flags[] = "content single_word lstrip rstrip normalized special __type id";

static const struct class *find_class(const struct json_node *v)
{
	for (size_t i = 0; v != NULL && i < sizeof(classes) / sizeof(classes[0]); i++) {
		size_t n = strlen(classes[i].name);

		if (v->s.n < n || memcmp(v->s.p, classes[i].name, n) != 0)
			continue;
		if (v->s.n == n || (v->s.n == n + 4 && memcmp(v->s.p + n, "Fast", 4) == 0))
			return &classes[i];
	}
	return NULL;
}

/* Read a token: a string, or an object with its flags. */
static int read_token(const struct json_doc *doc, const struct json_node *v, struct draft_added *t,
    struct err *e)
{
	*t = (struct draft_added){ .special = true };
	if (v->kind == NODE_OBJECT)
		return tok_json_token(doc, v, flags, false, t, e);
	if (v->kind != NODE_STRING)
		return json_refuse(doc, v, e, "is %s; a string or an object is expected",
		    json_kind_text(v->kind));
	t->content = v->s;
	return 0;
}

/* Call <use> with each token named by a key of <token_keys> or by additional_special_tokens. */
typedef int use_token(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct draft_added *t, void *arg, struct err *e);

static int each_named(struct draft *d, const struct json_doc *doc, use_token *use, void *arg,
    struct err *e)
{
	const struct json_node *root = json_doc_root(doc), *v,
			       *more = json_get(root, "additional_special_tokens");
	struct draft_added t;

	for (size_t i = 0; i < N_TOKEN_KEYS; i++) {
		if ((v = json_get(root, token_keys[i])) == NULL)
			continue;
		if (read_token(doc, v, &t, e) < 0 || use(d, doc, v, &t, arg, e) < 0)
			return -1;
	}
	if (more != NULL && more->kind != NODE_ARRAY)
		return json_refuse(doc, more, e, "is %s; an array is expected", json_kind_text(more->kind));
	for (v = more ? more->child : NULL; v != NULL; v = v->next) {
		if (read_token(doc, v, &t, e) < 0 || use(d, doc, v, &t, arg, e) < 0)
			return -1;
	}
	return 0;
}

static int is_named(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct draft_added *t, void *arg, struct err *e)
{
	struct draft_added *asked = arg;

	asked->special |= span_eq(asked->content, t->content);
	return 0;
}

static int add(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    const struct draft_added *t, bool given, struct err *e)
{
	token_id id;

	return draft_add(d, t, given, &id, e) < 0
	    ? json_refuse(doc, v, e, "%s", e != NULL ? e->text : "")
	    : 0;
}

static int add_missing(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct draft_added *t, void *arg, struct err *e)
{
	if (t->content.n == 0 || vocab_find(&d->added, t->content) != VOCAB_NONE)
		return 0;
	t->special = true;
	return add(d, doc, v, t, false, e);
}

/* ---- added_tokens_decoder: {"128000": {...}} ------------------------------------------------- */

struct decoder {
	const struct json_node *v;
	token_id id;
};

static int by_id(const void *a, const void *b)
{
	const struct decoder *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int key_id(const struct json_doc *doc, const struct json_node *v, token_id *id,
    struct err *e)
{
	uint64_t n = 0;

	for (size_t i = 0; i < v->key.n; i++) {
		if (v->key.p[i] < '0' || v->key.p[i] > '9' || v->key.n > 9)
			return json_refuse(doc, v, e, "the key of an added token is its id");
		n = n * 10 + (uint64_t)(v->key.p[i] - '0');
	}
	if (v->key.n == 0 || n > VOCAB_ID_MAX)
		return json_refuse(doc, v, e, "the key of an added token is its id, at most %u", VOCAB_ID_MAX);
	*id = (token_id)n;
	return 0;
}

/* Sort the members by id. The caller frees *out. */
static int sorted(const struct json_doc *doc, const struct json_node *all, struct decoder **out,
    size_t *n, struct err *e)
{
	*out = NULL;
	*n = 0;
	if (all == NULL)
		return 0;
	if (all->kind != NODE_OBJECT)
		return json_refuse(doc, all, e, "is %s; an object is expected", json_kind_text(all->kind));
	for (const struct json_node *v = all->child; v != NULL; v = v->next)
		++*n;
	if ((*out = mem_calloc(*n + 1, sizeof(**out))) == NULL)
		return err_set(e, "not enough memory");
	*n = 0;
	for (const struct json_node *v = all->child; v != NULL; v = v->next, ++*n) {
		(*out)[*n].v = v;
		if (key_id(doc, v, &(*out)[*n].id, e) < 0)
			return -1;
	}
	qsort(*out, *n, sizeof(**out), by_id);
	return 0;
}

static int add_decoders(struct draft *d, const struct json_doc *doc, struct err *e)
{
	struct decoder *all;
	struct draft_added t;
	size_t n, i;
	int r = sorted(doc, json_get(json_doc_root(doc), "added_tokens_decoder"), &all, &n, e);

	for (i = 0; r == 0 && i < n; i++) {
		t = (struct draft_added){ .id = 0 };
		if ((r = tok_json_token(doc, all[i].v, flags, false, &t, e)) == 0 &&
		    (r = each_named(d, doc, is_named, &t, e)) == 0)
			r = add(d, doc, all[i].v, &t, false, e);
	}
	mem_free(all);
	return r;
}

/* ---- add_bos_token and its like -------------------------------------------------------------- */

/* Tell if the file has the key; null means that there is no such token. */
static bool said_of(const struct json_node *root, const char *key)
{
	for (const struct json_node *v = root->child; v != NULL; v = v->next) {
		if (span_eq(v->key, span_str(key)))
			return true;
	}
	return false;
}

static int named_id(struct draft *d, const struct json_doc *doc, size_t key, const struct class *c,
    token_id *id, struct err *e)
{
	const struct json_node *root = json_doc_root(doc), *v = json_get(root, token_keys[key]);
	struct draft_added t = { .id = 0 };

	if (v == NULL && c != NULL && !said_of(root, token_keys[key]))
		t.content = span_str(c->tokens[key]);
	else if (v == NULL)
		return json_refuse(doc, root, e, "%s is missing", token_keys[key]);
	else if (read_token(doc, v, &t, e) < 0)
		return -1;
	if ((*id = draft_id(d, t.content)) == BPE_NO_ID)
		return json_refuse(doc, v ? v : root, e, "\"%.*s\" is no token of this tokenizer",
		    CUT(t.content));
	return 0;
}

static int put_around(struct draft *d, const struct json_doc *doc, const struct class *c,
    struct err *e)
{
	bool said[2] = { c->bos, false };

	if (json_get_bool(doc, json_doc_root(doc), "add_bos_token", &said[0], e) < 0 ||
	    json_get_bool(doc, json_doc_root(doc), "add_eos_token", &said[1], e) < 0)
		return -1;
	d->n_before = d->n_after = 0;
	if (said[0] && named_id(d, doc, 0, c, &d->before[d->n_before++], e) < 0)
		return -1;
	return said[1] ? named_id(d, doc, 1, c, &d->after[d->n_after++], e) : 0;
}

/* Without a class, the option must equal what is done anyway. */
static int agrees(struct draft *d, const struct json_doc *doc, const char *key, size_t token,
    const token_id *ids, uint32_t n, struct err *e)
{
	const struct json_node *v = json_get(json_doc_root(doc), key);
	token_id id = BPE_NO_ID;
	bool said = false, done = false;

	if (v == NULL)
		return 0;
	if (json_get_bool(doc, json_doc_root(doc), key, &said, e) < 0 ||
	    (said && named_id(d, doc, token, NULL, &id, e) < 0))
		return -1;
	if (!said && json_get(json_doc_root(doc), token_keys[token]) != NULL &&
	    named_id(d, doc, token, NULL, &id, e) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++)
		done |= ids[i] == id;
	if (said == done)
		return 0;
	return json_refuse(doc, v, e,
	    "the tokenizer's post-processor does otherwise; whether this counts depends on "
	    "tokenizer_class, which is missing");
}

/* Add tokens that the class knows and the file does not name. */
static int add_class_tokens(struct draft *d, const struct json_doc *doc, const struct class *c,
    struct err *e)
{
	for (size_t i = 0; i < 3; i++) {
		struct draft_added t = { .content = span_str(c->tokens[i]), .special = true };

		if (!said_of(json_doc_root(doc), token_keys[i]) &&
		    add_missing(d, doc, json_doc_root(doc), &t, NULL, e) < 0)
			return -1;
	}
	return 0;
}

static int read_root(const struct json_doc *doc, struct err *e)
{
	const struct json_node *root = json_doc_root(doc), *v;
	bool split = false;

	if (root->kind != NODE_OBJECT)
		return json_refuse(doc, root, e, "is %s; an object is expected", json_kind_text(root->kind));
	if (json_get_bool(doc, root, "split_special_tokens", &split, e) < 0)
		return -1;
	if (split)
		return json_refuse(doc, json_get(root, "split_special_tokens"), e,
		    "only false is understood here");
	if ((v = json_get(root, "tokenizer_class")) != NULL && v->kind != NODE_STRING)
		return json_refuse(doc, v, e, "is %s; a string is expected", json_kind_text(v->kind));
	return 0;
}

/* Classes of BERT replace BertNormalizer if their options differ from it, so these must agree.
 * Lower case is the default of all that have the option. */
static int bert_agrees(struct draft *d, const struct json_doc *doc, struct err *e)
{
	const struct json_node *root = json_doc_root(doc), *v = json_get(root, "tokenizer_class");
	bool lower = true, ideographs = true, strips = d->bert.strips;

	if (!d->bert.is || (v != NULL && json_is(v, "PreTrainedTokenizerFast")))
		return 0;
	if (v == NULL)
		lower = d->bert.lowercase, ideographs = d->bert.ideographs;
	if (json_get_bool(doc, root, "do_lower_case", &lower, e) < 0 ||
	    json_get_bool(doc, root, "tokenize_chinese_chars", &ideographs, e) < 0 ||
	    json_get_bool(doc, root, "strip_accents", &strips, e) < 0)
		return -1;
	if (lower != d->bert.lowercase)
		return json_refuse(doc, json_get(root, "do_lower_case"), e,
		    "do_lower_case is %s here and lowercase of the tokenizer's BertNormalizer is not",
		    lower ? "true (the default)" : "false");
	if (ideographs != d->bert.ideographs)
		return json_refuse(doc, json_get(root, "tokenize_chinese_chars"), e,
		    "tokenize_chinese_chars is %s here and handle_chinese_chars of the tokenizer is not",
		    ideographs ? "true (the default)" : "false");
	if (strips != d->bert.strips)
		return json_refuse(doc, json_get(root, "strip_accents"), e,
		    "the tokenizer's BertNormalizer does otherwise");
	return 0;
}

int tok_config_read(struct draft *d, const struct json_doc *doc, struct err *e)
{
	const struct json_node *root = json_doc_root(doc);
	const struct class *c;

	if (read_root(doc, e) < 0 || bert_agrees(d, doc, e) < 0 || add_decoders(d, doc, e) < 0 ||
	    each_named(d, doc, add_missing, NULL, e) < 0)
		return -1;
	c = find_class(json_get(root, "tokenizer_class"));
	if (c != NULL && add_class_tokens(d, doc, c, e) < 0)
		return -1;
	if (d->n_split == 1 && d->split[0].kind == STEP_BYTE_LEVEL) {
		d->split[0].add_prefix_space = false;
		if (json_get_bool(doc, root, "add_prefix_space", &d->split[0].add_prefix_space, e) < 0)
			return -1;
	}
	if (c != NULL)
		return put_around(d, doc, c, e);
	if (json_get(root, "tokenizer_class") != NULL)
		return 0;
	return agrees(d, doc, "add_bos_token", 0, d->before, d->n_before, e) < 0 ||
	       agrees(d, doc, "add_eos_token", 1, d->after, d->n_after, e) < 0 ? -1 : 0;
}

/* For a rank file: the added tokens, with the given ids. */
int tok_config_ranks(struct draft *d, const struct json_doc *doc, struct err *e)
{
	struct decoder *all;
	struct draft_added t;
	bool around = false;
	size_t n, i;
	int r;

	if (read_root(doc, e) < 0 ||
	    json_get_bool(doc, json_doc_root(doc), "add_bos_token", &around, e) < 0)
		return -1;
	if (around)
		return json_refuse(doc, json_get(json_doc_root(doc), "add_bos_token"), e,
		    "only false is understood with a rank file");
	r = sorted(doc, json_get(json_doc_root(doc), "added_tokens_decoder"), &all, &n, e);
	for (i = 0; r == 0 && i < n; i++) {
		t = (struct draft_added){ .id = 0 };
		if ((r = tok_json_token(doc, all[i].v, flags, false, &t, e)) < 0)
			break;
		t.id = all[i].id;
		t.normalized = false;
		if (vocab_has_id(&d->vocab, t.id))
			r = json_refuse(doc, all[i].v, e, "this id is a rank of the file");
		else if (vocab_find(&d->added, t.content) != VOCAB_NONE || vocab_has_id(&d->added, t.id))
			r = json_refuse(doc, all[i].v, e, "this id or this content is another's");
		else
			r = add(d, doc, all[i].v, &t, true, e);
	}
	mem_free(all);
	return r;
}
