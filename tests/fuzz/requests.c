/* requests - a recorded trace for kvroutectl sim: an accepted trace is consistent, and written and
 * read again it is the same; a rejected one has an existing line and a sentence. */
#include "agent/sim/trace.h"
#include "tests/fuzz/lib/fuzz.h"

static void check_taken(const struct sim_trace *t)
{
	must(t->n > 0 && t->r[0].at == 0);
	for (size_t i = 0; i < t->n; i++) {
		const struct sim_request *r = &t->r[i];

		must(i == 0 || r->at >= t->r[i - 1].at);
		must(t->recorded.cached <= t->recorded.tokens && t->recorded.servers <= SIM_SERVERS_MAX);
		must(r->n_in >= 1 && r->n_out >= 1 && r->n_in <= SIM_TOKENS_MAX && r->n_out <= SIM_TOKENS_MAX);
		must(r->first + (size_t)r->n_ids <= t->n_ids && r->n_full <= r->n_ids);
		must(r->max_hit <= r->n_full && (uint64_t)r->max_hit * t->block < r->n_in);
		for (uint32_t k = 0; k < r->n_ids; k++)
			must(t->ids[r->first + k] < t->n_blocks);
	}
}

static void check_refused(const struct err *e, const struct sim_trace *t, struct span text)
{
	int lines = 1;

	for (size_t i = 0; i < text.n; i++)
		lines += text.p[i] == '\n';
	must(e->line >= 0 && e->line <= lines && e->text[0] != '\0');
	must(t->r == NULL && t->ids == NULL && t->n == 0);
}

static void write_again(const struct sim_trace *t, struct trace *out)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct sim_request *r = &t->r[i];

		trace_say(out, "{\"timestamp\":%.17g,\"input_length\":%u,\"output_length\":%u,\"session\":%u,"
			  "\"hash_ids\":[", r->at * 1000, r->n_in, r->n_out, r->session);
		for (uint32_t k = 0; k < r->n_ids; k++)
			trace_say(out, "%s%u", k ? "," : "", t->ids[r->first + k]);
		trace_say(out, "]}\n");
	}
}

/* Ids are numbered as they come, and so are sessions; so the same number has to stand at the same
 * places. */
static void check_same(const struct sim_trace *a, const struct sim_trace *b)
{
	must(a->n == b->n);
	for (size_t i = 0; i < a->n; i++) {
		must(a->r[i].n_in == b->r[i].n_in && a->r[i].n_out == b->r[i].n_out);
		must(a->r[i].n_ids == b->r[i].n_ids && a->r[i].n_full == b->r[i].n_full);
		for (uint32_t k = 0; k < a->r[i].n_ids; k++)
			must((a->ids[a->r[i].first + k] == a->ids[a->r[0].first]) ==
			     (b->ids[b->r[i].first + k] == b->ids[b->r[0].first]) || a->r[0].n_ids == 0);
		must((a->r[i].session == a->r[0].session) == (b->r[i].session == b->r[0].session));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_opts o = { .block = size & 8 ? 0
		    : size & 1                    ? 512
						  : 16,
		.keep_stamps = size & 2,
		.limit = size & 4 ? 3 : 0 };
	struct trace_opts plain = { .keep_stamps = true };
	char *copy = exact(data, size);
	struct span text = span_of(copy, size);
	struct trace again = { 0 };
	struct sim_trace a, b;
	struct err e;

	must(trace_block_of(text) <= SIM_BLOCK_MAX);
	if (trace_read(&a, text, &o, &e) < 0) {
		check_refused(&e, &a, text);
	} else {
		check_taken(&a);
		plain.block = a.block;
		write_again(&a, &again);
		must(trace_read(&b, span_of(again.p, again.n), &plain, &e) == 0);
		check_same(&a, &b);
		trace_free(&a);
		trace_free(&b);
	}
	free(again.p);
	free(copy);
	return 0;
}
