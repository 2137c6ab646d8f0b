/* Metrics of KV cache events as the core has applied them: per publisher, and of the index. */
#include <stdio.h>

#include "agent/events/events.h"
#include "agent/loop/metrics_in.h"
#include "agent/route/sources.h"
#include "agent/route/truth.h"

static const struct metric_column source_columns[] = {
	{ M_events_ranks },
	{ M_events_ranks_trusted },
	{ M_events_from_start },
	{ M_events_block_size_tokens },
	{ M_events_blocks },
	{ M_events_stored_blocks_total },
	{ M_events_removed_blocks_total },
	{ M_events_cleared_total },
	{ M_events_skipped_total },
	{ M_events_not_dense_total },
	{ M_events_other_layers_total },
	{ M_events_odd_size_total },
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
	{ M_events_index_limit_bytes, "", E(max_bytes) },
	{ M_events_index_records, "", E(records) },
	{ M_events_orphans, "", E(parked) },
	{ M_events_orphans_joined_total, "", E(joined) },
	{ M_events_orphans_dropped_total, "", E(parked_dropped) },
	{ M_events_evicted_records_total, "", E(evicted) },
	{ M_events_expired_records_total, "", E(expired) },
	{ M_events_unknown_blocks_total, "", E(unknown) },
	{ M_events_odd_blocks_total, "", E(odd) },
	{ M_events_refused_blocks_total, "", E(refused) },
};

/* By which knowledge the chosen server was expected to hold its part of the prompt. */
static void write_truths(struct metric_page *t, struct route *r)
{
	struct route_stats s;
	char label[32];

	route_stats(r, &s);
	metric_family(t, M_choices_by_truth_total);
	for (unsigned i = 0; i < TRUTHS; i++) {
		snprintf(label, sizeof(label), "truth=\"%s\"", truth_text((enum truth)i));
		metric_sample(t, M_choices_by_truth_total, label, s.truth[i]);
	}
}

/* Nothing is written as long as no server publishes events. */
void metrics_write_sources(struct metric_page *t, const struct agent *a)
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
