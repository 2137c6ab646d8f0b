/* drop.h - remove bytes that the vocabulary lacks, as tokenizers does: the bytes around them become
 * neighbours. draft.c tells which these are. */
#ifndef KVROUTE_TOK_DROP_H
#define KVROUTE_TOK_DROP_H

#include "agent/base/buf.h"
#include "agent/base/types.h"

/* Remove every byte of <dropped>, one bit for each, from pieces of *text: end[i] is the end of
 * piece i of *n. Pieces of which nothing is left are removed, too. If there is such a byte, *text
 * becomes a copy in <kept>, valid until its next use. Returns -1 if there is no memory. O(end of
 * the last piece). */
int drop_bytes(const uint8_t dropped[32], struct buf *kept, const uint8_t **text, uint32_t *end,
    size_t *n);

#endif
