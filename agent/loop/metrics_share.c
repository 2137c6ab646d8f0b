/* Metrics of what agents share, and of the store. The label agent is the random number of an agent
 * that runs now; a sibling that is gone leaves the page. */
#include "agent/loop/metrics_in.h"
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>

#define O(f)	offsetof(struct share_outbox_stats, f)
#define I(f)	offsetof(struct share_inbox_stats, f)
#define B(r)	offsetof(struct share_inbox_stats, batches[SHARE_READ_##r])
#define R(f)	offsetof(struct route_share_stats, f)
#define F(f)	offsetof(struct share_figures, f)

static const struct metric_row outbox_rows[] = {
	{ "share_batches_out_total", "", COUNTER, O(batches), "Batches that the store has confirmed." },
	{ "share_dropped_total", "what=\"batches\"", COUNTER, O(dropped_batches),
	  "What was not sent because share.max_bytes was used up; siblings find it by digests." },
	{ "share_dropped_total", "what=\"entries\"", COUNTER, O(dropped_entries), NULL },
	{ "share_waiting_bytes", "", GAUGE, O(waiting_bytes),
	  "Memory of batches that the store has not confirmed." },
};

static const struct metric_row inbox_rows[] = {
	{ "share_siblings", "", GAUGE, I(siblings),
	  "Agents of the fleet that are heard, without this one." },
	{ "share_gone_total", "", COUNTER, I(gone),
	  "Siblings that fell silent; their requests count no longer." },
	{ "share_batches_in_total", "result=\"new\"", COUNTER, B(NEW),
	  "Batches read from the store, by result: applied because they are new, the first of an agent "
	  "that runs already (joined), after missing ones (hole), or one of these after all (late); not "
	  "applied because they are known (repeated), this agent's own, of another key (stranger), "
	  "damaged, of a newer version (newer), or of more agents than there is room for (crowded)." },
	{ "share_batches_in_total", "result=\"joined\"", COUNTER, B(JOINED), NULL },
	{ "share_batches_in_total", "result=\"hole\"", COUNTER, B(HOLE), NULL },
	{ "share_batches_in_total", "result=\"late\"", COUNTER, B(LATE), NULL },
	{ "share_batches_in_total", "result=\"repeated\"", COUNTER, B(REPEATED), NULL },
	{ "share_batches_in_total", "result=\"own\"", COUNTER, B(OWN), NULL },
	{ "share_batches_in_total", "result=\"stranger\"", COUNTER, B(STRANGER), NULL },
	{ "share_batches_in_total", "result=\"damaged\"", COUNTER, B(DAMAGED), NULL },
	{ "share_batches_in_total", "result=\"newer\"", COUNTER, B(NEWER), NULL },
	{ "share_batches_in_total", "result=\"crowded\"", COUNTER, B(CROWDED), NULL },
	{ "share_missing_batches_total", "", COUNTER, I(missing),
	  "Batches of siblings that had not come when a later one did; digests find what they held." },
	{ "share_skipped_entries_total", "reason=\"unknown\"", COUNTER, I(unknown_kinds),
	  "Entries skipped: of a kind that this version does not know, or malformed (bad)." },
	{ "share_skipped_entries_total", "reason=\"bad\"", COUNTER, I(bad_entries), NULL },
};

static const struct metric_row route_rows[] = {
	{ "share_pages_total", "what=\"sent\"", COUNTER, R(pages_put),
	  "Pages of requests decided here: sent to siblings, or known to them and so not sent (skipped); "
	  "and pages of siblings (applied)." },
	{ "share_pages_total", "what=\"skipped\"", COUNTER, R(pages_skipped), NULL },
	{ "share_pages_total", "what=\"applied\"", COUNTER, R(pages_applied), NULL },
	{ "share_unplaced_total", "", COUNTER, R(unplaced),
	  "Entries whose pages continue pages that are not known here; they come later, by digests." },
	{ "share_repeated_total", "", COUNTER, R(repeated), "Entries that changed nothing." },
	{ "share_early_facts_total", "", COUNTER, R(early),
	  "Facts about a request that came before the request itself." },
	{ "share_ignored_facts_total", "", COUNTER, R(ignored),
	  "Facts about requests that are not known." },
	{ "share_no_room_total", "", COUNTER, R(refused),
	  "Entries of pools or servers for which there is no room here." },
	{ "share_open_requests", "", GAUGE, R(open), "Open requests that siblings decided." },
	{ "share_closed_by_lease_total", "", COUNTER, R(closed_by_lease),
	  "Requests of siblings that were closed because the sibling fell silent." },
	{ "share_closed_as_lost_total", "", COUNTER, R(closed_as_lost),
	  "Requests of siblings that were closed because their ends were lost on the way." },
	{ "share_resyncs_total", "", COUNTER, R(rounds),
	  "Digests made of all servers, to compare with those of siblings." },
	{ "share_sums_dropped_total", "", COUNTER, R(sums_dropped),
	  "Digests that were not compared, because too many came at once; those of the next round are." },
	{ "share_differing_parts", "", GAUGE, R(parts_differing),
	  "Parts of servers that differed in the last digest of any sibling; 0: all hold the same." },
	{ "share_ends_lacked_total", "", COUNTER, R(ends_lacked),
	  "Prefixes of siblings that were not known here when digests were compared." },
	{ "share_held_total", "what=\"sent\"", COUNTER, R(held_put),
	  "Prefixes sent again because a sibling lacked them: sent, applied, without room or too old "
	  "(refused)." },
	{ "share_held_total", "what=\"applied\"", COUNTER, R(held_applied), NULL },
	{ "share_held_total", "what=\"refused\"", COUNTER, R(held_refused), NULL },
	{ "share_anchors", "", GAUGE, R(anchors), "Places that pages of siblings can continue from." },
};

