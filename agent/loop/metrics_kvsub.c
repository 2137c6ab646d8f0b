/* Metrics of KV cache events as they come from the sockets; metrics_sources.c has what they did. */
#include "agent/loop/kvsub_in.h"
#include "agent/loop/metrics_in.h"

static const struct metric_column columns[] = {
	{ M_events_state },
	{ M_events_ranks_synced },
	{ M_events_lag_seconds },
	{ M_events_batches_total },
	{ M_events_gaps_total },
	{ M_events_replays_total },
	{ M_events_replayed_batches_total },
	{ M_events_lost_batches_total },
	{ M_events_restarts_total },
	{ M_events_resets_total },
	{ M_events_undecoded_batches_total },
	{ M_events_bad_frames_total },
	{ M_events_held_batches },
	{ M_events_connections_total },
	{ M_events_connections_ended_total },
	{ M_events_received_bytes_total },
	{ M_events_unanswered_replays_total },
	{ M_events_silent },
	{ M_events_size_differs },
	{ M_events_slices_total },
	{ M_events_turn_work_max },
	{ M_engine_load_messages_total },
	{ M_engine_load_bad_messages_total },
};

static void add_source(void *arg, const struct event_source *who, const struct kvsub_figures *f)
{
	struct metric_view *v = metric_view_add(arg, "pool", who->pool, "server", who->server);
	const double values[] = {
		f->worst, f->synced, f->lag_s, (double)f->batches, (double)f->gaps, (double)f->replays,
		(double)f->replayed, (double)f->lost, (double)f->restarts, (double)f->resets,
		(double)f->undecoded, (double)f->bad_frames, (double)f->held, (double)f->connected,
		(double)f->ended, (double)f->bytes, (double)f->unanswered, f->silent, f->sizes,
		(double)f->slices, (double)f->turn_work,
		(double)f->loads, (double)f->bad_loads,
	};

	_Static_assert(sizeof(values) / sizeof(values[0]) == sizeof(columns) / sizeof(columns[0]) &&
		       sizeof(values) <= sizeof(v->v), "one for each column");
	if (v != NULL)
		memcpy(v->v, values, sizeof(values));
}

void metrics_write_kvsub(struct metric_page *t, const struct agent *a)
{
	struct metric_views vs;

	if (a->kvsub == NULL)
		return;
	metric_views_init(&vs);
	kvsub_each(a->kvsub, add_source, &vs);
	metric_views_write(t, &vs, METRIC_COLUMNS(columns));
}
