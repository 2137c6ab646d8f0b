/* tokenizer_json_steps.c - read the chain before the model: normalizers and pre-tokenizers of
 * tokenizer.json become steps of normal.h and split.h. Sequences are flattened: nested ones become
 * their steps in order.
 *
 * ByteLevel as a normalizer is accepted only without a following pre-tokenizer, which would work on
 * characters of the alphabet, while split.h works on the text's own bytes. */
#include "agent/base/utf8.h"
#include "agent/tok/charsmap.h"
#include "agent/tok/file/draft.h"
#include "agent/tok/file/ranks_in.h"

#define CUT(s)	(int)((s).n < 60 ? (s).n : 60), (s).p
#define NESTED_MAX	8u

struct names {
	const char *name;
	int value;
};

/* Read a member that must be one of <names>. Returns -1 and fills <e> if it is not. */
static int one_of(const struct json_doc *doc, const struct json_node *v, const struct names *names,
    size_t n, int *out, struct err *e)
{
	char known[320];
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(names[i].name);

		if (json_is(v, names[i].name)) {
			*out = names[i].value;
			return 0;
		}
		if (at + len + 3 < sizeof(known)) {
			memcpy(known + at, at ? ", " : "", at ? 2 : 0);
			at += at ? 2 : 0;
			memcpy(known + at, names[i].name, len);
			at += len;
		}
	}
	known[at] = 0;
	if (v->kind != NODE_STRING)
		return json_refuse(doc, v, e, "is %s; understood are: %s", json_kind_text(v->kind), known);
	return json_refuse(doc, v, e, "\"%.*s\" is not understood; understood are: %s", CUT(v->s), known);
}

static int type_of(const struct json_doc *doc, const struct json_node *v, const struct names *names,
    size_t n, int *out, struct err *e)
{
	const struct json_node *type;

	if (v->kind != NODE_OBJECT)
		return json_refuse(doc, v, e, "is %s; an object is expected", json_kind_text(v->kind));
	if ((type = json_need(doc, v, "type", NODE_STRING, e)) == NULL)
		return -1;
	return one_of(doc, type, names, n, out, e);
}

/* Read {"String": "x"} or {"Regex": "x"}. */
static int read_pattern(const struct json_doc *doc, const struct json_node *v, struct span *out,
    bool *regex, struct err *e)
{
	const struct json_node *p = json_need(doc, v, "pattern", NODE_OBJECT, e);

	if (p == NULL || json_only(doc, p, "String Regex", e) < 0)
		return -1;
	if ((json_get(p, "String") != NULL) == (json_get(p, "Regex") != NULL))
		return json_refuse(doc, p, e, "one of String and Regex is expected");
	*regex = json_get(p, "Regex") != NULL;
	return json_get_text(doc, p, *regex ? "Regex" : "String", out, e);
}

/* ---- normalizers ----------------------------------------------------------------------------- */

enum { NORMALIZER_SEQUENCE = -1, NORMALIZER_BERT = -2 };

static const struct names normalizers[] = { { "Sequence", NORMALIZER_SEQUENCE },
	{ "NFC", NORMAL_NFC }, { "NFD", NORMAL_NFD }, { "NFKC", NORMAL_NFKC },
	{ "NFKD", NORMAL_NFKD }, { "Lowercase", NORMAL_LOWERCASE },
	{ "StripAccents", NORMAL_STRIP_ACCENTS }, { "Strip", NORMAL_STRIP },
	{ "Prepend", NORMAL_PREPEND }, { "Replace", NORMAL_REPLACE },
	{ "ByteLevel", NORMAL_BYTE_LEVEL }, { "BertNormalizer", NORMALIZER_BERT },
	{ "Nmt", NORMAL_NMT }, { "Precompiled", NORMAL_PRECOMPILED } };

/* Read precompiled_charsmap, and check it for an error with its place. */
static int read_charsmap(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct normal_step *s, struct err *e)
{
	struct charsmap *m;
	struct span text;
	struct err why;
	ssize_t n;
	char *p;

	if (json_only(doc, v, "type precompiled_charsmap", e) < 0 ||
	    json_need_text(doc, v, "precompiled_charsmap", &text, e) < 0)
		return -1;
	v = json_get(v, "precompiled_charsmap");
	if ((p = draft_keep(d, text.p, text.n)) == NULL)
		return err_set(e, "not enough memory");
	if ((n = ranks_base64(text.p, text.n, p)) < 0)
		return json_refuse(doc, v, e, "base64 is expected");
	s->pattern = span_of(p, (size_t)n);
	if ((m = charsmap_new(s->pattern, &why)) == NULL)
		return json_refuse(doc, v, e, "%s", why.text);
	charsmap_free(m);
	return 0;
}

