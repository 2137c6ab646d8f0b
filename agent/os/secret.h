/* secret.h - reading files that hold a secret, and the token of the log feed. */
#ifndef KVROUTE_OS_SECRET_H
#define KVROUTE_OS_SECRET_H

#include "agent/base/err.h"
#include "agent/base/types.h"

struct identity;

/* Open <path> for reading. Does not wait for the writer of a pipe. A link is followed only if
 * identity_owns() its owner or <as> is NULL, because the owner of a link chooses which file is
 * read. Returns a descriptor, or -1 with errno, which is EPERM for such a link. */
int secret_open(const char *path, const struct identity *as);

/* Check that <fd> is a regular file without rights for group and others that belongs to <as> (NULL:
 * to any user), and store its size in <*bytes>. Returns 0, or -1 with <e>, which calls it "the
 * <what> file <path>". */
int secret_check(int fd, const char *what, const char *path, const struct identity *as,
    int64_t *bytes, struct err *e);

/* Read the one line of the file <path>, of 1 to <cap> - 1 bytes, to <out>. A newline may follow.
 * Returns 0, or -1 with <e>, which never contains a byte of the file. */
int secret_read_line(const char *what, const char *path, const struct identity *as, char *out,
    size_t cap, struct err *e);

#define TOKEN_MIN	16
#define TOKEN_MAX	128

/* The token that a log line must carry to be accepted. */
struct token {
	char text[TOKEN_MAX];
	size_t n;		/* 0: no token is required */
};

/* Read one word of TOKEN_MIN to TOKEN_MAX letters, digits and "._~+/=-", which have no meaning in
 * JSON or HAProxy's configuration. A newline may follow. If <path> is "", the token is empty.
 * Returns 0, or -1 with <e>, which never contains a byte of the file. */
int token_read(struct token *t, const char *path, const struct identity *as, struct err *e);

/* Compare the token. The time depends only on the length. */
bool token_same(const struct token *t, struct span given);

#endif
