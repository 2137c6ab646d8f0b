/* tok.h - a model's tokenizer: text into the very ids its engine will see.
 *
 *   text -> added tokens cut out -> normal -> split -> bpe -> ids, with BOS and EOS around where the file says so
 *
 * Loaded from tokenizer.json (BPE, byte-level or with byte_fallback), from a tiktoken rank file, or from Mistral's tekken.json.
 * What the file asks for and is not known here is refused when it is loaded, with its place and name; nothing is approximated.
 * A file of another kind (SentencePiece, WordPiece, ...) is refused by one sentence that says what to use in its place.
 * A struct tok is immutable and shared by threads (counted references); a scratch belongs to one thread.
 *
 * Text is bytes. Bad UTF-8 counts as U+FFFD, one for each maximal bad part (Unicode 15, 3.9), as everywhere in the agent. */
#ifndef KVROUTE_TOK_TOK_H
#define KVROUTE_TOK_TOK_H

#include "agent/tok/bpe/bpe.h"
#include "agent/base/hash.h"
#include "agent/tok/part.h"

struct tok;
struct tok_scratch;

enum tok_normalizer { TOK_NORMALIZER_AUTO, TOK_NORMALIZER_NONE, TOK_NORMALIZER_NFC };	/* AUTO: as the pattern's name says */

/* Where a tokenizer comes from. Files are read by the caller: this module does no I/O. */
struct tok_source {
	struct span file;		/* the text of tokenizer.json or tekken.json, or a tiktoken rank file */
	struct span config;		/* tokenizer_config.json; n == 0: none */
	const char *name, *config_name;	/* of the files, for errors */
	const char *pattern;		/* tiktoken only: "cl100k", "o200k", "kimi", "qwen", "gpt2", or a regular expression */
	enum tok_normalizer normalizer;	/* tiktoken only: of the whole text, before added tokens are looked for in it */
};

/* NULL and <e> filled (file, line, column; which part, which name). */
struct tok *tok_load(const struct tok_source *src, struct err *e);

/* The same from a compiled image (tok_image.h keeps it in a file). */
struct tok *tok_ref(struct tok *t);
void tok_unref(struct tok *t);
size_t tok_bytes(const struct tok *t);		/* memory it holds */
uint64_t tok_fingerprint(const struct tok *t);	/* of file and configuration: two that are equal give equal ids */

struct tok_scratch *tok_scratch_new(void);
size_t tok_scratch_bytes(const struct tok_scratch *c);	/* memory it holds */
/* What may still be encoded with <c>, and what that is charged to. At first and by default without a bound; lives as long as <c>. */
struct work_left *tok_scratch_work(struct tok_scratch *c);
void tok_scratch_free(struct tok_scratch *c);	/* wipes it */

enum {
	TOK_SPECIAL = 1,	/* add what the post-processor adds (BOS, EOS): add_special_tokens=True */
};

/* Append the ids of <text>. 0, or -1: no memory, or PCRE2 gave up: <out> is as it was. TOK_SPENT: the work of <c> is used up, and
 * <out> has ids of a beginning, or none. */
#define TOK_SPENT 1
int tok_encode(const struct tok *t, struct tok_scratch *c, struct span text, unsigned flags, struct ids *out);

/* ---- the same in parts: what a cache of segments needs -------------------------------------- */

/* The next added token at or behind <from>, the end of the one before. A segment is what lies between two; it may be encoded on
 * its own when tok_segments() says so. Only tokens that are looked for in raw text: others are the segment's business. */
struct tok_cut {
	size_t at, n;		/* the bytes of the text it takes (white space that it strips included) */
	token_id id;
	size_t looks;		/* places looked at on the way to it, or to the end: what the search cost */
};
bool tok_next_cut(const struct tok *t, struct span text, size_t from, struct tok_cut *cut);

/* How many bytes at the end of <text> could still become part of an added token with what follows; <text> is what lies behind the
 * last cut, or more. */
size_t tok_cut_tail(const struct tok *t, struct span text);

struct tok_segments {
	bool independent;	/* a segment's ids do not depend on what stands around it */
	bool first_differs;	/* but for the first one of the text, which may differ */
	bool begin_differs;	/* a chunk that is not the first of its segment may differ (PART_INSIDE) */
	bool streams;		/* a segment may be encoded as it comes */
	unsigned places;	/* inside a segment: where it may be cut in two that are encoded on their own, chunk_places() */
};
struct tok_segments tok_segments(const struct tok *t);

/* The ids of one segment, or of a chunk of one: no added token is looked for. */
int tok_encode_segment(const struct tok *t, struct tok_scratch *c, struct span text, enum part part, struct ids *out);

/* The ids in front of and behind a text with TOK_SPECIAL; borrowed from <t>. */
struct ids tok_prefix(const struct tok *t);
struct ids tok_suffix(const struct tok *t);

/* Whether no text is ever a special token, whatever it looks like (tekken.json): only tok_id() knows them. */
bool tok_is_plain(const struct tok *t);

/* Return whether <id> is of an added token. O(log tokens), and for most ids one comparison. */
bool tok_is_added(const struct tok *t, token_id id);

/* The id of the added token with exactly this content; BPE_NO_ID: none. Looks at each of them. */
token_id tok_id(const struct tok *t, struct span content);

#endif
