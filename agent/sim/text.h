/* text.h - write the body of a request as a client would send it.
 *
 *   TEXT_IDS    {"model":"m","prompt":[11,93,...],"max_tokens":52,"stream":true}
 *               a number a token
 *   TEXT_CHAT   {"messages":[{"role":"user","content":"..."}],"model":"m",...}
 *               4 characters a token
 *
 * Equal blocks are equal text, and others differ. So pages of the router match as blocks of the
 * trace do; a block of 512 tokens is 32 pages of 16 ids, or of 64 bytes. */
#ifndef KVROUTE_SIM_TEXT_H
#define KVROUTE_SIM_TEXT_H

#include "agent/base/buf.h"
#include "agent/sim/trace.h"

enum sim_text { SIM_TEXT_IDS, SIM_TEXT_CHAT };

/* Replace the text of <b> by a body. Returns -1 if there is no memory. */
int text_body(
    struct buf *b, const struct sim_trace *t, const struct sim_request *q, enum sim_text form);
const char *text_path(enum sim_text form);

/* Write the ids of a block's tokens as in TEXT_IDS. <block>: a number of the trace, or any above
 * them for text that no request has. All ids are below TEXT_ID_MAX. */
void text_ids(uint8_t *out, uint64_t block, uint32_t tokens);

#define TEXT_ID_MAX	100u

#endif
