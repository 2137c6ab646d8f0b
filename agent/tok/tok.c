/* tok.c - make, count and query tokenizers. tok_encode.c encodes.
 *
 * A tokenizer is always made from a recipe and a vocabulary, whether its files were read or an
 * image was mapped. So an image cannot give other results than the files. */
#include "agent/tok/tok.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/tok/chunk.h"
#include "agent/tok/file/recipe.h"
#include "agent/tok/tok_in.h"

/* ---- building -------------------------------------------------------------------------------- */

/* Normalize the contents of tokens that are searched in normalized text. */
static int normalize(const struct normal *m, struct added_token *t, uint32_t n,
    struct normal_buf *b, char ***copies)
{
	struct span out;

	if (m == NULL)
		return 0;
	if ((*copies = mem_calloc(n + 1, sizeof(**copies))) == NULL)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		normal_run(m, b, t[i].content, &out);
		if (out.p == NULL || ((*copies)[i] = mem_alloc(out.n + 1)) == NULL)
			return -1;
		memcpy((*copies)[i], out.p, out.n);
		t[i].content = span_of((*copies)[i], out.n);
	}
	return 0;
}

static struct added *make_normalized(const struct normal *m, struct added_token *t, uint32_t n)
{
	struct normal_buf b = { .work = NULL };
	struct added *a = NULL;
	char **copies = NULL;

	if (normalize(m, t, n, &b, &copies) == 0)
		a = added_new(t, n);
	for (uint32_t i = 0; copies != NULL && i < n; i++)
		mem_free(copies[i]);
	mem_free(copies);
	normal_buf_fini(&b);
	return a;
}

static int by_id(const void *a, const void *b)
{
	token_id x = *(const token_id *)a, y = *(const token_id *)b;

	return (x > y) - (x < y);
}

/* SentencePiece looks for pieces of the user as they are, both where it normalizes and where it
 * encodes. Unigram finds them in its lexicon; for BPE they are cut out of normalized text. */
static int make_pieces(struct tok *t, const struct added_token *part, uint32_t n)
{
	if (t->lexicon == NULL) {
		t->normalized = added_new(part, n);
	} else {
		t->kept = added_new(part, n);
		t->normalized = added_new(part, 0);
	}
	if (t->normalized == NULL || (t->lexicon != NULL && t->kept == NULL))
		return -1;
	normal_keep(t->normal, t->kept != NULL ? t->kept : t->normalized);
	return 0;
}

/* Make the sets. t->tokens lists the raw ones first. */
static int make_added(struct tok *t, const struct recipe *r)
{
	struct added_token *part = mem_calloc(r->n_tokens + 1, sizeof(*part));
	bool sentence = r->n_normal > 0 && r->normal[0].kind == NORMAL_SENTENCE;
	uint32_t n = 0, m = 0;
	int rc = 0;

	t->tokens = mem_calloc(r->n_tokens + 1, sizeof(*t->tokens));
	t->added_ids = mem_calloc(r->n_tokens + 1, sizeof(*t->added_ids));
	if (part == NULL || t->tokens == NULL || t->added_ids == NULL) {
		mem_free(part);
		return -1;
	}
	for (uint32_t i = 0; i < r->n_tokens; i++) {
		t->tokens[i] = r->tokens[i].token;
		t->added_ids[i] = t->tokens[i].id;
		t->plain |= r->tokens[i].hidden;
		if (!r->tokens[i].normalized && !r->tokens[i].hidden)
			part[n++] = r->tokens[i].token;
	}
	t->n_tokens = r->n_tokens;
	if (t->n_tokens > 0)
		qsort(t->added_ids, t->n_tokens, sizeof(*t->added_ids), by_id);
	t->plain &= n == 0;
	t->raw = added_new(part, n);
	for (uint32_t i = 0; i < r->n_tokens; i++) {
		if (r->tokens[i].normalized && !r->tokens[i].hidden)
			part[m++] = r->tokens[i].token;
	}
	if (sentence)
		rc = make_pieces(t, part, m);
	else
		t->normalized = make_normalized(t->normal, part, m);
	mem_free(part);
	return rc == 0 && t->raw != NULL && t->normalized != NULL ? 0 : -1;
}

static int copy_ids(struct ids *to, const token_id *p, uint32_t n)
{
	if (n > 0 && ids_reserve(to, n) < 0)
		return -1;
	if (n > 0)
		memcpy(to->p, p, n * sizeof(*p));
	to->n = n;
	return 0;
}

/* Tell if a token may begin in white space that another one strips on its right. The place of a cut
 * then depends on the one before, which tok_next_cut() does not know. */
