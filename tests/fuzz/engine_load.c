/* engine_load - the load that an engine reports: in a header, in a message, in an answer.
 *
 * The first byte names the form. A report is within its limits, whatever the bytes. A header says
 * the same with its format before it; no shorter message is one; an answer says the same in one
 * piece. */
#include <strings.h>

#include "agent/feed/orca.h"
#include "agent/feed/sgl_load.h"
#include "tests/fuzz/lib/fuzz.h"

static void check_load(const struct engine_load *l)
{
	must(engine_load_told(l));
	must(l->waiting >= -1 && l->running >= -1 && l->kv_used <= 1 && l->kv_used >= -1);
	must((double)l->waiting <= SGL_LOAD_RANKS_MAX * ENGINE_COUNT_MAX &&
	     (double)l->running <= SGL_LOAD_RANKS_MAX * ENGINE_COUNT_MAX);
	must((double)l->capacity <= SGL_LOAD_RANKS_MAX * ENGINE_COUNT_MAX);
}

static bool same_load(const struct engine_load *a, const struct engine_load *b)
{
	return a->waiting == b->waiting && a->running == b->running && a->kv_used == b->kv_used &&
	       a->capacity == b->capacity;
}

static void header(struct span s)
{
	struct engine_load l, again;
	struct trace t = { 0 };
	int rc = orca_parse(s, &l);

	must(rc <= 0 && rc > -ORCA_E_COUNT);
	if (rc < 0)
		return;
	check_load(&l);
	if (s.n + 5 > ORCA_MAX || s.p[0] == ' ' || s.p[0] == '\t' || strncasecmp(s.p, "TEXT ", 5) == 0 ||
	    strncasecmp(s.p, "JSON ", 5) == 0)
		return;		/* a second format is no metric */
	trace_bytes(&t, "TEXT ", 5);
	trace_bytes(&t, s.p, s.n);
	must(orca_parse(span_of((char *)t.p, t.n), &again) == 0 && same_load(&l, &again));
	free(t.p);
}

static void message(struct span s)
{
	struct sgl_rank_load r, cut;
	struct sgl_loads all = { 0 };
	struct engine_load l;
	int rc = sgl_load_message(s, &r);

	must(rc <= 0 && rc > -SGL_LOAD_E_COUNT);
	if (rc < 0)
		return;
	must(sgl_load_message(span_of(s.p, s.n - 1), &cut) == -SGL_LOAD_E_FORM);
	must(sgl_loads_put(&all, &r) == 0 && sgl_loads_put(&all, &r) == 0 && all.n == 1);
	sgl_loads_sum(&all, &l);
	check_load(&l);
	must((l.kv_used >= 0) == r.has_tokens && (uint64_t)l.running == r.running);
}

static void answer(struct span s, size_t step)
{
	static struct sgl_loads_answer a;
	struct engine_load whole, pieces;
	int rc, rc_pieces;

	sgl_loads_answer_init(&a);
	sgl_loads_answer_feed(&a, s.p, s.n);
	rc = sgl_loads_answer_end(&a, &whole);
	must(a.loads.n <= SGL_LOAD_RANKS_MAX);
	sgl_loads_answer_init(&a);
	for (size_t i = 0; i < s.n; i += step)
		sgl_loads_answer_feed(&a, s.p + i, s.n - i < step ? s.n - i : step);
	rc_pieces = sgl_loads_answer_end(&a, &pieces);
	must(rc <= 0 && rc > -SGL_LOAD_E_COUNT && rc == rc_pieces);
	if (rc == 0) {
		check_load(&whole);
		must(same_load(&whole, &pieces));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span s;

	if (size == 0)
		return 0;
	s = span_of((const char *)data + 1, size - 1);
	if (data[0] % 3 == 0)
		header(s);
	else if (data[0] % 3 == 1)
		message(s);
	else
		answer(s, 1 + data[0] / 3);
	return 0;
}
