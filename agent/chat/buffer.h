/* buffer.h - text that grows; without memory it stays as it is and says so at the end. All zero is empty. */
#ifndef KVROUTE_CHAT_BUFFER_H
#define KVROUTE_CHAT_BUFFER_H

#include "agent/base/types.h"

struct buffer {
	char *p;
	size_t n, cap;
	bool failed;
};

void buffer_add(struct buffer *b, const char *p, size_t n);
void buffer_str(struct buffer *b, const char *s);
void buffer_span(struct buffer *b, struct span s);
void buffer_wipe(struct buffer *b);	/* it is empty, and what was in it is overwritten */
void buffer_free(struct buffer *b);	/* wipes it */

#endif
