/* safe_path.h - a regular file beneath a directory, for reading, and nothing else.
 *
 *      models_dir/  Qwen3/  tokenizer.json -> ../blobs/ab12      followed: it stays in models_dir
 *                           other.json     -> /etc/passwd        refused, as is each other way out
 *
 * <path> comes from somebody who is not trusted: it may be absolute, hold "..", and lead over links. */
#ifndef KVROUTE_OS_SAFE_PATH_H
#define KVROUTE_OS_SAFE_PATH_H

#include "agent/base/types.h"

#define SAFE_PATH_MAX	1023	/* bytes of a path, with what is left of it when a link has been put in */
#define SAFE_PATH_DEPTH_MAX	32	/* directories within each other */
#define SAFE_PATH_LINKS_MAX	16

/* A descriptor for reading of a regular file, or -errno: -EXDEV when <path> leads out of <dir>, -EBADFD when it is no regular
 * file (which is not opened, so no device does anything and no pipe waits). */
int safe_path_open(int dir, const char *path);

/* The directory that the last part of <path> is in, and which <*name> then is (a link there is not followed): a descriptor, or
 * -errno as above. */
int safe_path_parent(int dir, const char *path, const char **name);

/* What a negative answer says, for a sentence. */
const char *safe_path_error(int rc);

#endif
