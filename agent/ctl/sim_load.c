/* sim_load.c - load the requests of kvroutectl sim: a trace from a file or a workload, and the
 * configuration. */
#include <errno.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/ctl/sim.h"

#define TRACE_BYTES_MAX	((size_t)2 << 30)

static char *read_file(const char *path, size_t max, size_t *n)
{
	FILE *f = fopen(path, "rb");
	size_t cap = 1u << 16, got;
	char *p = f != NULL ? mem_alloc(cap) : NULL, *q;

	*n = 0;
	while (p != NULL && (got = fread(p + *n, 1, cap - *n, f)) > 0) {
		if ((*n += got) < cap)
			continue;
		errno = EFBIG;
		q = cap < max ? mem_resize(p, cap *= 2, 1) : NULL;
		if (q == NULL)
			mem_free(p);
		p = q;
	}
	if (p != NULL && ferror(f)) {
		mem_free(p);
		p = NULL;
	}
	if (f != NULL)
		fclose(f);
	return p;
}

/* Returns the block size in FILE.meta.json beside FILE.jsonl, or 0. */
static uint32_t block_beside(const char *path)
{
	char name[4096], *text;
	size_t n = strlen(path), end = n > 6 && strcmp(path + n - 6, ".jsonl") == 0 ? n - 6 : n;
	uint32_t block;

	if (end + sizeof(".meta.json") > sizeof(name))
		return 0;
	memcpy(name, path, end);
	strcpy(name + end, ".meta.json");
	if ((text = read_file(name, 1u << 20, &n)) == NULL)
		return 0;
	block = trace_block_of(span_of(text, n));
	mem_free(text);
	return block;
}

static int load_trace(struct sim_args *a, struct sim_trace *t)
{
	struct trace_opts o = { .block = a->block ? a->block : block_beside(a->trace), .limit = a->limit,
				.keep_stamps = a->keep_stamps };
	struct err e;
	size_t n;
	char *text = read_file(a->trace, TRACE_BYTES_MAX, &n);
	int bad;

	if (text == NULL)
		return sim_fail(a->trace, strerror(errno));
	bad = trace_read(t, span_of(text, n), &o, &e);
	mem_free(text);
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
