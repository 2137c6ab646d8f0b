/* read.c - read all of a file or of standard input, up to a limit. What growth leaves is wiped,
 * because most of it is prompt text. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/ctl/read.h"

#define READ_ROOM	(1u << 16)

int ctl_read(int fd, size_t most, struct buf *to)
{
	ssize_t got;

	do {
		if (!buf_room(to, READ_ROOM)) {
			errno = ENOMEM;
			return -1;
		}
		got = read(fd, to->p + to->n, to->cap - to->n);
		if (got > 0)
			buf_wrote(to, (size_t)got);
		if (to->n > most) {
			errno = EFBIG;
			return -1;
		}
	} while (got > 0 || (got < 0 && errno == EINTR));
	return got < 0 ? -1 : 0;
}

int ctl_read_file(const char *path, size_t most, struct buf *to)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc, why;

	if (fd < 0)
		return -1;
	rc = ctl_read(fd, most, to);
	why = errno;
	close(fd);
	errno = why;
	return rc;
}
