/* Large batches in slices. A rank has KVSUB_WORK for each turn of the thread: blocks and events. A
 * small payload is applied at once while some of it is left; others are copied, and applied in
 * order, a slice each turn. Meanwhile nothing is read from the sockets of the rank, so what
 * publishers can make wait is bounded by the sockets, and ranks take turns. */
#include "agent/loop/kvsub_in.h"

#ifdef HAVE_ZMQ
#include "agent/base/mem.h"
#include "agent/os/clock.h"

static void begin_turn(struct kvsub_rank *r)
{
	if (r->turn == r->source->k->turn)
		return;
	r->turn = r->source->k->turn;
	r->left = KVSUB_WORK;
}

static double wall_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Apply a slice. Returns true if the payload is over, with what it did. */
static bool slice(
    struct kvsub_rank *r, struct source_slices *s, int64_t work, struct kvcursor_effect *did)
{
	struct agent *a = r->source->k->agent;
	struct source_batch b;
	int64_t left = work;
	bool over = route_source_slice(a->route, r->source->id, r->n, s, &left, agent_msec(a), &b);

	r->left -= work - left;
	if (KVSUB_WORK - r->left > (int64_t)r->turn_work)
		r->turn_work = (uint64_t)(KVSUB_WORK - r->left);
	if (!over) {
		r->slices++;
		return false;
	}
	*did = (struct kvcursor_effect){ b.stored - b.expiring, b.removed, b.cleared };
	r->lag_s = wall_s() - b.time;
	return true;
}

/* A snapshot has no place within a batch. */
static bool work_later(struct kvsub_rank *r, struct span payload)
{
	struct kvsub *k = r->source->k;
	struct kvsub_work *w = mem_alloc(sizeof(*w) + payload.n);

	if (w == NULL)
		return false;
	w->n = payload.n;
	if (payload.n > 0)
		memcpy(w->payload, payload.p, payload.n);
	if (route_source_begin(&w->slices, span_of(w->payload, w->n)) != 0) {
		mem_free_wiped(w, sizeof(*w) + w->n);
		return false;
	}
	k->store.used += w->n;
	if (r->work == NULL) {
		r->work_end = &r->work;
		list_append(&k->working, &r->working);
		ev_idle_start(k->loop, &k->idle);
		route_source_place(k->agent->route, r->source->id, r->n, NULL);
	}
	*r->work_end = w;
	r->work_end = &w->next;
	return true;
}

bool kvsub_work_apply(struct kvsub_rank *r, struct span payload, struct kvcursor_effect *did)
{
	struct source_slices s;

	begin_turn(r);
	if (r->work != NULL || payload.n > KVSUB_SMALL_BYTES || r->left <= 0)
		return work_later(r, payload);
	return route_source_begin(&s, payload) == 0 && slice(r, &s, INT64_MAX, did);
}

static void pop(struct kvsub_rank *r)
{
	struct kvsub_work *w = r->work;

	r->work = w->next;
	r->source->k->store.used -= w->n;
	mem_free_wiped(w, sizeof(*w) + w->n);
	if (r->work != NULL)
		return;
	list_remove(&r->working);
	list_init(&r->working);
}

void kvsub_work_drop(struct kvsub_rank *r)
{
	while (r->work != NULL)
		pop(r);
}

void kvsub_work_go_on(struct kvsub_rank *r)
{
	struct kvcursor_effect did;
	msec now = clock_msec();

	begin_turn(r);
	while (r->work != NULL && r->left > 0) {
		if (!slice(r, &r->work->slices, r->left, &did))
			continue;
		pop(r);
		kvcursor_took(&r->cursor, &did);
	}
	kvcursor_was_busy(&r->cursor, now);
	if (r->work == NULL)
		kvsub_rank_look(r, now);
}

/* Ranks at a bound address share its socket. */
bool kvsub_work_waits(const struct kvsub_socket *s)
{
	if (s->kind == KVSUB_LOAD)
		return false;
	if (s->k->store.used > s->k->store.max || (s->rank != NULL && s->rank->work != NULL))
		return true;
	for (const struct list *l = s->ranks.next; l != &s->ranks; l = l->next)
		if (list_entry(l, struct kvsub_rank, at_bound)->work != NULL)
			return true;
	return false;
}

#endif
