/* tokfile_in.h - a tokenizer as it was built, in a file beside what it was built from: the next start reads that instead.
 *
 *      | "kvroute tok", version of the agent | tok_image.h |
 *
 * What is refused here is as if it were not there, and is written anew: cut short, damaged, of other files, of another version,
 * or one that somebody else could have put there. */
#ifndef KVROUTE_LOOP_TOKFILE_IN_H
#define KVROUTE_LOOP_TOKFILE_IN_H

#include "agent/base/err.h"
#include "agent/tok/tok_image.h"

#define TOKFILE_SUFFIX	".kvroute"
#define TOKFILE_MAX	(1u << 30)	/* bytes; four times the largest file a tokenizer is read from */

/* The tokenizer in the open file <fd>, which stays open. NULL: <e>. Its bytes are read, not mapped: a file that somebody cuts
 * while it is mapped would end the process at the next look. About 1 ms for each 4 MB. */
struct tok *tokfile_read(int fd, struct tok_image_key key, struct err *e);

/* <t> into the file <name> in the open directory <dir>, whole or not at all; mode 0640. -1: errno. */
int tokfile_write(int dir, const char *name, const struct tok *t, struct tok_image_key key);

#endif
