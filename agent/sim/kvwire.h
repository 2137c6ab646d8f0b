/* kvwire.h - the batches of a simulated engine as vLLM 0.24 and later publish them: MessagePack,
 * each event a map in a positional batch. */
#ifndef KVROUTE_SIM_KVWIRE_H
#define KVROUTE_SIM_KVWIRE_H

#include "agent/base/buf.h"
#include "agent/sim/kvlog.h"

/* Replace the text of <to> by the payload of <b>, of engine <engine>, whose blocks have <block>
 * tokens: those of text_ids(). Handles are as different as hashes: two engines have different ones
 * of one block. Returns -1 if there is no memory. */
int kvwire_put(struct buf *to, const struct kvlog_batch *b, unsigned engine, uint32_t block);

#endif
