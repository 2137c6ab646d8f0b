/* sim_print.c - rows of a simulation as a table, or as one JSON object per line. */
#include <inttypes.h>

#include "agent/ctl/sim.h"
#include "agent/sim/spread.h"

static const char *const facts_name[] = {
	[ROUTER_FIRST] = "first", [ROUTER_END] = "end", [ROUTER_NONE] = "none"
};

/* The spread of a figure over <seeds> adjacent rows. */
#define SPREAD(rows, seeds, member)	spread_of(&(rows)->member, (seeds), sizeof(*(rows)))
#define MEAN(rows, seeds, member)	SPREAD(rows, seeds, member).mean

static size_t sum_failed(const struct sim_row *rows, unsigned seeds)
{
	size_t n = 0;

	for (unsigned k = 0; k < seeds; k++)
		n += rows[k].r.failed;
	return n;
}

static size_t sum_split(const struct sim_row *rows, unsigned seeds)
{
	size_t n = 0;

	for (unsigned k = 0; k < seeds; k++)
		n += rows[k].r.split;
	return n;
}

static size_t sum_fallback(const struct sim_row *rows, unsigned seeds)
{
	size_t n = 0;

	for (unsigned k = 0; k < seeds; k++)
		n += rows[k].r.fallback;
	return n;
}

/* Returns the requests that engine <i> got, in all repeats. */
static struct sim_served sum_served(const struct sim_row *rows, unsigned seeds, unsigned i)
{
	struct sim_served s = { 0 };

	for (unsigned k = 0; k < seeds; k++) {
		s.requests += rows[k].r.served[i].requests;
		s.tokens += rows[k].r.served[i].tokens;
		s.cached += rows[k].r.served[i].cached;
		s.busy_s += rows[k].r.served[i].busy_s;
	}
	return s;
}

/* ---- a table ---------------------------------------------------------------------------- */

static void print_head(FILE *to, const struct sim_args *a, const char *what,
    const struct sim_row *rows, size_t n, int width)
{
	fprintf(to, "%s: %zu requests, %u engines %s, time x%.2f, facts %s", what, n ? rows[0].r.n : 0,
		a->engines.n, a->engines.profile.name, MEAN(rows, a->seeds, haste), facts_name[a->facts]);
	if (a->seeds > 1)
		fprintf(to, ", %u seeds", a->seeds);
	if (a->loads != ROUTER_LOADS_NONE)
		fprintf(to, ", load by %s", a->loads == ROUTER_LOADS_POLLS ? "polls" : "answers");
	if (a->agents.n > 0)
		fprintf(to, ", %u agents%s%s", a->agents.n,
		    a->agents.spread == AGENTS_BY_CHANCE ? " by chance" : "",
		    a->agents.one_haproxy ? " of one HAProxy" : "");
	if (a->engines.kv.publishers > 0)
		fprintf(to, ", events of %u engines", a->engines.kv.publishers);
	fprintf(to, "\n\n%-*s %8s %8s %8s %8s %8s %6s %6s %6s %6s %7s %7s", width, "policy", "mean s",
	    "p50", "p90", "p99", "/oracle", "hit", "wait", "sent", "work", "failed", "us");
	if (a->seeds > 1)
		fprintf(to, " %9s %9s %9s", "+- mean s", "least", "most");
	fputc('\n', to);
}

static void print_line(FILE *to, const struct sim_row *r, unsigned seeds, int width)
{
	struct spread mean = SPREAD(r, seeds, r.ttft_mean);

	fprintf(to, "%-*s %8.3f %8.3f %8.3f %8.3f %8.2f %6.3f", width,
	    r->name, mean.mean, MEAN(r, seeds, r.ttft_p50), MEAN(r, seeds, r.ttft_p90),
	    MEAN(r, seeds, r.ttft_p99), MEAN(r, seeds, ratio), MEAN(r, seeds, r.hit));
	if (r->r.wait_error >= 0)
		fprintf(to, " %6.3f", MEAN(r, seeds, r.wait_error));
	else
		fprintf(to, " %6s", "-");
	fprintf(to, " %6.2f %6.2f %7zu %7.1f", MEAN(r, seeds, r.most_sent),
	    MEAN(r, seeds, r.most_computed), sum_failed(r, seeds), MEAN(r, seeds, r.decide_us));
	if (seeds > 1)
		fprintf(to, " %9.3f %9.3f %9.3f", mean.se, mean.min, mean.max);
	fputc('\n', to);
}

