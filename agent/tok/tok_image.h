/* tok_image.h - a tokenizer as one run of bytes without pointers, for a file that is mapped: loading becomes a checksum.
 *
 *   | head: magic, version, key, checksum | recipe | vocabulary |        about as large as tok_bytes()
 *
 * Functions of bytes only; who keeps the file writes it under another name and renames it, and takes what is refused
 * here as not there. Of this machine's byte order, and of this version of the agent's tables. */
#ifndef KVROUTE_TOK_TOK_IMAGE_H
#define KVROUTE_TOK_TOK_IMAGE_H

#include "agent/tok/tok.h"

/* What an image was made from: file, configuration, pattern, and the version of this format. About 10 GB/s. */
struct tok_image_key {
	uint64_t h[2];
};
struct tok_image_key tok_image_key(const struct tok_source *src);

/* A new run of bytes, to be freed with mem_free(). p == NULL: no memory. */
struct span tok_image(const struct tok *t, struct tok_image_key key);

/* A tokenizer from an image, which it borrows: at an address that 64 divides, until <gone> (may be NULL) is called with <arg>,
 * when the last reference is given back. NULL and <e>: the image is cut, damaged, of another version or of another tokenizer
 * (then <gone> is not called); or no memory. */
struct tok *tok_of_image(struct span image, struct tok_image_key key, void (*gone)(void *arg), void *arg, struct err *e);

#endif
