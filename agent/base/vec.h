/* vec.h - growing arrays of any element type. Blocks that they leave are wiped.
 *
 *	VEC(struct run) runs = { 0 };
 *
 *	if (vec_push(&runs, (struct run){ .at = 7 }) < 0)
 *		return -1;
 *	for (i = 0; i < runs.n; i++)
 *		use(&runs.p[i]);
 *	vec_free(&runs);
 *
 * A vector is any struct whose only fields are "T *p; size_t n, cap", in this order: n elements are
 * in use, cap allocated. One of zeros is empty. Every function returns 0, or -1 without a change
 * if there is no memory. The macros evaluate <v> several times. */
#ifndef KVROUTE_BASE_VEC_H
#define KVROUTE_BASE_VEC_H

#include "agent/base/types.h"

#define VEC(type)	struct { type *p; size_t n, cap; }

struct vec {
	void *p;
	size_t n, cap;
};

/* Grow the vector at <v>, of elements of <size> bytes, by half or more, to room for <more> after
 * the last one. The old block is wiped over its whole length. */
int vec_grow(void *v, size_t more, size_t size);

/* Wipe and free the block of the vector at <v>, which is then empty. */
void vec_drop(void *v, size_t size);

/* Append the element that follows <v>. Inlines to a compare and a store. */
#define vec_push(v, ...) \
	((v)->n == (v)->cap && vec_grow((v), 1, sizeof(*(v)->p)) < 0 ? -1 : \
	 ((void)((v)->p[(v)->n++] = (__VA_ARGS__)), 0))

/* Make room for <more> elements after the last. */
#define vec_reserve(v, more) \
	((v)->cap - (v)->n >= (size_t)(more) ? 0 : vec_grow((v), (more), sizeof(*(v)->p)))

#define vec_free(v)	vec_drop((v), sizeof(*(v)->p))

#endif
