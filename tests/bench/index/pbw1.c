/* pbw1.c - read and write workload files. The reader compares every length with the rest of the
 * file before it is used, and checks the counts of the head. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/index/pbw1.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "PBW1 is read as it lies in the file, which is little endian"
#endif

struct head {
	char magic[4];
	uint32_t page;
	uint64_t n_ops, n_tokens;
};

_Static_assert(sizeof(struct head) == PBW1_HEAD, "the head has no holes");

struct why {
	char *text;
	size_t n;
	const char *path;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct why *y, const char *fmt, ...)
{
	int at = snprintf(y->text, y->n, "%s: ", y->path);
	va_list ap;

	va_start(ap, fmt);
	if (at >= 0 && (size_t)at < y->n)
		vsnprintf(y->text + at, y->n - (size_t)at, fmt, ap);
	va_end(ap);
	return -1;
}

static int map(struct pbw1 *w, struct why *y)
{
	int fd = open(y->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0)
		return refuse(y, "cannot be opened: %s", strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size < PBW1_HEAD) {
		close(fd);
		return refuse(y, "no workload file: shorter than the head of %u bytes", PBW1_HEAD);
	}
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return refuse(y, "cannot be mapped: %s", strerror(errno));
	w->map = p;
	w->size = (size_t)st.st_size;
	return 0;
}

static int read_head(struct pbw1 *w, struct why *y)
{
	struct head h;

	memcpy(&h, w->map, sizeof(h));
	if (memcmp(h.magic, "PBW1", 4) != 0)
		return refuse(y, "no workload file: it does not begin with PBW1");
	if (h.page == 0 || h.page > PBW1_PAGE_MAX)
		return refuse(y, "a page of %u tokens, where 1 to %u are possible", h.page, PBW1_PAGE_MAX);
	if (h.n_ops > (w->size - PBW1_HEAD) / 8)
		return refuse(y, "the head says %llu operations, for which the file is too short",
			      (unsigned long long)h.n_ops);
	if (h.n_tokens != (w->size - PBW1_HEAD - h.n_ops * 8) / 4)
		return refuse(y,
		    "the head says %llu tokens in %llu operations, which is not the length of the file",
		    (unsigned long long)h.n_tokens, (unsigned long long)h.n_ops);
	w->page = h.page;
	w->n_ops = h.n_ops;
	w->n_tokens = h.n_tokens;
	return 0;
}

static int read_ops(struct pbw1 *w, struct why *y)
{
	const uint32_t *p = (const uint32_t *)((const char *)w->map + PBW1_HEAD);
	size_t left = w->size - PBW1_HEAD;
	uint64_t i;

	for (i = 0; i < w->n_ops; i++) {
		if (left < 8)
			return refuse(y, "ends before operation %llu of %llu", (unsigned long long)i + 1,
				      (unsigned long long)w->n_ops);
		w->ops[i] = (struct pbw1_op){ p[0], p[1], p + 2 };
		left -= 8;
		if (w->ops[i].n > left / 4)
			return refuse(y, "operation %llu says %u tokens, the file has %zu more",
				      (unsigned long long)i + 1, w->ops[i].n, left / 4);
		left -= w->ops[i].n * (size_t)4;
		p += 2 + w->ops[i].n;
		if (w->ops[i].n > w->longest)
			w->longest = w->ops[i].n;
	}
	if (left != 0)
		return refuse(y, "%zu bytes behind the last operation", left);
	return 0;
}

int pbw1_open(struct pbw1 *w, const char *path, char *why, size_t n_why)
{
	struct why y = { why, n_why, path };

	memset(w, 0, sizeof(*w));
	if (map(w, &y) < 0)
		return -1;
	if (read_head(w, &y) < 0)
		goto fail;
	if ((w->ops = calloc(w->n_ops + 1, sizeof(*w->ops))) == NULL) {
		refuse(&y, "no memory for %llu operations", (unsigned long long)w->n_ops);
		goto fail;
	}
	if (read_ops(w, &y) < 0)
		goto fail;
	return 0;
fail:
	pbw1_close(w);
	return -1;
}

void pbw1_close(struct pbw1 *w)
{
	free(w->ops);
	if (w->map != NULL)
		munmap(w->map, w->size);
	memset(w, 0, sizeof(*w));
}

/* ---- writing ---- */

static int put_head(struct pbw1_out *o)
{
	struct head h = { { 'P', 'B', 'W', '1' }, o->page, o->n_ops, o->n_tokens };

	return fwrite(&h, sizeof(h), 1, o->f) == 1 ? 0 : -1;
}

int pbw1_create(struct pbw1_out *o, const char *path, uint32_t page)
{
	*o = (struct pbw1_out){ .f = fopen(path, "wb"), .page = page };
	return o->f != NULL ? put_head(o) : -1;
}

int pbw1_put(struct pbw1_out *o, uint32_t key, const uint32_t *tokens, uint32_t n)
{
	uint32_t front[2] = { key, n };

	o->n_ops++;
	o->n_tokens += n;
	if (fwrite(front, sizeof(front), 1, o->f) != 1)
		return -1;
	return fwrite(tokens, 4, n, o->f) == n ? 0 : -1;
}

int pbw1_finish(struct pbw1_out *o)
{
	int rc = fseek(o->f, 0, SEEK_SET) == 0 && put_head(o) == 0 ? 0 : -1;

	if (fclose(o->f) != 0)
		rc = -1;
	return rc;
}
