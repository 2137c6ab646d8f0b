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
	{ M_share_batches_out_total, "", O(batches) },
	{ M_share_dropped_total, "what=\"batches\"", O(dropped_batches) },
	{ M_share_dropped_total, "what=\"entries\"", O(dropped_entries) },
	{ M_share_waiting_bytes, "", O(waiting_bytes) },
};

static const struct metric_row inbox_rows[] = {
	{ M_share_siblings, "", I(siblings) },
	{ M_share_gone_total, "", I(gone) },
	{ M_share_batches_in_total, "result=\"new\"", B(NEW) },
	{ M_share_batches_in_total, "result=\"joined\"", B(JOINED) },
	{ M_share_batches_in_total, "result=\"hole\"", B(HOLE) },
	{ M_share_batches_in_total, "result=\"late\"", B(LATE) },
	{ M_share_batches_in_total, "result=\"repeated\"", B(REPEATED) },
	{ M_share_batches_in_total, "result=\"own\"", B(OWN) },
	{ M_share_batches_in_total, "result=\"stranger\"", B(STRANGER) },
	{ M_share_batches_in_total, "result=\"damaged\"", B(DAMAGED) },
	{ M_share_batches_in_total, "result=\"newer\"", B(NEWER) },
	{ M_share_batches_in_total, "result=\"crowded\"", B(CROWDED) },
	{ M_share_missing_batches_total, "", I(missing) },
	{ M_share_skipped_entries_total, "reason=\"unknown\"", I(unknown_kinds) },
	{ M_share_skipped_entries_total, "reason=\"bad\"", I(bad_entries) },
};

static const struct metric_row route_rows[] = {
	{ M_share_pages_total, "what=\"sent\"", R(pages_put) },
	{ M_share_pages_total, "what=\"skipped\"", R(pages_skipped) },
	{ M_share_pages_total, "what=\"applied\"", R(pages_applied) },
	{ M_share_unplaced_total, "", R(unplaced) },
	{ M_share_repeated_total, "", R(repeated) },
	{ M_share_early_facts_total, "", R(early) },
	{ M_share_ignored_facts_total, "", R(ignored) },
	{ M_share_no_room_total, "", R(refused) },
	{ M_share_open_requests, "", R(open) },
	{ M_share_closed_by_lease_total, "", R(closed_by_lease) },
	{ M_share_closed_as_lost_total, "", R(closed_as_lost) },
	{ M_share_resyncs_total, "", R(rounds) },
	{ M_share_sums_dropped_total, "", R(sums_dropped) },
	{ M_share_differing_parts, "", R(parts_differing) },
	{ M_share_ends_lacked_total, "", R(ends_lacked) },
	{ M_share_held_total, "what=\"sent\"", R(held_put) },
	{ M_share_held_total, "what=\"applied\"", R(held_applied) },
	{ M_share_held_total, "what=\"refused\"", R(held_refused) },
	{ M_share_anchors, "", R(anchors) },
};

static const struct metric_row store_rows[] = {
	{ M_share_store_connections_total, "", F(connects) },
	{ M_share_store_failures_total, "", F(failures) },
	{ M_share_store_errors_total, "", F(send_errors) },
	{ M_share_store_losses_total, "", F(trimmed) },
	{ M_share_bytes_total, "direction=\"out\"", F(bytes_out) },
	{ M_share_bytes_total, "direction=\"in\"", F(bytes_in) },
	{ M_share_snapshots_total, "result=\"written\"", F(snapshots_written) },
	{ M_share_snapshots_total, "result=\"failed\"", F(snapshot_failures) },
	{ M_share_snapshots_total, "result=\"loaded\"", F(snapshots_loaded) },
	{ M_share_snapshots_total, "result=\"refused\"", F(snapshots_refused) },
	{ M_share_snapshot_bytes, "", F(snapshot_bytes) },
};

static const struct metric_column sibling_columns[] = {
	{ M_share_lag_seconds },
	{ M_share_silent_seconds },
	{ M_share_sibling_warm },
	{ M_share_sibling_holes_total },
};

static const struct metric_column kind_columns[] = {
	{ M_share_entries_out_total },
	{ M_share_entries_in_total },
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

static void write_views(struct metric_page *t, struct share *sh, const struct share_siblings *s,
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

void metrics_write_share(struct metric_page *t, const struct agent *a)
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
	metric_single(t, M_share_connected, __atomic_load_n(&sh->connected, __ATOMIC_RELAXED));
	metric_single(t, M_share_warm, __atomic_load_n(&sh->is_warm, __ATOMIC_RELAXED));
	METRIC_TABLE(t, store_rows, &sh->figures);
	METRIC_TABLE(t, outbox_rows, &out);
	METRIC_TABLE(t, inbox_rows, &s.inbox);
	METRIC_TABLE(t, route_rows, &route);
	write_views(t, sh, &s, &out);
}

#else

void metrics_write_share(struct metric_page *t, const struct agent *a)
{
}

#endif
