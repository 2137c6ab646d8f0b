/* Batches to the store. Several of a part are under way, so that the time of an answer does not
 * limit how many are sent. They leave the outbox when the store has confirmed them. After an error
 * or a lost connection they are sent again with the same numbers; siblings skip what they have. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>

#include "agent/os/clock.h"

#define RETRY_MS	500	/* after an error, such as of a store that is full */

void send_reset(struct share_part *p)
{
	p->turn++;
	p->under_way = p->probe = 0;
	share_outbox_take_again(p->sh->outbox, p->n);
}

static void take_refusal(struct share_part *p, const struct redisReply *r)
{
	struct share *sh = p->sh;

	count_add(&sh->figures.send_errors, 1);
	store_note(sh, p->owner, reply_text(r));
	send_reset(p);
	p->retry_at = clock_msec() + RETRY_MS;
	if (reply_is_error(r, "READONLY") || reply_is_error(r, "MOVED") ||
	    reply_is_error(r, "CLUSTERDOWN"))
		store_ask_again(sh);
}

static bool on_added(struct conn *c, void *arg, uint64_t turn, struct redisReply *r)
{
	struct share_part *p = arg;

	if (turn != p->turn)
		return false;		/* of a batch that was taken again */
	if (reply_is_any_error(r)) {
		take_refusal(p, r);
		return false;
	}
	p->under_way--;
	p->retry_at = 0;
	share_outbox_sent(p->sh->outbox, p->n);
	if (p->probe > 0 && --p->probe == 0)
		read_check_added(p, p->probe_at, reply_text(r));
	send_due(p->sh, clock_msec());
	return false;
}

static bool add_batch(struct share_part *p, struct span batch)
{
	struct share *sh = p->sh;
	char most[24];
	struct span words[] = { SPAN("XADD"), span_str(p->key), SPAN("MAXLEN"), SPAN("~"),
		span_of(most, 0), SPAN("*"), SPAN("b"), batch };

	words[4].n = (size_t)snprintf(most, sizeof(most), "%llu",
	    (unsigned long long)sh->opts.stream_entries);
	if (!conn_send(&p->owner->cmd, on_added, p, p->turn, sh->opts.timeout_ms, 8, words))
		return false;
	p->under_way++;
	if (p->probe == 0) {
		p->probe = p->under_way;
		snprintf(p->probe_at, sizeof(p->probe_at), "%s", p->at);
	}
	count_add(&sh->figures.bytes_out, batch.n);
	return true;
}

/* Returns when the part has something to send, INT64_MAX if that is not known. */
static msec send_part(struct share_part *p, msec now)
{
	struct share *sh = p->sh;
	msec due_at = INT64_MAX;
	struct span batch;

	if (p->owner == NULL || !conn_has_room(&p->owner->cmd))
		return INT64_MAX;
	if (p->retry_at > now)
		return p->retry_at;
	/* after an error, one batch shows whether the next would be taken */
	while (p->under_way < (p->retry_at != 0 ? 1 : SEND_BATCHES_MAX)) {
		if (!share_outbox_due(sh->outbox, p->n, now, &due_at))
			return due_at;
		batch = share_outbox_take(sh->outbox, p->n, now, clock_wall_ms());
		if (batch.n == 0)
			return INT64_MAX;
		if (!add_batch(p, batch) || !conn_has_room(&p->owner->cmd))
			return INT64_MAX;
	}
	return INT64_MAX;	/* the next answer brings us here again */
}

void send_due(struct share *sh, msec now)
{
	msec at = INT64_MAX, next;

	for (uint32_t i = 0; i < sh->n_parts; i++)
		if ((next = send_part(&sh->part[i], now)) < at)
			at = next;
	ev_timer_stop(sh->loop, &sh->due);
	if (at == INT64_MAX)
		return;
	ev_timer_set(&sh->due, at > now ? (double)(at - now) / 1000 : 0, 0.);
	ev_timer_start(sh->loop, &sh->due);
}

#endif
