/* test_decisions_fault.c - a router with decisions and compared rules, with each allocation
 * failed in turn. Either there is no router, or it works and a compared rule may lack its
 * memory. */
#include "tests/unit/fault.h"
#include "tests/unit/route/world.h"

static void story(struct world *w)
{
	struct hash_key k = test_key();
	struct server_find found;

	if ((w->r = route_new(&w->o, &k, 0)) == NULL)
		return;
	if ((w->s = route_scratch_new(w->r)) != NULL) {
		ask(w, "1", "ab");
		route_took(w->r, &w->a, 5);
		tell_done(w, "1", "s2", 200, "--", 5);
		w->o.pool_default.compare[1] = RULE_CHWBL + 1;
		route_reconfigure(w->r, &w->o);
		ask(w, "2", "ab");
		found = server(w, "s1");
		assert_true(!found.found || found.v.open <= 1);
	}
	route_scratch_free(w->s);
	route_free(w->r);
}

static void each_allocation_fails_once(void **state)
{
	unsigned long k;

	for (unsigned mode = MODE_ON; mode <= MODE_OFF; mode++) {
		for (k = 1;; k++) {
			struct world w;

			world_options(&w);
			w.o.index.max_bytes = 1u << 20;
			w.o.decisions_keep = 16;
			w.o.pool_default.mode = (enum pool_mode)mode;
			w.o.pool_default.compare[0] = RULE_BLOCK_TRACKER + 1;
			fault_begin(k);
			story(&w);
			if (!fault_end())
				break;
		}
		assert_true(k > 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_allocation_fails_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
