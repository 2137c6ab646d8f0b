/* text_in.h - a text that grows up to a limit: the pages of the metrics listener. */
#ifndef KVROUTE_LOOP_TEXT_IN_H
#define KVROUTE_LOOP_TEXT_IN_H

#include "agent/base/types.h"

/* If memory or <max> is used up, <failed> is set and further text is ignored. The owner checks it
 * once at the end. */
struct text {
	char *p;
	size_t n, cap, max;
	bool failed;
};

void text_init(struct text *t, size_t max);
void text_fini(struct text *t);
void text_add(struct text *t, const char *p, size_t n);
void text_addf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Write one Prometheus label, name="value". Backslash, quote and newline are escaped as the format
 * requires. Every byte that is not printable ASCII becomes \\xNN. So any name gives valid text, and
 * different names stay different. */
void text_label(struct text *t, const char *name, struct span value);

#endif
