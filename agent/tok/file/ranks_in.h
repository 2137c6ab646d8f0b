/* ranks_in.h - vocabularies without a list of merges, whose token ranks define them: tiktoken's
 * rank files and Mistral's tekken.json. */
#ifndef KVROUTE_TOK_FILE_RANKS_IN_H
#define KVROUTE_TOK_FILE_RANKS_IN_H

#include "agent/tok/file/draft.h"

#define RANKS_TOKEN_MAX	4096u	/* bytes of a token */

/* Decode the base64 (RFC 4648, padded) of p[0 .. n) to <out>, which has room for n / 4 * 3 bytes.
 * Returns the number of bytes, or -1 if it is no base64. */
ssize_t ranks_base64(const char *p, size_t n, char *out);

/* Set the options of <d> for merging bytes by rank, before its vocabulary is read. */
void ranks_begin(struct draft *d);

/* Fill the merges of <d> from its vocabulary, about two per token. Returns -1 and fills <e> if
 * there is no memory. */
int ranks_merges(struct draft *d, struct err *e);

#endif
