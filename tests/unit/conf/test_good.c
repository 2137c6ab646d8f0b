/* Valid configurations and their values; the printed form loads again; keys that a reload may
 * change. */
#include "agent/loop/share.h"
#include "tests/unit/conf/cases.h"

#include "agent/os/addr.h"

/* ---- values ------------------------------------------------------------------------------ */

static const struct conf_key *key_named(const char *name)
{
	for (size_t i = 0; i < conf_n_keys; i++)
		if (strcmp(conf_keys[i].name, name) == 0)
			return &conf_keys[i];
	fail_msg("no key %s", name);
	return NULL;
}

/* Return the struct that has the key of <path>, "pools/NAME/key" or "key". Leaves <path> at the
 * key. */
static const void *home_of(const struct conf *c, const char **path)
{
	const char *first = strchr(*path, '/'), *last = strrchr(*path, '/');
	struct span name;

	if (first == NULL)
		return conf_key_home(key_named(*path), c);
	name = span_of(first + 1, (size_t)(last - first - 1));
	*path = last + 1;
	for (size_t i = 0; i < c->route.n_pools; i++)
		if (span_eq(span_str(c->route.pools[i].name), name))
			return &c->route.pools[i];
	for (size_t i = 0; i < c->route.n_models; i++)
		if (span_eq(span_str(c->route.models[i].name), name))
			return &c->route.models[i];
	fail_msg("no pool or model " SPAN_FMT, SPAN_ARG(name));
	return NULL;
}

static void check_want(const struct conf_case *c, const struct conf *conf, const char *want)
{
	char copy[CONF_VALUE_MAX] = "", text[CONF_VALUE_MAX], *value;
	const char *path = copy;
	const void *home;

	snprintf(copy, sizeof(copy), "%s", want);
	copy[unescape(copy, strlen(copy))] = '\0';
	value = strstr(copy, " = ");
	assert_non_null(value);
	*value = '\0';
	home = home_of(conf, &path);
	conf_value_text(key_named(path), home, text, sizeof(text));
	if (strcmp(text, value + 3) != 0)
		fail_msg("%s: %s is %s, not %s", c->title, copy, text, value + 3);
}

static char *printed(const struct conf *c)
{
	struct sink s = { NULL, 0 };

	conf_print(c, sink_put, &s);
	return s.p;
}

/* print -> load -> print gives the same text. */
static void assert_round_trip(const struct conf *c)
{
	char *once = printed(c), *again;
	struct loop_opts mine;
	struct conf back;

	load_good(&back, once, strlen(once));
	again = printed(&back);
	assert_string_equal(once, again);
	assert_int_equal(c->route.n_pools, back.route.n_pools);
	assert_int_equal(c->route.n_models, back.route.n_models);
	assert_int_equal(c->route.n_tenants, back.route.n_tenants);
	assert_int_equal(c->loop.n_engines, back.loop.n_engines);
	mine = c->loop;
	mine.engines = back.loop.engines;
	assert_memory_equal(&mine, &back.loop, sizeof(mine));
	conf_free(&back);
	free(once);
	free(again);
}

static void check_good(struct conf_case *c)
{
	struct conf conf;

	load_good(&conf, c->text, c->n);
	for (size_t i = 0; i < c->n_wants; i++)
		check_want(c, &conf, c->want[i]);
	assert_round_trip(&conf);
	conf_free(&conf);
}

static void good_table(void **state)
{
	size_t n = each_case("tests/data/conf/good.txt", check_good);

	assert_true(n >= 20);
}

/* ---- every key of the table -------------------------------------------------------------- */

