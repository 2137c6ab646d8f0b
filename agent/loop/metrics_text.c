/* The text format of metrics. Counters are read with relaxed atomics, because other threads write
 * them. */
#include <math.h>
#include <stdio.h>

#include "agent/base/count.h"
#include "agent/loop/metrics_text_in.h"

#define VIEW_TEXT_MAX	(2u << 20)	/* labels of all instances */

void metric_family(struct buf *t, const char *name, enum metric_kind kind, const char *help)
{
	static const char *const word[] = { "counter", "gauge", "histogram" };

	page_addf(t, "# HELP kvroute_%s %s\n# TYPE kvroute_%s %s\n", name, help, name, word[kind]);
}

void metric_sample(struct buf *t, const char *name, const char *label, uint64_t v)
{
	if (label[0] != '\0')
		page_addf(t, "kvroute_%s{%s} %llu\n", name, label, (unsigned long long)v);
	else
		page_addf(t, "kvroute_%s %llu\n", name, (unsigned long long)v);
}

void metric_value(struct buf *t, double v)
{
	if (isnan(v))
		page_addf(t, " NaN\n");
	else if (v > -1e18 && v < 1e18 && v == (double)(int64_t)v)
		page_addf(t, " %lld\n", (long long)v);
	else
		page_addf(t, " %.9g\n", v);
}

void metric_single(
    struct buf *t, const char *name, enum metric_kind kind, const char *help, double v)
{
	metric_family(t, name, kind, help);
	page_addf(t, "kvroute_%s", name);
	metric_value(t, v);
}

void metric_table(struct buf *t, const struct metric_row *rows, size_t n, const void *figures)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (rows[i].help != NULL)
			metric_family(t, rows[i].name, rows[i].kind, rows[i].help);
		metric_sample(t, rows[i].name, rows[i].label,
		       count_read((const uint64_t *)((const char *)figures + rows[i].at)));
	}
}

/* ---- views ------------------------------------------------------------------------------ */

void metric_views_init(struct metric_views *vs)
{
	*vs = (struct metric_views){ 0 };
	buf_start(&vs->labels, VIEW_TEXT_MAX);
}

struct metric_view *metric_view_add(
    struct metric_views *vs, const char *first, const char *a, const char *second, const char *b)
{
	struct metric_view *v;

	if (vec_push(&vs->view, (struct metric_view){ .label = vs->labels.n }) < 0) {
		vs->failed = true;
		return NULL;
	}
	v = &vs->view.p[vs->view.n - 1];
	page_label(&vs->labels, first, span_str(a));
	if (second != NULL) {
		buf_str(&vs->labels, ",");
		page_label(&vs->labels, second, span_str(b));
	}
	v->n = vs->labels.n - v->label;
	return v;
}

void metric_views_write(
    struct buf *t, struct metric_views *vs, const struct metric_column *columns, size_t n)
{
	const struct metric_view *v;
	size_t c, i;

	if (vs->failed || vs->labels.failed)
		t->failed = true;
	for (c = 0; c < n && vs->view.n > 0 && !t->failed; c++) {
		metric_family(t, columns[c].name, columns[c].kind, columns[c].help);
		for (i = 0; i < vs->view.n; i++) {
			v = &vs->view.p[i];
			page_addf(t, "kvroute_%s{", columns[c].name);
			buf_add(t, vs->labels.p + v->label, v->n);
			buf_str(t, "}");
			metric_value(t, v->v[c]);
		}
	}
	buf_free(&vs->labels);
	vec_free(&vs->view);
}
