/* tokfile_in.h - the file of a compiled tokenizer, beside its source files, so that the next start
 * is faster.
 *
 *      | "kvroute tok", version of the agent | tok_image.h |
 *
 * A file that is rejected is treated as missing and written again: if it is truncated or damaged,
 * or belongs to other source files or another version, or if another user could have written it. */
#ifndef KVROUTE_LOOP_TOKFILE_IN_H
#define KVROUTE_LOOP_TOKFILE_IN_H

#include "agent/base/err.h"
#include "agent/tok/tok_image.h"

#define TOKFILE_SUFFIX	".kvroute"
#define TOKFILE_MAX	(1u << 30)	/* bytes; four times the largest source file */

/* Read the tokenizer from <fd>, which stays open. Returns NULL with <e> if it is rejected. The
 * bytes are read and not mapped, because a file that is truncated while it is mapped would end the
 * process. About 1 ms for each 4 MB. */
struct tok *tokfile_read(int fd, struct tok_image_key key, struct err *e);

/* Write <t> to the file <name> in the open directory <dir>, whole or not at all, with mode 0640.
 * Returns 0, or -1 with errno. */
int tokfile_write(int dir, const char *name, const struct tok *t, struct tok_image_key key);

#endif
