/* sim_load.c - load the requests of kvroutectl sim: a trace from a file or a workload, and the
 * configuration. */
#include <errno.h>
#include <stdlib.h>

#include "agent/ctl/read.h"
#include "agent/ctl/sim.h"

#define TRACE_BYTES_MAX	((size_t)2 << 30)
#define META_BYTES_MAX	((size_t)1 << 20)

/* Returns the block size in FILE.meta.json beside FILE.jsonl, or 0. */
static uint32_t block_beside(const char *path)
{
	struct buf text = { 0 };
	char name[4096];
	size_t n = strlen(path), end = n > 6 && strcmp(path + n - 6, ".jsonl") == 0 ? n - 6 : n;
	uint32_t block = 0;

	if (end + sizeof(".meta.json") > sizeof(name))
		return 0;
	memcpy(name, path, end);
	strcpy(name + end, ".meta.json");
	if (ctl_read_file(name, META_BYTES_MAX, &text) == 0)
		block = trace_block_of(span_of(text.p, text.n));
	buf_free(&text);
	return block;
}

static int load_trace(struct sim_args *a, struct sim_trace *t)
{
	struct trace_opts o = { .block = a->block ? a->block : block_beside(a->trace), .limit = a->limit,
				.keep_stamps = a->keep_stamps };
	struct buf text = { 0 };
	struct err e;
	int bad;

	if (ctl_read_file(a->trace, TRACE_BYTES_MAX, &text) < 0) {
		bad = sim_fail(a->trace, strerror(errno));
		buf_free(&text);
		return bad;
	}
	bad = trace_read(t, span_of(text.p, text.n), &o, &e);
	buf_free(&text);
	if (bad == 0) {
		a->recorded = t->recorded;
		if (!a->own_engines && t->recorded.servers > 0)
			a->engines.n = t->recorded.servers;
		return 0;
	}
	if (e.line > 0)
		fprintf(stderr, "kvroutectl: %s:%d: %s\n", a->trace, e.line, e.text);
	else
		fprintf(stderr, "kvroutectl: %s: %s\n", a->trace, e.text);
	return -1;
}

static int load_workload(struct sim_args *a, struct workload *w)
{
	size_t n = a->limit ? a->limit : WORKLOAD_REQUESTS;
	struct err e;

	if (workload_make(w, span_str(a->workload), n, a->engines.n, a->seed, &e) < 0) {
		sim_fail("--workload", e.text);
		for (size_t i = 0; workload_at(i) != NULL; i++)
			fprintf(stderr, "%s%s", i ? " " : "there are: ", workload_at(i));
		fputc('\n', stderr);
		return -1;
	}
	memcpy(a->engines.events, w->events, sizeof(w->events));
	a->engines.n_events = w->n_events;
	if (a->engines.speed[0] == 1)
		a->engines.speed[0] = w->first_speed;
	if (a->body_limit == 0)
		a->body_limit = w->body_limit;
	if (a->first == 0)
		a->first = w->first;
	return 0;
}

int sim_load(struct sim_args *a, struct workload *w)
{
	*w = (struct workload){ .first_speed = 1 };
	return a->workload != NULL ? load_workload(a, w) : load_trace(a, &w->trace);
}
