/* metrics - the answer of an engine's metrics endpoint: HTTP, and Prometheus text in its body.
 *
 * The report does not depend on how the answer is cut, its values are within their limits, and a
 * slow reader of the whole text finds the same counts. The first byte selects the cuts, the lowest
 * bit of the second if there is HTTP around the text. */
#include "agent/feed/http_answer.h"
#include "agent/feed/metrics.h"
#include "tests/fuzz/lib/fuzz.h"

struct run {
	struct metrics *m;
	struct trace *body;	/* NULL, or where the whole body goes */
};

static void say_report(struct trace *t, struct metrics *m)
{
	struct engine_report r;
	int rc = metrics_end(m, &r);

	trace_say(t, "rc %d bad %llu\n", rc, (unsigned long long)m->bad_lines);
	if (rc < 0) {
		must(metrics_strerror(rc)[0] != '\0');
		return;
	}
	must(r.waiting >= -1 && r.running >= -1 && r.kv_used <= 1 && (r.kv_used >= 0 || r.kv_used == -1));
	must(r.capacity < (uint64_t)1e12 && r.n_adapters <= ENGINE_ADAPTERS_MAX);
	trace_say(t, "w%lld r%lld u%g b%u c%llu", (long long)r.waiting, (long long)r.running,
	    r.kv_used, r.block_size, (unsigned long long)r.capacity);
	must(r.ranks <= 64 && r.started >= 0 && r.started <= 1e12);
	trace_say(t, " n%u s%.3f", r.ranks, r.started);
	for (uint32_t i = 0; i < r.n_adapters; i++) {
		must(strlen(r.adapter[i].name) > 0 && strlen(r.adapter[i].name) <= ENGINE_ADAPTER_NAME_MAX);
		trace_say(t, " %s%d%d", r.adapter[i].name, r.adapter[i].running, r.adapter[i].waiting);
	}
}

static void on_body(void *arg, const char *p, size_t n)
{
	struct run *run = arg;

	metrics_feed(run->m, p, n);
	if (run->body != NULL)
		trace_bytes(run->body, p, n);
}

/* <seed> of 256: in one piece. free(p). */
static struct trace read_in(const char *p, size_t n, bool http, unsigned seed, struct trace *body)
{
	struct run run = { must_alloc(malloc(sizeof(*run.m))), body };
	struct http_answer *a = must_alloc(malloc(sizeof(*a)));
	struct trace said = { 0 };
	struct cutter c;
	size_t used = 0, k;
	ssize_t rc = 0;

	cutter_init(&c, seed);
	metrics_init(run.m);
	http_answer_init(a, on_body, &run);
	while (rc == 0 && used < n) {
		k = seed == 256 ? n : cutter_next(&c, n - used);
		char *piece = exact(p + used, k);

		if (http)
			rc = http_answer_feed(a, piece, k);
		else
			on_body(&run, piece, k);
		free(piece);
		must(rc <= (ssize_t)k);
		used += rc > 0 ? (size_t)rc : k;
	}
	if (http && rc == 0)
		rc = http_answer_eof(a) < 0 ? a->error : (ssize_t)used;
	if (rc < 0) {
		must(http_answer_strerror((int)rc)[0] != '\0' && http_answer_feed(a, "x", 1) == rc);
		trace_say(&said, "http %ld\n", (long)rc);
	} else {
		trace_say(&said, "status %d keep %d used %zu\n", http ? a->status : 0, http && a->keep, used);
		say_report(&said, run.m);
	}
	free(run.m);
	free(a);
	return said;
}

/* ---- the slow reader --------------------------------------------------------------------- */

/* Return the sum of the lines of one metric that have no labels and a whole number; -1: none. */
static long slow_sum(const char *p, size_t n, const char *name)
{
	long sum = -1;

	for (size_t at = 0, len; at < n; at += len + 1) {
		const char *line = p + at, *lf = memchr(line, '\n', n - at);
		size_t k = strlen(name), i;
		long v = 0;

		len = lf ? (size_t)(lf - line) : n - at;
		if (len <= k + 1 || len > k + 9 || memcmp(line, name, k) != 0 || line[k] != ' ')
			continue;
		for (i = k + 1; i < len && line[i] >= '0' && line[i] <= '9'; i++)
			v = v * 10 + (line[i] - '0');
		if (i == len)
			sum = (sum < 0 ? 0 : sum) + v;
	}
	return sum;
}

/* If a metric occurs only in this form, its value is this sum. If some lines have labels, it may be
 * more. */
static void hold_against(const struct trace *body)
{
	static const char name[] = "vllm:num_requests_waiting";
	struct metrics *m = must_alloc(malloc(sizeof(*m)));
	struct engine_report r;
	long sum = slow_sum(body->p, body->n, name);

	metrics_init(m);
	metrics_feed(m, body->p, body->n);
	if (sum >= 0 && metrics_end(m, &r) == 0)
		must(r.waiting >= sum);
	free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace body = { 0 }, whole, other;
	const char *p = (const char *)data + 2;
	bool http;

	if (size < 3)
		return 0;
	http = data[1] & 1;
	whole = read_in(p, size - 2, http, 256, &body);
	for (unsigned k = 0; k < 3; k++) {
		other = read_in(p, size - 2, http, k == 0 ? 0 : data[0] + k, NULL);
		must(trace_eq(&whole, &other));
		free(other.p);
	}
	if (body.n > 0)
		hold_against(&body);
	free(whole.p);
	free(body.p);
	return 0;
}
