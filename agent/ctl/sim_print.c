/* sim_print.c - rows of a simulation as a table, or an object a line. */
#include <inttypes.h>

#include "agent/ctl/sim.h"

static const char *const facts_name[] = { [ROUTER_FIRST] = "first", [ROUTER_END] = "end", [ROUTER_NONE] = "none" };

/* The least mean of those who knew everything; 0: there is none. */
static double bound_of(const struct sim_row *rows, size_t n)
{
	double least = 0;

	for (size_t i = 0; i < n; i++) {
		if (strncmp(rows[i].name, "oracle", 6) == 0 && (least == 0 || rows[i].r.ttft_mean < least))
			least = rows[i].r.ttft_mean;
	}
	return least;
}

static void print_table(FILE *to, const struct sim_args *a, const char *what, const struct sim_row *rows,
			size_t n)
{
	double bound = bound_of(rows, n);
	size_t width = 12;

	for (size_t i = 0; i < n; i++)
		width = strlen(rows[i].name) > width ? strlen(rows[i].name) : width;
	fprintf(to, "%s: %zu requests, %u engines %s, time x%.2f, facts %s\n\n", what, n ? rows[0].r.n : 0,
		a->engines.n, a->engines.profile.name, a->engines.haste, facts_name[a->facts]);
	fprintf(to, "%-*s %8s %8s %8s %8s %8s %6s %8s %7s %7s\n", (int)width, "policy", "mean s", "p50", "p90",
		"p99", "/oracle", "hit", "busy cv", "failed", "us");
	for (size_t i = 0; i < n; i++) {
		const struct sim_result *r = &rows[i].r;

		fprintf(to, "%-*s %8.3f %8.3f %8.3f %8.3f %8.2f %6.3f %8.3f %7zu %7.1f\n", (int)width,
			rows[i].name, r->ttft_mean, r->ttft_p50, r->ttft_p90, r->ttft_p99,
			bound > 0 ? r->ttft_mean / bound : 0, r->hit, r->busy_cv, r->failed, r->decide_us);
	}
	for (size_t i = 0; i < n; i++) {
		if (rows[i].r.fallback > 0)
			fprintf(to, "%s named no server for %zu requests\n", rows[i].name, rows[i].r.fallback);
	}
}

static void print_json(FILE *to, const struct sim_args *a, const struct sim_row *row, double bound)
{
	const struct sim_result *r = &row->r;

	fprintf(to, "{\"policy\":\"%s\",\"engines\":%u,\"profile\":\"%s\",\"speed\":%.4f,\"facts\":\"%s\","
		"\"requests\":%zu,\"failed\":%zu,\"unrouted\":%zu,\"ttft_mean\":%.6f,\"ttft_p50\":%.6f,"
		"\"ttft_p90\":%.6f,\"ttft_p99\":%.6f,\"ratio\":%.4f,\"hit\":%.4f,\"busy_cv\":%.4f,"
		"\"offered\":%.4f,\"most_sent\":%.3f,\"decide_us\":%.1f", row->name, a->engines.n, a->engines.profile.name, a->engines.haste,
		facts_name[a->facts], r->n, r->failed, r->fallback, r->ttft_mean, r->ttft_p50, r->ttft_p90,
		r->ttft_p99, bound > 0 ? r->ttft_mean / bound : 0, r->hit, r->busy_cv, r->offered, r->most_sent, r->decide_us);
	for (unsigned w = 0; row->core && w < WHY_COUNT; w++) {
		if (row->s.why[w] > 0)
			fprintf(to, ",\"%s\":%" PRIu64, why_text(w), row->s.why[w]);
	}
	if (row->inferred > 0)
		fprintf(to, ",\"inferred\":%u,\"capacity_tokens\":%.0f", row->inferred, row->capacity_tokens);
	fprintf(to, "}\n");
}

void sim_print(FILE *to, const struct sim_args *a, const char *what, const struct sim_row *rows, size_t n)
{
	if (!a->json) {
		print_table(to, a, what, rows, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		print_json(to, a, &rows[i], bound_of(rows, n));
}
