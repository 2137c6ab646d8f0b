/* metric_table.h - the metrics of metric_list.h as numbers, and what each is. */
#ifndef KVROUTE_LOOP_METRIC_TABLE_H
#define KVROUTE_LOOP_METRIC_TABLE_H

/* A metric that is not in the list does not compile. */
enum metric {
#define METRIC(name, kind, unit, labels, stability, help) M_##name,
#include "agent/loop/metric_list.h"
#undef METRIC
	METRICS
};

enum metric_kind { COUNTER, GAUGE, HISTOGRAM };

struct metric_info {
	const char *name;	/* without "kvroute_" */
	enum metric_kind kind;
	const char *unit;	/* "seconds", "bytes", "tokens", "ratio"; "": none. It ends the name */
	const char *labels;	/* "pool,server"; "": none */
	const char *help;
};

extern const struct metric_info metric_table[METRICS];

#endif
