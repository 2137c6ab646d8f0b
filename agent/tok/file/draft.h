/* draft.h - a tokenizer while its files are read: tokenizer_json.c, tiktoken.c, tekken.c,
 * sentencepiece.c and tokenizer_config.c fill it, and tok_load() builds from it.
 *
 * Strings are borrowed from the readers' documents, which live until it is built; draft_keep()
 * keeps others. */
#ifndef KVROUTE_TOK_FILE_DRAFT_H
#define KVROUTE_TOK_FILE_DRAFT_H

#include "agent/base/vec.h"
#include "agent/tok/added.h"
#include "agent/base/json_doc.h"
#include "agent/tok/normal.h"
#include "agent/tok/split/split.h"
#include "agent/tok/tok.h"
#include "agent/tok/file/vocab.h"
#include "agent/tok/lexicon/lexicon.h"

#define DRAFT_STEPS_MAX		32u
#define DRAFT_ADDED_MAX		65536u
#define DRAFT_AROUND_MAX	64u	/* ids before and after a text */

/* An added token as listed; <normalized> decides which of two searches it belongs to. */
struct draft_added {
	struct span content;
	token_id id;
	bool single_word, lstrip, rstrip, normalized, special;
	bool hidden;		/* never searched in text: only tok_id() knows it */
	bool composes;		/* see added.h */
};

struct draft_kept;

/* BertNormalizer's options, which tokenizer_config.json may contradict. */
struct draft_bert {
	bool is, ideographs, lowercase, strips;
};

struct draft_score {
	double score;
	bool hidden;		/* text is never that entry */
};

struct draft {
	struct vocab vocab;	/* contents as in the file */
	bool byte_level;	/* written in ByteLevel's alphabet */
	bool decoded;		/* raw bytes already (rank files, tekken.json) */
	struct span suffix;	/* end_of_word_suffix, in the vocabulary SPLIT_END; n == 0: none */
	bool lexicon;		/* <words> instead of <spec> */
	struct lexicon_spec words;	/* options; <tokens> follow */
	VEC(struct draft_score) scores;	/* of Unigram, by entry of <vocab> */
	VEC(uint32_t) ranks;	/* of <merges>; n == 0: their places */
	struct bpe_spec spec;	/* options; <bytes>, <tokens> and <merges> follow */
	uint8_t *bytes;
	struct bpe_token *tokens;
	VEC(struct bpe_merge) merges;

	struct draft_bert bert;
	bool has_normal, has_split;
	struct normal_step normal[DRAFT_STEPS_MAX];
	struct split_step split[DRAFT_STEPS_MAX];
	uint32_t n_normal, n_split;

	/* In the order of precedence: special ones first. See draft_add(). */
	VEC(struct draft_added) special, plain;
	struct vocab added;		/* contents of all of them, in order of insertion */
	VEC(struct draft_added) latest;	/* by the index in <added>: the flags that count */

	token_id before[DRAFT_AROUND_MAX], after[DRAFT_AROUND_MAX];
	uint32_t n_before, n_after;
	uint8_t dropped[32];		/* one bit for each byte without a token, see draft_bpe() */
	struct draft_kept *kept;
};

void draft_fini(struct draft *d);

/* Copy bytes to memory that lives as long as <d>. Returns NULL if there is no memory. */
char *draft_keep(struct draft *d, const void *p, size_t n);

int draft_merge(struct draft *d, struct bpe_merge m);	/* adds the next by rank; -1: no memory */

/* Add a token as tokenizers' AddedVocabulary does. Its id is that of a token with its content, or
 * the next free one; <t>->id counts only if <given>, for rank files. *id: its id. Returns -1 and
 * fills <e> if there is no memory or there are too many. */
int draft_add(struct draft *d, const struct draft_added *t, bool given, token_id *id,
    struct err *e);

/* Tell if <content> ends in the suffix. */
bool draft_ends(const struct draft *d, struct span content);

/* Return the id of an added token or vocabulary entry, or BPE_NO_ID. */
token_id draft_id(const struct draft *d, struct span content);

/* Make the model of the vocabulary: draft_lexicon() if <lexicon>. draft_bpe() also notes dropped
 * bytes. Return NULL and fill <e> on failure. */
struct bpe *draft_bpe(struct draft *d, struct err *e);
struct lexicon *draft_lexicon(struct draft *d, struct err *e);

/* The readers. Return -1 and fill <e> on failure. The document must outlive <d>. */
bool tok_json_is_raw(const struct json_node *v);	/* a json_doc_raw: "vocab" and "merges" */
int tok_json_vocab(struct draft *d, struct json_doc *doc, const struct json_node *model,
    struct err *e);
int tok_json_wordpiece(struct draft *d, struct json_doc *doc, const struct json_node *model,
    struct err *e);
int tok_json_unigram(struct draft *d, struct json_doc *doc, const struct json_node *model,
    struct err *e);
/* a member that tok_json_is_raw() kept raw */
const struct json_node *tok_json_raw(const struct json_doc *doc, const struct json_node *model,
    const char *key, struct err *e);
int tok_json_read(struct draft *d, struct json_doc *doc, struct err *e);
int tok_json_steps(struct draft *d, const struct json_doc *doc, const struct json_node *normal,
    const struct json_node *split, struct err *e);
int tok_json_around(struct draft *d, const struct json_doc *doc, const struct json_node *post,
    struct err *e);
int tok_json_added(struct draft *d, const struct json_doc *doc, const struct json_node *tokens,
    struct err *e);
int tok_tiktoken_read(struct draft *d, const struct tok_source *src, const struct json_doc *config,
    struct err *e);
int tok_tekken_read(struct draft *d, struct json_doc *doc, struct err *e);
/* SentencePiece's model: its kind by the first bytes, 0: it is none; then all of it. */
uint64_t tok_spm_type(struct span file);
enum { TOK_SPM_UNIGRAM = 1, TOK_SPM_BPE = 2 };
int tok_spm_read(struct draft *d, struct span file, struct err *e);
bool tok_tekken_is(const struct json_doc *doc);	/* tells if this is a tekken.json, good or bad */

/* Known files that are not supported: return -1 and one sentence in <e> with what the file is and
 * what to use instead; otherwise 0. */
int tok_kind_check(const struct tok_source *src, struct err *e);		/* by its first bytes */
int tok_kind_json(const struct json_doc *doc, struct err *e);		/* by its members */

/* tokenizer_config.json: on top of a tokenizer.json; and for a rank file. */
int tok_config_read(struct draft *d, const struct json_doc *doc, struct err *e);
int tok_config_ranks(struct draft *d, const struct json_doc *doc, struct err *e);

/* Read an added token's object; without <special> the flags have Python's defaults. */
int tok_json_token(const struct json_doc *doc, const struct json_node *v, const char *keys,
    bool all, struct draft_added *t, struct err *e);

#endif
