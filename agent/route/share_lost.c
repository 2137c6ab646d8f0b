/* share_lost.c - requests of siblings whose end was lost. Without this they would count as open,
 * and their claims would stay, until they are ten minutes old.
 *
 * Each SHARE_ALIVE tells how many requests its agent has open. What it put before has been applied
 * by then, so more open entries of it here have ended unseen - if entries were lost. Otherwise the
 * difference is of requests that start or end at this moment, and means nothing. So after each loss
 * the least difference within LOOK_MS counts, once. It may be too small: of another request the
 * beginning was lost, and makes up for the end until it ends itself, long after the loss. So
 * without a loss the least difference within CALM_MS counts, if there is one all the time. As with
 * load strings (unheard.c), a number does not say which ones: the oldest are closed, and never one
 * that began within that time.
 *
 * The number is of all parts. If one part is read later than the others by more than LOOK_MS, such
 * as while its node of a cluster is replaced, ends in it count as lost after a loss. As many are
 * closed as have ended, but maybe others; once the ends come, too few count as open until those end
 * as well. */
#include "agent/route/job_in.h"

#define LOOK_MS		1500	/* three of SHARE_ALIVE and more */
#define CALM_MS		5000

uint32_t route_share_open(struct route *r)
{
	const struct sharing *sh = r->sharing;
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = r->ledger.n - (sh != NULL ? sh->n_open : 0);
	pthread_mutex_unlock(&r->lock);
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Note how many entries there are beyond <open>. Returns true if it is time to close by->lost. */
static bool count_lost(const struct sharing *sh, struct sibling *by, uint32_t open, msec now)
{
	uint32_t losses = atomic_load_explicit(&sh->losses, memory_order_relaxed);
	uint32_t more = by->n_open > open ? by->n_open - open : 0;

	if (by->looking_since == 0 || (!by->after_loss && (by->looked_at != losses || by->lost == 0))) {
		by->after_loss = by->looked_at != losses;
		by->looked_at = losses;
		by->looking_since = now > 0 ? now : 1;
		by->lost = more;
		return false;
	}
	if (more < by->lost)
		by->lost = more;
	return now - by->looking_since >= (by->after_loss ? LOOK_MS : CALM_MS);
}

static void close_lost(struct route *r, struct sibling *by, struct settling *st, msec now)
{
	while (by->lost > 0 && by->n_open > 0 && !settling_full(st)) {
		struct open_request *o = list_entry(by->open.next, struct open_request, of_owner);

		if (o->e.since >= by->looking_since)
			break;
		close_unheard(r, &o->e, st, now);
		count_add_any(&r->sharing->n.closed_as_lost, 1);
		by->lost--;
	}
	if (!settling_full(st))		/* else the next SHARE_ALIVE closes the rest */
		by->looking_since = 0;
}

void share_apply_alive(
    struct route *r, share_agent from, const struct share_alive *a, msec now)
{
	struct sharing *sh = r->sharing;
	struct settling st;
	struct sibling *by;

	settling_init(&st);
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	by = sibling_met(sh, from);
	if (by != NULL && count_lost(sh, by, a->open, now))
		close_lost(r, by, &st, now);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, now);
	pthread_rwlock_unlock(&r->opts_lock);
}
