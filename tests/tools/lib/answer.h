/* answer.h - one request in the stub engine, and its answer in the format of its API. */
#ifndef KVROUTE_TOOLS_ANSWER_H
#define KVROUTE_TOOLS_ANSWER_H

#include "tests/tools/lib/ask.h"
#include "tests/tools/lib/buf.h"
#include "tests/tools/lib/sched.h"

struct job {
	struct ask ask;
	struct seq seqs[ASK_PROMPTS_MAX];	/* ask.n_prompts of them */
	size_t n_done;
	bool started;		/* the first event of the stream is written */
	char id[40];
	int64_t created;
	void *owner;
	void *fetch;		/* its KV is on its way: engine_kv.c */
};

/* The whole answer as one JSON object. */
void answer_json(const struct job *j, struct buf *out);

/* The events that the last token of <q> brings, as text/event-stream. */
void answer_token(struct job *j, const struct seq *q, struct buf *out);

/* Write the events after the last token of all. */
void answer_end(struct job *j, struct buf *out);

/* An error in the shape of OpenAI's. */
void answer_error(int status, const char *text, struct buf *out);

#endif
