/* tok.h - a model's tokenizer: encode text to the ids that its engine sees.
 *
 *   text -> added tokens cut out -> normal -> split -> bpe -> ids; BOS and EOS if the file has them
 *
 * Loaded from tokenizer.json (BPE, byte-level or with byte_fallback; WordPiece; Unigram), from a
 * tiktoken rank file, from Mistral's tekken.json, or from a SentencePiece model of kind BPE or
 * Unigram.
 * Loading rejects a file that needs anything unknown, with its place and name; nothing is
 * approximated. A file of another kind (GGUF, ...) is rejected with one sentence that names what
 * to use instead. A struct tok is immutable and shared by threads (counted references); a
 * scratch belongs to one thread.
 *
 * Text is bytes. Bad UTF-8 counts as U+FFFD, one for each maximal bad part (Unicode 15, 3.9), as
 * everywhere in the agent. */
#ifndef KVROUTE_TOK_TOK_H
#define KVROUTE_TOK_TOK_H

#include "agent/tok/bpe/bpe.h"
#include "agent/base/hash.h"
#include "agent/tok/part.h"

struct tok;
struct tok_scratch;

/* AUTO: by the name of the pattern */
enum tok_normalizer { TOK_NORMALIZER_AUTO, TOK_NORMALIZER_NONE, TOK_NORMALIZER_NFC };

/* The source of a tokenizer. The caller reads files, because this module does no I/O. */
struct tok_source {
	struct span file;		/* the text of tokenizer.json or tekken.json, or a tiktoken rank file */
	struct span config;		/* tokenizer_config.json; n == 0: none */
	const char *name, *config_name;	/* file names for errors */
	/* tiktoken only: "cl100k", "o200k", "kimi", "qwen", "gpt2", or a regular expression */
	const char *pattern;
	/* tiktoken only: applied to the whole text before added tokens are searched */
	enum tok_normalizer normalizer;
};

/* Returns NULL and fills <e> (file, line, column, part and name) on failure. */
struct tok *tok_load(const struct tok_source *src, struct err *e);

/* Count a reference. tok_image.h makes the same tokenizer from a compiled image. */
struct tok *tok_ref(struct tok *t);
void tok_unref(struct tok *t);
size_t tok_bytes(const struct tok *t);		/* memory it holds */
/* of file and configuration; equal ones give equal ids */
uint64_t tok_fingerprint(const struct tok *t);

struct tok_scratch *tok_scratch_new(void);
size_t tok_scratch_bytes(const struct tok_scratch *c);	/* memory it holds */
/* Return the budget of <c>: the rest of it, charged by encoding. Unbounded by default. Lives as
 * long as <c>. */
struct work_left *tok_scratch_work(struct tok_scratch *c);
/* Wipe all text and ids. The caches of pieces stay allocated, because faulting their pages in takes
 * longer than a prompt. */
void tok_scratch_wipe(struct tok_scratch *c);
void tok_scratch_free(struct tok_scratch *c);	/* wipes it */

enum {
	TOK_SPECIAL = 1,	/* add the ids of the post-processor (BOS, EOS): add_special_tokens=True */
};

/* Append the ids of <text>. Returns 0; or -1 with <out> unchanged if there is no memory or PCRE2
 * gave up; or TOK_SPENT if the work of <c> is used up: <out> then has ids of the start, or none. */
#define TOK_SPENT 1
int tok_encode(const struct tok *t, struct tok_scratch *c, struct span text, unsigned flags,
    struct ids *out);

/* ---- the same in parts: what a cache of segments needs --------------------------------------- */

/* Find the next added token from <from> on, the end of the one before. A segment is the text
 * between two tokens; it may be encoded on its own if tok_segments() allows it. Finds tokens of raw
 * text only; others are found when a segment is encoded. */
struct tok_cut {
	size_t at, n;		/* its bytes, with white space that it strips */
	token_id id;
	size_t looks;		/* places checked up to it or to the end: the cost of the search */
};
bool tok_next_cut(const struct tok *t, struct span text, size_t from, struct tok_cut *cut);

/* Return the number of bytes at the end of <text> that, with later text, may become part of an
 * added token. <text> starts at the end of the last cut or before. */
size_t tok_cut_tail(const struct tok *t, struct span text);

struct tok_segments {
	bool independent;	/* the ids of a segment do not depend on text around it */
	bool first_differs;	/* except for the first one of the text */
	bool begin_differs;	/* a later chunk of a segment may differ (PART_INSIDE) */
	bool streams;		/* a segment may be encoded while it arrives */
	unsigned places;	/* places where a segment may be cut into chunks: chunk_places() */
};
struct tok_segments tok_segments(const struct tok *t);

/* Encode one segment, or a chunk of one, without a search for added tokens. */
int tok_encode_segment(const struct tok *t, struct tok_scratch *c, struct span text, enum part part,
    struct ids *out);

/* Return the ids before and after a text with TOK_SPECIAL; borrowed from <t>. */
struct ids tok_prefix(const struct tok *t);
struct ids tok_suffix(const struct tok *t);

/* Tell if no text is ever a special token (tekken.json): only tok_id() knows them. */
bool tok_is_plain(const struct tok *t);

/* Tell if <id> is of an added token. O(log tokens); one comparison for most ids. */
bool tok_is_added(const struct tok *t, token_id id);

/* Return the id of the added token with this content, or BPE_NO_ID. O(added tokens). */
token_id tok_id(const struct tok *t, struct span content);

#endif
