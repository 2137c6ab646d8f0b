/* test_share_fault.c - two routers of which one tells the other, with each allocation failed in
 * turn. Either they do not share, or nothing is left open and both trees are sound. */
#include "tests/unit/fault.h"
#include "tests/unit/route/world.h"
#include "agent/route/share.h"

static struct world a, b;

/* The other router takes it at once. */
static void put(void *arg, uint32_t part, const struct share_entry *e)
{
	struct world *to = arg;

	if (to != NULL && to->r != NULL)
		route_share_apply(to->r, 1, e, to->now);
}

static bool open_both(void)
{
	const struct route_share from_a = { .put = put, .arg = &b, .parts = 2, .self = 1 };
	const struct route_share from_b = { .put = put, .arg = NULL, .parts = 2, .self = 2 };
	struct hash_key k = test_key();

	return (a.r = route_new(&a.o, &k, 0)) != NULL && (b.r = route_new(&b.o, &k, 0)) != NULL &&
	    route_share(b.r, &from_b) == 0 && route_share(a.r, &from_a) == 0 &&
	    (a.s = route_scratch_new(a.r)) != NULL && (b.s = route_scratch_new(b.r)) != NULL;
}

static void talk(void)
{
	ask(&a, "1", "abc");
	tell_first(&a, "1", "s1", 200, STREAM);
	tell_done(&a, "1", "s1", 200, "--", 20);
	ask(&a, "2", "abcd");
	tell_done(&a, "2", "s2", 200, "--", 20);
	ask(&b, "3", "abcd");
	tell_done(&b, "3", "s2", 200, "--", 20);
	ask(&a, "4", "xyz");
	route_share_resync(a.r);
	for (unsigned i = 0; i < 300; i++, a.now += 10, b.now += 10) {
		while (route_share_work(a.r, a.now) || route_share_work(b.r, b.now))
			;
	}
	while (route_share_gone(b.r, 1, b.now))
		;
	tell_done(&a, "4", "s1", 500, "--", 20);
}

static void each_allocation_fails_once(void **state)
{
	unsigned long k;

	for (k = 1;; k++) {
		bool met;

		world_options(&a);
		a.o.index.max_bytes = 1u << 20;
		a.o.index.max_pages = 4096;
		a.o.share = true;
		world_options(&b);
		b.o = a.o;
		fault_begin(k);
		if (open_both())
			talk();
		met = fault_end();
		if (a.s != NULL && b.s != NULL) {
			assert_null(index_check(a.r->index));
			assert_null(index_check(b.r->index));
			assert_int_equal(stats(&b).open, 0);
		}
		route_scratch_free(a.s);
		route_scratch_free(b.s);
		route_free(a.r);
		route_free(b.r);
		if (!met)
			break;
	}
	assert_true(k > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_allocation_fails_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
