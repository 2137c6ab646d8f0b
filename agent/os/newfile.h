/* newfile.h - a file that is whole or not there: written under a name of this process, synced, and renamed. */
#ifndef KVROUTE_OS_NEWFILE_H
#define KVROUTE_OS_NEWFILE_H

#include "agent/base/types.h"

#define NEWFILE_NAME_MAX	320	/* of the name under which it is written, with its NUL */

/* The name that <name> is written under. */
void newfile_name(const char *name, char tmp[NEWFILE_NAME_MAX]);

/* Remove what processes left in the open directory <dir> that ended while they wrote <name>. */
void newfile_clean(int dir, const char *name);

/* What was written to <fd> under the name <tmp> becomes <name>, whole, when <rc> is 0; else, or when that fails, it goes away and
 * -1: errno, that of <rc> where it was not 0. Closes <fd>. */
int newfile_end(int dir, int fd, const char *tmp, const char *name, int rc);

/* All <n> <parts>, one behind the other, into <name> in <dir>. -1: errno, and what stood there still does. */
int newfile_write(int dir, const char *name, unsigned mode, const struct span *parts, size_t n);

/* <n> bytes to <fd>, or from it. -1: errno; EIO where the file ends before. */
int fd_write_all(int fd, const void *bytes, size_t n);
int fd_read_all(int fd, void *to, size_t n);

/* Syncs <fd> if <rc> is 0, and closes it. Returns 0, or -1 with errno: that of <rc> if it was not
 * 0, else that of the first call that failed. */
int fd_end(int fd, int rc);

#endif
