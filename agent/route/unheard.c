/* unheard.c - entries of the ledger that no fact closes, and the work of each tick.
 *
 *      count       HAProxy counts fewer requests at a server than are open there: close_beyond()
 *      silence     no load string of its process names the server any more, while others come
 *      age         it is open for longer than ledger.max_age
 *
 * Such an entry counts as served, unless its server is unknown (close_unheard()). A call closes no
 * more of them than its settling has room for; the next call closes the rest. The index and
 * siblings are told after the lock is released: settle(). */
#include "agent/route/job_in.h"

#define YOUNG_MS	1000	/* HAProxy may not count its connection yet */
#define LATE_MS		1000	/* its log line may still be on its way */

static void mark_open(struct slot *sl, msec now)
{
	sl->mark = sl->n_ever;
	sl->n_marked = sl->n_open;
	sl->marked_at = now;
	sl->admitted_at = 0;
}

static void close_marked(struct route *r, struct slot *sl, struct settling *st, msec now)
{
	while (sl->n_marked > sl->admitted && !settling_full(st)) {
		struct ledger_entry *e = list_entry(sl->open.next, struct ledger_entry, in_slot);

		attached_unheard(r, e->server->pool);
		close_unheard(r, e, st, now);
		r->stats.closed_by_load++;
	}
}

/* A number of connections does not say which ones, and our entries never quite equal HAProxy's: a
 * new request is not connected yet, and one that just ended is not reported yet. A client that
 * sends its next request at once causes such a difference every time. If the oldest entry were
 * closed for it, soon no long answer would have one. So only certain knowledge counts:
 *
 *      mark all open entries -- YOUNG_MS --> a load string: all marked ones are in its count
 *                            -- LATE_MS ---> requests that had ended by then have been reported
 *
 * If more marked entries are open then than the string admitted, the rest has ended unseen. Each
 * request that ends in between hides one such entry; the next round finds it. */
void close_beyond(
    struct route *r, struct slot *sl, uint32_t admitted, struct settling *st, msec now)
{
	if (sl->marked_at == 0) {
		mark_open(sl, now);
	} else if (sl->admitted_at == 0) {
		if (now - sl->marked_at < YOUNG_MS)
			return;
		sl->admitted = admitted;
		sl->admitted_at = now;
	} else if (now - sl->admitted_at >= LATE_MS) {
		close_marked(r, sl, st, now);
		if (sl->n_marked <= sl->admitted)
			mark_open(sl, now);
	}
}

static void close_aged(struct route *r, struct settling *st, msec now)
{
	while (!settling_full(st) && !list_empty(&r->ledger.by_age)) {
		struct ledger_entry *e = list_entry(r->ledger.by_age.next, struct ledger_entry, by_age);

		if (now - e->since < r->opts.ledger_max_age_ms)
			return;
		close_unheard(r, e, st, now);
		r->stats.closed_by_age++;
	}
}

/* Tell if a HAProxy process has ended while others run: it was killed, or it ended after a reload
 * with log lines in its ring. No load string of its own will close its entries. Time counts only
 * while requests come to the pool, so that a long answer at a quiet time keeps its entry. */
static bool is_silent(const struct route *r, const struct server *s, const struct slot *sl)
{
	return sl->n_open > 0 && sl->process != PROCESS_OF_SIBLINGS &&
	    sl->process != PROCESS_OF_PREFILLS &&
	    s->pool->loaded - sl->heard >= r->opts.ledger_max_silence_ms;
}

static void close_slot(struct route *r, struct slot *sl, struct settling *st, msec now)
{
	while (sl->n_open > 0 && !settling_full(st)) {
		struct ledger_entry *e = list_entry(sl->open.next, struct ledger_entry, in_slot);

		close_unheard(r, e, st, now);
		r->stats.closed_by_silence++;
	}
}

/* Returns true if there may be more. */
static bool close_silent(struct route *r, struct settling *st, msec now)
{
	for (unsigned id = 0; id < SERVERS_MAX; id++) {
		struct server *s = r->fleet.by_id[id];

		for (unsigned k = 0; s != NULL && k < s->n_slots; k++) {
			if (is_silent(r, s, s->slots[k]))
				close_slot(r, s->slots[k], st, now);
			if (settling_full(st))
				return true;
		}
	}
	return false;
}

#define SWEEP_EVERY_MS	1000
#define SESSIONS_A_TICK	512u

void route_tick(struct route *r, msec now)
{
	struct settling st;
	bool sweep;

	settling_init(&st);
	pthread_rwlock_rdlock(&r->opts_lock);
	request_env_age(&r->requests, now - r->opts.slices_max_age_ms, SETTLE_MAX, now);
	pthread_mutex_lock(&r->lock);
	r->ticked = now;
	close_aged(r, &st, now);
	sessions_age(r->sessions, SESSIONS_A_TICK, now);
	sweep = now - r->swept >= SWEEP_EVERY_MS && !close_silent(r, &st, now);
	if (sweep) {
		r->swept = now;
		servers_sweep(r);
		room_reported(r);
	}
	room_sweep(r, now);
	pthread_mutex_unlock(&r->lock);
	if (sweep)
		sources_age(r, now);
	settle(r, &st, now);
	pthread_rwlock_unlock(&r->opts_lock);
}
