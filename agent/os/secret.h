/* secret.h - files that hold a secret, and the token of the log feed. */
#ifndef KVROUTE_OS_SECRET_H
#define KVROUTE_OS_SECRET_H

#include "agent/base/err.h"
#include "agent/base/types.h"

struct identity;

/* Open <path> for reading without waiting for the writer of a pipe. A link is followed only if it
 * belongs to us (identity_owns()) or <as> is NULL: the owner of a link chooses which file is read.
 * -1: errno, EPERM for such a link. */
int secret_open(const char *path, const struct identity *as);

/* 0: <fd> is a regular file that is closed to its group and to others, of <*bytes>, and belongs to
 * us; <as> NULL: to anyone. -1: <e>, which calls it "the <what> file <path>". */
int secret_check(int fd, const char *what, const char *path, const struct identity *as, int64_t *bytes, struct err *e);

#define TOKEN_MIN	16
#define TOKEN_MAX	128

/* What a log line must carry to be believed. */
struct token {
	char text[TOKEN_MAX];
	size_t n;		/* 0: none is asked for */
};

/* One word of TOKEN_MIN to TOKEN_MAX letters, digits and "._~+/=-", which mean nothing to JSON nor to
 * HAProxy's configuration; a new line may follow. "" as <path>: none. -1: <e>; it never has a byte of
 * the file. */
int token_read(struct token *t, const char *path, const struct identity *as, struct err *e);

/* Equal? The time tells nothing but the length. */
bool token_same(const struct token *t, struct span given);

#endif
