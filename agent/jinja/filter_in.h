/* filter_in.h - private to agent/jinja: the filters over sequences, for the table in filter.c. */
#ifndef KVROUTE_JINJA_FILTER_IN_H
#define KVROUTE_JINJA_FILTER_IN_H

#include "agent/jinja/run_in.h"

/* Apply a filter. <v>: arguments in the order of its parameters; JV_MISSING: absent. */
typedef bool filter(struct run *r, struct jval in, const struct jval *v, struct jval *out);

filter jx_f_first, jx_f_last, jx_f_reverse, jx_f_list, jx_f_items, jx_f_length, jx_f_join, jx_f_sum,
	jx_f_unique, jx_f_sort, jx_f_dictsort, jx_f_min, jx_f_max;

/* Filters that bind their arguments themselves. */
bool jx_f_map(struct run *r, struct jval in, const struct args *a, struct jval *out);
bool jx_f_select(struct run *r, struct jval in, const struct args *a, unsigned how,
		 struct jval *out);
enum { SELECT_NOT = 1, SELECT_ATTR = 2 };

#endif
