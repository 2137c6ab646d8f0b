/* buffer.h - text that grows; without memory it stays as it is and says so at the end. All zero is empty. */
#ifndef KVROUTE_CHAT_BUFFER_H
#define KVROUTE_CHAT_BUFFER_H

#include "agent/base/types.h"

#define BUFFER_KEPT	((size_t)1 << 20)	/* bytes that outlive a wipe; a body far above the usual does not keep its room */

struct buffer {
	char *p;
	size_t n, cap;
	size_t top;		/* <n> was never above this since the last wipe */
	size_t max;		/* 0: no bound */
	bool failed, full;	/* full: by <max>, and not for want of memory */
};

void buffer_add(struct buffer *b, const char *p, size_t n);
void buffer_str(struct buffer *b, const char *s);
void buffer_span(struct buffer *b, struct span s);
void buffer_start(struct buffer *b, size_t max);	/* empty, and as good as new, but what was in it is still to be wiped */
void buffer_wipe(struct buffer *b);	/* it is empty, and what was in it is overwritten. O(what was in it) */
void buffer_free(struct buffer *b);	/* wipes it */

#endif
