/* read.h - read whole files and standard input. */
#ifndef KVROUTE_CTL_READ_H
#define KVROUTE_CTL_READ_H

#include "agent/base/buf.h"

/* Append all of <fd> to <to>, which the caller frees in every case. Returns 0, or -1 with errno:
 * EFBIG if <to> would have more than <most> bytes. After 0, to->p is not NULL. */
int ctl_read(int fd, size_t most, struct buf *to);
int ctl_read_file(const char *path, size_t most, struct buf *to);

#endif
