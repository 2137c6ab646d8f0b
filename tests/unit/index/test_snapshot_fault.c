/* test_snapshot_fault.c - each allocation of writing and loading fails once. A writer gives up and
 * reports it; a loader changes nothing, or leaves an end out if the index had no room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/fault.h"
#include "tests/unit/index/snapshots.h"
#include "tests/lib/index/index_test.h"

static const struct space_key sp = { .h = { 1, 2 } };

static struct index *make(void)
{
	struct index_opts o = { .max_bytes = 1 << 18, .max_pages = 1000 };
	page_key p[40] = { 0 };
	struct index *ix = index_new(&o);
	unsigned i;

	assert_non_null(ix);
	for (i = 0; i < 30; i++) {
		p[i % 7 + 2] = i;
		index_confirm(ix, index_commit(ix, &sp, p, 5 + i, NULL, (server_id)(i % 5), i, 0), i);
	}
	return ix;
}

static void writing(void **state)
{
	struct index *ix = make();
	struct bytes b, good = { NULL };
	unsigned long k;
	int rc;

	assert_int_equal(write_all(ix, 5, 0, &good, NULL), 1);
	for (k = 1; k < 1000; k++) {
		b = (struct bytes){ NULL };
		fault_begin(k);
		rc = write_all(ix, 5, 0, &b, NULL);
		if (!fault_end()) {
			assert_int_equal(rc, 1);
			assert_int_equal(b.n, good.n);
			assert_memory_equal(b.p, good.p, good.n);
			free(b.p);
			break;
		}
		assert_int_equal(rc, -1);
		free(b.p);
	}
	assert_in_range(k, 4, 999);
	free(good.p);
	index_free(ix);
}

static void loading(void **state)
{
	struct index_opts o = { .max_bytes = 1 << 18, .max_pages = 1000 };
	struct index *ix = make(), *to;
	struct snapshot_stats st, all = { 0 };
	struct index_stats is;
	struct bytes b = { NULL };
	struct err e;
	unsigned long k, whole = 0;
	bool met;
	int rc;

	assert_int_equal(write_all(ix, 5, 0, &b, NULL), 1);
	for (k = 1; k < 10000; k++) {
		assert_non_null(to = index_new(&o));
		fault_begin(k);
		rc = snapshot_load(to, &here, b.p, b.n, server_by_name, NULL, 0, &st, &e);
		met = fault_end();
		assert_null(index_check(to));
		index_stats(to, &is);
		if (rc != 0) {
			assert_non_null(strstr(e.text, "memory"));
			assert_int_equal(is.records, 0);
			whole++;
		} else {
			all.held = st.held > all.held ? st.held : all.held;
			assert_true(met || st.left_out == 0);
		}
		index_free(to);
		if (!met)
			break;
	}
	assert_in_range(k, 20, 9999);
	assert_true(whole >= 5 && all.held > 20);
	index_free(ix);
	free(b.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(writing), cmocka_unit_test(loading) };

	return cmocka_run_group_tests_name("snapshot faults", tests, NULL, NULL);
}
