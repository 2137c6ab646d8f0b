/* arena.c - two-level segregated fit (TLSF, Masmano et al. 2004) with refs of 32 bits.
 *
 * Nodes and records come in any size and are freed in any order, at every commit once the budget is
 * full. malloc() takes the same time, but it has no budget and no promise that memory is present,
 * it spends 16 bytes where a ref spends 4, and it unmaps memory that readers still read. Slabs of
 * fixed sizes would waste half a class a node, and memory of one class could not serve another.
 *
 * A tag has the size of its block and of the block before it. So arena_free() finds both neighbours
 * at once, and no two free blocks are neighbours. The free blocks of a class are linked through
 * their payloads; two levels of bitmaps find the next class that has one. Only the search rounds up
 * to a class: the rest of a block is freed at once.
 *
 * The search looks at a few blocks of the class of the size itself first. Otherwise a node that is
 * freed and allocated again would always split a larger block. A call touches three or four cache
 * lines. */
#include <assert.h>

#include "agent/index/arena_in.h"

/* ---- blocks ---- */

#define FREE	1u
#define LEAST	(ARENA_LEAST / ARENA_UNIT)
#define LOOKS	4	/* blocks of the size's own class that are tried */

/* Lies just before the payload. The tag at the end of the arena has size 0 and is not free. */
struct tag {
	uint32_t before;	/* units of the block before; 0: this is the first */
	uint32_t size;		/* units << 1 | FREE */
};

/* Lies in the payload of a free block. */
struct links {
	arena_ref next, prev;
};

static struct tag *tag_of(const struct arena *a, arena_ref ref)
{
	return (struct tag *)(a->base + (size_t)ref * ARENA_UNIT - ARENA_TAG);
}

static struct links *links_of(const struct arena *a, arena_ref ref)
{
	return (struct links *)(a->base + (size_t)ref * ARENA_UNIT);
}

static uint32_t units_of(const struct arena *a, arena_ref ref)
{
	return tag_of(a, ref)->size >> 1;
}

static bool is_free(const struct arena *a, arena_ref ref)
{
	return tag_of(a, ref)->size & FREE;
}

