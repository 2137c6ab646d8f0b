/* test_share_lost.c - requests of a sibling whose end was lost are closed when it says that it has
 * fewer open, and no others are. */
#include "tests/unit/route/fleet.h"

static struct fleet_world f;
#define A	(&f.a[0].w)
#define B	(&f.a[1].w)

#define ALIVE_MS	500

/* Let A say ALIVE every 500 ms. */
static void alive_for(msec ms)
{
	for (msec end = f.now + ms; f.now < end; pass(&f, ALIVE_MS)) {
		struct share_entry e = { .kind = SHARE_ALIVE, .u.alive = { .open = route_share_open(A->r) } };

		route_share_apply(B->r, agent_id(0), &e, f.now);
	}
}

static void begin(const char *uids)
{
	for (; *uids != '\0'; uids++)
		ask(A, (char[]){ *uids, '\0' }, "abc");
	pass(&f, 1);
}

static void end(const char *uids, bool lost)
{
	char srv[SERVER_NAME_MAX + 1];

	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(A->a.server));
	f.loss = lost ? 1000 : 0;
	for (; *uids != '\0'; uids++)
		tell_done(A, (char[]){ *uids, '\0' }, srv, 200, "--", 20);
	f.loss = 0;
	pass(&f, 1);
}

static void open_there(unsigned n)
{
	assert_int_equal(share_stats(&f.a[1]).open, n);
}

static void lost_ends_are_found(void **state)
{
	fleet_new(&f, 2);
	begin("1234567");
	assert_int_equal(route_share_open(A->r), 7);
	assert_int_equal(route_share_open(B->r), 0);
	open_there(7);
	end("12", true);
	assert_int_equal(route_share_open(A->r), 5);
	end("3", false);
	open_there(6);
	route_share_resync(B->r);
	alive_for(1000);
	open_there(6);			/* it may still be on its way */
	alive_for(1500);
	open_there(4);
	assert_int_equal(share_stats(&f.a[1]).closed_as_lost, 2);
	assert_int_equal(share_stats(&f.a[1]).closed_by_lease, 0);
	end("4567", false);
	open_there(0);
	alive_for(5000);
	assert_int_equal(share_stats(&f.a[1]).closed_as_lost, 2);
	fleet_end(&f);
}

static void alive_says(uint32_t open, msec ms)
{
	const struct share_entry e = { .kind = SHARE_ALIVE, .u.alive = { .open = open } };

	for (msec end = f.now + ms; f.now < end; pass(&f, ALIVE_MS))
		route_share_apply(B->r, agent_id(0), &e, f.now);
}

/* The count may be taken between the end of a request and its fact, again and again. */
static void without_a_loss_a_short_difference_means_nothing(void **state)
{
	fleet_new(&f, 2);
	begin("1234");
	for (unsigned i = 0; i < 5; i++) {
		alive_says(3, 4500);
		alive_says(4, ALIVE_MS);
		open_there(4);
	}
	route_share_resync(B->r);
	alive_says(3, 2500);
	open_there(3);
	fleet_end(&f);
}

/* Of two requests one is unknown here and the other has ended: the numbers are equal until the
 * former ends, when no loss is known any more. */
static void a_lost_beginning_hides_a_lost_end(void **state)
{
	fleet_new(&f, 2);
	begin("12");
	end("1", true);
	f.loss = 1000;
	begin("3");
	f.loss = 0;
	route_share_resync(B->r);
	alive_for(20000);
	open_there(2);
	end("3", false);
	alive_for(6000);
	open_there(1);
	assert_int_equal(share_stats(&f.a[1]).closed_as_lost, 1);
	end("2", false);
	open_there(0);
	fleet_end(&f);
}

static void what_ends_meanwhile_is_not_counted(void **state)
{
	fleet_new(&f, 2);
	begin("1234");
	route_share_resync(B->r);
	for (unsigned i = 0; i < 10; i++) {
		struct share_entry e = { .kind = SHARE_ALIVE, .u.alive = { .open = i % 3 == 1 ? 4 : 2 } };

		route_share_apply(B->r, agent_id(0), &e, f.now);
		pass(&f, ALIVE_MS);
	}
	open_there(4);
	fleet_end(&f);
}

static void young_ones_stay(void **state)
{
	struct share_entry e = { .kind = SHARE_ALIVE };

	fleet_new(&f, 2);
	begin("12");
	pass(&f, 100);
	route_share_resync(B->r);
	route_share_apply(B->r, agent_id(0), &e, f.now);	/* both are beyond 0 */
	begin("345");
	for (unsigned i = 0; i < 4; i++) {
		pass(&f, ALIVE_MS);
		route_share_apply(B->r, agent_id(0), &e, f.now);
	}
	open_there(3);
	e.u.alive.open = UINT32_MAX;
	route_share_apply(B->r, agent_id(0), &e, f.now);
	route_share_apply(B->r, 99, &e, f.now);			/* it has nothing here */
	open_there(3);
	fleet_end(&f);
}

static void more_than_one_call_closes(void **state)
{
	char uid[8];

	fleet_new(&f, 2);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(uid, sizeof(uid), "u%u", i);
		ask(A, uid, "abc");
	}
	pass(&f, 1);
	open_there(300);
	f.loss = 1000;
	for (unsigned i = 0; i < 300; i++) {
		snprintf(uid, sizeof(uid), "u%u", i);
		tell_done(A, uid, "s1", 200, "--", 20);
	}
	pass(&f, 100);
	route_share_resync(B->r);
	alive_for(10000);
	open_there(0);
	assert_int_equal(share_stats(&f.a[1]).closed_as_lost, 300);
	fleet_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_ends_are_found),
		cmocka_unit_test(without_a_loss_a_short_difference_means_nothing),
		cmocka_unit_test(a_lost_beginning_hides_a_lost_end),
		cmocka_unit_test(what_ends_meanwhile_is_not_counted),
		cmocka_unit_test(young_ones_stay),
		cmocka_unit_test(more_than_one_call_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
