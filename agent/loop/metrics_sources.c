/* Metrics of KV cache events as the core has applied them: per publisher, and of the index. */
#include <stdio.h>

#include "agent/events/events.h"
#include "agent/loop/metrics_in.h"
#include "agent/route/sources.h"
#include "agent/route/truth.h"

static const struct metric_column source_columns[] = {
	{ "events_ranks", GAUGE, "Data-parallel ranks of a server that publishes KV cache events." },
	{ "events_ranks_trusted", GAUGE,
		"Of these, ranks whose events are complete enough for decisions." },
	{ "events_from_start", GAUGE,
		"1: no event since the engine was started or cleared its cache is missing, and no block had "
		"no room." },
	{ "events_block_size_tokens", GAUGE, "Tokens of a block, by its events; 0: none stored yet." },
	{ "events_blocks", GAUGE, "Blocks that the engine holds by its events, in all tiers." },
	{ "events_stored_blocks_total", COUNTER, "Blocks stored; each copy counts." },
	{ "events_removed_blocks_total", COUNTER, "Blocks removed; each copy counts." },
	{ "events_cleared_total", COUNTER, "Times that the engine cleared its whole cache." },
	{ "events_skipped_total", COUNTER, "Events that are of an unknown kind or malformed." },
	{ "events_not_dense_total", COUNTER,
		"Stored events whose tokens are not exactly those of their blocks." },
	{ "events_other_layers_total", COUNTER,
		"Events of layers without full attention, which hold no whole prefix." },
	{ "events_odd_size_total", COUNTER,
		"Stored events whose blocks are no whole blocks of their rank, or are too large for a page." },
};

_Static_assert(sizeof(source_columns) / sizeof(source_columns[0]) <= METRIC_VIEW_VALUES, "values");

static void add_source(void *arg, const struct source_view *s)
{
	struct metric_view *v = metric_view_add(arg, "pool", s->pool, "server", s->server);

	if (v == NULL)
		return;
	v->v[0] = s->ranks;
	v->v[1] = s->good;
	v->v[2] = s->from_start;
	v->v[3] = s->block_size;
	v->v[4] = (double)s->blocks;
	v->v[5] = (double)s->count.stored;
	v->v[6] = (double)s->count.removed;
	v->v[7] = (double)s->count.cleared;
	v->v[8] = (double)s->count.skipped;
	v->v[9] = (double)s->count.not_dense;
	v->v[10] = (double)s->count.other_layers;
	v->v[11] = (double)s->count.odd_size;
}

#define E(f)	offsetof(struct events_stats, f)

static const struct metric_row index_rows[] = {
	{ "events_index_limit_bytes", "", GAUGE, E(max_bytes),
	    "Memory limit of the index of reported blocks." },
	{ "events_index_records", "", GAUGE, E(records), "Pairs of block and rank in that index." },
	{ "events_orphans", "", GAUGE, E(parked), "Blocks that wait for an unknown parent." },
	{ "events_orphans_joined_total", "", COUNTER, E(joined), "Orphans whose parent came." },
	{ "events_orphans_dropped_total", "", COUNTER, E(parked_dropped),
	    "Orphans dropped for lack of room." },
	{ "events_evicted_records_total", "", COUNTER, E(evicted),
	    "Records evicted for lack of room or above a capacity." },
	{ "events_expired_records_total", "", COUNTER, E(expired),
	    "Records that engines.events.expire has ended." },
	{ "events_unknown_blocks_total", "", COUNTER, E(unknown),
	    "Blocks removed, or stored without tokens, that were not known." },
	{ "events_odd_blocks_total", "", COUNTER, E(odd),
	    "Blocks refused because they contradict what is known of their hash." },
	{ "events_refused_blocks_total", "", COUNTER, E(refused),
	    "Blocks refused for lack of room." },
};

/* By which knowledge the chosen server was expected to hold its part of the prompt. */
static void write_truths(struct buf *t, struct route *r)
{
	struct route_stats s;
	char label[32];

	route_stats(r, &s);
	metric_family(t, "choices_by_truth_total", COUNTER,
		"Choices by the knowledge of the chosen server's cache: requests (tree), its events, "
		"requests on their way (sent), or both.");
	for (unsigned i = 0; i < TRUTHS; i++) {
		snprintf(label, sizeof(label), "truth=\"%s\"", truth_text((enum truth)i));
		metric_sample(t, "choices_by_truth_total", label, s.truth[i]);
	}
}

/* Nothing is written as long as no server publishes events. */
void metrics_write_sources(struct buf *t, const struct agent *a)
{
	struct metric_views sources;
	struct events_stats s;

	if (!route_events_stats(a->route, &s))
		return;
	write_truths(t, a->route);
	METRIC_TABLE(t, index_rows, &s);
	metric_views_init(&sources);
	route_each_source(a->route, add_source, &sources);
	metric_views_write(t, &sources, METRIC_COLUMNS(source_columns));
}