static void print_split(FILE *to, const struct sim_args *a, const struct sim_row *r, int width)
{
	double n = (double)r->r.n * a->seeds;

	fprintf(to, "%-*s %.2f ms between tokens, %.3f s to the end, %.3f computed by prefill servers\n",
	    width, r->name, MEAN(r, a->seeds, r.itl_mean) * 1000, MEAN(r, a->seeds, r.e2e_mean),
	    n > 0 ? (double)sum_split(r, a->seeds) / n : 0);
}

static void print_servers(
    FILE *to, const struct sim_row *r, unsigned seeds, unsigned engines, int width)
{
	fprintf(to, "\n%-*s %8s %10s %13s %6s %9s\n", width, r->name, "engine", "requests",
	    "prompt tokens", "hit", "busy s");
	for (unsigned i = 0; i < engines; i++) {
		struct sim_served s = sum_served(r, seeds, i);

		fprintf(to, "%-*s %8u %10.1f %13.0f %6.3f %9.1f\n", width, "", i, (double)s.requests / seeds,
			(double)s.tokens / seeds, s.tokens > 0 ? (double)s.cached / (double)s.tokens : 0,
			s.busy_s / seeds);
	}
}

/* Print what the trace recorded, to compare with the simulation. */
static void print_recorded(FILE *to, const struct sim_recorded *r)
{
	if (r->n > 0)
		fprintf(to,
			"recorded: %zu requests at %u servers, %.3f of their tokens expected in the cache of "
			"their server", r->n,
			r->servers, r->tokens > 0 ? (double)r->cached / (double)r->tokens : 0);
	if (r->n > 0 && r->n_first > 0)
		fprintf(to, ", first token after %.3f s, mean of %zu",
		    r->first_s / (double)r->n_first, r->n_first);
	if (r->n > 0)
		fputc('\n', to);
	if (r->failed > 0)
		fprintf(to, "left out: %zu that were answered with an error\n", r->failed);
	if (r->unlike > 0)
		fprintf(to, "left out: %zu with blocks of another size than the first\n", r->unlike);
	if (r->too_long > 0)
		fprintf(to, "left out: %zu with more than %u tokens, most of which the agent did not see\n",
			r->too_long, SIM_TOKENS_MAX);
	if (r->cut)
		fprintf(to, "left out: the last line, which is incomplete\n");
}

static void print_table(
    FILE *to, const struct sim_args *a, const char *what, const struct sim_row *rows, size_t n)
{
	size_t width = 12;

	for (size_t i = 0; i < n; i++)
		width = strlen(rows[i * a->seeds].name) > width ? strlen(rows[i * a->seeds].name) : width;
	print_head(to, a, what, rows, n, (int)width);
	for (size_t i = 0; i < n; i++)
		print_line(to, &rows[i * a->seeds], a->seeds, (int)width);
	for (size_t i = 0; a->engines.prefills > 0 && i < n; i++)
		print_split(to, a, &rows[i * a->seeds], (int)width);
	for (size_t i = 0; i < n; i++) {
		size_t none = sum_fallback(&rows[i * a->seeds], a->seeds);

		if (none > 0)
			fprintf(to, "%s named no server for %zu requests\n", rows[i * a->seeds].name, none);
	}
	for (size_t i = 0; i < n * a->seeds; i++) {
		if (rows[i].is_agents)
			sim_print_agents(to, a, &rows[i]);
	}
	print_recorded(to, &a->recorded);
	for (size_t i = 0; a->servers && i < n; i++)
		print_servers(to, &rows[i * a->seeds], a->seeds, a->engines.n, (int)width);
}

/* ---- JSON ------------------------------------------------------------------------------- */

static void json_spread(FILE *to, const char *name, struct spread s)
{
	fprintf(to, ",\"%s_min\":%.6f,\"%s_max\":%.6f,\"%s_se\":%.6f", name, s.min, name, s.max,
	    name, s.se);
}

static void json_spreads(FILE *to, const struct sim_row *r, unsigned seeds)
{
	fprintf(to, ",\"seeds\":%u", seeds);
	json_spread(to, "ttft_mean", SPREAD(r, seeds, r.ttft_mean));
	json_spread(to, "ttft_p50", SPREAD(r, seeds, r.ttft_p50));
	json_spread(to, "ttft_p90", SPREAD(r, seeds, r.ttft_p90));
	json_spread(to, "ttft_p99", SPREAD(r, seeds, r.ttft_p99));
	json_spread(to, "ratio", SPREAD(r, seeds, ratio));
	json_spread(to, "hit", SPREAD(r, seeds, r.hit));
	json_spread(to, "most_sent", SPREAD(r, seeds, r.most_sent));
	json_spread(to, "most_computed", SPREAD(r, seeds, r.most_computed));
}

