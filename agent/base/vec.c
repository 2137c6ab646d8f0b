/* Room grows by half: that bounds the unused part of a large array, and appending n elements still
 * copies O(n) of them. */
#include "agent/base/mem.h"
#include "agent/base/vec.h"

#define VEC_FIRST	16

int vec_grow(void *vector, size_t more, size_t size)
{
	struct vec *v = vector;
	size_t cap = v->cap + v->cap / 2, bytes;
	void *p;

	if (more > SIZE_MAX / 4 - v->n || v->cap > SIZE_MAX / 4)
		return -1;
	if (cap < VEC_FIRST)
		cap = VEC_FIRST;
	if (cap < v->n + more)
		cap = v->n + more;
	if (__builtin_mul_overflow(cap, size, &bytes))
		return -1;
	if ((p = mem_regrow(v->p, v->n * size, v->cap * size, bytes)) == NULL)
		return -1;
	v->p = p;
	v->cap = cap;
	return 0;
}

void vec_drop(void *vector, size_t size)
{
	struct vec *v = vector;

	mem_free_wiped(v->p, v->cap * size);
	*v = (struct vec){ .p = NULL };
}
