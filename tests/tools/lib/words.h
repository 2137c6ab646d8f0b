/* words.h - chat bodies of any size with words that a seed makes again, for load generators. */
#ifndef TOOLS_WORDS_H
#define TOOLS_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* Advance <r>, which must not be 0. Returns it. */
uint64_t words_random(uint64_t *r);

/* Write <n> bytes of words to <to>. Returns <n>. */
size_t words_put(char *to, size_t n, uint64_t seed);

/* Write a message of a chat with <n> bytes of words, after a comma unless <role> is "system".
 * Returns the number of bytes, at most <n> + 64. */
size_t words_put_turn(char *to, const char *role, size_t n, uint64_t seed);

/* Write the head of a POST of a body of <n> bytes. Returns the number of bytes, at most 256. */
size_t words_put_head(char *to, size_t n);

#endif
