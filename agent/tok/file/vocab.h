/* vocab.h - contents to ids while a tokenizer is loaded: about 200,000 entries, by their content in
 * the file.
 *
 * Contents are borrowed. Freed when the tokenizer is built, because encoding has its own tables
 * (bpe.h). */
#ifndef KVROUTE_TOK_FILE_VOCAB_H
#define KVROUTE_TOK_FILE_VOCAB_H

#include "agent/base/vec.h"
#include "agent/tok/bpe/bpe.h"

#define VOCAB_NONE	UINT32_MAX
#define VOCAB_ID_MAX	((1u << 24) - 1)	/* bpe.h's */

struct vocab_entry {
	uint64_t head;			/* the first 8 bytes, zero padded: avoids most reads of the content */
	const char *p;
	uint32_t n;
	token_id id;
};

struct vocab {			/* all zero at first */
	VEC(struct vocab_entry) entries;	/* in the order of vocab_add() */
	struct vocab_slot { uint32_t tag, index; } *slot;
	uint32_t mask;
	uint64_t *seen;			/* one bit for each id */
	token_id max_id;
};

void vocab_fini(struct vocab *v);
/* an index of <entries>, or VOCAB_NONE */
uint32_t vocab_find(const struct vocab *v, struct span content);
bool vocab_is(const struct vocab *v, uint32_t index, struct span content);

/* Returns 0; 1 if it exists already; -1 if there is no memory. <id> is at most VOCAB_ID_MAX. */
int vocab_add(struct vocab *v, struct span content, token_id id);
bool vocab_has_id(const struct vocab *v, token_id id);

#endif
