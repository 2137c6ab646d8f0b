/* All mistakes of a file are reported at once, each with its line, column and a helpful sentence.
 */
#include <unistd.h>

#include "tests/unit/conf/cases.h"
#include "tests/unit/rounds.h"

static size_t failed;

/* Return true if <word> is in <text>. A '_' in <word> may be a space in <text>. */
static bool says(const char *text, const char *word)
{
	for (; *text != '\0'; text++) {
		size_t i = 0;

		while (word[i] != '\0' && (text[i] == word[i] || (word[i] == '_' && text[i] == ' ')))
			i++;
		if (word[i] == '\0')
			return true;
	}
	return false;
}

/* One "line:column words" against one error. */
static bool fits(const char *want, const struct err *e)
{
	int line, column, used = 0;
	char copy[400], *save = NULL;

	if (sscanf(want, "%d:%d%n", &line, &column, &used) != 2)
		return false;
	if (e->line != line || e->column != column)
		return false;
	snprintf(copy, sizeof(copy), "%s", want + used);
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		if (!says(e->text, w))
			return false;
	return true;
}

/* Check that an error is a whole sentence with capital and full stop, not cut, and printable. */
static bool sentence(const struct err *e)
{
	size_t n = strlen(e->text);
	struct span s = span_str(e->text);
	uint32_t cp;
	size_t used;

	for (; s.n > 0; s = span_of(s.p + used, s.n - used))
		if ((used = conf_utf8(s, &cp)) == 0 || !conf_can_be_seen(cp))
			return false;
	return n > 10 && n < ERR_TEXT_MAX - 1 && (e->text[n - 1] == '.' || e->text[n - 1] == '?') &&
	       strcmp(e->file, "bad.yaml") == 0;
}

static void check_bad(struct conf_case *c)
{
	struct conf_errors es;
	struct conf conf;
	bool good = true;

	if (conf_load_text(&conf, "bad.yaml", c->text, c->n, &es) == 0) {
		printf("%s: loads\n", c->title);
		conf_free(&conf);
		failed++;
		return;
	}
	good = es.n == c->n_wants && es.lost == 0;
	for (size_t i = 0; good && i < es.n; i++)
		good = fits(c->want[i], &es.e[i]) && sentence(&es.e[i]);
	if (!good) {
		printf("%s: said\n", c->title);
		print_errors(&es);
		for (size_t i = 0; i < c->n_wants; i++)
			printf("  wanted %s\n", c->want[i]);
		failed++;
	}
	conf_errors_free(&es);
}

static void bad_table(void **state)
{
	size_t n;

	failed = 0;
	n = each_case("tests/data/conf/bad.txt", check_bad);
	printf("%zu bad configurations\n", n);
	assert_true(n >= 100);
	assert_int_equal(failed, 0);
}

/* ---- cases that no table can hold -------------------------------------------------------- */

static void refuse(const char *text, size_t n, struct conf_errors *es)
{
	struct conf c;

	assert_int_equal(conf_load_text(&c, "big", text, n, es), -1);
	assert_true(es->n > 0);
	assert_null(c.route.pools);
	assert_null(c.route.models);
}

static void assert_says(const struct conf_errors *es, size_t i, const char *words)
{
	if (strstr(es->e[i].text, words) == NULL)
		fail_msg("\"%s\" says nothing of \"%s\"", es->e[i].text, words);
}

static char *repeat(const char *s, size_t n)
{
	size_t len = strlen(s);
	char *out = calloc(1, len * n + 1);

	for (size_t i = 0; i < n; i++)
		memcpy(out + i * len, s, len);
	return out;
}

static void nesting_bombs(void **state)
{
	static const char *const pieces[] = { "[", "{a: ", "- ", "? ", "[{a: " };
	struct conf_errors es;

	for (size_t i = 0; i < 5; i++) {
		size_t n = (CONF_FILE_MAX - 16) / strlen(pieces[i]);
		char *s = repeat(pieces[i], n);

		refuse(s, strlen(s), &es);
		assert_true(es.n <= 2);
		assert_says(&es, es.n - 1, "nested more than 8 deep");
		conf_errors_free(&es);
		free(s);
	}
}

static void nesting_just_under_and_over(void **state)
{
	static const char under[] = "max_pools: [[[[[[[1]]]]]]]\n", over[] = "a: [[[[[[[[1]]]]]]]]\n";
	struct conf_errors es;

	refuse(under, sizeof(under) - 1, &es);
	assert_int_equal(es.n, 1);
	assert_says(&es, 0, "a list does not belong here");
	conf_errors_free(&es);
	refuse(over, sizeof(over) - 1, &es);
	assert_says(&es, es.n - 1, "nested");
	conf_errors_free(&es);
}

