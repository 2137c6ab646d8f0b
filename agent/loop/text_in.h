/* text_in.h - text that grows as it is written, up to a bound: answers of the metrics listener. */
#ifndef KVROUTE_LOOP_TEXT_IN_H
#define KVROUTE_LOOP_TEXT_IN_H

#include "agent/base/types.h"

/* Once memory or <max> is short, <failed> stays set and nothing more is written; the owner checks
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

/* One Prometheus label, name="value". Backslash, quote and line feed are escaped as the format asks;
 * every byte that is not printable ASCII becomes \\xNN, so that any bytes a peer calls a server give
 * valid text, and different names stay different. */
void text_label(struct text *t, const char *name, struct span value);

#endif
