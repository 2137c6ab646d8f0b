/* sim_agents.c - figures of several agents. */
#include <inttypes.h>

#include "agent/ctl/sim.h"

/* In the order of enum share_kind. */
static const char *const kinds[SHARE_KINDS] = {
	[SHARE_PLACED] = "placed", [SHARE_FACT] = "fact", [SHARE_TAKEN_BACK] = "taken_back",
	[SHARE_HELD] = "held", [SHARE_CLEARED] = "cleared", [SHARE_SERVER] = "server",
	[SHARE_HEAD] = "head", [SHARE_ALIVE] = "alive", [SHARE_DIGEST] = "digest",
	[SHARE_ENDS] = "ends", [SHARE_WANT] = "want",
};

static void print_sharing(FILE *to, const char *name, const struct agents_result *x)
{
	fprintf(to, "%s, of a request: entries %.0f (mean %.1f), bytes median %.0f, mean %.0f, p99 %.0f; "
		"each alone in its batch %.0f, %.0f; of all batches %.0f\n", name, x->entries_median,
		x->entries_mean, x->bytes_median, x->bytes_mean, x->bytes_p99, x->alone_median,
		x->alone_mean, x->wire_mean);
	fprintf(to, "%s, us of a request: decide %.1f, write %.1f, apply %.1f in each sibling, "
		"repair %.1f\n", name, x->decide_us, x->encode_us, x->apply_us, x->repair_us);
	fprintf(to, "%s: %" PRIu64 " batches, %" PRIu64 " copies, %" PRIu64 " lost, %" PRIu64 " cut off; "
		"%" PRIu64 " of %" PRIu64 " pairs differ, ", name, x->batches, x->copies, x->lost, x->cut,
		x->differing, x->pairs);
	if (x->settled_s >= 0)
		fprintf(to, "none since %.0f s after the end\n", x->settled_s);
	else
		fprintf(to, "at most %" PRIu64 " are lacking in one agent\n", x->lacked);
}

void sim_print_agents(FILE *to, const struct sim_args *a, const struct sim_row *r)
{
	const struct agents_result *x = &r->agents;

	if (a->agents.share)
		print_sharing(to, r->name, x);
	if (a->agents.restart_at > 0)
		fprintf(to, "%s: hit share of the fresh agent %.3f (%zu requests), of the others since then "
			"%.3f\n", r->name, x->fresh_hit, x->fresh_requests, x->others_hit);
}

static void json_kinds(FILE *to, const char *what, const uint64_t *n)
{
	for (int k = 1; k < SHARE_KINDS; k++) {
		if (n[k] > 0)
			fprintf(to, ",\"%s_%s\":%" PRIu64, what, kinds[k], n[k]);
	}
}

static void json_sharing(FILE *to, const struct agents_result *x)
{
	const struct route_share_stats *s = &x->share;

	fprintf(to, ",\"entries_median\":%.0f,\"entries_mean\":%.2f,\"bytes_median\":%.0f,"
		"\"bytes_mean\":%.0f,\"bytes_p99\":%.0f,\"alone_median\":%.0f,\"alone_mean\":%.0f,"
		"\"wire_mean\":%.0f", x->entries_median, x->entries_mean, x->bytes_median, x->bytes_mean,
		x->bytes_p99, x->alone_median, x->alone_mean, x->wire_mean);
	fprintf(to, ",\"write_us\":%.2f,\"apply_us\":%.2f,\"repair_us\":%.2f", x->encode_us, x->apply_us,
		x->repair_us);
	fprintf(to, ",\"batches\":%" PRIu64 ",\"copies\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"cut\":%" PRIu64
		",\"resyncs\":%" PRIu64 ",\"pairs\":%" PRIu64 ",\"differing\":%" PRIu64 ",\"lacked\":%" PRIu64
		",\"settled_s\":%.1f,\"open\":%" PRIu64, x->batches, x->copies, x->lost, x->cut, x->resyncs,
		x->pairs, x->differing, x->lacked, x->settled_s, x->open);
	json_kinds(to, "put", s->put);
	json_kinds(to, "applied", s->applied);
	fprintf(to, ",\"pages_put\":%" PRIu64 ",\"pages_skipped\":%" PRIu64 ",\"pages_applied\":%" PRIu64
		",\"unplaced\":%" PRIu64 ",\"repeated\":%" PRIu64 ",\"early\":%" PRIu64 ",\"ignored\":%" PRIu64
		",\"refused\":%" PRIu64 ",\"closed_by_lease\":%" PRIu64 ",\"closed_as_lost\":%" PRIu64
		",\"rounds\":%" PRIu64
		",\"parts_differing\":%" PRIu64 ",\"ends_lacked\":%" PRIu64 ",\"held_applied\":%" PRIu64
		",\"held_refused\":%" PRIu64, s->pages_put, s->pages_skipped, s->pages_applied, s->unplaced,
		s->repeated, s->early, s->ignored, s->refused, s->closed_by_lease, s->closed_as_lost, s->rounds,
		s->parts_differing, s->ends_lacked, s->held_applied, s->held_refused);
}

void sim_json_agents(FILE *to, const struct sim_args *a, const struct sim_row *r)
{
	const struct agents_result *x = &r->agents;

	fprintf(to, ",\"agents\":%u,\"share\":%s,\"agents_decide_us\":%.1f", a->agents.n,
		a->agents.share ? "true" : "false", x->decide_us);
	if (a->agents.share)
		json_sharing(to, x);
	if (a->agents.restart_at > 0)
		fprintf(to, ",\"fresh_hit\":%.4f,\"fresh_requests\":%zu,\"others_hit\":%.4f", x->fresh_hit,
			x->fresh_requests, x->others_hit);
}
