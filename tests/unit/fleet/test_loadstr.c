/* test_loadstr.c - one HAProxy's view of its servers, as written by its configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/fleet/loadstr.h"
#include "tests/unit/edge.h"

static const struct {
	const char *name, *text, *process;
	const char *entries;	/* "name up conn queue weight" of each, as one text */
	unsigned n_bad;
} cases[] = {
	{ "as the recipe has it", "lb1/77;s1=1,3,0,100;s2=0,0,0,1", "lb1/77",
	    "s1 1 3 0 100 s2 0 0 0 1 ", 0 },
	{ "no process", "s1=1,3,2,1;s2=1,0,0,0", "", "s1 1 3 2 1 s2 1 0 0 0 ", 0 },
	{ "an empty process", ";s1=1,3,2,1", "", "s1 1 3 2 1 ", 0 },
	{ "no weights", "lb1/77;s1=1,3,0;s2=1,4,5", "lb1/77", "s1 1 3 0 1 s2 1 4 5 1 ", 0 },
	{ "a ';' at the end", "lb1/77;s1=1,3,0,1;", "lb1/77", "s1 1 3 0 1 ", 0 },
	{ "one too many", "lb1/77;;s1=1,3,0,1;;s2=1,0,0,1;;", "lb1/77", "s1 1 3 0 1 s2 1 0 0 1 ",
	    0 },
	{ "cut behind the third number", "p;s1=1,3,0,1;s2=1,4,5", "p", "s1 1 3 0 1 ", 1 },
	{ "cut behind a comma", "p;s1=1,3,0,1;s2=1,4,5,", "p", "s1 1 3 0 1 ", 1 },
	{ "cut behind the second", "p;s1=1,3,0;s2=1,4", "p", "s1 1 3 0 1 ", 1 },
	{ "cut in the name", "p;s1=1,3,0,1;s2", "p", "s1 1 3 0 1 ", 1 },
	{ "cut behind the name", "p;s1=1,3,0,1;s2=", "p", "s1 1 3 0 1 ", 1 },
	{ "the first is the one cut", "p;s1=1,", "p", "", 1 },
	{ "only the process", "lb1/77", "lb1/77", "", 0 },
	{ "empty", "", "", "", 0 },
	{ "nothing but ';'", ";;;", "", "", 0 },
	{ "garbage", "p;=1,2,3,4;s1;s2=a,b,c,d;s3=1 ,2,3,4;s4=-1,2,3,4;s5=1,2,3,4,5;s6=1,2,3,4",
	    "p", "s6 1 2 3 4 ", 6 },
	{ "odd numbers beside four", "p;s1=1,2,3,4;s2=1,2,3;s3=1,2,3,4", "p",
	    "s1 1 2 3 4 s3 1 2 3 4 ", 1 },
	{ "huge numbers", "p;s1=9,4294967295,4294967296,99999999999999999999999999999999", "p",
	    "s1 1 4294967295 4294967295 4294967295 ", 0 },
	{ "leading zeros", "p;s1=001,010,00,08", "p", "s1 1 10 0 8 ", 0 },
	{ "names with anything in them", "p;a.b-c_d:1=1,2,3,4;\xff=1,2,3,4", "p",
	    "a.b-c_d:1 1 2 3 4 \xff 1 2 3 4 ", 0 },
	{ "backup servers, and those of a backend that uses all of them",
	    "p;s1=1,0,0,1;s2=b1,3,0,1;s3=b0,0,0,1;s4=B1,0,0,2", "p",
	    "s1 1 0 0 1 s2 b1 3 0 1 s3 b0 0 0 1 s4 B1 0 0 2 ", 0 },
	{ "a mark and nothing after it, two marks, marks elsewhere",
	    "p;s1=b,0,0,1;s2=bb1,0,0,1;s3=1,b0,0,1;s4=c1,0,0,1;s5=1b,0,0,1;s6=b1,0,0,1;s7=b", "p",
	    "s6 b1 0 0 1 ", 6 },
	{ "a name with '='", "p;a=b=1,2,3,4", "p", "", 1 },
};

static unsigned read_all(const char *text, size_t n, char *out, size_t cap, struct loadstr *l)
{
	static const char *const marks[] = { [BACKUP_NO] = "", [BACKUP_FIRST] = "b", [BACKUP_ALL] = "B" };
	struct load_entry e;
	size_t at = 0;
	unsigned k = 0;

	out[0] = '\0';
	loadstr_start(l, span_of(text, n));
	for (; loadstr_next(l, &e); k++) {
		if (at < cap)
			at += (size_t)snprintf(out + at, cap - at, SPAN_FMT " %s%d %u %u %u ",
					       SPAN_ARG(e.name), marks[e.backup], e.up, e.conn, e.queue, e.weight);
	}
	return k;
}

static void table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].text);
		uint8_t *edge = edge_copy(cases[i].text, n);
		struct loadstr l;
		char got[512];

		read_all((const char *)edge, n, got, sizeof(got), &l);
		if (strcmp(got, cases[i].entries) != 0 || l.n_bad != cases[i].n_bad ||
		    !span_eq(l.process, span_str(cases[i].process)))
			fail_msg("%s: \"%s\", %u bad, process \"" SPAN_FMT "\"", cases[i].name, got,
				 l.n_bad, SPAN_ARG(l.process));
		edge_free(edge, n);
	}
}

static void no_bytes_at_all(void **state)
{
	struct load_entry e;
	struct loadstr l;

	(void)state;
	loadstr_start(&l, (struct span){ 0 });
	assert_int_equal(l.process.n, 0);
	assert_false(loadstr_next(&l, &e));
	assert_int_equal(l.n_bad, 0);
}

/* Cut anywhere, whole entries read the same; the last number may be cut as well. */
static void every_cut(void **state)
{
	static const char text[] = "lb1/77;s1=1,30,0,100;s2=0,12,3,256;s3=1,0,0,1";
	char whole[512], part[512];
	struct loadstr l;

	(void)state;
	read_all(text, sizeof(text) - 1, whole, sizeof(whole), &l);
	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		uint8_t *edge = edge_copy(text, n);
		unsigned k = read_all((const char *)edge, n, part, sizeof(part), &l);

		if (k > 1) {		/* all but the last, to the letter */
			part[strlen("s1 1 30 0 100 ")] = '\0';
			assert_memory_equal(whole, part, strlen(part));
		}
		assert_true(k <= 3 && l.n_bad <= 1);
		edge_free(edge, n);
	}
}

static void a_thousand_servers(void **state)
{
	static char text[65536], got[131072];
	struct loadstr l;
	size_t n = (size_t)sprintf(text, "lb1/77");

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		n += (size_t)sprintf(text + n, ";server-%u=1,%u,%u,1", i, i, i * 2);
	assert_int_equal(read_all(text, n, got, sizeof(got), &l), 1000);
	assert_int_equal(l.n_bad, 0);
	assert_non_null(strstr(got, "server-999 1 999 1998 1 "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),
		cmocka_unit_test(no_bytes_at_all),
		cmocka_unit_test(every_cut),
		cmocka_unit_test(a_thousand_servers),
	};

	return cmocka_run_group_tests_name("route loadstr", tests, NULL, NULL);
}