static int normal_fields(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct normal_step *s, struct err *e)
{
	switch (s->kind) {
	case NORMAL_PREPEND:
		return json_only(doc, v, "type prepend", e) < 0
		    ? -1
		    : json_need_text(doc, v, "prepend", &s->content, e);
	case NORMAL_REPLACE:
		if (json_only(doc, v, "type pattern content", e) < 0 ||
		    read_pattern(doc, v, &s->pattern, &s->regex, e) < 0)
			return -1;
		return json_need_text(doc, v, "content", &s->content, e);
	case NORMAL_STRIP:
		if (json_only(doc, v, "type strip_left strip_right", e) < 0 ||
		    json_need_bool(doc, v, "strip_left", &s->strip_left, e) < 0)
			return -1;
		return json_need_bool(doc, v, "strip_right", &s->strip_right, e);
	case NORMAL_NFC: case NORMAL_NFD: case NORMAL_NFKC: case NORMAL_NFKD:
	case NORMAL_LOWERCASE: case NORMAL_STRIP_ACCENTS: case NORMAL_BYTE_LEVEL:
	case NORMAL_BERT_CLEAN: case NORMAL_BERT_IDEOGRAPHS: case NORMAL_BERT_MARKS: case NORMAL_NMT:
	case NORMAL_SENTENCE: break;
	case NORMAL_PRECOMPILED: return read_charsmap(d, doc, v, s, e);
	}
	return json_only(doc, v, "type", e);
}

static int read_normal(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    unsigned int depth, struct err *e);

static int read_each(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    const char *key, unsigned int depth,
    int (*read)(struct draft *, const struct json_doc *, const struct json_node *, unsigned int,
	struct err *),
    struct err *e)
{
	const struct json_node *all;
	char keys[40] = "type ";

	memcpy(keys + 5, key, strlen(key) + 1);
	if (depth >= NESTED_MAX)
		return json_refuse(doc, v, e, "nested deeper than %u", NESTED_MAX);
	if (json_only(doc, v, keys, e) < 0 || (all = json_need(doc, v, key, NODE_ARRAY, e)) == NULL)
		return -1;
	for (v = all->child; v != NULL; v = v->next) {
		if (read(d, doc, v, depth + 1, e) < 0)
			return -1;
	}
	return 0;
}

/* Accents are stripped with lower case unless strip_accents tells otherwise. */
static int read_bert(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct err *e)
{
	static const enum normal_kind kinds[] = { NORMAL_BERT_CLEAN, NORMAL_BERT_IDEOGRAPHS,
		NORMAL_NFD, NORMAL_BERT_MARKS, NORMAL_LOWERCASE };
	struct draft_bert *b = &d->bert;
	bool clean;

	if (json_only(doc, v, "type clean_text handle_chinese_chars strip_accents lowercase", e) < 0 ||
	    json_need_bool(doc, v, "clean_text", &clean, e) < 0 ||
	    json_need_bool(doc, v, "handle_chinese_chars", &b->ideographs, e) < 0 ||
	    json_need_bool(doc, v, "lowercase", &b->lowercase, e) < 0)
		return -1;
	b->strips = b->lowercase;
	if (json_get_bool(doc, v, "strip_accents", &b->strips, e) < 0)
		return -1;
	b->is = true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const bool on[] = { clean, b->ideographs, b->strips, b->strips, b->lowercase };

		if (on[i] && d->n_normal == DRAFT_STEPS_MAX)
			return json_refuse(doc, v, e, "more than %u normalizers", DRAFT_STEPS_MAX);
		if (on[i])
			d->normal[d->n_normal++] = (struct normal_step){ .kind = kinds[i] };
	}
	return 0;
}

