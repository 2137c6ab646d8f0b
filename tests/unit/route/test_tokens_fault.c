/* test_tokens_fault.c - each allocation fails once, in turn. Then a prompt stays text or has
 * fewer pages, and no request is lost. */
#include "tests/unit/route/tokens.h"
#include "tests/unit/fault.h"

static struct tok *tok;

/* Every answer names a server; its pages of ids are a part of those without a failure. */
static bool answered(const struct world *w, uint32_t most)
{
	if (w->a.stands)	/* a slice that could not be stored: the previous answer holds */
		return false;
	assert_true(w->a.server.n > 0);
	return w->a.prompt_pages == most;
}

struct most { uint32_t whole, batch, slices; };

static void no_failure(struct world *w, struct most *m)
{
	completion(&w->body, 1, 9000, "");
	send(w, "1");
	m->whole = m->slices = w->a.prompt_pages;
	assert_true(m->whole > 100);
	w->body.n = 0;
	say(&w->body, "{\"prompt\":[\"one two\",\"the server has pages and that is\"]}");
	send(w, "2");
	m->batch = w->a.prompt_pages;
}

/* Returns true if no allocation failed. The servers are already known. */
static bool story(const struct most *m, unsigned long k, bool *met)
{
	struct world w;
	bool all;

	token_world(&w, tok, 8);
	world_open(&w);
	w.q.path = SPAN("/v1/chat/completions");
	ask(&w, "0", "a");
	served(&w, "0");
	w.q.path = SPAN("/v1/completions");
	completion(&w.body, 1, 9000, "");
	fault_begin(k);
	send(&w, "1");
	all = answered(&w, m->whole);
	slice_at(&w, w.s, "2", 0, 0, 4000);
	slice_at(&w, w.s, "2", 1, 4000, 7000);
	slice_at(&w, w.s, "2", 2, 7000, w.body.n);
	all = answered(&w, m->slices) && all;
	w.body.n = 0;
	say(&w.body, "{\"prompt\":[\"one two\",\"the server has pages and that is\"]}");
	send(&w, "3");
	all = answered(&w, m->batch) && all;
	*met = fault_end();
	all = all && stats(&w).tokenize_failed == 0 && stats(&w).tokenized == 3;
	assert_true(stats(&w).tokenize_failed <= 3);
	world_end(&w);
	return all;
}

static void test_fault(void **state)
{
	unsigned long k, missed = 0;
	bool met = true, all = true;
	struct most m;
	struct world w;

	token_world(&w, tok, 8);
	world_open(&w);
	no_failure(&w, &m);
	world_end(&w);
	for (k = 1; met; k++) {
		all = story(&m, k, &met);
		missed += !all;
	}
	assert_true(all);
	assert_true(k > 30 && missed > 15);
}

static int load_tok(void **state)
{
	tok = tok_with(NULL, NULL);
	return 0;
}

static int drop_tok(void **state)
{
	tok_unref(tok);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_fault) };

	return cmocka_run_group_tests(tests, load_tok, drop_tok);
}