static void alias_bomb(void **state)
{
	static const char text[] =
		"a: &a [x, x, x, x, x, x, x, x, x]\n"
		"b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
		"c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
		"d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n";
	struct conf_errors es;

	refuse(text, sizeof(text) - 1, &es);
	assert_int_equal(es.n + es.lost, 4 + 4 + 27);	/* keys, anchors, aliases */
	conf_errors_free(&es);
}

static void file_size(void **state)
{
	char *s = repeat("# 16 bytes long\n", CONF_FILE_MAX / 16 + 1);
	struct conf_errors es;
	struct conf c;

	load_good(&c, s, CONF_FILE_MAX);
	conf_free(&c);
	refuse(s, CONF_FILE_MAX + 1, &es);
	assert_says(&es, 0, "larger than 1 MiB");
	conf_errors_free(&es);
	free(s);
}

static void text_sizes(void **state)
{
	char *a = repeat("a", CONF_SCALAR_MAX + 1), text[2 * CONF_SCALAR_MAX];
	struct conf_errors es;
	struct conf c;
	int n;

	n = snprintf(text, sizeof(text), "policy: {model: %.*s}", PROMPT_NAME_MAX, a);
	load_good(&c, text, (size_t)n);
	assert_int_equal(strlen(c.route.pool_default.model), PROMPT_NAME_MAX);
	conf_free(&c);

	n = snprintf(text, sizeof(text), "policy: {model: %.*s}", PROMPT_NAME_MAX + 1, a);
	refuse(text, (size_t)n, &es);
	assert_says(&es, 0, "is too long; it must be a text of 0 to 255 bytes.");
	conf_errors_free(&es);

	n = snprintf(text, sizeof(text), "policy: {model: %s}", a);
	refuse(text, (size_t)n, &es);
	assert_int_equal(es.n, 1);
	assert_int_equal(es.e[0].column, 17);
	assert_says(&es, 0, "longer than 1024 bytes");
	conf_errors_free(&es);

	n = snprintf(text, sizeof(text), "state_dir: /%.*s", PATH_CHARS_MAX - 2, a);
	load_good(&c, text, (size_t)n);
	assert_int_equal(strlen(c.loop.state_dir), PATH_CHARS_MAX - 1);
	conf_free(&c);

	n = snprintf(text, sizeof(text), "state_dir: /%.*s", PATH_CHARS_MAX - 1, a);
	refuse(text, (size_t)n, &es);
	conf_errors_free(&es);
	free(a);
}

/* The first 64 errors of the file are kept and the others are counted, in any order of finding. */
static void many_mistakes(void **state)
{
	char text[100 * 16], *p = text;
	struct conf_errors es;

	/* pools are read last but come first in the file */
	p += sprintf(p, "pools:\n");
	for (int i = 0; i < 50; i++)
		p += sprintf(p, " - %d\n", i);
	for (int i = 0; i < 49; i++)
		p += sprintf(p, "x%d: 1\n", i);
	refuse(text, (size_t)(p - text), &es);
	assert_int_equal(es.n, 64);
	assert_int_equal(es.lost, 35);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(es.e[i].line, i + 2);
	conf_errors_free(&es);
}

/* A file full of mistakes costs no more than reading it. */
static void unknown_keys_by_the_thousand(void **state)
{
	char *s = repeat("max_frame_sice: 1\n", CONF_FILE_MAX / 18);
	struct conf_errors es;

	refuse(s, strlen(s), &es);
	assert_int_equal(es.n, 64);
	conf_errors_free(&es);
	free(s);

	s = repeat(" a,", CONF_FILE_MAX / 3);
	s[0] = '[';
	refuse(s, strlen(s), &es);
	assert_says(&es, es.n - 1, "more than 200000 keys and values");
	conf_errors_free(&es);
	free(s);
}

static void too_many_pools(void **state)
{
	char *text = malloc(CONF_FILE_MAX), *p = text;
	struct conf_errors es;
	struct conf c;

	p += sprintf(p, "max_pools: 4096\npools:\n");
	for (int i = 0; i < CONF_POOLS_MAX; i++)
		p += sprintf(p, " - name: pool%d\n", i);
	load_good(&c, text, (size_t)(p - text));
	assert_int_equal(c.route.n_pools, CONF_POOLS_MAX);
	assert_string_equal(c.route.pools[4095].name, "pool4095");
	conf_free(&c);
	p += sprintf(p, " - name: more\n");
	refuse(text, (size_t)(p - text), &es);
	assert_int_equal(es.n, 1);
	assert_int_equal(es.e[0].line, CONF_POOLS_MAX + 3);
	assert_says(&es, 0, "more than 4096 entries");
	conf_errors_free(&es);
	free(text);
}