static bool cuts_meet(const struct recipe *r)
{
	bool strips = false, space = false;

	for (uint32_t i = 0; i < r->n_tokens; i++) {
		const struct added_token *t = &r->tokens[i].token;

		strips |= t->rstrip;
		space |= t->content.n > 0 &&
		    ((uint8_t)t->content.p[0] <= ' ' || (uint8_t)t->content.p[0] >= 0x80);
	}
	return strips && space;
}

static void find_segments(struct tok *t, const struct recipe *r)
{
	struct split_traits s = { .streams = false };
	bool plain = added_none(t->normalized);

	if (t->split != NULL)
		s = split_traits(t->split);
	t->segments.independent = !cuts_meet(r);
	t->segments.first_differs = s.first_differs;
	t->segments.streams = s.streams && plain;
	t->segments.begin_differs = s.begin_differs;
	for (uint32_t i = 0; i < r->n_normal; i++)
		t->segments.begin_differs |= r->normal[i].kind == NORMAL_PREPEND ||
		    r->normal[i].kind == NORMAL_SENTENCE;
	if (plain && t->borders == NULL && t->split != NULL)
		t->segments.places = chunk_places(s, r->normal, r->n_normal);
}

/* If the whole text is one piece: find its borders, and, if the normalizer only writes a mark for
 * each space, places for chunks. */
static int find_borders(struct tok *t, const struct recipe *r)
{
	bool metaspace = r->n_split == 1 && r->split[0].kind == STEP_METASPACE && !r->split[0].split;
	struct span mark = { NULL, 0 };
	bool only_marks;

	if (t->bpe == NULL || t->drops || (r->n_split > 0 && !metaspace))
		return 0;
	only_marks = normal_only_marks(r->normal, r->n_normal, &mark) && !(metaspace && mark.n > 0);
	mark = metaspace ? r->split[0].pattern : mark;
	if (borders_new(t->bpe, mark, &t->borders) < 0)
		return -1;
	if (only_marks && added_none(t->normalized))
		t->segments.places = borders_places(t->borders);
	return 0;
}

static int make(struct tok *t, const struct recipe *r, struct err *e)
{
	t->refs = 1;
	t->fingerprint = r->fingerprint;
	if (r->n_normal > 0 && (t->normal = normal_new(r->normal, r->n_normal, e)) == NULL)
		return -1;
	if (r->n_split > 0 && (t->split = split_new(r->split, r->n_split, e)) == NULL)
		return -1;
	if (make_added(t, r) < 0 || copy_ids(&t->prefix, r->before, r->n_before) < 0 ||
	    copy_ids(&t->suffix, r->after, r->n_after) < 0)
		return err_set(e, "not enough memory");
	memcpy(t->dropped, r->dropped, sizeof(t->dropped));
	for (size_t i = 0; i < sizeof(t->dropped); i++)
		t->drops |= t->dropped[i] != 0;
	find_segments(t, r);
	return find_borders(t, r) < 0 ? err_set(e, "not enough memory") : 0;
}

struct tok *tok_make(struct span recipe, struct bpe *bpe, struct lexicon *lexicon, struct err *e)
{
	struct tok *t = mem_alloc(sizeof(*t));
	struct recipe r;
	int bad;

	if (t == NULL) {
		mem_free((void *)recipe.p);
		bpe_free(bpe);
		lexicon_free(lexicon);
		err_set(e, "not enough memory");
		return NULL;
	}
	t->recipe = recipe;
	t->bpe = bpe;
	t->lexicon = lexicon;
	if (recipe_read(recipe, &r) < 0) {
		err_set(e, "not enough memory, or a damaged image");
		tok_unref(t);
		return NULL;
	}
	bad = make(t, &r, e);
	recipe_fini(&r);
	if (bad == 0)
		return t;
	t->refs = 1;
	tok_unref(t);
	return NULL;
}

/* ---- loading --------------------------------------------------------------------------------- */

static bool is_json(struct span file)
{
	size_t i = 0;

	while (i < file.n && strchr(" \t\r\n", file.p[i]) != NULL)
		i++;
	return i < file.n && file.p[i] == '{';
}

static uint64_t fingerprint(const struct tok_source *src)
{
	uint64_t part[4] = { 0, 0, 0, 1 /* version of the way ids are made */ };
	XXH128_hash_t h = XXH3_128bits(src->file.p, src->file.n);

	part[0] = h.low64 ^ h.high64;
	h = XXH3_128bits(src->config.p, src->config.n);
	part[1] = h.low64 ^ h.high64;
	if (src->pattern != NULL)
		part[2] = XXH3_64bits(src->pattern, strlen(src->pattern)) + src->normalizer;
	return XXH3_64bits(part, sizeof(part));
}