static void json_servers(FILE *to, const struct sim_row *r, unsigned seeds, unsigned engines)
{
	for (unsigned i = 0; i < engines; i++) {
		struct sim_served s = sum_served(r, seeds, i);

		fprintf(to, "%s{\"requests\":%.1f,\"tokens\":%.0f,\"cached\":%.0f,\"busy_s\":%.3f}",
			i == 0 ? ",\"servers\":[" : ",", (double)s.requests / seeds, (double)s.tokens / seeds,
			(double)s.cached / seeds, s.busy_s / seeds);
	}
	fputc(']', to);
}

static void json_whys(FILE *to, const struct sim_row *r, unsigned seeds)
{
	for (unsigned w = 0; r->core && w < WHY_COUNT; w++) {
		uint64_t n = 0;

		for (unsigned k = 0; k < seeds; k++)
			n += r[k].s.why[w];
		if (n > 0)
			fprintf(to, ",\"%s\":%" PRIu64, why_text(w), n);
	}
	if (r->inferred > 0)
		fprintf(to, ",\"inferred\":%u,\"capacity_tokens\":%.0f", r->inferred, r->capacity_tokens);
}

static void json_events(FILE *to, const struct sim_args *a, const struct sim_row *r)
{
	struct router_heard h = { 0 };

	for (unsigned k = 0; k < a->seeds; k++) {
		h.batches += r[k].heard.batches;
		h.lost += r[k].heard.lost;
		h.stored += r[k].heard.stored;
		h.removed += r[k].heard.removed;
		h.bad += r[k].heard.bad;
	}
	fprintf(to,
		",\"events_from\":%u,\"batches\":%" PRIu64 ",\"batches_lost\":%" PRIu64
		",\"batches_bad\":%" PRIu64 ",\"blocks_stored\":%" PRIu64 ",\"blocks_removed\":%" PRIu64,
		a->engines.kv.publishers, h.batches, h.lost, h.bad, h.stored, h.removed);
}

static void print_json(FILE *to, const struct sim_args *a, const struct sim_row *r)
{
	unsigned seeds = a->seeds;

	fprintf(to,
	    "{\"policy\":\"%s\",\"engines\":%u,\"profile\":\"%s\",\"speed\":%.4f,\"facts\":\"%s\"",
	    r->name, a->engines.n, a->engines.profile.name, MEAN(r, seeds, haste),
	    facts_name[a->facts]);
	fprintf(to,
	    ",\"requests\":%zu,\"failed\":%zu,\"unrouted\":%zu,\"ttft_mean\":%.6f,"
	    "\"ttft_p50\":%.6f,\"ttft_p90\":%.6f,\"ttft_p99\":%.6f",
	    r->r.n, sum_failed(r, seeds), sum_fallback(r, seeds), MEAN(r, seeds, r.ttft_mean),
	    MEAN(r, seeds, r.ttft_p50), MEAN(r, seeds, r.ttft_p90), MEAN(r, seeds, r.ttft_p99));
	fprintf(to,
	    ",\"ratio\":%.4f,\"hit\":%.4f,\"busy_cv\":%.4f,\"offered\":%.4f,\"most_sent\":%.3f,"
	    "\"most_computed\":%.3f,\"decide_us\":%.1f", MEAN(r, seeds, ratio), MEAN(r, seeds, r.hit),
		MEAN(r, seeds, r.busy_cv), MEAN(r, seeds, r.offered), MEAN(r, seeds, r.most_sent),
		MEAN(r, seeds, r.most_computed), MEAN(r, seeds, r.decide_us));
	fprintf(to, ",\"itl_mean\":%.6f,\"e2e_mean\":%.6f,\"prefills\":%u,\"split\":%zu",
	    MEAN(r, seeds, r.itl_mean), MEAN(r, seeds, r.e2e_mean), a->engines.prefills,
	    sum_split(r, seeds));
	if (r->r.wait_error >= 0)
		fprintf(to, ",\"wait_error\":%.4f", MEAN(r, seeds, r.wait_error));
	json_whys(to, r, seeds);
	if (seeds > 1)
		json_spreads(to, r, seeds);
	if (r->core && a->engines.kv.publishers > 0)
		json_events(to, a, r);
	if (r->is_agents)
		sim_json_agents(to, a, r);
	if (a->servers)
		json_servers(to, r, seeds, a->engines.n);
	fprintf(to, "}\n");
}

void sim_print(
    FILE *to, const struct sim_args *a, const char *what, const struct sim_row *rows, size_t n)
{
	if (!a->json) {
		print_table(to, a, what, rows, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		print_json(to, a, &rows[i * a->seeds]);
}
