/* The image follows a head of 64 bytes, because tok_of_image() needs an address that is a multiple
 * of 64. The memory has pages of its own, which are read-only after they are filled, and is freed
 * with the last user of the tokenizer. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/tokfile_in.h"
#include "agent/os/newfile.h"

struct head {
	char magic[16];
	char version[48];
};
_Static_assert(sizeof(struct head) == 64, "the image would not be aligned");

struct pages {
	void *p;
	size_t n;
};

static struct head head_of_now(void)
{
	struct head h = { "kvroute tok", "" };

	snprintf(h.version, sizeof(h.version), "%s", KVROUTE_VERSION);
	return h;
}

static void pages_free(void *arg)
{
	struct pages *pg = arg;

	munmap(pg->p, pg->n);
	mem_free(pg);
}

/* Check the owner, because a user who can write the file could give the agent false tables. */
static int check_owner(const struct stat *st, struct err *e)
{
	if (!S_ISREG(st->st_mode))
		return err_set(e, "it is not a regular file");
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(e, "it belongs to another user");
	if (st->st_mode & 022)
		return err_set(e, "its group or others may write to it (mode %04o)",
		    (unsigned)(st->st_mode & 07777));
	return 0;
}

static int check_size(const struct stat *st, struct err *e)
{
	if (st->st_size < (off_t)sizeof(struct head))
		return err_set(e, "it is truncated");
	if (st->st_size > (off_t)TOKFILE_MAX)
		return err_set(e, "it is too large (%lld bytes)", (long long)st->st_size);
	return 0;
}

static int read_image(int fd, struct pages *pg, struct err *e)
{
	const struct head now = head_of_now(), *h = pg->p;

	if (fd_read_all(fd, pg->p, pg->n) != 0)
		return err_set(e, "it cannot be read: %s", strerror(errno));
	if (memcmp(h->magic, now.magic, sizeof(now.magic)) != 0)
		return err_set(e, "it is not a compiled tokenizer");
	if (memcmp(h->version, now.version, sizeof(now.version)) != 0)
		return err_set(e, "another version of the agent wrote it");
	mprotect(pg->p, pg->n, PROT_READ);
	return 0;
}

struct tok *tokfile_read(int fd, struct tok_image_key key, struct err *e)
{
	struct pages *pg;
	struct tok *t;
	struct stat st;

	if (fstat(fd, &st) != 0) {
		err_set(e, "it cannot be read: %s", strerror(errno));
		return NULL;
	}
	if (check_owner(&st, e) != 0 || check_size(&st, e) != 0)
		return NULL;
	if ((pg = mem_alloc(sizeof(*pg))) == NULL) {
		err_set(e, "no memory");
		return NULL;
	}
	pg->n = (size_t)st.st_size;
	pg->p = mmap(NULL, pg->n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pg->p == MAP_FAILED) {
		mem_free(pg);
		err_set(e, "no memory");
		return NULL;
	}
	if (read_image(fd, pg, e) == 0 &&
	    (t = tok_of_image(
		 span_of((char *)pg->p + sizeof(struct head), pg->n - sizeof(struct head)), key,
		 pages_free, pg, e)) != NULL)
		return t;
	pages_free(pg);
	return NULL;
}

int tokfile_write(int dir, const char *name, const struct tok *t, struct tok_image_key key)
{
	struct head h = head_of_now();
	struct span parts[2] = { span_of((char *)&h, sizeof(h)), tok_image(t, key) };
	int rc, error;

	errno = ENOMEM;
	if (parts[1].p == NULL)
		return -1;
	newfile_clean(dir, name);
	rc = newfile_write(dir, name, 0640, parts, 2);
	error = errno;
	mem_free((void *)parts[1].p);
	errno = error;
	return rc;
}
