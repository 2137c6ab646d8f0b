/* Metrics of KV cache events as they come from the sockets; metrics_sources.c has what they did. */
#include "agent/loop/kvsub_in.h"
#include "agent/loop/metrics_in.h"

static const struct metric_column columns[] = {
	{ "events_state", GAUGE,
		"Stream of events: 0 not connected; 1 complete (synced); 2 batches are missing (gap); 3 they "
		"are sent again (replaying); 4 some are lost (degraded); 5 connected, and nothing came since "
		"(waiting). Of several ranks the worst: 0, 5, 4, 3, 2, 1." },
	{ "events_ranks_synced", GAUGE, "Ranks whose stream is complete." },
	{ "events_lag_seconds", GAUGE,
		"Age of the newest batch when it was applied, by the clocks of engine and agent." },
	{ "events_batches_total", COUNTER, "Batches applied." },
	{ "events_gaps_total", COUNTER, "Gaps in the sequence of batches." },
	{ "events_replays_total", COUNTER, "Times that missing batches were asked for." },
	{ "events_replayed_batches_total", COUNTER, "Batches applied that were sent again." },
	{ "events_lost_batches_total", COUNTER, "Batches that could not be had any more." },
	{ "events_restarts_total", COUNTER, "Restarts of the engine, as told by its events or metrics." },
	{ "events_resets_total", COUNTER,
		"Times that all blocks of a rank were forgotten because too much was lost, or because a restart "
		"could not be ruled out." },
	{ "events_undecoded_batches_total", COUNTER, "Batches that are no valid MessagePack of events." },
	{ "events_bad_frames_total", COUNTER,
		"Messages that are no frame of events, or that do not belong to a replay." },
	{ "events_held_batches", GAUGE, "Batches that wait for missing ones." },
	{ "events_connections_total", COUNTER, "Connections to the sockets where events are published." },
	{ "events_connections_ended_total", COUNTER,
		"Connections ended because too many bytes of them waited in memory." },
	{ "events_received_bytes_total", COUNTER, "Bytes of messages received." },
	{ "events_unanswered_replays_total", COUNTER,
		"Times that missing batches were asked for and nothing came." },
	{ "events_silent", GAUGE,
		"1: a request with new blocks was sent to the server 30 seconds ago, and no event came since." },
	{ "events_size_differs", GAUGE,
		"1: its blocks are not of the size in models.block_size, or prompts cannot be divided so." },
	{ "events_slices_total", COUNTER,
		"Times that the rest of a batch was left for a later turn, so that others come first." },
	{ "events_turn_work_max", GAUGE, "Most blocks and events of a rank that one turn has applied." },
	{ "engine_load_messages_total", COUNTER, "Messages of its load socket (engines.load)." },
	{ "engine_load_bad_messages_total", COUNTER, "Messages of its load socket that are no load." },
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

void metrics_write_kvsub(struct buf *t, const struct agent *a)
{
	struct metric_views vs;

	if (a->kvsub == NULL)
		return;
	metric_views_init(&vs);
	kvsub_each(a->kvsub, add_source, &vs);
	metric_views_write(t, &vs, METRIC_COLUMNS(columns));
}
