/* pbw1.h - a workload as a file, so that different indexes run on the same bytes. Little endian:
 *
 *   "PBW1"  u32 page  u64 operations  u64 tokens     then for each operation
 *   u32 key  u32 n  u32 token[n]
 *
 * An operation is: match the whole pages (of <page> tokens) of the prompt, then commit them for
 * server key % N. <tokens> is the sum of all <n>. The file ends after the last operation. */
#ifndef TESTS_BENCH_INDEX_PBW1_H
#define TESTS_BENCH_INDEX_PBW1_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PBW1_HEAD	24u
#define PBW1_PAGE_MAX	4096u

struct pbw1_op {
	uint32_t key, n;
	const uint32_t *tokens;		/* in the mapped file */
};

struct pbw1 {
	uint32_t page;
	uint64_t n_ops, n_tokens;
	uint32_t longest;		/* tokens of the longest operation */
	struct pbw1_op *ops;
	void *map;
	size_t size;
};

/* Map <path> and check all of it. Returns -1 with a sentence in <why> and nothing open if it is
 * wrong. */
int pbw1_open(struct pbw1 *w, const char *path, char *why, size_t n_why);
void pbw1_close(struct pbw1 *w);

/* A file being written: the counts of the head are filled in at the end. */
struct pbw1_out {
	FILE *f;
	uint32_t page;
	uint64_t n_ops, n_tokens;
};

int pbw1_create(struct pbw1_out *o, const char *path, uint32_t page);
int pbw1_put(struct pbw1_out *o, uint32_t key, const uint32_t *tokens, uint32_t n);
int pbw1_finish(struct pbw1_out *o);	/* closes; -1: a write failed */

#endif
