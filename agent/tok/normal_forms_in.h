/* normal_forms_in.h - NFC, NFD, NFKC, NFKD of a text, and the buffer that normal.c and it write to. */
#ifndef KVROUTE_TOK_NORMAL_FORMS_IN_H
#define KVROUTE_TOK_NORMAL_FORMS_IN_H

#include "agent/tok/normal.h"

/* What is written of a text that changes: nothing until the first change, then all. */
struct rewrite {
	const uint8_t *in;
	size_t n, taken;	/* of <in>: taken over or replaced so far */
	struct buf *out;
	bool changed, bad;	/* bad: no memory, or the work is used up */
};

/* Put <n> bytes for in[from .. to), from >= what was put before; what lies between is taken over. */
void rewrite_put(struct rewrite *w, size_t from, size_t to, const void *p, size_t n);
/* <out> is <in> if nothing changed; p == NULL: no memory. */
void rewrite_end(struct rewrite *w, struct span *out);

/* One of the forms, UC_NFC ... */
void form_run(unsigned form, struct normal_buf *b, struct rewrite *w);
/* How many bytes at the end of <p> may still change. */
size_t form_tail(unsigned form, const uint8_t *p, size_t n);

#endif