static void files(void **state)
{
	struct conf_errors es;
	struct conf c;

	assert_int_equal(conf_load(&c, "/nonexistent/kvroute.yaml", &es), -1);
	assert_string_equal(es.e[0].file, "/nonexistent/kvroute.yaml");
	assert_int_equal(es.e[0].line, 0);
	assert_says(&es, 0, "cannot be read: No such file or directory.");
	conf_free(&c);
	conf_errors_free(&es);

	assert_int_equal(conf_load(&c, "/", &es), -1);
	assert_says(&es, 0, "Is a directory");
	conf_errors_free(&es);

	assert_int_equal(conf_load(&c, "/dev/zero", &es), -1);
	assert_says(&es, 0, "larger than 1 MiB");
	conf_errors_free(&es);

	assert_int_equal(conf_load(&c, "/dev/null", &es), 0);
	conf_free(&c);
}

/* A good file with any change loads, or is rejected with sentences in the order of the file. */
static void damaged_files(void **state)
{
	size_t n, m, refused = 0;
	char *good = read_whole("doc/kvroute.yaml", &n), *bad = malloc(n + 64);
	uint64_t rng = 12345;

	for (unsigned round = 0; round < rounds(3000, 600); round++) {
		struct conf_errors es;
		struct conf c;

		memcpy(bad, good, n);
		m = n;
		for (int k = (int)(round % 4); k >= 0 && m > 0; k--) {
			rng = rng * 6364136223846793005u + 1442695040888963407u;
			size_t at = (size_t)(rng >> 33) % m;

			switch (rng >> 30 & 3) {
			case 0: bad[at] = (char)(rng >> 20); break;
			case 1: bad[at] = "[]{}:-\"'&*#\n\t 0"[(rng >> 20) % 15]; break;
			case 2: memmove(bad + at, bad + at + 1, m - at - 1); m--; break;
			case 3: m = at + 1; break;
			}
		}
		if (conf_load_text(&c, "bad.yaml", bad, m, &es) == 0) {
			conf_free(&c);
			continue;
		}
		refused++;
		assert_true(es.n > 0);
		for (size_t i = 0; i < es.n; i++) {
			if (!sentence(&es.e[i]))
				fail_msg("no sentence: %s", es.e[i].text);
			if (i > 0)
				assert_true(es.e[i].line > es.e[i - 1].line ||
					    (es.e[i].line == es.e[i - 1].line &&
					     es.e[i].column >= es.e[i - 1].column));
		}
		conf_errors_free(&es);
	}
	assert_true(refused > rounds(500, 100));
	free(good);
	free(bad);
}

/* Rejected, because the agent would rename or replace its configuration. */
static void a_recording_in_place_of_the_configuration(void **state)
{
	static const char *const head[] = { "record: {file: ", "record: {file: ",
					    "index: {snapshot_file: " };
	char path[] = "/tmp/kvroute-conf-XXXXXX.1", key[] = "record.file";
	struct conf_errors es;
	struct conf c;
	int fd = mkstemps(path, 2);

	assert_true(fd >= 0);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_true(dprintf(fd, "%s%.*s}\n", head[i], (int)strlen(path) - (i == 1 ? 2 : 0), path) > 0);
		assert_int_equal(conf_load(&c, path, &es), -1);
		assert_int_equal(es.n, 1);
		assert_non_null(strstr(es.e[0].text, "the configuration"));
		assert_int_equal(strncmp(es.e[0].text, key, sizeof(key) - 1) == 0, i < 2);
		conf_errors_free(&es);
	}
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_table),
		cmocka_unit_test(a_recording_in_place_of_the_configuration),
		cmocka_unit_test(nesting_bombs),
		cmocka_unit_test(nesting_just_under_and_over),
		cmocka_unit_test(alias_bomb),
		cmocka_unit_test(file_size),
		cmocka_unit_test(text_sizes),
		cmocka_unit_test(many_mistakes),
		cmocka_unit_test(unknown_keys_by_the_thousand),
		cmocka_unit_test(too_many_pools),
		cmocka_unit_test(files),
		cmocka_unit_test(damaged_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
