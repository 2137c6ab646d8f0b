/* test_top.c - the screen of top at many sizes: no line is too wide, no line too many, no byte from
 * the agent is an escape sequence, and rows are sorted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/ctl/top_view.h"

#define SERVER(name, open, wait, picked) \
	"{\"pool\":\"pool\",\"name\":\"" name "\",\"up\":true,\"closed\":false,\"open\":" open \
	",\"backlog_s\":" wait ",\"picked\":" picked ",\"hit_tokens\":100,\"held_tokens\":50," \
	"\"capacity_tokens\":200,\"tokens_per_s\":12345,\"engine\":{\"kv_used\":null}}"

static const char page[] =
	"{\"version\":\"0.1.0\",\"time_ms\":10000,\"uptime_s\":7300,\"ready\":true,\"connections\":12,"
	"\"requests\":1234,\"open\":5,\"prompt_tokens\":1000,\"hit_tokens\":530,"
	"\"decisions\":{\"count\":1234,\"seconds\":0.1234,\"declined\":2},"
	"\"index\":{\"bytes\":50,\"max_bytes\":200,\"pages\":4321,\"spaces\":3},"
	"\"problems\":[{\"what\":\"load_unset\",\"since_s\":125,\"last_seen_s\":1,\"quiet\":false,"
	"\"pool\":\"pool\",\"message\":\"the argument load is "
	"empty\",\"effect\":\"x\",\"remedy\":\"put set-var-fmt(txn.load) into the backend\"}],"
	"\"pools\":[{\"name\":\"pool\",\"mode\":\"on\",\"facts\":\"first\",\"requests\":1234}],"
	"\"servers\":[" SERVER("s2", "3", "0.5", "30") "," SERVER("s1", "1", "2.5", "20") ","
	SERVER("s\\u001b[31m3", "2", "0", "1234567") "]}\n";

static struct status now, before;
static struct buf out;

static void read_page(struct status *s, const char *json)
{
	status_start(s);
	assert_int_equal(status_feed(s, json, strlen(json)), JSON_DONE);
	assert_false(s->failed);
}

static const char *draw(const struct top_view *v)
{
	buf_wipe(&out, SIZE_MAX);
	top_view_draw(v, &now, &before, &out);
	buf_add(&out, "", 1);
	return out.p;
}

/* Leave out escape sequences and returns. */
static void strip(char *s)
{
	char *to = s;

	for (; *s != '\0'; s++) {
		if (*s == '\033') {
			assert_int_equal(s[1], '[');
			for (s += 2; *s != '\0' && (*s < '@' || *s > '~'); s++)
				;
		} else if (*s != '\r') {
			*to++ = *s;
		}
	}
	*to = '\0';
}

static void test_fits_every_size(void **state)
{
	for (int columns = 1; columns <= 200; columns++)
		for (int rows = 2; rows <= 40; rows += columns % 7 + 1) {
			const struct top_view v = { .columns = columns, .rows = rows, .sort = 'n' };
			char *text = strdup(draw(&v)), *line, *save = NULL;
			int n = 0;

			strip(text);
			for (char *p = text; *p != '\0'; p++)
				n += *p == '\n';
			assert_int_equal(n, rows - 1);
			for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
				assert_in_range(strlen(line), 0, (unsigned)columns);
			free(text);
		}
}

static void test_words(void **state)
{
	struct top_view v = { .columns = 80, .rows = 24, .sort = 'n' };
	const char *text = draw(&v);

	assert_non_null(strstr(text, "kvroute 0.1.0  ready  up 2 h  12 connections"));
	assert_non_null(strstr(text, "1234 requests"));
	assert_non_null(strstr(text, "hits 53%"));
	assert_non_null(strstr(text, "! load_unset (pool), for 2 min: the argument load is empty"));
	assert_non_null(strstr(text, "put set-var-fmt(txn.load)"));
	assert_non_null(strstr(text, "s?[31m3"));
	assert_non_null(strstr(text, "1235k"));
	assert_non_null(strstr(text, "25%"));
	v.trouble = "Connection refused";
	assert_non_null(strstr(draw(&v), "no answer: Connection refused"));
	v.columns = 40;
	v.trouble = NULL;
	text = draw(&v);
	assert_non_null(strstr(text, "OPEN"));
	assert_null(strstr(text, "TOK/S"));
	v.rows = 0;
	assert_null(strchr(draw(&v), '\033'));
}