static int read_files(struct draft *d, const struct tok_source *src, struct json_doc **doc,
    struct json_doc **config, struct err *e)
{
	if (src->config.n > 0 &&
	    (*config = json_doc_new(src->config,
		 src->config_name ? src->config_name : "tokenizer_config.json", NULL, e)) == NULL)
		return -1;
	if (tok_kind_check(src, e) < 0)
		return -1;
	if (tok_spm_type(src->file) != 0)
		return tok_spm_read(d, src->file, e);
	if (!is_json(src->file))
		return tok_tiktoken_read(d, src, *config, e);
	if ((*doc = json_doc_new(src->file, src->name, tok_json_is_raw, e)) == NULL)
		return -1;
	if (tok_tekken_is(*doc))
		return tok_tekken_read(d, *doc, e);
	if (tok_kind_json(*doc, e) < 0 || tok_json_read(d, *doc, e) < 0)
		return -1;
	return *config != NULL ? tok_config_read(d, *config, e) : 0;
}

static void name_file(const struct tok_source *src, struct err *e)
{
	if (e != NULL && e->file[0] == 0)
		snprintf(e->file, sizeof(e->file), "%s", src->name ? src->name : "");
}

static struct tok *build(struct draft *d, const struct tok_source *src, struct err *e)
{
	struct lexicon *lexicon = d->lexicon ? draft_lexicon(d, e) : NULL;
	struct bpe *bpe = d->lexicon ? NULL : draft_bpe(d, e);
	struct span recipe;

	if (lexicon == NULL && bpe == NULL)
		return NULL;
	recipe = recipe_write(d, fingerprint(src));
	if (recipe.p == NULL) {
		bpe_free(bpe);
		lexicon_free(lexicon);
		err_set(e, "not enough memory");
		return NULL;
	}
	return tok_make(recipe, bpe, lexicon, e);
}

struct tok *tok_load(const struct tok_source *src, struct err *e)
{
	struct draft *d = mem_alloc(sizeof(*d));
	struct json_doc *doc = NULL, *config = NULL;
	struct tok *t = NULL;

	if (e != NULL)
		*e = (struct err){ .line = 0 };
	if (d == NULL)
		err_set(e, "not enough memory");
	else if (read_files(d, src, &doc, &config, e) == 0)
		t = build(d, src, e);
	if (t == NULL)
		name_file(src, e);
	if (d != NULL)
		draft_fini(d);
	mem_free(d);
	json_doc_free(doc);
	json_doc_free(config);
	return t;
}

/* ---- counting and asking --------------------------------------------------------------------- */

struct tok *tok_ref(struct tok *t)
{
	__atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
	return t;
}

void tok_unref(struct tok *t)
{
	if (t == NULL || (t->refs > 0 && __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) > 0))
		return;
	normal_free(t->normal);
	split_free(t->split);
	bpe_free(t->bpe);
	lexicon_free(t->lexicon);
	borders_free(t->borders);
	added_free(t->raw);
	added_free(t->normalized);
	added_free(t->kept);
	mem_free(t->tokens);
	mem_free(t->added_ids);
	ids_free(&t->prefix);
	ids_free(&t->suffix);
	mem_free((void *)t->recipe.p);
	if (t->gone != NULL)
		t->gone(t->gone_arg);
	mem_free(t);
}

size_t tok_bytes(const struct tok *t)
{
	size_t model = t->bpe != NULL ? bpe_bytes(t->bpe) : lexicon_bytes(t->lexicon);

	return sizeof(*t) + model + borders_bytes(t->borders) + added_bytes(t->raw) +
	       added_bytes(t->normalized) + (t->kept != NULL ? added_bytes(t->kept) : 0) +
	       t->n_tokens * (sizeof(*t->tokens) + sizeof(*t->added_ids)) + t->recipe.n;
}

uint64_t tok_fingerprint(const struct tok *t)
{
	return t->fingerprint;
}

struct tok_segments tok_segments(const struct tok *t)
{
	return t->segments;
}

struct ids tok_prefix(const struct tok *t)
{
	return t->prefix;
}

struct ids tok_suffix(const struct tok *t)
{
	return t->suffix;
}

bool tok_is_plain(const struct tok *t)
{
	return t->plain;
}

bool tok_is_added(const struct tok *t, token_id id)
{
	uint32_t low = 0, high = t->n_tokens;

	if (high == 0 || id > t->added_ids[high - 1] || id < t->added_ids[0])
		return false;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (t->added_ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->n_tokens && t->added_ids[low] == id;
}

token_id tok_id(const struct tok *t, struct span content)
{
	for (uint32_t i = 0; i < t->n_tokens; i++) {
		if (span_eq(t->tokens[i].content, content))
			return t->tokens[i].id;
	}
	return BPE_NO_ID;
}

struct tok_parts tok_parts(const struct tok *t)
{
	return (struct tok_parts){ .normal = t->normal,
		.split = t->split,
		.bpe = t->bpe,
		.lexicon = t->lexicon,
		.borders = t->borders,
		.normalized = added_none(t->normalized) ? NULL : t->normalized,
		.dropped = t->drops ? t->dropped : NULL };
}
