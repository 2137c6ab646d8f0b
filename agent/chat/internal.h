/* internal.h - the inside of struct chat and its scratch. Inside agent/chat only. */
#ifndef KVROUTE_CHAT_INTERNAL_H
#define KVROUTE_CHAT_INTERNAL_H

#include "agent/chat/buffer.h"
#include "agent/chat/chat.h"
#include "agent/chat/make.h"

struct chat {
	unsigned refs;			/* atomic */
	enum chat_format format;
	struct jinja *plain, *tool_use;	/* tool_use: for bodies with tools; NULL: the plain one is */
	bool plain_parts, tool_parts;	/* they walk through the parts of content */
	struct jinja_mem *mem;		/* of <tokens> */
	struct jval tokens;		/* special tokens, as variables of the template: a dict */
	uint64_t fingerprint;
};

struct chat_scratch {
	struct jinja_mem *mem;
	struct buffer closed;		/* a cut body, closed */
	struct buffer text, other;	/* <other>: the text of the same with one more message */
	struct chat_run *runs;
	size_t n_runs, cap_runs;
};

#endif