static int read_normal(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    unsigned int depth, struct err *e)
{
	struct normal_step *s = &d->normal[d->n_normal];
	int kind;

	if (type_of(doc, v, normalizers, sizeof(normalizers) / sizeof(normalizers[0]), &kind, e) < 0)
		return -1;
	if (kind == NORMALIZER_SEQUENCE)
		return read_each(d, doc, v, "normalizers", depth, read_normal, e);
	if (kind == NORMALIZER_BERT)
		return read_bert(d, doc, v, e);
	if (d->n_normal == DRAFT_STEPS_MAX)
		return json_refuse(doc, v, e, "more than %u normalizers", DRAFT_STEPS_MAX);
	*s = (struct normal_step){ .kind = (enum normal_kind)kind };
	if (normal_fields(d, doc, v, s, e) < 0)
		return -1;
	d->byte_level |= s->kind == NORMAL_BYTE_LEVEL;
	d->n_normal++;
	return 0;
}

/* ---- pre-tokenizers -------------------------------------------------------------------------- */

enum { STEP_SEQUENCE = -1, STEP_SPLIT = -2, STEP_BERT = -3 };

static const struct names pre_tokenizers[] = { { "Sequence", STEP_SEQUENCE },
	{ "Split", STEP_SPLIT }, { "ByteLevel", STEP_BYTE_LEVEL }, { "Digits", STEP_DIGITS },
	{ "Punctuation", STEP_PUNCTUATION }, { "Whitespace", STEP_WHITESPACE },
	{ "WhitespaceSplit", STEP_WHITESPACE_SPLIT }, { "CharDelimiterSplit", STEP_CHAR_DELIMITER },
	{ "Metaspace", STEP_METASPACE }, { "BertPreTokenizer", STEP_BERT } };

