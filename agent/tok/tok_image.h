/* tok_image.h - a tokenizer as bytes without pointers, for a file that is mapped: loading takes the
 * time of a checksum.
 *
 *   | head: magic, version, key, checksum | recipe | vocabulary |     about as large as tok_bytes()
 *
 * Functions of bytes only. The owner of the file writes it under another name and renames it, and
 * treats a rejected image as absent. An image has this machine's byte order and this version's
 * tables. */
#ifndef KVROUTE_TOK_TOK_IMAGE_H
#define KVROUTE_TOK_TOK_IMAGE_H

#include "agent/tok/tok.h"

/* The origin of an image: file, configuration, pattern, and version of the format. About 10 GB/s.
 */
struct tok_image_key {
	uint64_t h[2];
};
struct tok_image_key tok_image_key(const struct tok_source *src);

/* Allocate an image; free it with mem_free(). p == NULL: no memory. */
struct span tok_image(const struct tok *t, struct tok_image_key key);

/* Make a tokenizer that borrows <image>, which starts at a multiple of 64. When the last reference
 * is released, <gone> (may be NULL) is called with <arg>. Returns NULL and fills <e>, without
 * calling <gone>, if the image is truncated, damaged, of another version or tokenizer, or if there
 * is no memory. */
struct tok *tok_of_image(struct span image, struct tok_image_key key, void (*gone)(void *arg),
    void *arg, struct err *e);

#endif
