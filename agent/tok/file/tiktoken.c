/* tiktoken.c - read a tiktoken rank file: "base64-of-the-bytes rank" on each line; the pattern is
 * not in the file. ranks.c defines how it merges.
 *
 * Rank files have no special tokens. They come from tokenizer_config.json, with the ids there.
 * Models whose own code names more have them by the name of the pattern: Kimi's
 * (tokenization_kimi.py) the 256 ids after the ranks that are not named there, Qwen's first one
 * (tokenization_qwen.py) its 208.
 *
 * With NFC, such code normalizes the whole text before it searches special tokens. For a token
 * followed by a mark that means <composes> of added.h. */
#include "agent/tok/file/draft.h"

#include <stdio.h>

#include "agent/base/utf8.h"
#include "agent/tok/file/ranks_in.h"
#include "agent/tok/unicode/unicode.h"

#define KIMI_RESERVED	256u
#define QWEN_EXTRAS	205u

#define ENDINGS	"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER	"\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER	"\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define SPACES	"\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define NO_HAN	"&&[^\\p{Han}]"

/* As in tiktoken and in the models' own files (which write cl100k with possessive quantifiers, to
 * the same effect). */
static const struct named {
	const char *name, *pattern;
	bool nfc;
} named[] = {
	{ "cl100k",
	    ENDINGS
	    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
	    false },
	{ "o200k",
	    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" ENDINGS "?|"
	    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]*" ENDINGS "?|"
	    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
	    false },
	{ "kimi",
	    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[" UPPER NO_HAN "]*[" LOWER NO_HAN "]+" ENDINGS "?|"
	    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER NO_HAN "]+[" LOWER NO_HAN "]*" ENDINGS "?|"
	    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
	    false },
	{ "qwen",
	    ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
	    true },
	{ "gpt2",
	    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
	    false },
};

struct lines {
	const struct tok_source *src;
	const char *p, *end, *line;	/* <line>: the start of the current one */
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
	const char *blank = memchr(l->p, ' ', (size_t)(l->end - l->p)),
		   *eol = memchr(l->p, '\n', (size_t)(l->end - l->p));
	token_id rank = 0;
	ssize_t n;

	if (blank == NULL || (eol != NULL && eol < blank))
		return refuse(l, l->p, "a token in base64, a blank and its rank are expected");
	if ((n = ranks_base64(l->p, (size_t)(blank - l->p), out)) <= 0 || n > (ssize_t)RANKS_TOKEN_MAX)
		return refuse(l, l->p, "this is not base64 of 1 to 4096 bytes");
	l->p = blank + 1;
	if (read_rank(l, &rank) < 0)
		return -1;
	if (l->p < l->end && *l->p == '\r')
		l->p++;
	if (l->p < l->end && *l->p != '\n')
		return refuse(l, l->p, "something stands after the rank");
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
	/* decoded tokens are shorter than their lines, so <all> has room */
	for (out = all; l.p < l.end; l.p++) {
		l.number++;
		l.line = l.p;
		if (*l.p == '\n')
			continue;
		if ((n = read_line(d, &l, out)) < 0)
			return -1;
		out += n;
	}
	return d->vocab.entries.n > 0 ? 0 : err_set(e, "there is no token in this file");
}

/* ---- the pattern ----------------------------------------------------------------------------- */

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

static int take_pattern(struct draft *d, const struct tok_source *src, const struct named **which,
    struct err *e)
{
	const char *p = src->pattern;

	*which = NULL;
	if (p == NULL || *p == 0)
		return err_set(e,
		    "%s: a rank file needs a pattern: cl100k, o200k, kimi, qwen, gpt2 or a regular expression",
		    src->name ? src->name : "");
	*which = find_pattern(p);
	if (*which == NULL && looks_like_name(p))
		return err_set(e,
		    "there is no pattern \"%.60s\"; there are cl100k, o200k, kimi, qwen and gpt2, and any "
		    "regular expression",
		    p);
	d->split[0] = (struct split_step){ .kind = STEP_REGEX, .behaviour = SPLIT_ISOLATED,
					   .pattern = span_str(*which ? (*which)->pattern : p) };
	d->n_split = 1;
	d->has_split = true;
	return 0;
}

