/* safe_path.h - open a regular file below a directory for reading, and nothing outside of it.
 *
 *      models_dir/  Qwen3/  tokenizer.json -> ../blobs/ab12    followed: it stays in models_dir
 *                           other.json     -> /etc/passwd      rejected, like any other way out
 *
 * <path> is not trusted: it may be absolute, contain "..", or lead through links. */
#ifndef KVROUTE_OS_SAFE_PATH_H
#define KVROUTE_OS_SAFE_PATH_H

#include "agent/base/types.h"

#define SAFE_PATH_MAX	1023	/* bytes of a path; also of a link's text and the rest of the path */
#define SAFE_PATH_DEPTH_MAX	32	/* nested directories */
#define SAFE_PATH_LINKS_MAX	16

/* Open the regular file <path> below <dir>. Returns a descriptor or -errno: -EXDEV if <path> leads
 * out of <dir>, -EBADFD if it is not a regular file. Such a file is not opened, so no device acts
 * and no pipe blocks. */
int safe_path_open(int dir, const char *path);

/* Open the directory that holds the last part of <path>, and point <*name> to that part, which is
 * not followed if it is a link. Returns a descriptor, or -errno as above. */
int safe_path_parent(int dir, const char *path, const char **name);

/* Returns the text of a negative result, for a sentence. */
const char *safe_path_error(int rc);

#endif
