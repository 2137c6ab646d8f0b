#include "agent/base/mem.h"
#include "agent/loop/bytes.h"

bool bytes_borrow(struct bytes *b, struct bytes *spare, size_t cap)
{
	if (b->p != NULL)
		return true;
	if (spare->p != NULL) {
		*b = *spare;
		*spare = (struct bytes){ 0 };
	} else {
		if ((b->p = mem_resize(NULL, cap, 1)) == NULL)
			return false;
		b->cap = cap;
	}
	b->n = 0;
	return true;
}

void bytes_return(struct bytes *b, struct bytes *spare)
{
	struct bytes other = *spare;

	if (b->p == NULL)
		return;
	b->n = 0;
	if (other.p == NULL || other.cap < b->cap) {
		*spare = *b;
		*b = other;
	}
	bytes_fini(b);
}

bool bytes_grow(struct bytes *b, size_t cap)
{
	uint8_t *p = mem_resize(b->p, cap, 1);

	if (p == NULL)
		return false;
	b->p = p;
	b->cap = cap;
	return true;
}

void bytes_fini(struct bytes *b)
{
	mem_free(b->p);
	*b = (struct bytes){ 0 };
}