/* A single look knows no rate. */
static void test_rate(void **state)
{
	static const struct { double ms, requests; const char *rate; } cases[] = {
		{ 8000, 1200, "  17.0/s  " }, { 8000, 1234, "  0.0/s  " }, { 10000, 1234, "  -/s  " },
		{ 8000, 1235, "  -/s  " },
	};
	const struct top_view v = { .columns = 100, .rows = 24, .sort = 'n' };
	const struct status_all was = before.all;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		before.all.time_ms = cases[i].ms;
		before.all.requests = cases[i].requests;
		assert_non_null(strstr(draw(&v), cases[i].rate));
	}
	before.all = was;
	buf_wipe(&out, SIZE_MAX);
	top_view_draw(&v, &now, NULL, &out);
	buf_add(&out, "", 1);
	assert_non_null(strstr(out.p, "1234 requests  -/s  "));
}

/* A guess has a mark until the server's own times or sizes are known. */
static void test_guesses_are_marked(void **state)
{
	static const char fmt[] = "{\"problems\":[{\"what\":\"tls_on_spop\",\"since_s\":900,"
		"\"last_seen_s\":40,\"quiet\":true,\"message\":\"m\"}],"
		"\"servers\":[{\"name\":\"s1\",\"up\":true,\"backlog_s\":0.25,\"tokens_per_s\":8000,"
		"\"held_tokens\":1,\"capacity_tokens\":4,\"speed_source\":\"%s\",\"capacity_source\":\"%s\"}]}";
	static const struct { const char *speed, *capacity, *wait, *rate, *cache; } cases[] = {
		{ "guess", "guess", "  ~0.25", "  ~8000", " ~25%" },
		{ "pool", "inferred", "  ~0.25", "  ~8000", "  25%" },
		{ "learned", "engine", "   0.25", "   8000", "  25%" },
		{ "configuration", "configuration", "   0.25", "   8000", "  25%" },
	};
	const struct top_view v = { .columns = 100, .rows = 24, .sort = 'n' };
	char json[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text;

		snprintf(json, sizeof(json), fmt, cases[i].speed, cases[i].capacity);
		read_page(&now, json);
		text = draw(&v);
		assert_non_null(strstr(text, cases[i].wait));
		assert_non_null(strstr(text, cases[i].rate));
		assert_non_null(strstr(text, cases[i].cache));
		assert_non_null(strstr(text, "! tls_on_spop, last seen 40 s ago: m"));
	}
	read_page(&now, page);
}

static void assert_order(const struct top_view *v, const char *a, const char *b, const char *c)
{
	const char *text = draw(v);

	assert_true(strstr(text, a) < strstr(text, b) && strstr(text, b) < strstr(text, c));
}

static void test_sorts(void **state)
{
	struct top_view v = { .columns = 80, .rows = 0, .sort = 'n' };

	assert_order(&v, "pool/s1", "pool/s2", "pool/s?");
	assert_true(top_view_key(&v, 'w'));
	assert_order(&v, "pool/s1", "pool/s2", "pool/s?");
	assert_non_null(strstr(draw(&v), "*WAIT_S"));
	assert_true(top_view_key(&v, 'o'));
	assert_order(&v, "pool/s2", "pool/s?", "pool/s1");
	assert_true(top_view_key(&v, 'r'));
	assert_order(&v, "pool/s1", "pool/s?", "pool/s2");
	assert_false(top_view_key(&v, 'z'));
	assert_false(top_view_key(&v, '\0'));
	assert_true(top_view_key(&v, 'k'));
}

/* Anything else that is JSON, and every prefix of the page, is drawn. */
static void test_odd_pages(void **state)
{
	static const char *const odd[] = {
		"[]", "{}", "{\"servers\":[1,[{\"name\":\"x\"}],{\"name\":{\"a\":1},\"open\":\"x\"}]}",
		"{\"servers\":[{\"open\":-1e308,\"picked\":1e308,\"up\":null}]}", "{\"version\":5}",
		"{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":1}}}}}}",
	};
	const struct top_view v = { .columns = 40, .rows = 10, .sort = 'o' };

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		read_page(&now, odd[i]);
		draw(&v);
	}
	for (size_t n = 0; n < sizeof(page) - 1; n++) {
		status_start(&now);
		status_feed(&now, page, n);
		draw(&v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fits_every_size), cmocka_unit_test(test_words),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_guesses_are_marked), cmocka_unit_test(test_sorts),
		cmocka_unit_test(test_odd_pages),
	};
	int rc;

	read_page(&now, page);
	read_page(&before, "{\"time_ms\":8000,\"requests\":1210,\"prompt_tokens\":900}");
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	status_free(&now);
	status_free(&before);
	buf_free(&out);
	return rc;
}
