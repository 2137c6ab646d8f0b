/* write_shim.c - record each write of a program to a socket, and count its reads, for LD_PRELOAD.
 * WRITES_FILE names a file of at least sizeof(struct writes) bytes. A program that maps the same
 * file reads the rows at run time:
 *
 *      n          rows so far; those above WRITES_MAX were not stored
 *      reads      calls of recv() so far, of all threads
 *      row[i]     descriptor, bytes to write, bytes written (-errno: failed; 0: not yet), and
 *                 <reads> before it
 */
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/tools/shim.h"

#define WRITES_MAX	65536u

struct row { int64_t fd, asked, done, reads; };
struct writes { uint64_t n, reads; struct row row[WRITES_MAX]; };

static struct writes *writes;

__attribute__((constructor)) static void begin(void)
{
	writes = shim_file("WRITES_FILE", sizeof(*writes));
}

/* Add a row before the call, so that it is present when the peer has the bytes. Returns NULL if
 * <fd> is not a socket or there is no room. */
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
			r->reads = (int64_t)__atomic_load_n(&writes->reads, __ATOMIC_SEQ_CST);
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

static void note_read(void)
{
	if (writes != NULL)
		__atomic_fetch_add(&writes->reads, 1, __ATOMIC_SEQ_CST);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
	ssize_t (*real)(int, void *, size_t, int);

	note_read();
	*(void **)&real = shim_real("recv");
	return real(fd, p, n, flags);
}

/* What recv() is in a program with _FORTIFY_SOURCE. */
ssize_t __recv_chk(int fd, void *p, size_t n, size_t room, int flags);
ssize_t __recv_chk(int fd, void *p, size_t n, size_t room, int flags)
{
	if (n > room)
		abort();
	return recv(fd, p, n, flags);
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
