/* observe.c - rows by process and reports by engine: small arrays, O(processes) to read. */
#include "agent/fleet/observe.h"

/* ---- what stats sockets say ---------------------------------------------------------------- */

static struct watched *place_of(struct watch *w, uint64_t process, msec now)
{
	struct watched *old = NULL;

	for (unsigned i = 0; i < w->n; i++) {
		if (w->by[i].process == process)
			return &w->by[i];
		if (w->by[i].until <= now)
			old = &w->by[i];
	}
	if (old == NULL && w->n < WATCHERS_MAX)
		old = &w->by[w->n++];
	return old;
}

void watch_row(
    struct watch *w, uint64_t process, const struct hastats_row *row, msec now, msec until)
{
	struct watched *by = place_of(w, process, now);

	w->seen = now;
	if (by != NULL)
		*by = (struct watched){
			.process = process, .until = until, .load = load_add(row->sessions, row->queue),
			.queue = row->queue, .weight = row->weight, .state = row->state, .backup = row->backup,
		};
}

struct watch_sum watch_sum(const struct watch *w, msec now)
{
	struct watch_sum s = { .n = 0 };

	for (unsigned i = 0; i < w->n; i++) {
		const struct watched *by = &w->by[i];

		if (by->until <= now)
			continue;
		s.n++;
		s.up |= by->state == HASTATS_UP;
		s.closed |= by->state == HASTATS_DRAIN || by->state == HASTATS_MAINT || by->weight == 0;
		s.backup |= by->backup;
		s.load = load_add(s.load, by->load);
		s.queue = load_add(s.queue, by->queue);
		if (by->weight > s.weight)
			s.weight = by->weight;
	}
	return s;
}

/* ---- what an engine says ------------------------------------------------------------------- */

static uint32_t beyond(int64_t there, uint32_t known)
{
	return there <= known ? 0 : there - known < UINT32_MAX ? (uint32_t)(there - known) : UINT32_MAX;
}

static void count_adapters(struct engine_seen *s, const struct engine_report *e)
{
	s->n_adapters = e->n_adapters;
	s->n_running = s->n_waiting = s->n_loaded = 0;
	for (uint32_t i = 0; i < e->n_adapters; i++) {
		s->n_running += e->adapter[i].running;
		s->n_waiting += e->adapter[i].waiting;
		s->n_loaded += e->adapter[i].running || !e->adapter[i].waiting;
	}
}

void engine_take(
    struct engine_seen *s, const struct engine_report *e, uint32_t open, msec now, msec until)
{
	int64_t there = (e->waiting > 0 ? e->waiting : 0) + (e->running > 0 ? e->running : 0);
	uint32_t excess = beyond(there, open);
	bool again = engine_holds(s, now);

	s->foreign = !again ? 0 : excess < s->excess ? excess : s->excess;
	s->excess = excess;
	s->until = until;
	s->waiting = e->waiting;
	s->running = e->running;
	s->kv_used = e->kv_used;
	if (e->capacity > 0)
		s->capacity = e->capacity;
	if (e->block_size > 0)
		s->block_size = e->block_size;
	count_adapters(s, e);
}

bool engine_has(const struct engine_seen *s, uint64_t adapter)
{
	for (uint32_t i = 0; i < s->n_adapters; i++)
		if (s->adapter[i] == adapter)
			return true;
	return false;
}
