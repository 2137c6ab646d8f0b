/* text.h - the body of a request, as a client would send it: what the router is given to read.
 *
 *      TEXT_IDS    {"model":"m","prompt":[11,93,...],"max_tokens":52,"stream":true}     a number for each token
 *      TEXT_CHAT   {"messages":[{"role":"user","content":"..."}],"model":"m",...}       4 characters a token
 *
 * Equal blocks are equal text, others differ; so pages of the router match as blocks of the trace do, and a
 * block of 512 tokens is 32 pages of 16 ids, or of 64 bytes. */
#ifndef KVROUTE_SIM_TEXT_H
#define KVROUTE_SIM_TEXT_H

#include "agent/sim/trace.h"

enum sim_text { SIM_TEXT_IDS, SIM_TEXT_CHAT };

/* Memory that is reused from body to body. */
struct text_buf {
	char *p;
	size_t n, cap;
};

/* -1: no memory. <b>: empty at first; to be freed with text_free(). */
int text_body(struct text_buf *b, const struct sim_trace *t, const struct sim_request *q, enum sim_text form);
void text_free(struct text_buf *b);
const char *text_path(enum sim_text form);

#endif
