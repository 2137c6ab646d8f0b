/* grapheme.h - grapheme clusters, the characters as people see them (UAX #29, Unicode 16,
 * extended), as the library in tokenizers 0.22 finds them. */
#ifndef KVROUTE_TOK_UNICODE_GRAPHEME_H
#define KVROUTE_TOK_UNICODE_GRAPHEME_H

#include "agent/base/types.h"

/* Return the bytes of the cluster that p[0 .. n), valid UTF-8, starts with; <p> is the start of the
 * text or the end of a cluster. Returns 0 if n == 0. O(bytes of the cluster). */
size_t grapheme_length(const uint8_t *p, size_t n);

#endif