/* Return a valid text for <k> that differs from its value in <home>. */
static const char *other_text(const struct conf_key *k, const void *home, char *out, size_t cap)
{
	char now[CONF_VALUE_MAX];

	if (strcmp(k->name, "pools.prefill") == 0)
		return "other";
	conf_value_text(k, home, now, sizeof(now));
	switch (k->type) {
	case TYPE_INT:
		snprintf(out, cap, "%.0f", atof(now) == k->max ? k->min : k->max);
		break;
	case TYPE_SIZE:
		snprintf(out, cap, "%.0f", strcmp(k->name, "tenants.index_floor") == 0 ? 1e9 : k->max - 1);
		break;
	case TYPE_TIME:
		snprintf(out, cap, "%.0f ms", k->max - 1);
		break;
	case TYPE_NUMBER:
		snprintf(out, cap, "%.17g", k->max / 3);
		break;
	case TYPE_BOOL:
		snprintf(out, cap, "%s", strcmp(now, "true") == 0 ? "false" : "true");
		break;
	case TYPE_WORD:
		snprintf(out, cap, "%s", k->words[strcmp(k->words[1], now) == 0 ? 0 : 1]);
		break;
	case TYPE_MODE:
		snprintf(out, cap, "0601");
		break;
	case TYPE_PATH:
		snprintf(out, cap, "\"/%s \\\" \\\\ #\"", k->name);
		break;
	case TYPE_TEXT:
	case TYPE_NAME:
	case TYPE_FILE:
		snprintf(out, cap, "x");
		break;
	case TYPE_ADDRS:
		snprintf(out, cap, "[\"unix@/%s\", \"127.0.0.1:%zu\"]", k->name, k->at % 10000);
		break;
	case TYPE_HOSTS:
		snprintf(out, cap, "[\"redis-1.internal:6379\", \"[::1]:6379\"]");
		break;
	case TYPE_URL:
		snprintf(out, cap, "http://[::1]:8000/%s", k->name);
		break;
	case TYPE_ENDPOINT:
		snprintf(out, cap, "tcp://[::1]:%zu", 5000 + k->at % 1000);
		break;
	case TYPE_NAMES:
		snprintf(out, cap, "[\"Caf\xc3\xa9 \\\"y\\\"\", z]");
		break;
	case TYPE_WORDS:
		snprintf(out, cap, "[%s, %s]", k->words[1], k->words[0]);
		break;
	case TYPE_ORDER:
		snprintf(out, cap, "[messages, system, tools]");
		break;
	}
	return out;
}

/* Some keys are rejected if the program was built without what they need. */
static bool is_built(const struct conf_key *k)
{
	return strncmp(k->name, "share.tls", 9) != 0 || share_tls_available();
}

/* A file that gives every key a value of its own. */
static char *everything_else(void)
{
	struct sink s = { NULL, 0 };
	char line[CONF_VALUE_MAX + 100], text[CONF_VALUE_MAX];
	struct conf c;

	conf_defaults(&c);
	for (size_t sec = 0; sec <= conf_n_sections; sec++) {
		const struct conf_section *in = sec ? &conf_sections[sec - 1] : NULL;
		bool list = in != NULL && (in->shape != SHAPE_KEYS && in->shape != SHAPE_POLICY);
		struct span group = SPAN("");

		if (in != NULL)
			sink_put(&s, line, (size_t)sprintf(line, "%s:\n%s", in->name,
							   list ? "  -\n" : ""));
		for (size_t i = 0; i < conf_n_keys; i++) {
			const struct conf_key *k = &conf_keys[i];

			if (!conf_key_in(k, in) || !is_built(k))
				continue;
			if (!span_eq(conf_key_group(k), group)) {
				group = conf_key_group(k);
				sink_put(&s, line, (size_t)sprintf(line, "    " SPAN_FMT ":\n", SPAN_ARG(group)));
			}
			sink_put(&s, line, (size_t)sprintf(line, "%s%s: %s\n",
				 group.n ? "      " : in == NULL ? "" : list ? "    " : "  ",
				 conf_key_word(k),
				 other_text(k, conf_key_home(k, &c), text, sizeof(text))));
		}
		if (in != NULL && in->shape == SHAPE_POOLS)
			sink_put(&s, line, (size_t)sprintf(line, "  - name: other\n"));
	}
	conf_free(&c);
	return s.p;
}

