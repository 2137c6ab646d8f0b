/* tok_steps.h - one segment encoded in steps that do not take long, so that a loop can do other things in between.
 *
 *   tok_steps_start();  do budget = 4096, r = tok_steps_run(s, &budget, false, &ids);  while (r == 1);  tok_steps_stop();
 *
 * For what is long and cannot be cut: a megabyte of one letter is one piece. The ids are those of tok_encode_segment(). */
#ifndef KVROUTE_TOK_TOK_STEPS_H
#define KVROUTE_TOK_TOK_STEPS_H

#include "agent/tok/tok.h"

struct tok_steps;

/* <t> is borrowed until tok_steps_stop(), <text> is copied. Takes a scratch of its own, about 2 MB, so that the thread's may
 * be used in between. NULL: no memory. */
struct tok_steps *tok_steps_start(const struct tok *t, struct span text, enum part part);

/* Work for about *budget steps of work.h; it becomes what is left of them: 1 come back, 0 all ids are in <out>, -1 no memory or the splitter
 * gave up. The same <out> each time. The text is made valid, normalized and, by splitters that are no hand scanners, split in one go
 * each. When <strict>, these have no more than *budget either; TOK_STEPS_SPENT: that was too little, and there will be no ids. */
#define TOK_STEPS_SPENT	(-2)
int tok_steps_run(struct tok_steps *s, uint64_t *budget, bool strict, struct ids *out);

/* Memory it holds. Nearly all of it is the scratch: whoever waits with steps that are not done waits with some megabytes. */
size_t tok_steps_bytes(const struct tok_steps *s);

void tok_steps_stop(struct tok_steps *s);		/* wipes it; NULL is fine */

#endif
