/* snapshots.h - snapshots in memory for tests, and the held pages of an index as text. Two trees of
 * the same content have equal text, however their nodes are cut. Include it in one file of a
 * program. */
#ifndef TESTS_INDEX_SNAPSHOTS_H
#define TESTS_INDEX_SNAPSHOTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/index/snapshot.h"
#include "tests/lib/index/index_test.h"

static const struct snapshot_of here = { .key_id = 0x1234, .text_page = 64, .token_page = 16 };

struct bytes {
	uint8_t *p;
	size_t n, cap;
};

static inline int put_bytes(void *arg, const void *p, size_t n)
{
	struct bytes *b = arg;
	uint8_t *to;

	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2;
		if ((to = realloc(b->p, b->cap)) == NULL)
			return -1;
		b->p = to;
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
	return 0;
}

/* Name servers 0 .. n-1 "s0" and so on. */
static inline void name_servers(struct snapshot_writer *w, unsigned n)
{
	char name[16];
	unsigned i;

	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		snapshot_writer_name(w, (server_id)i, span_str(name));
	}
}

/* Returns 1, or -1. The caller frees <b> in both cases. */
static inline int write_all(
    struct index *ix, unsigned servers, msec now, struct bytes *b, struct snapshot_stats *st)
{
	struct snapshot_writer *w = snapshot_writer_new(ix, &here, now, put_bytes, b);
	int rc;

	if (w == NULL)
		return -1;
	name_servers(w, servers);
	while ((rc = snapshot_write(w, 3)) == 0)
		;
	if (st != NULL)
		snapshot_writer_stats(w, st);
	snapshot_writer_free(w);
	return rc;
}

/* Return 7 + <*arg> for "s7". */
static inline int server_by_name(void *arg, struct span name)
{
	int id = atoi(name.p + 1);

	return name.n > 1 && name.p[0] == 's' ? id + (arg ? *(int *)arg : 0) : -1;
}

/* ---- what is held ---- */

struct held {			/* "server: key key key ", only the longest, in order */
	char **line;
	size_t n, cap;
};

static inline void held_add(struct held *h, char *line)
{
	if (h->n == h->cap) {
		h->cap = h->cap ? h->cap * 2 : 64;
		h->line = realloc(h->line, h->cap * sizeof(*h->line));
	}
	h->line[h->n++] = line;
}

static inline int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void held_longest(struct held *h)
{
	size_t i, k = 0;

	if (h->n > 0)
		qsort(h->line, h->n, sizeof(*h->line), by_text);
	for (i = 0; i < h->n; i++) {
		if (i + 1 < h->n && strncmp(h->line[i], h->line[i + 1], strlen(h->line[i])) == 0)
			free(h->line[i]);
		else
			h->line[k++] = h->line[i];
	}
	h->n = k;
}

static inline void held_free(struct held *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->line[i]);
	free(h->line);
	*h = (struct held){ 0 };
}

/* Read one owner as the dump prints it: "7", "7:3", "7*", "7:3*2". <way>: the keys above, then
 * those of the node. */
static inline void held_owner(
    struct held *h, const char *owner, char **way, size_t above, size_t pages)
{
	size_t held = pages, i, n = 16;
	const char *p;
	char *line;

	if ((p = strchr(owner, ':')) != NULL)
		held = (size_t)atoi(p + 1);
	if ((p = strchr(owner, '*')) != NULL)
		held = (size_t)atoi(p + 1);
	if (held == 0)
		return;
	for (i = 0; i < above + held; i++)
		n += strlen(way[i]) + 1;
	line = malloc(n);
	n = (size_t)sprintf(line, "%d: ", atoi(owner));
	for (i = 0; i < above + held; i++)
		n += (size_t)sprintf(line + n, "%s ", way[i]);
	held_add(h, line);
}

static inline void held_line(struct held *h, char *text, char **way, size_t *depth_at)
{
	size_t level = 0, depth, pages = 0;
	char *p, *owners, *save = NULL;

	while (text[2 * level] == ' ')
		level++;
	depth = level ? depth_at[level - 1] : 0;
	owners = strchr(text, ']');
	*owners++ = '\0';
	for (p = strtok_r(text + 2 * level + 1, " ", &save); p != NULL;
	     p = strtok_r(NULL, " ", &save), pages++) {
		free(way[depth + pages]);
		way[depth + pages] = strdup(p);
	}
	depth_at[level] = depth + pages;
	for (p = strtok_r(owners, " ", &save); p != NULL; p = strtok_r(NULL, " ", &save))
		held_owner(h, p, way, depth, pages);
}

static inline void put_text(void *arg, const char *text, size_t n)
{
	put_bytes(arg, text, n);
}

static inline void held_in(struct index *ix, const struct space_key *space, struct held *h)
{
	char **way = calloc(65536, sizeof(*way)), *line, *save = NULL;
	size_t *depth_at = calloc(65536, sizeof(*depth_at)), i;
	struct bytes b = { NULL };

	*h = (struct held){ 0 };
	index_dump(ix, space, put_text, &b);
	put_bytes(&b, "", 1);
	for (line = strtok_r((char *)b.p, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		held_line(h, line, way, depth_at);
	held_longest(h);
	for (i = 0; i < 65536; i++)
		free(way[i]);
	free(way);
	free(depth_at);
	free(b.p);
}

static inline void same_held(const struct held *a, const struct held *b)
{
	size_t i;

	for (i = 0; i < a->n && i < b->n; i++)
		assert_string_equal(a->line[i], b->line[i]);
	assert_int_equal(a->n, b->n);
}

#endif
