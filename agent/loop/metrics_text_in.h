/* metrics_text_in.h - metrics as text, for the files metrics*.c: Prometheus' format 0.0.4, or
 * OpenMetrics 1.0.0, which has units and exemplars as well.
 *
 *     Prometheus                               OpenMetrics
 *     # HELP kvroute_requests_total Text       # TYPE kvroute_requests counter
 *     # TYPE kvroute_requests_total counter    # HELP kvroute_requests Text
 *     kvroute_requests_total 7                 kvroute_requests_total 7
 *                                              ... le="0.1"} 3 # {decision="41"} 0.08
 *                                              # EOF
 *
 * OpenMetrics names a counter without its "_total". Its "_created" is optional; it would be another
 * series for each counter, and kvroute_process_start_time_seconds tells the same, so it is left
 * out.
 *
 * metric_list.h describes each metric. A table of rows describes one struct of figures: a row names
 * a metric and where its value is; a row of the same metric as the row above is one more sample of
 * it, with another label. All samples of a metric must be adjacent. So what has many instances
 * (servers, pools) is copied into views first, which also keeps the lock of the core short, and
 * then written column by column. */
#ifndef KVROUTE_LOOP_METRICS_TEXT_IN_H
#define KVROUTE_LOOP_METRICS_TEXT_IN_H

#include "agent/base/vec.h"
#include "agent/loop/metric_table.h"
#include "agent/loop/page_text_in.h"

/* A page of metrics that is being written. */
struct metric_page {
	struct buf *t;
	bool openmetrics;
	bool shards;		/* with a row for each shard of the index */
};

struct metric_row {
	enum metric metric;
	const char *label;	/* "", or all text between the braces */
	size_t at;		/* offset of a uint64_t */
};

/* Write what precedes the samples of a metric. */
void metric_family(struct metric_page *p, enum metric m);

/* Write one sample. <label>: as in a row. */
void metric_sample(struct metric_page *p, enum metric m, const char *label, uint64_t v);
void metric_real(struct metric_page *p, enum metric m, const char *label, double v);

/* Write a metric that has one sample. */
void metric_single(struct metric_page *p, enum metric m, double v);

/* Write the <n> <rows> with the values of the struct <figures>. */
void metric_table_write(
    struct metric_page *p, const struct metric_row *rows, size_t n, const void *figures);
#define METRIC_TABLE(p, rows, figures)	\
	metric_table_write(p, rows, sizeof(rows) / sizeof((rows)[0]), figures)

/* ---- histograms --------------------------------------------------------------------------- */

/* The bars of one histogram. */
struct metric_bars {
	const char *label;	/* as in a row */
	unsigned n;		/* of <bucket>; the last one has no bound */
	const double *bounds;
	const uint64_t *bucket;	/* each without those before it */
	double sum;
	/* number of the decision that gave the last value of a bucket, 0: none, and that value; NULL:
	 * no exemplars */
	const uint64_t *decision;
	const double *value;
};

/* Write the samples of a histogram, without what precedes them. */
void metric_histogram(struct metric_page *p, enum metric m, const struct metric_bars *b);

/* ---- metrics with a label per instance -------------------------------------------------- */

enum { METRIC_VIEW_VALUES = 24 };

/* The values of one instance, one for each column. */
struct metric_view {
	size_t label, n;		/* position and length in <labels> */
	double v[METRIC_VIEW_VALUES];
};

struct metric_views {
	struct buf labels;
	VEC(struct metric_view) view;
	bool failed;			/* out of memory; metric_views_write() reports it */
};

struct metric_column {
	enum metric metric;
};

void metric_views_init(struct metric_views *vs);

/* Append a view with the label <first>=<a> and, if <second> is not NULL, <second>=<b>. Returns it
 * with all values 0, or NULL if there is no memory. */
struct metric_view *metric_view_add(
    struct metric_views *vs, const char *first, const char *a, const char *second, const char *b);

/* Add a label to the view that was added last. */
void metric_view_label(struct metric_views *vs, const char *name, const char *value);

/* Write all views, column by column, and free them. */
void metric_views_write(
    struct metric_page *p, struct metric_views *vs, const struct metric_column *columns, size_t n);
#define METRIC_COLUMNS(c)	(c), sizeof(c) / sizeof((c)[0])

#endif