static const struct names behaviours[] = { { "Removed", SPLIT_REMOVED },
	{ "Isolated", SPLIT_ISOLATED }, { "MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS },
	{ "MergedWithNext", SPLIT_MERGED_WITH_NEXT }, { "Contiguous", SPLIT_CONTIGUOUS } };

static const struct names schemes[] = {
	{ "never", PREPEND_NEVER }, { "first", PREPEND_FIRST }, { "always", PREPEND_ALWAYS }
};

static int read_behaviour(const struct json_doc *doc, const struct json_node *v,
    struct split_step *s, struct err *e)
{
	const struct json_node *b = json_get(v, "behavior");
	int value = SPLIT_ISOLATED;

	if (b != NULL &&
	    one_of(doc, b, behaviours, sizeof(behaviours) / sizeof(behaviours[0]), &value, e) < 0)
		return -1;
	s->behaviour = (enum split_behaviour)value;
	return 0;
}

/* Read exactly one character. */
static int read_char(const struct json_doc *doc, const struct json_node *v, const char *key,
    struct span *out, struct err *e)
{
	if (json_need_text(doc, v, key, out, e) < 0)
		return -1;
	return utf8_count(out->p, out->n) == 1
	    ? 0
	    : json_refuse(doc, json_get(v, key), e, "one character is expected");
}

/* add_prefix_space is the older form of prepend_scheme: true is "always", false "never". */
static int read_metaspace(const struct json_doc *doc, const struct json_node *v,
    struct split_step *s, struct err *e)
{
	const struct json_node *scheme = json_get(v, "prepend_scheme");
	int value = PREPEND_ALWAYS;
	bool old = true;

	if (json_only(doc, v, "type replacement str_rep add_prefix_space prepend_scheme split", e) <
		0 ||
	    read_char(doc, v, "replacement", &s->pattern, e) < 0 ||
	    json_get_bool(doc, v, "add_prefix_space", &old, e) < 0)
		return -1;
	if (scheme != NULL && one_of(doc, scheme, schemes, 3, &value, e) < 0)
		return -1;
	if (!old && (scheme == NULL || value != PREPEND_NEVER))
		return json_refuse(doc, json_get(v, "add_prefix_space"), e,
		    "false needs \"prepend_scheme\": \"never\"");
	s->prepend = value == PREPEND_NEVER ? PREPEND_NEVER
	    : value == PREPEND_FIRST        ? PREPEND_FIRST
					    : PREPEND_ALWAYS;
	s->split = true;
	return json_get_bool(doc, v, "split", &s->split, e);
}

static int read_split(const struct json_doc *doc, const struct json_node *v, struct split_step *s,
    struct err *e)
{
	bool regex;

	if (json_only(doc, v, "type pattern behavior invert", e) < 0 ||
	    read_pattern(doc, v, &s->pattern, &regex, e) < 0 ||
	    json_need(doc, v, "behavior", NODE_STRING, e) == NULL ||
	    read_behaviour(doc, v, s, e) < 0)
		return -1;
	s->kind = regex ? STEP_REGEX : STEP_STRING;
	return json_need_bool(doc, v, "invert", &s->invert, e);
}

static int read_byte_level(const struct json_doc *doc, const struct json_node *v,
    struct split_step *s, struct err *e)
{
	bool trim;

	s->use_regex = true;
	if (json_only(doc, v, "type add_prefix_space trim_offsets use_regex", e) < 0 ||
	    json_need_bool(doc, v, "add_prefix_space", &s->add_prefix_space, e) < 0 ||
	    json_get_bool(doc, v, "trim_offsets", &trim, e) < 0)
		return -1;
	return json_get_bool(doc, v, "use_regex", &s->use_regex, e);
}

static int split_fields(const struct json_doc *doc, const struct json_node *v, int kind,
    struct split_step *s, struct err *e)
{
	switch (kind) {
	case STEP_SPLIT: return read_split(doc, v, s, e);
	case STEP_BYTE_LEVEL: return read_byte_level(doc, v, s, e);
	case STEP_METASPACE: return read_metaspace(doc, v, s, e);
	case STEP_DIGITS:
		return json_only(doc, v, "type individual_digits", e) < 0 ? -1 :
		       json_need_bool(doc, v, "individual_digits", &s->individual, e);
	case STEP_PUNCTUATION:
		return json_only(doc, v, "type behavior", e) < 0 ? -1 : read_behaviour(doc, v, s, e);
	case STEP_CHAR_DELIMITER:
		return json_only(doc, v, "type delimiter", e) < 0
		    ? -1
		    : read_char(doc, v, "delimiter", &s->pattern, e);
	default: return json_only(doc, v, "type", e);
	}
}

/* BertPreTokenizer: two steps that exist. */
static int read_bert_split(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    struct err *e)
{
	if (d->n_split > DRAFT_STEPS_MAX - 2)
		return json_refuse(doc, v, e, "more than %u pre-tokenizers", DRAFT_STEPS_MAX);
	d->split[d->n_split++] = (struct split_step){ .kind = STEP_WHITESPACE_SPLIT };
	d->split[d->n_split++] =
	    (struct split_step){ .kind = STEP_PUNCTUATION, .behaviour = SPLIT_ISOLATED };
	return json_only(doc, v, "type", e);
}

static int read_pre(struct draft *d, const struct json_doc *doc, const struct json_node *v,
    unsigned int depth, struct err *e)
{
	struct split_step *s = &d->split[d->n_split];
	int kind;

	if (type_of(doc, v, pre_tokenizers, sizeof(pre_tokenizers) / sizeof(pre_tokenizers[0]),
		&kind, e) < 0)
		return -1;
	if (kind == STEP_SEQUENCE)
		return read_each(d, doc, v, "pretokenizers", depth, read_pre, e);
	if (kind == STEP_BERT)
		return read_bert_split(d, doc, v, e);
	if (d->n_split == DRAFT_STEPS_MAX)
		return json_refuse(doc, v, e, "more than %u pre-tokenizers", DRAFT_STEPS_MAX);
	*s = (struct split_step){ .kind = kind == STEP_SPLIT ? STEP_REGEX : (enum split_kind)kind };
	if (split_fields(doc, v, kind, s, e) < 0)
		return -1;
	d->byte_level |= s->kind == STEP_BYTE_LEVEL;
	d->n_split++;
	return 0;
}

int tok_json_steps(struct draft *d, const struct json_doc *doc, const struct json_node *normal,
    const struct json_node *split, struct err *e)
{
	if (normal != NULL && read_normal(d, doc, normal, 0, e) < 0)
		return -1;
	if (d->byte_level && split != NULL)
		return json_refuse(doc, normal, e,
		    "ByteLevel as a normalizer is understood only without a pre-tokenizer");
	if (split != NULL && read_pre(d, doc, split, 0, e) < 0)
		return -1;
	d->has_normal = d->n_normal > 0;
	d->has_split = d->n_split > 0;
	return 0;
}
