/* bench_model.c - cost of the message <model> before the message <route> of the same body.
 *
 * bench_model BYTES ROUNDS none|once|twice: ROUNDS requests, each with another beginning of a text
 * of BYTES. none: the decision alone; once: after the message <model>, whose scan it reuses; twice:
 * after one of another uid, so that the body is read again. tests/bench/model.sh counts the
 * instructions of a request from two runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rng.h"
#include "agent/route/route.h"

#define UNIQUE_AT	45	/* in the first words of the text */
#define LOAD "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1"

static size_t make_body(char *p, size_t n, struct rng *rng)
{
	static const char end[] = "\"}],\"model\":\"llama\"}";
	size_t at = (size_t)sprintf(
	    p, "{\"messages\":[{\"role\":\"user\",\"content\":\"00000000 00000000 ");

	while (at + sizeof(end) + 12 < n)
		at += (size_t)sprintf(p + at, "word%u ", (unsigned)rng_below(rng, 100000));
	return at + (size_t)sprintf(p + at, "%s", end);
}

int main(int argc, char **argv)
{
	size_t n = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned rounds = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct hash_key key = { { 7 } };
	struct route_request q = {
		.pool = SPAN("pool"), .load = SPAN(LOAD), .path = SPAN("/v1/chat/completions"),
		.tenant = SPAN("acme"),
		.seq = -1, .visible = -1, .whole = -1, .work = ROUTE_WORK_FULL,
	}, m;
	struct route_answer a;
	struct route_model found;
	struct route_opts o;
	struct route_scratch *s;
	struct route *r;
	struct rng rng;
	char uid[2][24], unique[16], *body;

	if (n < 256 || n > 4u << 20 || rounds == 0) {
		fprintf(stderr, "bench_model BYTES ROUNDS none|once|twice\n");
		return 2;
	}
	rng_init(&rng, 1);
	if ((body = malloc(n + 64)) == NULL)
		return 2;
	q.body = span_of(body, make_body(body, n, &rng));
	route_defaults(&o);
	o.index.max_bytes = 64u << 20;
	if ((r = route_new(&o, &key, 0)) == NULL || (s = route_scratch_new(r)) == NULL)
		return 2;
	for (unsigned i = 0; i < rounds; i++) {
		memcpy(body + UNIQUE_AT, unique, (size_t)snprintf(unique, sizeof(unique), "%08x", i));
		snprintf(uid[0], sizeof(uid[0]), "u%u", i);
		snprintf(uid[1], sizeof(uid[1]), "m%u", i);
		q.uid = span_str(uid[0]);
		m = q;
		m.uid = span_str(uid[argv[3][0] == 't']);
		if (argv[3][0] != 'n')
			route_model(r, s, &m, 1000 + i, &found);
		route_decide(r, s, &q, 1000 + i, &a);
	}
	route_scratch_free(s);
	route_free(r);
	free(body);
	return 0;
}
