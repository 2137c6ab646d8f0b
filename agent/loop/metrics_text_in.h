/* metrics_text_in.h - metrics as Prometheus text (exposition format 0.0.4), for the files
 * metrics*.c.
 *
 * A table of rows describes one struct of figures: a row names a metric, where its value is, and
 * its help text. A row without a help text is one more sample of the metric above it, with another
 * label. All samples of a metric must be adjacent. So what has many instances (servers, pools) is
 * copied into views first, which also keeps the lock of the core short, and then written column by
 * column. */
#ifndef KVROUTE_LOOP_METRICS_TEXT_IN_H
#define KVROUTE_LOOP_METRICS_TEXT_IN_H

#include "agent/base/vec.h"
#include "agent/loop/page_text_in.h"

enum metric_kind { COUNTER, GAUGE, HISTOGRAM };

struct metric_row {
	const char *name;	/* without "kvroute_" */
	const char *label;	/* "", or all text between the braces */
	enum metric_kind kind;
	size_t at;		/* offset of a uint64_t */
	const char *help;	/* NULL: the metric of the row above */
};

/* Write the HELP and TYPE lines of a metric. */
void metric_family(struct buf *t, const char *name, enum metric_kind kind, const char *help);

/* Write one sample. <label>: as in a row. */
void metric_sample(struct buf *t, const char *name, const char *label, uint64_t v);

/* Write a space, <v> and the end of the line: a whole number in full, any other with nine digits,
 * NaN as it is. */
void metric_value(struct buf *t, double v);

/* Write a metric that has one sample. */
void metric_single(
    struct buf *t, const char *name, enum metric_kind kind, const char *help, double v);

/* Write the <n> <rows> with the values of the struct <figures>. */
void metric_table(struct buf *t, const struct metric_row *rows, size_t n, const void *figures);
#define METRIC_TABLE(t, rows, figures)	\
	metric_table(t, rows, sizeof(rows) / sizeof((rows)[0]), figures)

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
	const char *name;
	enum metric_kind kind;
	const char *help;
};

void metric_views_init(struct metric_views *vs);

/* Append a view with the label <first>=<a> and, if <second> is not NULL, <second>=<b>. Returns it
 * with all values 0, or NULL if there is no memory. */
struct metric_view *metric_view_add(
    struct metric_views *vs, const char *first, const char *a, const char *second, const char *b);

/* Write all views, column by column, and free them. */
void metric_views_write(
    struct buf *t, struct metric_views *vs, const struct metric_column *columns, size_t n);
#define METRIC_COLUMNS(c)	(c), sizeof(c) / sizeof((c)[0])

#endif
