/* A tiktoken rank file: "base64-of-the-bytes rank" on each line, and a pattern that is not in the file.
 *
 * tiktoken has no list of merges: it merges the two neighbours that together are the entry of lowest rank. So every cut of an
 * entry in two entries is a merge of that entry's rank; about two for each entry. Within one rank the order is that of Hugging
 * Face's converter, by the ranks of the left and the right part, so that a model's rank file and its tokenizer.json give the
 * same. A piece that is an entry is that entry (ignore_merges).
 *
 * Special tokens are in no rank file. They come from tokenizer_config.json, with the ids it says; Kimi's own code
 * (tokenization_kimi.py) gives names of its own to the 256 ids behind the ranks that are not named there, so the pattern "kimi"
 * does, too. */
#include "agent/tok/draft.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/base/utf8.h"

#define TOKEN_BYTES_MAX	4096u
#define KIMI_RESERVED	256u

#define ENDINGS	"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER	"\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER	"\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define SPACES	"\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define NO_HAN	"&&[^\\p{Han}]"

/* As tiktoken and the models' own files have them (cl100k is written there with possessive quantifiers, to the same effect). */
static const struct named {
	const char *name, *pattern;
} named[] = {
	{ "cl100k", ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES },
	{ "o200k", "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" ENDINGS "?|"
		   "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]*" ENDINGS "?|"
		   "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES },
	{ "kimi", "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[" UPPER NO_HAN "]*[" LOWER NO_HAN "]+" ENDINGS "?|"
		  "[^\\r\\n\\p{L}\\p{N}]?[" UPPER NO_HAN "]+[" LOWER NO_HAN "]*" ENDINGS "?|"
		  "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES },
	{ "gpt2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
};

struct lines {
	const struct tok_source *src;
	const char *p, *end, *line;	/* <line>: where the present one begins */
	int number;
	struct err *e;
};

static int refuse(const struct lines *l, const char *at, const char *what)
{
	if (l->e != NULL) {
		err_set(l->e, "%s", what);
		snprintf(l->e->file, sizeof(l->e->file), "%s", l->src->name ? l->src->name : "");
		l->e->line = l->number;
		l->e->column = (int)(at - l->line) + 1;
	}
	return -1;
}

static int digit64(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648 with its padding. Bytes out, -1: bad. */
static ssize_t base64(const char *p, size_t n, char *out)
{
	size_t m = 0;
	uint32_t v = 0;
	int d;

	if (n == 0 || n % 4 != 0)
		return -1;
	n -= p[n - 1] == '=' ? 1 + (p[n - 2] == '=') : 0;
	for (size_t i = 0; i < n; i++) {
		if ((d = digit64(p[i])) < 0)
			return -1;
		v = v << 6 | (uint32_t)d;
		if (i % 4 > 0)
			out[m++] = (char)(v >> (6 - 2 * (i % 4)));
	}
	return (ssize_t)m;
}

static int read_rank(struct lines *l, token_id *rank)
{
	uint64_t v = 0;
	const char *from = l->p;

	while (l->p < l->end && *l->p >= '0' && *l->p <= '9' && v <= VOCAB_ID_MAX)
		v = v * 10 + (uint64_t)(*l->p++ - '0');
	if (l->p == from || v > VOCAB_ID_MAX)
		return refuse(l, from, "a rank, a number from 0 to 16777215, is expected here");
	*rank = (token_id)v;
	return 0;
}

static int read_line(struct draft *d, struct lines *l, char *out)
{
	const char *blank = memchr(l->p, ' ', (size_t)(l->end - l->p)), *eol = memchr(l->p, '\n', (size_t)(l->end - l->p));
	token_id rank = 0;
	ssize_t n;

	if (blank == NULL || (eol != NULL && eol < blank))
		return refuse(l, l->p, "a token in base64, a blank and its rank are expected");
	if ((n = base64(l->p, (size_t)(blank - l->p), out)) <= 0 || n > (ssize_t)TOKEN_BYTES_MAX)
		return refuse(l, l->p, "this is not base64 of 1 to 4096 bytes");
	l->p = blank + 1;
	if (read_rank(l, &rank) < 0)
		return -1;
	if (l->p < l->end && *l->p == '\r')
		l->p++;
	if (l->p < l->end && *l->p != '\n')
		return refuse(l, l->p, "something stands behind the rank");
	if (vocab_has_id(&d->vocab, rank))
		return refuse(l, blank + 1, "this rank is another token's");
	switch (vocab_add(&d->vocab, span_of(out, (size_t)n), rank)) {
	case 0: return (int)n;
	case 1: return refuse(l, l->line, "this token stands there twice");
	default: return err_set(l->e, "not enough memory");
	}
}

static int read_lines(struct draft *d, const struct tok_source *src, struct err *e)
{
	struct lines l = { .src = src, .p = src->file.p, .end = src->file.p + src->file.n, .e = e };
	char *out = NULL, *all;
	int n;

	if (utf8_check(src->file, src->name, e) < 0)
		return -1;
	if ((all = draft_keep(d, src->file.p, src->file.n)) == NULL)
		return err_set(e, "not enough memory");
	for (out = all; l.p < l.end; l.p++) {	/* decoded tokens are shorter than their lines: <all> has room for them */
		l.number++;
		l.line = l.p;
		if (*l.p == '\n')
			continue;
		if ((n = read_line(d, &l, out)) < 0)
			return -1;
		out += n;
	}
	return d->vocab.n > 0 ? 0 : err_set(e, "there is no token in this file");
}

/* ---- merges ------------------------------------------------------------------------------------------ */

static int by_rank(const void *a, const void *b)
{
	const struct vocab_entry *x = *(const struct vocab_entry *const *)a, *y = *(const struct vocab_entry *const *)b;

	return (x->id > y->id) - (x->id < y->id);
}

static int by_parts(const void *a, const void *b)
{
	const struct bpe_merge *x = a, *y = b;

	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return (x->right > y->right) - (x->right < y->right);
}

static int cuts(struct draft *d, const struct vocab_entry *v)
{
	uint32_t from = d->n_merges, left, right;

	for (uint32_t n = 1; n < v->n; n++) {
		if ((left = vocab_find(&d->vocab, span_of(v->p, n))) == VOCAB_NONE ||
		    (right = vocab_find(&d->vocab, span_of(v->p + n, v->n - n))) == VOCAB_NONE)
			continue;
		if (draft_merge(d, (struct bpe_merge){ d->vocab.entry[left].id, d->vocab.entry[right].id, v->id }) < 0)
			return -1;
	}
	if (d->n_merges - from > 1)
		qsort(d->merges + from, d->n_merges - from, sizeof(d->merges[0]), by_parts);
	return 0;
}

static int find_merges(struct draft *d, struct err *e)
{
	const struct vocab_entry **sorted = mem_calloc(d->vocab.n, sizeof(*sorted));
	int r = sorted != NULL ? 0 : -1;

	for (uint32_t i = 0; r == 0 && i < d->vocab.n; i++)
		sorted[i] = &d->vocab.entry[i];
	if (r == 0)
		qsort(sorted, d->vocab.n, sizeof(*sorted), by_rank);
	for (uint32_t i = 0; r == 0 && i < d->vocab.n; i++)
		r = cuts(d, sorted[i]);
	mem_free(sorted);
	return r < 0 ? err_set(e, "not enough memory") : 0;
}

/* ---- the pattern --------------------------------------------------------------------------------------- */

static bool looks_like_name(const char *p)
{
	return p[strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_-.")] == 0;
}

static const struct named *find_pattern(const char *name)
{
	size_t n = strlen(name);

	if (n > 5 && strcmp(name + n - 5, "_base") == 0)	/* tiktoken's own names */
		n -= 5;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		if (strlen(named[i].name) == n && memcmp(named[i].name, name, n) == 0)
			return &named[i];
	}
	return NULL;
}

static int take_pattern(struct draft *d, const struct tok_source *src, const struct named **which, struct err *e)
{
	const char *p = src->pattern;

	*which = NULL;
	if (p == NULL || *p == 0)
		return err_set(e, "%s: a rank file needs a pattern: cl100k, o200k, kimi, gpt2 or a regular expression",
			       src->name ? src->name : "");
	*which = find_pattern(p);
	if (*which == NULL && looks_like_name(p))
		return err_set(e, "there is no pattern \"%.60s\"; there are cl100k, o200k, kimi and gpt2, and any regular "
			       "expression", p);
	d->split[0] = (struct split_step){ .kind = STEP_REGEX, .behaviour = SPLIT_ISOLATED,
					   .pattern = span_str(*which ? (*which)->pattern : p) };
	d->n_split = 1;
	d->has_split = true;
	return 0;
}

static int add_reserved(struct draft *d, struct err *e)
{
	char name[40];
	token_id first = d->vocab.n, id;
	char *kept;

	for (uint32_t i = 0; i < KIMI_RESERVED; i++) {
		struct draft_added t = { .id = first + i, .special = true };
		int n = snprintf(name, sizeof(name), "<|reserved_token_%u|>", first + i);

		if (vocab_has_id(&d->added, first + i))
			continue;
		if ((kept = draft_keep(d, name, (size_t)n)) == NULL)
			return err_set(e, "not enough memory");
		t.content = span_of(kept, (size_t)n);
		if (draft_add(d, &t, true, &id, e) < 0)
			return -1;
	}
	return 0;
}

/* <config> may be NULL. */
int tok_tiktoken_read(struct draft *d, const struct tok_source *src, const struct jdoc *config, struct err *e)
{
	const struct named *which;

	d->byte_level = d->decoded = true;
	d->spec.ignore_merges = d->spec.equal_ranks = true;
	if (take_pattern(d, src, &which, e) < 0 || read_lines(d, src, e) < 0 || find_merges(d, e) < 0)
		return -1;
	if (config != NULL && tok_config_ranks(d, config, e) < 0)
		return -1;
	return which != NULL && strcmp(which->name, "kimi") == 0 ? add_reserved(d, e) : 0;
}
