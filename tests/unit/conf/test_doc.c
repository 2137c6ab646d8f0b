/* The manual and the example have exactly the keys of the table. */
#include "tests/unit/conf/cases.h"

#define MANUAL	"doc/kvroute.yaml.5"
#define EXAMPLE	"doc/kvroute.yaml"

static char *manual;

/* Find the next ".It Ic name" after <p> and copy its name to <name>. Returns NULL if there is
 * none. */
static char *next_item(char *p, char name[80])
{
	if ((p = strstr(p, "\n.It Ic ")) == NULL)
		return NULL;
	p += strlen("\n.It Ic ");
	snprintf(name, 80, "%.*s", (int)strcspn(p, " \n"), p);
	return p;
}

/* From the item of <key> to the next one. */
static struct span item_of(const char *key)
{
	char name[80], *p = manual, *end;

	while ((p = next_item(p, name)) != NULL)
		if (strcmp(name, key) == 0) {
			end = strstr(p, "\n.It ");
			return span_of(p, end ? (size_t)(end + 1 - p) : strlen(p));
		}
	fail_msg(MANUAL ": no \".It Ic %s\"", key);
	return SPAN("");
}

static void assert_item_has(const char *key, const char *line)
{
	struct span item = item_of(key);

	if (memmem(item.p, item.n, line, strlen(line)) == NULL)
		fail_msg(MANUAL ": the item %s lacks the line \"%s\"", key, line);
}

/* In mdoc, quotes are not special; a backslash would be. */
static void check_key(const struct conf_key *k, const struct conf *defaults)
{
	char text[CONF_VALUE_MAX + CONF_ALLOWED_MAX], line[sizeof(text) + 100];

	conf_value_range(k, text, sizeof(text));
	snprintf(line, sizeof(line), "\nType: %s, %s.\n", conf_type_name(k->type), text);
	assert_item_has(k->name, line);
	if (strcmp(k->name, "pools.name") != 0 && strcmp(k->name, "models.name") != 0 &&
	    strcmp(k->name, "tenants.name") != 0 && strncmp(k->name, "engines.", 8) != 0) {
		conf_value_text(k, conf_key_home(k, defaults), text, sizeof(text));
		snprintf(line, sizeof(line), "\nDefault: %s.\n", text);
		assert_item_has(k->name, line);
	}
	snprintf(line, sizeof(line), "\nReload: %s.\n", k->reload ? "yes" : "no");
	assert_item_has(k->name, line);
	assert_true(strlen(k->help) > 10 && strlen(k->help) < 95);
}

static void every_key_is_in_the_manual(void **state)
{
	struct conf defaults;

	conf_defaults(&defaults);
	for (size_t i = 0; i < conf_n_keys; i++)
		check_key(&conf_keys[i], &defaults);
	conf_free(&defaults);
}

static bool is_key(const char *name)
{
	for (size_t i = 0; i < conf_n_keys; i++)
		if (strcmp(conf_keys[i].name, name) == 0)
			return true;
	return false;
}

static void the_manual_has_no_other_keys(void **state)
{
	char name[80], *p = manual;
	size_t n = 0;

	while ((p = next_item(p, name)) != NULL) {
		n++;
		if (!is_key(name))
			fail_msg(MANUAL ": %s is no key", name);
	}
	assert_int_equal(n, conf_n_keys);
}

static void the_example_equals_the_printed_form(void **state)
{
	struct sink s = { NULL, 0 };
	size_t n;
	char *text = read_whole(EXAMPLE, &n);
	struct conf c;

	load_good(&c, text, n);
	conf_print(&c, sink_put, &s);
	if (strcmp(s.p, text) != 0)
		fail_msg(EXAMPLE ": make it anew with \"kvroute -tv > " EXAMPLE "\"");
	conf_free(&c);
	conf_defaults(&c);
	s.n = 0;
	conf_print(&c, sink_put, &s);
	assert_string_equal(s.p, text);
	conf_free(&c);
	free(s.p);
	free(text);
}

/* An editor with 100 columns shows every line of it whole. */
static void the_example_is_readable(void **state)
{
	size_t n;
	char *text = read_whole(EXAMPLE, &n), *line = text;

	for (; *line != '\0'; line += strcspn(line, "\n") + 1)
		if (strcspn(line, "\n") > 100)
			fail_msg("%.*s", (int)strcspn(line, "\n"), line);
	free(text);
}

/* Each "Example" in the manual that is a configuration loads. */
static void examples_in_the_manual_load(void **state)
{
	char *p = manual, *end, *yaml;
	struct conf c;
	size_t n = 0;

	while ((p = strstr(p, "\n.Bd -literal")) != NULL && (end = strstr(p, "\n.Ed")) != NULL) {
		yaml = strchr(p + 1, '\n') + 1;
		load_good(&c, yaml, (size_t)(end + 1 - yaml));
		conf_free(&c);
		p = end;
		n++;
	}
	assert_true(n >= 2);
}

static int setup(void **state)
{
	size_t n;

	manual = read_whole(MANUAL, &n);
	return 0;
}

static int teardown(void **state)
{
	free(manual);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_in_the_manual),
		cmocka_unit_test(the_manual_has_no_other_keys),
		cmocka_unit_test(the_example_equals_the_printed_form),
		cmocka_unit_test(the_example_is_readable),
		cmocka_unit_test(examples_in_the_manual_load),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
