/* slab.c - memory for everything that grows: chunks of 4 KiB, each cut into objects of one class.
 *
 *   chunk  [obj][obj][   ][obj] ...     free: a bit for each free object
 *
 * Chunks are taken from the region one after the other, so memory that was never needed is never
 * touched. A chunk whose objects are all free can be used by any class, except a chunk of runs:
 * readers without a lock read the versions of runs that are gone. A freed object is used again
 * before any other, so the chunks in use never exceed the most that each class needed at a time. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

static unsigned class_lines(unsigned class)
{
	return class == CLASS_RUN ? 1 : 1u << class;
}

static uint64_t all_free(unsigned class)
{
	unsigned n = CHUNK_LINES / class_lines(class);

	return n == 64 ? ~0ull : (1ull << n) - 1;
}

static struct chunk *chunk_of(struct slab *s, uint32_t number)
{
	return &s->chunks[number - 1];
}

static void count_bytes(struct events *ev)
{
	struct slab *s = &ev->slab;

	atomic_store_explicit(&ev->st.bytes, s->fixed_bytes + s->heap_bytes +
	    (size_t)s->used_chunks * (CHUNK_BYTES + sizeof(struct chunk)), memory_order_relaxed);
}

static bool chunk_fits(const struct slab *s, enum slab_need need)
{
	size_t heap = (s->heap_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;

	return s->used_chunks + heap + (need == TAKE_MORE ? s->reserve : 0) < s->max_chunks;
}

/* Returns its number, or 0. */
static uint32_t chunk_take(struct events *ev, enum slab_need need)
{
	struct slab *s = &ev->slab;
	uint32_t c = s->free_chunks;

	if (!chunk_fits(s, need))
		return 0;
	if (c != 0)
		s->free_chunks = chunk_of(s, c)->next;
	else if (s->cut_chunks < s->max_chunks)
		c = ++s->cut_chunks;
	else
		return 0;
	s->used_chunks++;
	count_bytes(ev);
	return c;
}

static void chunk_give(struct events *ev, uint32_t c)
{
	struct slab *s = &ev->slab;

	*chunk_of(s, c) = (struct chunk){ .next = s->free_chunks };
	s->free_chunks = c;
	s->used_chunks--;
	count_bytes(ev);
}

static void list_push(struct slab *s, uint32_t c, unsigned class)
{
	struct chunk *k = chunk_of(s, c);

	k->prev = 0;
	k->next = s->partial[class];
	if (k->next != 0)
		chunk_of(s, k->next)->prev = c & 0xfffffff;
	s->partial[class] = c;
}

static void list_drop(struct slab *s, uint32_t c, unsigned class)
{
	struct chunk *k = chunk_of(s, c);

	if (k->next != 0)
		chunk_of(s, k->next)->prev = k->prev;
	if (k->prev != 0)
		chunk_of(s, k->prev)->next = k->next;
	else
		s->partial[class] = k->next;
}

line_ref slab_take(struct events *ev, unsigned class, enum slab_need need)
{
	struct slab *s = &ev->slab;
	uint32_t c = s->partial[class], i;
	struct chunk *k;

	if (c == 0) {
		if ((c = chunk_take(ev, need)) == 0)
			return 0;
		*chunk_of(s, c) = (struct chunk){ .free = all_free(class), .class = class & 15 };
		list_push(s, c, class);
	}
	k = chunk_of(s, c);
	i = (uint32_t)__builtin_ctzll(k->free);
	k->free &= k->free - 1;
	if (k->free == 0)
		list_drop(s, c, class);
	return c * CHUNK_LINES + i * class_lines(class);
}

void slab_give(struct events *ev, line_ref ref, unsigned class)
{
	struct slab *s = &ev->slab;
	uint32_t c = ref / CHUNK_LINES;
	struct chunk *k = chunk_of(s, c);

	if (k->free == 0)
		list_push(s, c, class);
	k->free |= 1ull << ref % CHUNK_LINES / class_lines(class);
	if (k->free == all_free(class) && class != CLASS_RUN) {
		list_drop(s, c, class);
		chunk_give(ev, c);
	}
}

void *heap_resize(struct events *ev, void *p, size_t old_bytes, size_t bytes)
{
	struct slab *s = &ev->slab;
	size_t more = bytes > old_bytes ? bytes - old_bytes : 0;
	void *q;

	if (more > 0 && (size_t)s->used_chunks * CHUNK_BYTES + s->heap_bytes + more >
	    (size_t)s->max_chunks * CHUNK_BYTES)
		return NULL;
	if ((q = mem_resize(p, bytes, 1)) == NULL)
		return NULL;
	if (bytes > old_bytes)
		memset((uint8_t *)q + old_bytes, 0, bytes - old_bytes);
	s->heap_bytes = s->heap_bytes - old_bytes + bytes;
	count_bytes(ev);
	return q;
}

void heap_give(struct events *ev, void *p, size_t bytes)
{
	mem_free(p);
	ev->slab.heap_bytes -= p != NULL ? bytes : 0;
	count_bytes(ev);
}

/* ---- for tests ---- */

const char *slab_check(const struct events *ev)
{
	struct slab s = ev->slab;
	uint32_t c, n, class, free = 0, partial = 0, listed = 0;

	for (c = s.free_chunks; c != 0; c = chunk_of(&s, c)->next)
		free++;
	if (free + s.used_chunks != s.cut_chunks || s.cut_chunks > s.max_chunks)
		return "chunks are lost";
	for (class = 0; class < CLASSES; class++) {
		for (c = s.partial[class], n = 0; c != 0; n = c, c = chunk_of(&s, c)->next, listed++) {
			if (chunk_of(&s, c)->class != class || chunk_of(&s, c)->prev != n)
				return "a chunk in the list of another class";
			if (chunk_of(&s, c)->free == 0)
				return "a full chunk in the list of those with room";
		}
	}
	for (c = 1; c <= s.cut_chunks; c++)
		partial += chunk_of(&s, c)->free != 0;
	return partial == listed ? NULL : "a chunk with room is in no list";
}