static void every_key_loads_prints_and_loads(void **state)
{
	char *text = everything_else(), def[CONF_VALUE_MAX], got[CONF_VALUE_MAX];
	struct conf c, d;

	conf_defaults(&d);
	load_good(&c, text, strlen(text));
	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];
		const void *home = k->home == HOME_POOL ? (const void *)&c.route.pools[0] :
				   k->home == HOME_MODEL ? (const void *)&c.route.models[0] :
				   k->home == HOME_TENANT ? (const void *)&c.route.tenants[0] :
				   k->home == HOME_ENGINE ? (const void *)&c.loop.engines[0] :
				   conf_key_home(k, &c);

		conf_value_text(k, conf_key_home(k, &d), def, sizeof(def));
		conf_value_text(k, home, got, sizeof(got));
		if (strcmp(def, got) == 0 && is_built(k))
			fail_msg("%s is still %s", k->name, got);
	}
	assert_round_trip(&c);
	conf_free(&c);
	conf_free(&d);
	free(text);
}

/* No two keys write to the same bytes: each alone changes one printed line. */
static void keys_do_not_overlap(void **state)
{
	char text[CONF_VALUE_MAX], before[CONF_VALUE_MAX], after[CONF_VALUE_MAX], why[CONF_REASON_MAX];

	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];
		struct conf c, d;

		conf_defaults(&c);
		conf_defaults(&d);
		if (!conf_type_is_list(k->type) && k->home != HOME_POOL) {
			other_text(k, conf_key_home(k, &d), text, sizeof(text));
			if (k->type == TYPE_PATH)
				strcpy(text, "/x");
			assert_int_equal(conf_value_set(k, (void *)conf_key_home(k, &c), span_str(text),
							why, sizeof(why)), 0);
		}
		for (size_t j = 0; j < conf_n_keys; j++) {
			if (i == j || k->home == HOME_POOL || conf_keys[j].home == HOME_POOL)
				continue;
			conf_value_text(&conf_keys[j], conf_key_home(&conf_keys[j], &d), before,
					sizeof(before));
			conf_value_text(&conf_keys[j], conf_key_home(&conf_keys[j], &c), after,
					sizeof(after));
			assert_string_equal(before, after);
		}
		conf_free(&c);
		conf_free(&d);
	}
}

/* The bounds themselves are allowed; the next value outside is not. */
static void every_bound_holds(void **state)
{
	char text[64], why[CONF_REASON_MAX];
	struct conf c;

	conf_defaults(&c);
	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];
		void *home = (void *)conf_key_home(k, &c);
		double step = k->type == TYPE_NUMBER ? k->max / 1e6 : 1;
		const struct { double v; int rc; } tries[] = {
			{ k->min, 0 }, { k->max, 0 }, { k->min - step, -1 }, { k->max + step, -1 }
		};

		if (k->type != TYPE_INT && k->type != TYPE_SIZE && k->type != TYPE_TIME &&
		    k->type != TYPE_NUMBER)
			continue;
		for (size_t t = 0; t < 4; t++) {
			snprintf(text, sizeof(text), "%.*f%s", k->type == TYPE_NUMBER ? 12 : 0,
				 tries[t].v, k->type == TYPE_TIME ? " ms" : "");
			if (conf_value_set(k, home, span_str(text), why, sizeof(why)) != tries[t].rc)
				fail_msg("%s: %s", k->name, text);
		}
	}
	conf_free(&c);
}

/* The defaults pass their own checks, and every address that passes is one the agent can open. */
static void defaults_are_fine(void **state)
{
	static const char *const addrs[] = { "127.0.0.1:9400", "*:1", ":0", "[::1]:65535",
					     "[::ffff:1.2.3.4]:80", "unix@/run/x.sock" };
	char why[CONF_REASON_MAX], *text;
	struct conf c;
	struct addr a;
	struct err e;

	conf_defaults(&c);
	text = printed(&c);
	conf_free(&c);
	load_good(&c, text, strlen(text));
	assert_round_trip(&c);
	assert_true(c.loop.spop_optional[1]);
	conf_free(&c);
	free(text);
	for (size_t i = 0; i < sizeof(addrs) / sizeof(*addrs); i++) {
		assert_int_equal(conf_addr_check(span_str(addrs[i]), false, why, sizeof(why)), 0);
		assert_int_equal(addr_parse(addrs[i], &a, &e), 0);
	}
}

