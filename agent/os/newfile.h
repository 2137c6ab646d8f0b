/* newfile.h - write a file so that readers see either all of it or the old one: write to a
 * temporary name, sync, rename. */
#ifndef KVROUTE_OS_NEWFILE_H
#define KVROUTE_OS_NEWFILE_H

#include "agent/base/types.h"

#define NEWFILE_NAME_MAX	320	/* of a temporary name, with its NUL */

/* Write the temporary name of <name> to <tmp>. It contains the id of this process. */
void newfile_name(const char *name, char tmp[NEWFILE_NAME_MAX]);

/* Remove temporary files of <name> in the open directory <dir> whose processes have ended. */
void newfile_clean(int dir, const char *name);

/* Finish the file that was written to <fd> under the name <tmp>. If <rc> is 0, sync it and rename
 * it to <name>; else, or if that fails, remove it. Closes <fd>. Returns 0, or -1 with errno: that
 * of <rc> if <rc> was not 0. */
int newfile_end(int dir, int fd, const char *tmp, const char *name, int rc);

/* Write the <n> <parts> in order to the file <name> in <dir>. Returns 0, or -1 with errno; then the
 * old file is unchanged. */
int newfile_write(int dir, const char *name, unsigned mode, const struct span *parts, size_t n);

/* Write or read exactly <n> bytes. Returns 0, or -1 with errno, which is EIO if the file is too
 * short. */
int fd_write_all(int fd, const void *bytes, size_t n);
int fd_read_all(int fd, void *to, size_t n);

/* Sync <fd> if <rc> is 0, and close it. Returns 0, or -1 with errno: that of <rc> if <rc> was not
 * 0, else that of the first call that failed. */
int fd_end(int fd, int rc);

#endif
