/* utf8.h - whether text is valid UTF-8, and text made so.
 *
 * Everything behind the encoder's front door may rely on valid text; here is the door. ASCII costs what reading it costs. */
#ifndef KVROUTE_TOK_UTF8_H
#define KVROUTE_TOK_UTF8_H

#include "agent/base/types.h"

/* How many bytes from <p> on are valid UTF-8; <n>: all. A character that is cut at the end is not. */
size_t utf8_good(const uint8_t *p, size_t n);

/* The bytes at <p>, where utf8_good() stopped, that become one U+FFFD: the maximal bad part (Unicode 15, 3.9), 1..3. */
size_t utf8_bad(const uint8_t *p, size_t n);

/* <in> with U+FFFD for each maximal bad part, into <out>, which has room for 3 * n bytes. Returns its bytes. */
size_t utf8_mend(const uint8_t *in, size_t n, uint8_t *out);

/* Up to three bytes at the end of valid text that are the beginning of a character not all there: how many. */
size_t utf8_cut(const uint8_t *p, size_t n);

#endif
