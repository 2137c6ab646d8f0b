/* metric_table.c - metric_list.h as a table. Stability is for the manual only. */
#include "agent/loop/metric_table.h"

const struct metric_info metric_table[METRICS] = {
#define METRIC(name, kind, unit, labels, stability, help) { #name, kind, unit, labels, help },
#include "agent/loop/metric_list.h"
#undef METRIC
};
