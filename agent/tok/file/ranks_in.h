/* ranks_in.h - a vocabulary without a list of merges: a token's rank says when it is made. For tiktoken's rank files and Mistral's
 * tekken.json. */
#ifndef KVROUTE_TOK_FILE_RANKS_IN_H
#define KVROUTE_TOK_FILE_RANKS_IN_H

#include "agent/tok/file/draft.h"

#define RANKS_TOKEN_MAX	4096u	/* bytes of a token */

/* Write what the base64 of p[0 .. n) stands for (RFC 4648, padded) to <out>, which has room for n / 4 * 3 bytes. Returns the
 * bytes written; -1 if it is no base64. */
ssize_t ranks_base64(const char *p, size_t n, char *out);

/* Set the options of <d> for bytes that are merged by rank, before its vocabulary is read. */
void ranks_begin(struct draft *d);

/* Fill the merges of <d> from its vocabulary. -1 and <e>: no memory. About two merges for each token. */
int ranks_merges(struct draft *d, struct err *e);

#endif
