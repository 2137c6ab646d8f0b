/* split_falcon_in.h - Falcon's chain of steps by hand: words (a scanner like the others), and the
 * parts of a word. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_FALCON_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_FALCON_IN_H

#include "agent/tok/split/split_scan.h"

split_scan_fn split_scan_falcon_words;

/* Return the length of the first piece of a word: numbers, at most three digits, or a run without
 * numbers. <n> >= 1. */
size_t split_falcon_part(const uint8_t *p, size_t n);

#endif
