/* write_shim.c - what any program writes to sockets, call by call: for LD_PRELOAD, with the name of
 * a file of at least sizeof(struct writes) bytes in WRITES_FILE. Who maps that file, too, reads the
 * rows while the program runs:
 *
 *      n          rows taken so far; those above WRITES_MAX were not kept
 *      row[i]     the descriptor, the bytes that were to be written, and those that were (-errno: none; 0: not yet)
 */
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/tools/shim.h"

#define WRITES_MAX	65536u

struct row { int64_t fd, asked, done; };
struct writes { uint64_t n; struct row row[WRITES_MAX]; };

static struct writes *writes;

__attribute__((constructor)) static void begin(void)
{
	writes = shim_file("WRITES_FILE", sizeof(*writes));
}

/* Before the call, so that the row is there when the peer has the bytes. NULL: not a socket, or no
 * more room. */
static struct row *begun(int fd, size_t asked)
{
	int err = errno;
	struct row *r = NULL;
	struct stat st;
	uint64_t i;

	if (writes != NULL && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
		i = __atomic_fetch_add(&writes->n, 1, __ATOMIC_SEQ_CST);
		if (i < WRITES_MAX) {
			r = &writes->row[i];
			r->fd = fd;
			r->asked = (int64_t)asked;
		}
	}
	errno = err;
	return r;
}

static ssize_t ended(struct row *r, ssize_t done)
{
	if (r != NULL)
		__atomic_store_n(&r->done, done < 0 ? -(int64_t)errno : done, __ATOMIC_RELEASE);
	return done;
}

static size_t total(const struct iovec *v, size_t n)
{
	size_t sum = 0;

	while (n-- > 0)
		sum += v[n].iov_len;
	return sum;
}

ssize_t write(int fd, const void *p, size_t n)
{
	ssize_t (*real)(int, const void *, size_t);
	struct row *r = begun(fd, n);

	*(void **)&real = shim_real("write");
	return ended(r, real(fd, p, n));
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	ssize_t (*real)(int, const struct iovec *, int);
	struct row *r = begun(fd, total(v, (size_t)n));

	*(void **)&real = shim_real("writev");
	return ended(r, real(fd, v, n));
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
	ssize_t (*real)(int, const void *, size_t, int);
	struct row *r = begun(fd, n);

	*(void **)&real = shim_real("send");
	return ended(r, real(fd, p, n, flags));
}

ssize_t sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
	ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	struct row *r = begun(fd, n);

	*(void **)&real = shim_real("sendto");
	return ended(r, real(fd, p, n, flags, to, len));
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t (*real)(int, const struct msghdr *, int);
	struct row *r = begun(fd, total(m->msg_iov, m->msg_iovlen));

	*(void **)&real = shim_real("sendmsg");
	return ended(r, real(fd, m, flags));
}
