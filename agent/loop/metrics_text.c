/* The text formats of metrics. Counters are read with relaxed atomics, because other threads write
 * them. */
#include <math.h>
#include <stdio.h>

#include "agent/base/count.h"
#include "agent/loop/metrics_text_in.h"

#define VIEW_TEXT_MAX	(2u << 20)	/* labels of all instances */

/* Return the length of the name that a family has: OpenMetrics leaves "_total" out. */
static int family_length(const struct metric_page *p, const struct metric_info *i)
{
	size_t n = strlen(i->name);

	return (int)(p->openmetrics && i->kind == COUNTER ? n - strlen("_total") : n);
}

/* OpenMetrics escapes quotes in help texts, and Prometheus' own format does not. */
static void put_help(struct metric_page *p, const char *help)
{
	for (; *help != '\0'; help++) {
		if (p->openmetrics && *help == '"')
			buf_str(p->t, "\\");
		buf_add(p->t, help, 1);
	}
	buf_str(p->t, "\n");
}

void metric_family(struct metric_page *p, enum metric m)
{
	static const char *const word[] = { "counter", "gauge", "histogram" };
	const struct metric_info *i = &metric_table[m];
	int n = family_length(p, i);

	if (p->openmetrics) {
		page_addf(p->t, "# TYPE kvroute_%.*s %s\n", n, i->name, word[i->kind]);
		if (i->unit[0] != '\0')
			page_addf(p->t, "# UNIT kvroute_%.*s %s\n", n, i->name, i->unit);
	}
	page_addf(p->t, "# HELP kvroute_%.*s ", n, i->name);
	put_help(p, i->help);
	if (!p->openmetrics)
		page_addf(p->t, "# TYPE kvroute_%s %s\n", i->name, word[i->kind]);
}

/* Write the name of a sample and its labels: <label>, and after it <more>. */
static void put_name(
    struct metric_page *p, enum metric m, const char *suffix, const char *label, const char *more)
{
	page_addf(p->t, "kvroute_%s%s", metric_table[m].name, suffix);
	if (label[0] == '\0' && more[0] == '\0')
		return;
	buf_str(p->t, "{");
	buf_str(p->t, label);
	if (label[0] != '\0' && more[0] != '\0')
		buf_str(p->t, ",");
	buf_str(p->t, more);
	buf_str(p->t, "}");
}

/* Write a space and <v>: a whole number in full, any other with nine digits, NaN as it is. */
static void put_number(struct metric_page *p, double v)
{
	if (isnan(v))
		page_addf(p->t, " NaN");
	else if (v > -1e18 && v < 1e18 && v == (double)(int64_t)v)
		page_addf(p->t, " %lld", (long long)v);
	else
		page_addf(p->t, " %.9g", v);
}

static void put_count(struct metric_page *p, uint64_t v)
{
	page_addf(p->t, " %llu", (unsigned long long)v);
}

void metric_sample(struct metric_page *p, enum metric m, const char *label, uint64_t v)
{
	put_name(p, m, "", label, "");
	put_count(p, v);
	buf_str(p->t, "\n");
}

void metric_real(struct metric_page *p, enum metric m, const char *label, double v)
{
	put_name(p, m, "", label, "");
	put_number(p, v);
	buf_str(p->t, "\n");
}

void metric_single(struct metric_page *p, enum metric m, double v)
{
	metric_family(p, m);
	metric_real(p, m, "", v);
}

void metric_table_write(
    struct metric_page *p, const struct metric_row *rows, size_t n, const void *figures)
{
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || rows[i].metric != rows[i - 1].metric)
			metric_family(p, rows[i].metric);
		metric_sample(p, rows[i].metric, rows[i].label,
		    count_read((const uint64_t *)((const char *)figures + rows[i].at)));
	}
}

/* ---- histograms ------------------------------------------------------------------------- */

/* OpenMetrics wants a bound to look like a real number: "4.0". */
static void bound_text(const struct metric_page *p, const struct metric_bars *b, unsigned i,
    char text[40])
{
	int n;

	if (i + 1 == b->n) {
		snprintf(text, 40, "le=\"+Inf\"");
		return;
	}
	n = snprintf(text, 38, "le=\"%.10g", b->bounds[i]);
	if (p->openmetrics && strpbrk(text + 4, ".e") == NULL)
		n += snprintf(text + n, (size_t)(38 - n), ".0");
	snprintf(text + n, (size_t)(40 - n), "\"");
}

void metric_histogram(struct metric_page *p, enum metric m, const struct metric_bars *b)
{
	uint64_t n = 0;
	char le[40];

	for (unsigned i = 0; i < b->n; i++) {
		n += b->bucket[i];
		bound_text(p, b, i, le);
		put_name(p, m, "_bucket", b->label, le);
		put_count(p, n);
		if (p->openmetrics && b->decision != NULL && b->decision[i] != 0) {
			page_addf(p->t, " # {decision=\"%llu\"}", (unsigned long long)b->decision[i]);
			put_number(p, b->value[i]);
		}
		buf_str(p->t, "\n");
	}
	put_name(p, m, "_sum", b->label, "");
	put_number(p, b->sum);
	buf_str(p->t, "\n");
	put_name(p, m, "_count", b->label, "");
	put_count(p, n);
	buf_str(p->t, "\n");
}

/* ---- views ------------------------------------------------------------------------------ */

void metric_views_init(struct metric_views *vs)
{
	*vs = (struct metric_views){ 0 };
	buf_start(&vs->labels, VIEW_TEXT_MAX);
}

void metric_view_label(struct metric_views *vs, const char *name, const char *value)
{
	struct metric_view *v = &vs->view.p[vs->view.n - 1];

	if (v->n > 0)
		buf_str(&vs->labels, ",");
	page_label(&vs->labels, name, span_str(value));
	v->n = vs->labels.n - v->label;
}

struct metric_view *metric_view_add(
    struct metric_views *vs, const char *first, const char *a, const char *second, const char *b)
{
	if (vec_push(&vs->view, (struct metric_view){ .label = vs->labels.n }) < 0) {
		vs->failed = true;
		return NULL;
	}
	metric_view_label(vs, first, a);
	if (second != NULL)
		metric_view_label(vs, second, b);
	return &vs->view.p[vs->view.n - 1];
}

void metric_views_write(
    struct metric_page *p, struct metric_views *vs, const struct metric_column *columns, size_t n)
{
	const struct metric_view *v;
	size_t c, i;

	if (vs->failed || vs->labels.failed)
		p->t->failed = true;
	for (c = 0; c < n && vs->view.n > 0 && !p->t->failed; c++) {
		metric_family(p, columns[c].metric);
		for (i = 0; i < vs->view.n; i++) {
			v = &vs->view.p[i];
			page_addf(p->t, "kvroute_%s{", metric_table[columns[c].metric].name);
			buf_add(p->t, vs->labels.p + v->label, v->n);
			buf_str(p->t, "}");
			put_number(p, v->v[c]);
			buf_str(p->t, "\n");
		}
	}
	buf_free(&vs->labels);
	vec_free(&vs->view);
}
