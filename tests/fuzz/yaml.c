/* yaml - the configuration, from memory.
 *
 * A rejected one has a place in the file and a sentence for each mistake. An accepted one prints
 * and loads again to the same values, and a reload to it would change nothing. */
#include "agent/conf/keys.h"
#include "tests/fuzz/lib/fuzz.h"

#define TEXT_MOST	20000	/* larger ones are slow and say nothing new */

static void put(void *arg, const char *text, size_t n)
{
	trace_bytes(arg, text, n);
}

static void check_refusal(const struct conf_errors *es)
{
	must(es->n > 0);
	for (size_t i = 0; i < es->n; i++) {
		const struct err *e = &es->e[i];
		size_t n = strlen(e->text);

		must(strcmp(e->file, "fuzz") == 0 && e->line >= 1 && e->column >= 1);
		must(n > 0 && n < ERR_TEXT_MAX);
		for (size_t k = 0; k < n; k++)
			must((unsigned char)e->text[k] >= ' ' && e->text[k] != 0x7f);
	}
}

/* The same values of <home>, to the bit; addresses are compared as they print. */
static void check_values(enum conf_home home, const void *a, const void *b)
{
	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->home == home && k->type != TYPE_ADDRS)
			must(memcmp((const char *)a + k->at, (const char *)b + k->at, k->width) == 0);
	}
}

static void check_pool(const struct pool_opts *a, const struct pool_opts *b)
{
	check_values(HOME_POLICY, a, b);
	check_values(HOME_POOL, a, b);
}

static void check_same(const struct conf *a, const struct conf *b)
{
	size_t i;

	must(a->route.n_pools == b->route.n_pools && a->route.n_models == b->route.n_models);
	must(a->route.n_tenants == b->route.n_tenants && a->loop.n_engines == b->loop.n_engines);
	check_values(HOME_CONF, a, b);
	check_pool(&a->route.pool_default, &b->route.pool_default);
	check_values(HOME_MODEL, &a->route.model_default, &b->route.model_default);
	check_values(HOME_TENANT, &a->route.tenant_default, &b->route.tenant_default);
	for (i = 0; i < a->loop.n_engines; i++)
		check_values(HOME_ENGINE, &a->loop.engines[i], &b->loop.engines[i]);
	for (i = 0; i < a->route.n_pools; i++)
		check_pool(&a->route.pools[i], &b->route.pools[i]);
	for (i = 0; i < a->route.n_models; i++)
		check_values(HOME_MODEL, &a->route.models[i], &b->route.models[i]);
	for (i = 0; i < a->route.n_tenants; i++)
		check_values(HOME_TENANT, &a->route.tenants[i], &b->route.tenants[i]);
}

static void check_again(struct conf *c)
{
	struct trace first = { 0 }, second = { 0 };
	struct conf_errors es;
	struct conf again;
	struct err e;

	conf_print(c, put, &first);
	if (conf_load_text(&again, "print", first.p, first.n, &es) != 0) {
		fprintf(stderr, "%s\n%d:%d %s\n", first.p, es.e[0].line, es.e[0].column, es.e[0].text);
		must(!"what was printed loads");
	}
	conf_print(&again, put, &second);
	must(trace_eq(&first, &second));
	check_same(c, &again);
	must(conf_reloadable(c, &again, &e) == 0);
	conf_free(&again);
	free(first.p);
	free(second.p);
}

/* A reload to it from the defaults, and back, gives the same result, with a sentence. */
static void check_reload(const struct conf *c)
{
	struct conf defaults;
	struct err e = { .text = "" };
	int rc;

	conf_defaults(&defaults);
	rc = conf_reloadable(&defaults, c, &e);
	must(rc == conf_reloadable(c, &defaults, &e));
	must((rc == 0) == (e.text[0] == '\0') && strlen(e.text) < ERR_TEXT_MAX - 1);
	conf_free(&defaults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_errors es;
	struct conf c;

	if (size > TEXT_MOST)
		return 0;
	if (conf_load_text(&c, "fuzz", (const char *)data, size, &es) != 0) {
		check_refusal(&es);
		conf_errors_free(&es);
		return 0;
	}
	check_again(&c);
	check_reload(&c);
	conf_free(&c);
	return 0;
}
