/* If any allocation of a load fails, the load is rejected, nothing is leaked, and no part is
 * applied. */
#include "tests/unit/conf/cases.h"
#include "tests/unit/fault.h"

static const char good[] =
	"threads: 2\n"
	"spop: {listen: [\"127.0.0.1:1\"], max_open: 3}\n"
	"policy: {rule: cache_aware, model: m}\n"
	"pools: [{name: a}, {name: b}, {name: c, rule: cost}, {name: d}, {name: e}]\n"
	"models: [{name: a}, {name: b, text_order: [tools, system, messages]}, {name: c}]\n";

static const char bad[] = "thread: 2\nspop: {listen: [1]}\npools: [{name: a}, {name: a}, {nam: "
	"b}]\n";

/* A failure must be reported, as a sentence or at least in the count. */
static void assert_refused(const struct conf *c, const struct conf_errors *es)
{
	assert_true(es->n > 0 || es->lost > 0);
	assert_null(c->route.pools);
	assert_null(c->route.models);
	for (size_t i = 0; i < es->n; i++)
		assert_true(strlen(es->e[i].text) > 10);
}

static void loading(void **state)
{
	struct conf_errors es;
	struct conf c;
	unsigned long k;
	int rc;

	for (k = 1; ; k++) {
		bool met;

		fault_begin(k);
		rc = conf_load_text(&c, "test", good, sizeof(good) - 1, &es);
		met = fault_end();
		if (!met)
			break;
		assert_int_equal(rc, -1);
		assert_refused(&c, &es);
		conf_errors_free(&es);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(c.route.n_pools, 5);
	assert_int_equal(c.route.n_models, 3);
	conf_free(&c);
	assert_true(k > 40);	/* each scalar is one */
}

static void refusing(void **state)
{
	struct conf_errors es;
	struct conf c;
	unsigned long k;
	bool met;

	for (k = 1, met = true; met; k++) {
		fault_begin(k);
		assert_int_equal(conf_load_text(&c, "test", bad, sizeof(bad) - 1, &es), -1);
		met = fault_end();
		assert_refused(&c, &es);
		conf_errors_free(&es);
	}
	assert_true(k > 10);
}

/* From a file: the buffer and the list of mistakes may fail as well. */
static void files(void **state)
{
	static const char *const paths[] = { "doc/kvroute.yaml", "/nonexistent" };

	for (size_t i = 0; i < 2; i++) {
		struct conf_errors es;
		struct conf c;
		unsigned long k;

		for (k = 1; ; k++) {
			bool met;
			int rc;

			fault_begin(k);
			rc = conf_load(&c, paths[i], &es);
			met = fault_end();
			if (met || rc != 0)
				assert_refused(&c, &es);
			if (rc == 0)
				conf_free(&c);
			conf_errors_free(&es);
			if (!met)
				break;
		}
		assert_true(k > 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loading),
		cmocka_unit_test(refusing),
		cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
