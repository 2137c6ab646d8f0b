/* charsmap.h - precompiled_charsmap: how a model of SentencePiece replaces characters before it
 * encodes, as its file has it.
 *
 *   | bytes of the trie (u32) | trie: units (u32) | replacements, each up to a NUL |
 *
 * The trie is a double array of Darts-clone (keys -> offset of the replacement). Numbers are little
 * endian. Everything that a text can reach is checked when it is made, so that a look-up needs no
 * checks. Immutable, shared by threads. */
#ifndef KVROUTE_TOK_CHARSMAP_H
#define KVROUTE_TOK_CHARSMAP_H

#include "agent/base/err.h"
#include "agent/base/types.h"

struct charsmap;

#define CHARSMAP_UNITS_MAX	(1u << 20)	/* those of SentencePiece have about 60,000 */

/* Copy <bytes> and check them: O(units * 256) at most, a few milliseconds for real ones. Returns
 * NULL and fills <e> if there is no memory or a look-up could lead outside. */
struct charsmap *charsmap_new(struct span bytes, struct err *e);
void charsmap_free(struct charsmap *m);		/* <m> may be NULL */

/* Return the bytes of the shortest or the longest key that begins p[0 .. n), and in *to its
 * replacement, borrowed from <m>; 0 if there is none. O(bytes looked at): up to the end of the
 * shortest key, or *seen, which may be all of <n>; and O(to->n). */
size_t charsmap_shortest(const struct charsmap *m, const uint8_t *p, size_t n, struct span *to);
size_t charsmap_longest(
    const struct charsmap *m, const uint8_t *p, size_t n, struct span *to, size_t *seen);

#endif
