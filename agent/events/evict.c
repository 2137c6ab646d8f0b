/* evict.c - remove the blocks stored longest ago: over a server's capacity, or without room.
 *
 * A member has the stamp of the last event that stored into its run; a set has none and counts as
 * new, because a prefix that many ranks hold is in use. Records know their runs, but runs do not
 * know the slots of their blocks. So all records of one rank are listed with the age of their run,
 * and the oldest are removed, of each run the last block first. That takes about 30 ns for each
 * record of the rank, and is done for many at a time: without room, for 1/16 of the rank. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

#define LEAST	64u		/* records that are removed at a time */
#define AHEAD	4u		/* lines whose runs are prefetched */

struct old_record {
	uint64_t age;		/* of the run: 32 | number of the block */
	uint32_t line;
	uint8_t i;
};

static void ask_runs(const struct events *ev, const struct handles *map, uint32_t line)
{
	unsigned i;

	if (line >= map->n_lines)
		return;
	for (i = 0; i < LINE_SLOTS; i++)
		__builtin_prefetch(run_at(ev, OWN(&handles_line(ev, map, line)->run[i])));
}

static uint64_t age_of(const struct events *ev, uint32_t holder, struct slot s)
{
	struct place p = slot_place(s);
	const struct member *m = member_find(ev, run_at(ev, p.run), holder);
	uint64_t desc = m != NULL ? OWN(&m->desc) : 0;
	uint32_t age = desc_kind(desc) == MEMBER_ONE ? ev->stamp - (uint32_t)(desc >> 32) : 0;

	return (uint64_t)age << 32 | p.off;
}

static uint32_t list_records(const struct events *ev, uint32_t holder, struct old_record *r)
{
	const struct handles *map = &ev->holders[holder].map;
	uint32_t n = 0, line;
	struct slot s;

	for (line = 0; line < map->n_lines; line++) {
		ask_runs(ev, map, line + AHEAD);
		s.line = handles_line(ev, map, line);
		for (s.i = 0; s.i < LINE_SLOTS; s.i++)
			if (OWN(&s.line->run[s.i]) != 0)
				r[n++] = (struct old_record){ age_of(ev, holder, s), line, (uint8_t)s.i };
	}
	return n;
}

static int oldest_first(const void *a, const void *b)
{
	const struct old_record *x = a, *y = b;

	return (x->age < y->age) - (x->age > y->age);
}

/* Move the <k> oldest of <n> to the front, in no order. */
static void select_oldest(struct old_record *r, uint32_t n, uint32_t k)
{
	uint32_t low = 0, high = n, i, j;
	struct old_record t;
	uint64_t pivot;

	while (high - low > 1 && k > low && k < high) {
		pivot = r[low + (high - 1 - low) / 2].age;
		for (i = low, j = high - 1;; i++, j--) {
			while (r[i].age > pivot)
				i++;
			while (r[j].age < pivot)
				j--;
			if (i >= j)
				break;
			t = r[i];
			r[i] = r[j];
			r[j] = t;
		}
		if (k <= j + 1)
			high = j + 1;
		else
			low = j + 1;
	}
}

/* Returns how many were removed. */
static uint32_t evict(struct events *ev, uint32_t holder, uint32_t want)
{
	struct handles *map = &ev->holders[holder].map;
	struct pen p = { .holder = holder };
	struct old_record *r = mem_calloc(map->n + 1, sizeof(*r));
	uint32_t i, n, done = 0;
	struct slot s;

	if (r == NULL)
		return 0;
	n = list_records(ev, holder, r);
	want = want < n ? want : n;
	select_oldest(r, n, want);
	qsort(r, want, sizeof(*r), oldest_first);
	for (i = 0; i < want; i++) {
		s = (struct slot){ handles_line(ev, map, r[i].line), r[i].i };
		done += record_set(ev, &p, s, 0);
	}
	pen_close(ev, &p);
	mem_free(r);
	COUNT(ev, evicted, done);
	return done;
}

static uint32_t largest_holder(const struct events *ev)
{
	uint32_t i, s, best = 0, found = NO_HOLDER;
	server_id server = 0;

	for (i = 0; i < ev->servers_end; i++) {
		if (ev->server_recs[i] > best) {
			best = ev->server_recs[i];
			server = (server_id)i;
		}
	}
	for (s = best > 0 ? ev->of_server[server] : NO_HOLDER; s != NO_HOLDER; s = ev->holders[s].next)
		if (found == NO_HOLDER || ev->holders[s].map.n > ev->holders[found].map.n)
			found = s;
	return found;
}

bool evict_some(struct events *ev)
{
	uint32_t was = ev->n_recs, h, n;
	struct handles *map;

	holder_reap(ev, 4096);
	if (ev->n_recs < was)
		return true;
	if ((h = largest_holder(ev)) == NO_HOLDER)
		return false;
	map = &ev->holders[h].map;
	if ((n = evict(ev, h, map->n / 16 > LEAST ? map->n / 16 : LEAST)) == 0)
		return false;
	server_lose(ev, ev->holders[h].server, n);
	if (map->n == 0)
		handles_free(ev, map);
	else
		(void)handles_fit(ev, map, map->n);
	return true;
}

void keep_to_capacity(struct events *ev, uint32_t holder)
{
	struct holder *src = &ev->holders[holder];
	uint32_t most = ev->capacity[src->server];

	if (most != 0 && src->map.n > most)
		evict(ev, holder, src->map.n - most + most / 32);
}
