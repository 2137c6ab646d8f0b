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

struct watch_sum watch_sum_rows(const struct watch *w, msec now)
{
	struct watch_sum s = { .n = 0 };

	for (unsigned i = 0; i < w->n; i++) {
		const struct watched *by = &w->by[i];

		if (by->until <= now)
			continue;
		s.n++;
		s.up |= by->state == HASTATS_UP;
		s.reached |= by->state == HASTATS_UP || by->state == HASTATS_DRAIN;
		s.maintained |= by->state == HASTATS_MAINT;
		s.closed |= by->state == HASTATS_DRAIN || by->state == HASTATS_MAINT || by->weight == 0;
		s.backup |= by->backup;
		s.load = load_add(s.load, by->load);
		s.queue = load_add(s.queue, by->queue);
		if (by->weight > s.weight)
			s.weight = by->weight;
	}
	s.reached &= !s.maintained;
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

static struct engine_told told_of(int64_t waiting, int64_t running, double kv_used,
    const struct engine_sent *sent, msec at, msec until)
{
	int64_t there = (waiting > 0 ? waiting : 0) + (running > 0 ? running : 0);
	double all = there > sent->open ? (double)there : sent->open, part;

	part = waiting > 0 && all > 0 ? (double)waiting / all : 0;
	return (struct engine_told){
		.at = at, .until = until, .waiting = waiting, .running = running, .kv_used = kv_used,
		.has_queue = waiting >= 0, .kv_waits = part * (double)sent->kv_tokens,
		.kv_then = (double)sent->kv_tokens,
	};
}

/* A smaller counter has started again, so all of it is new. */
static uint64_t grown_by(double *last, double now)
{
	double by = now >= *last ? now - *last : now;

	*last = now;
	return (uint64_t)by;
}

/* The first report says how much there was before. */
void engine_count_hits(struct engine_hits *h, const struct engine_report *e)
{
	uint64_t hit, asked;

	if (e->asked_tokens < 0 || e->hit_tokens < 0)
		return;
	hit = grown_by(&h->last_hit, e->hit_tokens);
	asked = grown_by(&h->last_asked, e->asked_tokens);
	if (h->told) {
		h->hit_tokens += hit;
		h->asked_tokens += asked;
	}
	h->told = true;
}

void engine_take(struct engine_seen *s, const struct engine_report *e,
    const struct engine_sent *sent, msec now, msec until)
{
	int64_t there = (e->waiting > 0 ? e->waiting : 0) + (e->running > 0 ? e->running : 0);
	uint32_t excess = beyond(there, sent->open);
	bool again = now < s->polled.until;

	s->foreign = !again ? 0 : excess < s->excess ? excess : s->excess;
	s->excess = excess;
	s->polled = told_of(e->waiting, e->running, e->kv_used, sent, now, until);
	if (e->capacity > 0)
		s->capacity = e->capacity;
	if (e->block_size > 0)
		s->block_size = e->block_size;
	count_adapters(s, e);
}

bool engine_take_load(struct engine_seen *s, const struct engine_load *l,
    const struct engine_sent *sent, msec at, msec until)
{
	if (s->passing.until > 0 && at < s->passing.at)
		return false;
	s->passing = told_of(l->waiting, l->running, l->kv_used, sent, at, until);
	if (l->capacity > 0)
		s->capacity = l->capacity;
	return true;
}

static void add_told(struct engine_now *n, const struct engine_told *t, msec now)
{
	if (now >= t->until)
		return;
	n->holds = true;
	if (t->waiting >= 0)
		n->waiting = t->waiting;
	if (t->running >= 0)
		n->running = t->running;
	if (t->kv_used < 0)
		return;
	n->kv_used = t->kv_used;
	n->has_queue = t->has_queue;
	n->kv_waits = t->kv_waits;
	n->kv_then = t->kv_then;
}

struct engine_now engine_now(const struct engine_seen *s, msec now)
{
	struct engine_now n = { .waiting = -1, .running = -1, .kv_used = -1 };
	bool passing_last = s->passing.at >= s->polled.at;

	add_told(&n, passing_last ? &s->polled : &s->passing, now);
	add_told(&n, passing_last ? &s->passing : &s->polled, now);
	n.polled = now < s->polled.until;
	n.foreign = n.polled ? s->foreign : 0;
	return n;
}

uint64_t engine_kv_tokens(const struct engine_now *e, uint64_t kv_now, uint64_t room)
{
	double since = (double)kv_now - e->kv_then;
	double tokens = e->kv_used * (double)room + e->kv_waits + (since > 0 ? since : 0);

	if (room == 0 || e->kv_used < 0 || !e->has_queue)
		return kv_now;
	return (uint64_t)tokens;
}

bool engine_has(const struct engine_seen *s, uint64_t adapter)
{
	for (uint32_t i = 0; i < s->n_adapters; i++)
		if (s->adapter[i] == adapter)
			return true;
	return false;
}
