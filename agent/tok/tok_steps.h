/* tok_steps.h - encode one segment in short steps, so that a loop can do other work in between.
 *
 *   tok_steps_start();
 *   do budget = 4096, r = tok_steps_run(s, &budget, false, &ids);  while (r == 1);
 *   tok_steps_stop();
 *
 * For long text that cannot be cut: a megabyte of one letter is one piece. The ids are those of
 * tok_encode_segment(). */
#ifndef KVROUTE_TOK_TOK_STEPS_H
#define KVROUTE_TOK_TOK_STEPS_H

#include "agent/tok/tok.h"

struct tok_steps;

/* Start with a copy of <text>; <t> is borrowed until tok_steps_stop(). Allocates a scratch of about
 * 2 MB, because the thread's is used in between. Returns NULL if there is no memory. */
struct tok_steps *tok_steps_start(const struct tok *t, struct span text, enum part part);

/* Work for about *budget steps of work.h; *budget becomes the rest. Returns 1: call again, 0: all
 * ids are in <out>, -1: no memory or the splitter gave up. Pass the same <out> each time. Repairing
 * and normalizing the text, and splitting it unless by a hand-written scanner, cannot be
 * interrupted. If <strict>, they too must fit into *budget; otherwise TOK_STEPS_SPENT is returned
 * and there are no ids. */
#define TOK_STEPS_SPENT	(-2)
int tok_steps_run(struct tok_steps *s, uint64_t *budget, bool strict, struct ids *out);

/* Return the memory it holds, nearly all of it the scratch. So each waiting segment costs some
 * megabytes. */
size_t tok_steps_bytes(const struct tok_steps *s);

void tok_steps_stop(struct tok_steps *s);		/* wipes it; <s> may be NULL */

#endif