static const struct metric_row store_rows[] = {
	{ "share_store_connections_total", "", COUNTER, F(connects),
	  "Connections to servers of the store." },
	{ "share_store_failures_total", "", COUNTER, F(failures),
	  "Connections to servers of the store that failed or ended with an error." },
	{ "share_store_errors_total", "", COUNTER, F(send_errors), "Batches that the store refused." },
	{ "share_store_losses_total", "", COUNTER, F(trimmed),
	  "Streams that had lost entries before they were read here: trimmed, or the store was emptied." },
	{ "share_bytes_total", "direction=\"out\"", COUNTER, F(bytes_out), "Bytes of batches." },
	{ "share_bytes_total", "direction=\"in\"", COUNTER, F(bytes_in), NULL },
	{ "share_snapshots_total", "result=\"written\"", COUNTER, F(snapshots_written),
	  "Snapshots in the store: written by this agent, failed to be written, loaded, refused." },
	{ "share_snapshots_total", "result=\"failed\"", COUNTER, F(snapshot_failures), NULL },
	{ "share_snapshots_total", "result=\"loaded\"", COUNTER, F(snapshots_loaded), NULL },
	{ "share_snapshots_total", "result=\"refused\"", COUNTER, F(snapshots_refused), NULL },
	{ "share_snapshot_bytes", "", GAUGE, F(snapshot_bytes),
	  "Size of the last one written or loaded." },
};

static const struct metric_column sibling_columns[] = {
	{ "share_lag_seconds", GAUGE,
		"Age of the newest batch of a sibling when it was read, by the clocks of both." },
	{ "share_silent_seconds", GAUGE, "Time since the newest batch of a sibling." },
	{ "share_sibling_warm", GAUGE, "1: the sibling has the state of the fleet." },
	{ "share_sibling_holes_total", COUNTER, "Holes in the numbers of a sibling's batches." },
};

static const struct metric_column kind_columns[] = {
	{ "share_entries_out_total", COUNTER, "Entries for siblings, by kind." },
	{ "share_entries_in_total", COUNTER, "Entries of siblings that were applied, by kind." },
};

static void add_siblings(struct metric_views *vs, const struct share_siblings *s, msec now)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct share_sibling *x = &s->s[i];
		struct metric_view *v;
		char agent[SHARE_AGENT_TEXT];

		share_agent_text(x->agent, agent);
		if ((v = metric_view_add(vs, "agent", agent, NULL, NULL)) == NULL)
			return;
		v->v[0] = (double)x->lag_ms / 1000;
		v->v[1] = (double)(now - x->heard) / 1000;
		v->v[2] = x->told && x->alive.warm;
		v->v[3] = (double)x->holes;
	}
}

static const char *const kind_names[SHARE_KINDS] = { NULL, "placed", "fact", "taken_back", "held",
	"cleared", "server", "head", "alive", "digest", "ends", "want" };

static void add_kinds(struct metric_views *vs, const uint64_t *out, const uint64_t *in)
{
	for (unsigned kind = 1; kind < SHARE_KINDS; kind++) {
		struct metric_view *v = metric_view_add(vs, "kind", kind_names[kind], NULL, NULL);

		if (v == NULL)
			return;
		v->v[0] = (double)out[kind];
		v->v[1] = (double)in[kind];
	}
}

static void write_views(struct buf *t, struct share *sh, const struct share_siblings *s,
    const struct share_outbox_stats *out)
{
	struct metric_views vs;

	metric_views_init(&vs);
	add_kinds(&vs, out->entries, s->inbox.entries);
	metric_views_write(t, &vs, METRIC_COLUMNS(kind_columns));
	metric_views_init(&vs);
	add_siblings(&vs, s, clock_msec());
	metric_views_write(t, &vs, METRIC_COLUMNS(sibling_columns));
}

void metrics_write_share(struct buf *t, const struct agent *a)
{
	struct share *sh = a->share;
	struct share_siblings s;
	struct share_outbox_stats out;
	struct route_share_stats route;

	if (sh == NULL)
		return;
	pthread_mutex_lock(&sh->lock);
	s = sh->siblings;
	pthread_mutex_unlock(&sh->lock);
	share_outbox_stats(sh->outbox, &out);
	route_share_stats(a->route, &route);
	metric_single(t, "share_connected", GAUGE, "1: all streams of the store are written and read.",
	    __atomic_load_n(&sh->connected, __ATOMIC_RELAXED));
	metric_single(t, "share_warm", GAUGE, "1: this agent has the state of the fleet.",
	    __atomic_load_n(&sh->is_warm, __ATOMIC_RELAXED));
	METRIC_TABLE(t, store_rows, &sh->figures);
	METRIC_TABLE(t, outbox_rows, &out);
	METRIC_TABLE(t, inbox_rows, &s.inbox);
	METRIC_TABLE(t, route_rows, &route);
	write_views(t, sh, &s, &out);
}

#else

void metrics_write_share(struct buf *t, const struct agent *a)
{
}

#endif
