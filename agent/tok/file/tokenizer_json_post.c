/* tokenizer_json_post.c - read post-processors of tokenizer.json: the ids before and after a text
 * with special tokens. Only the form for one text is read ("single"); "pair" and type ids do not
 * concern prompts.
 *
 * In a Sequence, later ones are outside of earlier ones. */
#include "agent/tok/file/draft.h"

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p
#define NESTED_MAX	8u

struct around {
	token_id before[DRAFT_AROUND_MAX], after[DRAFT_AROUND_MAX];
	uint32_t n_before, n_after;
};

static int put(const struct json_doc *doc, const struct json_node *v, struct around *a, bool after,
    token_id id, struct err *e)
{
	uint32_t *n = after ? &a->n_after : &a->n_before;

	if (*n == DRAFT_AROUND_MAX)
		return json_refuse(doc, v, e, "more than %u ids", DRAFT_AROUND_MAX);
	(after ? a->after : a->before)[(*n)++] = id;
	return 0;
}

/* Put <a> around the ids so far. */
static int wrap(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    const struct around *a, struct err *e)
{
	if (d->n_before + a->n_before > DRAFT_AROUND_MAX || d->n_after + a->n_after > DRAFT_AROUND_MAX)
		return json_refuse(doc, v, e, "more than %u ids", DRAFT_AROUND_MAX);
	memmove(d->before + a->n_before, d->before, d->n_before * sizeof(d->before[0]));
	memcpy(d->before, a->before, a->n_before * sizeof(d->before[0]));
	memcpy(d->after + d->n_after, a->after, a->n_after * sizeof(d->after[0]));
	d->n_before += a->n_before;
	d->n_after += a->n_after;
	return 0;
}

/* Read {"SpecialToken": {"id": "<s>", ...}}: the ids are those of "special_tokens". */
static int special_ids(const struct json_doc *doc, const struct json_node *post,
    const struct json_node *v, struct around *a, bool after, struct err *e)
{
	const struct json_node *tokens = json_need(doc, post, "special_tokens", NODE_OBJECT, e), *t, *ids;
	struct span name = { NULL, 0 };
	token_id id;

	if (tokens == NULL || json_only(doc, v, "id type_id", e) < 0 ||
	    json_need_text(doc, v, "id", &name, e) < 0)
		return -1;
	for (t = tokens->child; t != NULL && !span_eq(t->key, name); )
		t = t->next;
	if (t == NULL)
		return json_refuse(doc, v, e, "\"%.*s\" is not among special_tokens", CUT(name));
	if (json_only(doc, t, "id ids tokens", e) < 0 ||
	    (ids = json_need(doc, t, "ids", NODE_ARRAY, e)) == NULL)
		return -1;
	for (const struct json_node *i = ids->child; i != NULL; i = i->next) {
		if (json_u32(doc, i, &id, e) < 0 || put(doc, i, a, after, id, e) < 0)
			return -1;
	}
	return 0;
}

static int read_template(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct err *e)
{
	const struct json_node *single, *p;
	struct around a = { .n_before = 0 };
	bool after = false;

	if (json_only(doc, v, "type single pair special_tokens", e) < 0 ||
	    (single = json_need(doc, v, "single", NODE_ARRAY, e)) == NULL)
		return -1;
	for (p = single->child; p != NULL; p = p->next) {
		const struct json_node *text = json_get(p, "Sequence"), *special = json_get(p, "SpecialToken");

		if (json_only(doc, p, "Sequence SpecialToken", e) < 0)
			return -1;
		if ((text != NULL) == (special != NULL))
			return json_refuse(doc, p, e, "one of Sequence and SpecialToken is expected");
		if (special != NULL) {
			if (special_ids(doc, v, special, &a, after, e) < 0)
				return -1;
			continue;
		}
		if (after || !json_is(json_get(text, "id"), "A"))
			return json_refuse(doc, text, e, "the text, \"A\", is expected once");
		after = true;
	}
	if (!after)
		return json_refuse(doc, single, e, "the text, \"A\", is expected once");
	return wrap(d, doc, v, &a, e);
}

/* Read "cls": ["<s>", 0]. */
static int pair_id(const struct json_doc *doc, const struct json_node *v, const char *key,
    token_id *id, struct err *e)
{
	const struct json_node *p = json_need(doc, v, key, NODE_ARRAY, e);

	if (p == NULL)
		return -1;
	if (p->child == NULL || p->child->kind != NODE_STRING || p->child->next == NULL ||
	    p->child->next->next != NULL)
		return json_refuse(doc, p, e, "a token and its id are expected");
	return json_u32(doc, p->child->next, id, e);
}

static int read_bert(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    const char *keys, struct err *e)
{
	struct around a = { .n_before = 1, .n_after = 1 };

	if (json_only(doc, v, keys, e) < 0 || pair_id(doc, v, "cls", &a.before[0], e) < 0 ||
	    pair_id(doc, v, "sep", &a.after[0], e) < 0)
		return -1;
	return wrap(d, doc, v, &a, e);
}

static int read_post(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    unsigned int depth, struct err *e)
{
	const struct json_node *type, *all;

	if (v->kind != NODE_OBJECT)
		return json_refuse(doc, v, e, "is %s; an object is expected", json_kind_text(v->kind));
	if ((type = json_need(doc, v, "type", NODE_STRING, e)) == NULL)
		return -1;
	if (json_is(type, "ByteLevel"))	/* concerns offsets, which are unused */
		return json_only(doc, v, "type add_prefix_space trim_offsets use_regex", e);
	if (json_is(type, "TemplateProcessing"))
		return read_template(d, doc, v, e);
	if (json_is(type, "BertProcessing"))
		return read_bert(d, doc, v, "type sep cls", e);
	if (json_is(type, "RobertaProcessing"))
		return read_bert(d, doc, v, "type sep cls trim_offsets add_prefix_space", e);
	if (!json_is(type, "Sequence"))
		return json_refuse(doc, type, e,
		    "\"%.*s\" is not understood; understood are: ByteLevel, TemplateProcessing, "
		    "Sequence, BertProcessing, RobertaProcessing",
		    CUT(type->s));
	if (depth >= NESTED_MAX)
		return json_refuse(doc, v, e, "nested deeper than %u", NESTED_MAX);
	if (json_only(doc, v, "type processors", e) < 0 ||
	    (all = json_need(doc, v, "processors", NODE_ARRAY, e)) == NULL)
		return -1;
	for (v = all->child; v != NULL; v = v->next) {
		if (read_post(d, doc, v, depth + 1, e) < 0)
			return -1;
	}
	return 0;
}

int tok_json_around(struct draft *d, const struct json_doc *doc, const struct json_node *post,
    struct err *e)
{
	return post == NULL ? 0 : read_post(d, doc, post, 0, e);
}