static void numbers_keep_their_bits(void **state)
{
	const struct conf_key *k = key_named("policy.attention_factor");
	char text[CONF_VALUE_MAX], why[CONF_REASON_MAX];
	struct pool_opts a, b;
	uint64_t rng = 1;

	for (int i = 0; i < 20000; i++) {
		rng = rng * 6364136223846793005u + 1442695040888963407u;
		a.policy.attention_factor = (double)(rng >> 11) / (double)(1ull << 53) /
					    (i % 3 ? 1 : 1e12);
		conf_value_text(k, &a, text, sizeof(text));
		assert_int_equal(conf_value_set(k, &b, span_str(text), why, sizeof(why)), 0);
		assert_memory_equal(&a.policy.attention_factor, &b.policy.attention_factor, 8);
	}
}

/* ---- reload ------------------------------------------------------------------------------ */

/* Change each key alone: a reload applies it if the table allows it, else names the key. */
static void reload_table(void **state)
{
	static const struct { const char *name, *value; } fit[] = {	/* valid with the other defaults */
		{ "spop.max_frame_size", "2 MiB" }, { "spop.max_joined", "2 MiB" },
		{ "heads.max_bytes", "3 MiB" }, { "heads.max_tenant_bytes", "3 MiB" },
		{ "policy.sacrifice_max", "17" }, { "policy.sacrifice_min", "17" },
	};
	char value[CONF_VALUE_MAX], text[CONF_VALUE_MAX + 100];
	struct conf now, next;
	struct err e;

	conf_defaults(&now);
	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];
		size_t section = strcspn(k->name, ".");
		bool top = k->name[section] == '\0';
		int n;

		if (k->home == HOME_POOL || k->home == HOME_MODEL || k->home == HOME_TENANT ||
		    k->home == HOME_ENGINE)
			continue;
		other_text(k, conf_key_home(k, &now), value, sizeof(value));
		for (size_t f = 0; f < sizeof(fit) / sizeof(*fit); f++)
			if (strcmp(k->name, fit[f].name) == 0)
				strcpy(value, fit[f].value);
		n = snprintf(text, sizeof(text), "%.*s%s%s: %s\n", top ? 0 : (int)section, k->name,
			     top ? "" : ":\n  ", conf_key_word(k), value);
		load_good(&next, text, (size_t)n);
		memset(&e, 0, sizeof(e));
		if (conf_reloadable(&now, &next, &e) != (k->reload ? 0 : -1))
			fail_msg("%s: reload is %d", k->name, k->reload);
		if (!k->reload && strstr(e.text, k->name) == NULL)
			fail_msg("%s: not named in \"%s\"", k->name, e.text);
		conf_free(&next);
	}
	conf_free(&now);
}

static void reload_names_all(void **state)
{
	static const char pools[] = "pools: [{name: a}]\nmodels: [{name: b}]\nlog_level: warn\n";
	static const char two[] = "threads: 3\nmetrics: {listen: []}\nlog_level: warn\n";
	char *text = everything_else();
	struct conf now, next;
	struct err e;

	conf_defaults(&now);
	load_good(&next, pools, sizeof(pools) - 1);
	assert_int_equal(conf_reloadable(&now, &next, &e), 0);
	conf_free(&next);

	load_good(&next, two, sizeof(two) - 1);
	assert_int_equal(conf_reloadable(&now, &next, &e), -1);
	assert_string_equal(e.text,
		"A reload cannot change threads, metrics.listen; restart for that, all settings stay as they "
		"were.");
	assert_int_equal(conf_reloadable(&now, &next, NULL), -1);
	conf_free(&next);

	load_good(&next, text, strlen(text));
	assert_int_equal(conf_reloadable(&now, &next, &e), -1);
	assert_non_null(strstr(e.text, " more; restart"));
	assert_int_equal(conf_reloadable(&next, &next, &e), 0);
	conf_free(&next);
	conf_free(&now);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_table),
		cmocka_unit_test(every_key_loads_prints_and_loads),
		cmocka_unit_test(keys_do_not_overlap),
		cmocka_unit_test(every_bound_holds),
		cmocka_unit_test(defaults_are_fine),
		cmocka_unit_test(numbers_keep_their_bits),
		cmocka_unit_test(reload_table),
		cmocka_unit_test(reload_names_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