/* ---- special tokens that the model's own code has -------------------------------------------- */

/* Add a token with <id>, unless tokenizer_config.json has given the id to another. */
static int add_own(struct draft *d, const char *name, token_id id, struct err *e)
{
	struct draft_added t = { .id = id, .special = true };
	char *kept;

	if (vocab_has_id(&d->added, id) || vocab_find(&d->added, span_str(name)) != VOCAB_NONE)
		return 0;
	if ((kept = draft_keep(d, name, strlen(name))) == NULL)
		return err_set(e, "not enough memory");
	t.content = span_of(kept, strlen(name));
	return draft_add(d, &t, true, &id, e);
}

static int add_reserved(struct draft *d, struct err *e)
{
	char name[40];
	token_id first = d->vocab.entries.n;

	for (uint32_t i = 0; i < KIMI_RESERVED; i++) {
		snprintf(name, sizeof(name), "<|reserved_token_%u|>", first + i);
		if (add_own(d, name, first + i, e) < 0)
			return -1;
	}
	return 0;
}

static int add_qwen(struct draft *d, struct err *e)
{
	static const char *const names[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" };
	char name[40];
	token_id id = d->vocab.entries.n;

	for (uint32_t i = 0; i < 3; i++) {
		if (add_own(d, names[i], id++, e) < 0)
			return -1;
	}
	for (uint32_t i = 0; i < QWEN_EXTRAS; i++) {
		snprintf(name, sizeof(name), "<|extra_%u|>", i);
		if (add_own(d, name, id++, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- NFC ------------------------------------------------------------------------------------- */

/* Tell if NFC leaves each character of <s> unchanged, whatever precedes it, and only a following
 * character that composes with the last one changes that. So the last must not decompose. */
static bool plain(struct span s)
{
	uint32_t cp = 0;

	for (size_t i = 0; i < s.n; ) {
		i += utf8_get((const uint8_t *)s.p + i, s.n - i, &cp);
		if (uc_kind(cp).ccc != 0 || (uc_kind(cp).bits & UC_NFC) != 0)
			return false;
	}
	return (uc_kind(cp).bits & UC_NFD) == 0;
}

static int take_nfc(struct draft *d, struct err *e)
{
	for (uint32_t i = 0; i < d->added.entries.n; i++) {
		struct span s = d->latest.p[i].content;

		if (!plain(s))
			return err_set(e,
			    "the special token \"%.*s\" has a character that NFC may change: with normalizer nfc "
			    "that is not understood",
			    (int)(s.n < 60 ? s.n : 60), s.p);
		d->latest.p[i].composes = true;
	}
	d->normal[0] = (struct normal_step){ .kind = NORMAL_NFC };
	d->n_normal = 1;
	d->has_normal = true;
	return 0;
}

/* <config> may be NULL. */
int tok_tiktoken_read(struct draft *d, const struct tok_source *src, const struct json_doc *config,
    struct err *e)
{
	const struct named *which;
	bool nfc = src->normalizer == TOK_NORMALIZER_NFC;
	int r = 0;

	ranks_begin(d);
	if (take_pattern(d, src, &which, e) < 0 || read_lines(d, src, e) < 0 || ranks_merges(d, e) < 0)
		return -1;
	if (config != NULL && tok_config_ranks(d, config, e) < 0)
		return -1;
	if (which != NULL && strcmp(which->name, "kimi") == 0)
		r = add_reserved(d, e);
	else if (which != NULL && strcmp(which->name, "qwen") == 0)
		r = add_qwen(d, e);
	if (r == 0 && (nfc || (src->normalizer == TOK_NORMALIZER_AUTO && which != NULL && which->nfc)))
		r = take_nfc(d, e);
	return r;
}
