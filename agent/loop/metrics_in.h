/* metrics_in.h - the page of all metrics.
 *
 * Labels come from bounded sets: pools, servers, models of the configuration, words of the agent,
 * numbers of threads. No label comes from a request. */
#ifndef KVROUTE_LOOP_METRICS_IN_H
#define KVROUTE_LOOP_METRICS_IN_H

#include "agent/loop/admin_in.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/logrx_in.h"
#include "agent/loop/metrics_text_in.h"
#include "agent/loop/poll_peers_in.h"

struct metrics_from {
	struct agent *agent;
	const struct logrx_counters *logrx;
	const struct admin_counters *admin;
	const struct poll_counters *stats, *engines;
};

void metrics_write(const struct metrics_from *from, struct metric_page *t);

/* Its parts in other files. */
void metrics_write_core(struct metric_page *t, struct route *r);
void metrics_write_servers(struct metric_page *t, const struct agent *a);
void metrics_write_sources(struct metric_page *t, const struct agent *a);
void metrics_write_kvsub(struct metric_page *t, const struct agent *a);
void metrics_write_share(struct metric_page *t, const struct agent *a);
void metrics_write_pools(struct metric_page *t, struct route *r);	/* also models, compared rules */
void metrics_write_decisions(
    struct metric_page *t, const struct agent *a, const struct serve_counters *c);
void metrics_write_histograms(struct metric_page *t, const struct agent *a);

#endif
