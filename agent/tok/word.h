/* word.h - \w in Rust's regular expressions: Alphabetic, marks, decimal digits, connectors and the
 * two joiners. */
#ifndef KVROUTE_TOK_WORD_H
#define KVROUTE_TOK_WORD_H

#include "agent/base/types.h"

bool word_char(uint32_t cp);

#endif
