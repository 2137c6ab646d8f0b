/* draft.h - a tokenizer while its files are read: what tokenizer_json.c, tiktoken.c, tekken.c and tokenizer_config.c fill, and
 * tok_load() builds from.
 *
 * Strings are borrowed from the readers' documents, which live until it is built; what none of them holds is kept by
 * draft_keep(). */
#ifndef KVROUTE_TOK_FILE_DRAFT_H
#define KVROUTE_TOK_FILE_DRAFT_H

#include "agent/base/vec.h"
#include "agent/tok/added.h"
#include "agent/base/json_doc.h"
#include "agent/tok/normal.h"
#include "agent/tok/split/split.h"
#include "agent/tok/tok.h"
#include "agent/tok/file/vocab.h"

#define DRAFT_STEPS_MAX		32u
#define DRAFT_ADDED_MAX		65536u
#define DRAFT_AROUND_MAX	64u	/* ids in front, and behind */

/* An added token as it is listed; <normalized> decides which of two searches it belongs to. */
struct draft_added {
	struct span content;
	token_id id;
	bool single_word, lstrip, rstrip, normalized, special;
	bool hidden;		/* not looked for in any text: only tok_id() knows it */
	bool composes;		/* see added.h */
};

struct draft_kept;

struct draft {
	struct vocab vocab;	/* contents as the file has them */
	bool byte_level;	/* and they are written in ByteLevel's alphabet */
	bool decoded;		/* they are bytes already (rank files, tekken.json) */
	struct bpe_spec spec;	/* the options; bytes, tokens and merges are these: */
	uint8_t *bytes;
	struct bpe_token *tokens;
	VEC(struct bpe_merge) merges;

	bool has_normal, has_split;
	struct normal_step normal[DRAFT_STEPS_MAX];
	struct split_step split[DRAFT_STEPS_MAX];
	uint32_t n_normal, n_split;

	/* In the order in which they are searched among equals: special ones first. See draft_add(). */
	VEC(struct draft_added) special, plain;
	struct vocab added;		/* contents of all of them, as they got their ids */
	VEC(struct draft_added) latest;	/* by the index there: the flags that count */

	token_id before[DRAFT_AROUND_MAX], behind[DRAFT_AROUND_MAX];
	uint32_t n_before, n_behind;
	uint8_t dropped[32];		/* a bit for each byte that has no token, see draft_spec() */
	struct draft_kept *kept;
};

void draft_fini(struct draft *d);

/* A copy that lives as long as <d>. NULL: no memory. */
char *draft_keep(struct draft *d, const void *p, size_t n);

int draft_merge(struct draft *d, struct bpe_merge m);	/* the next by rank; -1: no memory */

/* Add a token as tokenizers' AddedVocabulary does: its id is that of a token with its content, or the next one that is free;
 * <t>->id is not looked at. <given>: it is, for rank files. *id: what it got. -1 and <e>: no memory, too many. */
int draft_add(struct draft *d, const struct draft_added *t, bool given, token_id *id, struct err *e);

/* The id of an added token or vocabulary entry; BPE_NO_ID. */
token_id draft_id(const struct draft *d, struct span content);

/* The vocabulary into <spec>: bytes, tokens, byte_id; and which bytes are dropped. -1 and <e>. */
int draft_spec(struct draft *d, struct err *e);

/* The readers. -1 and <e>. The document lives as long as <d> needs it. */
bool tok_json_is_raw(const struct json_node *v);	/* a json_doc_raw: "vocab" and "merges" */
int tok_json_read(struct draft *d, struct json_doc *doc, struct err *e);
int tok_json_steps(struct draft *d, const struct json_doc *doc, const struct json_node *normal, const struct json_node *split,
		   struct err *e);
int tok_json_around(struct draft *d, const struct json_doc *doc, const struct json_node *post, struct err *e);
int tok_json_added(struct draft *d, const struct json_doc *doc, const struct json_node *tokens, struct err *e);
int tok_tiktoken_read(struct draft *d, const struct tok_source *src, const struct json_doc *config, struct err *e);
int tok_tekken_read(struct draft *d, struct json_doc *doc, struct err *e);
bool tok_tekken_is(const struct json_doc *doc);	/* whether this is a tekken.json, good or bad */

/* Files that are known and not understood: -1 and one sentence in <e> that says what the file is and what to use in its place. 0:
 * none of those. */
int tok_kind_check(const struct tok_source *src, struct err *e);		/* by its first bytes */
int tok_kind_json(const struct json_doc *doc, struct err *e);		/* by its members */

/* tokenizer_config.json: over a tokenizer.json; and what a rank file has of it. */
int tok_config_read(struct draft *d, const struct json_doc *doc, struct err *e);
int tok_config_ranks(struct draft *d, const struct json_doc *doc, struct err *e);

/* An added token's object; without <special> the flags have Python's defaults. */
int tok_json_token(const struct json_doc *doc, const struct json_node *v, const char *keys, bool all, struct draft_added *t,
		   struct err *e);

#endif