/* Write a word that a reader without the lock may read. */
static void put(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* Rows 0 and 1 have a class for each number of units; row r > 1 has one for each 2^(r-1) units. */
static void class_of(uint32_t units, unsigned *row, unsigned *col)
{
	unsigned log = 31 - (unsigned)__builtin_clz(units | ARENA_COLS / 2);

	*row = log - 4;
	*col = (log == 4 ? units : units >> (log - 5)) % ARENA_COLS;
}

/* Put a block into its list and mark it as free in the tags on both sides. */
static void add_free(struct arena *a, arena_ref ref, uint32_t units)
{
	arena_ref *head;
	unsigned row, col;

	class_of(units, &row, &col);
	head = &a->heads[row][col];
	put(&tag_of(a, ref)->size, units << 1 | FREE);
	put(&tag_of(a, ref + units)->before, units);
	put(&links_of(a, ref)->next, *head);
	put(&links_of(a, ref)->prev, 0);
	if (*head != 0)
		put(&links_of(a, *head)->prev, ref);
	*head = ref;
	a->rows |= 1u << row;
	a->cols[row] |= 1u << col;
}

static void del_free(struct arena *a, arena_ref ref)
{
	struct links l = *links_of(a, ref);
	unsigned row, col;

	if (l.next != 0)
		put(&links_of(a, l.next)->prev, l.prev);
	if (l.prev != 0) {
		put(&links_of(a, l.prev)->next, l.next);
		return;
	}
	class_of(units_of(a, ref), &row, &col);
	a->heads[row][col] = l.next;
	if (l.next != 0 || (a->cols[row] &= ~(1u << col)) != 0)
		return;
	a->rows &= ~(1u << row);
}

/* Return a free block of at least <units>, or 0 if none was found. */
static arena_ref find(const struct arena *a, uint32_t units)
{
	unsigned row, col, looks = LOOKS;
	uint32_t bits;
	arena_ref ref;

	class_of(units, &row, &col);
	for (ref = a->heads[row][col]; ref != 0 && looks-- > 0; ref = links_of(a, ref)->next)
		if (units_of(a, ref) >= units)
			return ref;
	/* every block of a later class is large enough */
	if ((bits = a->cols[row] & ~1u << col) == 0) {
		if ((bits = a->rows & ~1u << row) == 0)
			return 0;
		row = (unsigned)__builtin_ctz(bits);
		bits = a->cols[row];
	}
	return a->heads[row][__builtin_ctz(bits)];
}

/* Return the units for <bytes>, or 0 if no arena of this size can have so many. */
static uint32_t units_for(const struct arena *a, size_t bytes)
{
	return bytes < arena_room(a) ? (uint32_t)(arena_cost(bytes) / ARENA_UNIT) : 0;
}

void arena_init(struct arena *a, struct region *r, size_t from, size_t bytes)
{
	size_t to;

	assert(from <= r->bytes && bytes <= r->bytes - from);
	to = (from + (bytes < ARENA_BYTES_MAX ? bytes : ARENA_BYTES_MAX)) / ARENA_UNIT;
	from = (from + ARENA_UNIT - 1) / ARENA_UNIT;
	memset(a, 0, sizeof(*a));
	a->base = r->base;
	if (to < from + LEAST + 1)
		return;
	a->first = (arena_ref)from + 1;
	a->end = (arena_ref)to;
	put(&tag_of(a, a->first)->before, 0);
	put(&tag_of(a, a->end)->size, 0);
	add_free(a, a->first, a->end - a->first);
}

arena_ref arena_alloc(struct arena *a, size_t bytes)
{
	uint32_t units = units_for(a, bytes), had;
	arena_ref ref;

	if (units == 0 || (ref = find(a, units)) == 0)
		return 0;
	del_free(a, ref);
	had = units_of(a, ref);
	if (had - units >= LEAST) {
		put(&tag_of(a, ref + units)->before, units);
		add_free(a, ref + units, had - units);
		had = units;
	}
	put(&tag_of(a, ref)->size, had << 1);
	a->used += had;
	return ref;
}

void arena_free(struct arena *a, arena_ref ref)
{
	uint32_t units, before;
	arena_ref next;

	if (ref == 0)
		return;
	assert(ref >= a->first && ref < a->end && !is_free(a, ref));
	units = units_of(a, ref);
	before = tag_of(a, ref)->before;
	next = ref + units;
	assert(tag_of(a, next)->before == units);
	a->used -= units;
	if (is_free(a, next)) {
		del_free(a, next);
		units += units_of(a, next);
	}
	if (before != 0 && is_free(a, ref - before)) {
		/* so that freeing it twice is detected until the place is allocated again */
		put(&tag_of(a, ref)->size, FREE);
		ref -= before;
		del_free(a, ref);
		units += before;
	}
	add_free(a, ref, units);
}

void arena_ahead(const struct arena *a, arena_ref ref)
{
	__builtin_prefetch(tag_of(a, ref + units_of(a, ref)));
	__builtin_prefetch(tag_of(a, ref - tag_of(a, ref)->before));
}

size_t arena_size(const struct arena *a, arena_ref ref)
{
	return (size_t)units_of(a, ref) * ARENA_UNIT - ARENA_TAG;
}

size_t arena_room(const struct arena *a)
{
	return (size_t)(a->end - a->first) * ARENA_UNIT;
}

size_t arena_used(const struct arena *a)
{
	return (size_t)a->used * ARENA_UNIT;
}

size_t arena_largest(const struct arena *a)
{
	unsigned row;

	if (a->rows == 0)
		return 0;
	row = 31 - (unsigned)__builtin_clz(a->rows);
	return arena_size(a, a->heads[row][31 - __builtin_clz(a->cols[row])]);
}

/* ---- the check ---- */

/* Check the blocks from end to end and count the free ones. */
static const char *check_blocks(const struct arena *a, uint32_t *n_free)
{
	uint32_t before = 0, used = 0, units;
	bool was_free = false;
	arena_ref ref;

	for (ref = a->first; ref != a->end; ref += units) {
		units = units_of(a, ref);
		if (units < LEAST || units > a->end - ref)
			return "a block is too small, or goes beyond the end";
		if (tag_of(a, ref)->before != before)
			return "a block is wrong about the one before it";
		if (was_free && is_free(a, ref))
			return "two free blocks are neighbours";
		was_free = is_free(a, ref);
		*n_free += was_free;
		used += was_free ? 0 : units;
		before = units;
	}
	if (tag_of(a, a->end)->before != before || tag_of(a, a->end)->size != 0)
		return "the tag at the end is wrong";
	return used == a->used ? NULL : "what is used does not add up";
}

static const char *check_list(const struct arena *a, unsigned row, unsigned col, uint32_t *n_free)
{
	arena_ref ref, prev = 0;
	unsigned r, c;

	for (ref = a->heads[row][col]; ref != 0; prev = ref, ref = links_of(a, ref)->next) {
		if (ref < a->first || ref >= a->end || (*n_free)-- == 0)
			return "a list leaves the arena, or has more than is free";
		class_of(units_of(a, ref), &r, &c);
		if (!is_free(a, ref) || r != row || c != col)
			return "a list has what does not belong there";
		if (links_of(a, ref)->prev != prev)
			return "a list is not the same backwards";
	}
	return NULL;
}

const char *arena_check(const struct arena *a)
{
	uint32_t n_free = 0;
	const char *wrong = a->end == 0 ? NULL : check_blocks(a, &n_free);

	for (unsigned row = 0; wrong == NULL && row < ARENA_ROWS; row++) {
		if ((a->rows >> row & 1) != (a->cols[row] != 0))
			return "a row's bit is wrong";
		for (unsigned col = 0; wrong == NULL && col < ARENA_COLS; col++) {
			if ((a->cols[row] >> col & 1) != (a->heads[row][col] != 0))
				return "a list's bit is wrong";
			wrong = check_list(a, row, col, &n_free);
		}
	}
	return wrong != NULL ? wrong : n_free == 0 ? NULL : "a free block is in no list";
}
