/* Words of a line as HAProxy 3.0 and 3.2 print them with -dC, conditions, and lack of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/doctor/attach.h"
#include "agent/doctor/doctor_in.h"
#include "tests/unit/fault.h"

static const char *const env[] = { "HOME=/root", "LIST=a b c", NULL };

static const struct {
	const char *line, *words;	/* joined by '|'; NULL: refused */
	uint64_t unset;
} lines[] = {
	{ "", "" }, { " # x", "" }, { "maxconn 10 # c", "maxconn|10" },
	{ "a str(a\\ b)", "a|str(a b)" }, { "a \\#b", "a|#b" },
	{ "a \"x ${HOME} \\$ \\\" \\x41 $NOPE-x ${NOPE-def}\"", "a|x /root $ \" A -x def", 2 },
	{ "a 'x $HOME \\n \\' b", "a|x $HOME \\n \\|b" }, { "x$HOME\\'y", "x$HOME'y" },
	{ "a \"$HOME\" \"${NOPE}\" '$NOPE' \"x$NOPE${NOPE-}\"", "a|/root||$NOPE|x", 4 | 16 },
	{ "\"a'b\"", "a'b" }, { "a\\qb\"\\q\"", "a\\qb\\q" }, { "g \\", "g|\\" },
	{ "h \"${LIST[*]}\"", "h|a|b|c" }, { "\"\"", "" },
	{ "\"a", NULL }, { "'a", NULL }, { "\"$\"", NULL }, { "\"${A\"", NULL }, { "\\x4", NULL },
};

static void test_words(void **state)
{
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct dr_env e = { .env = env };
		struct dr_mem m = { 0 };
		const char *words[DR_WORDS], *why = NULL;
		char text[256] = "";
		uint64_t unset = 1;
		int n = dr_split(&m, &e, span_str(lines[i].line), words, &unset, &why);

		assert_int_equal(unset, lines[i].unset);
		for (int k = 0; k < n; k++) {
			strcat(text, k > 0 ? "|" : "");
			strcat(text, words[k]);
		}
		assert_int_equal(n < 0, lines[i].words == NULL);
		if (lines[i].words != NULL)
			assert_string_equal(text, lines[i].words);
		else
			assert_non_null(why);
		dr_mem_free(&m);
	}
}

static void test_conditions(void **state)
{
	static const struct {
		const char *text;
		int value;
	} cases[] = {
		{ "", 0 }, { "0", 0 }, { "1", 1 }, { "version_atleast(3.0)", 1 },
		{ "version_before(3.0.11)", 0 }, { "!version_atleast(3.1)", 1 },
		{ "defined(HOME) && !defined(FOO)", 1 }, { "0 || (1 && streq(a,a))", 1 },
		{ "strneq(a,a)", 0 }, { "feature(THREAD)", 1 }, { "nonsense(1)", -1 }, { "(1", -1 },
		{ "1 1", -1 }, { "streq(a", -1 },
	};
	struct dr_env e = { .env = env };
	struct doctor_opts o;
	const char *why;

	doctor_defaults(&o);
	o.version = DOCTOR_VERSION(3, 0, 11);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		why = NULL;
		assert_int_equal(dr_condition(&o, &e, cases[i].text, &why), cases[i].value);
		assert_int_equal(why != NULL, cases[i].value < 0);
	}
}

static int open_text(void *arg, const char *path, struct span *text, const char **why)
{
	*text = SPAN("[k]\nspoe-agent a\n groups route\nspoe-message route\n args load=var(txn.load)\n");
	return 0;
}

static void test_no_memory(void **state)
{
	static const char cfg[] = "global\n setenv A b\n resetenv A\ndefaults\n mode http\n"
	    "frontend f\n default_backend b\nbackend b\n"
	    " filter spoe engine k config x\n server s1 127.0.0.1:1\n";
	unsigned long k;

	for (k = 1;; k++) {
		struct doctor_opts o;
		struct doctor *d;
		int status = -1;

		doctor_defaults(&o);
		o.open = open_text;
		fault_begin(k);
		if ((d = doctor_new(&o)) != NULL) {
			doctor_file(d, "haproxy.cfg", span_str(cfg));
			status = doctor_check(d);
		}
		if (!fault_end()) {
			assert_int_equal(status, 0);
			assert_int_equal(doctor_status(d), 1);
			doctor_free(d);
			break;
		}
		assert_int_equal(status, -1);
		doctor_free(d);
	}
	assert_true(k > 1);
}

static int open_none(void *arg, const char *path, struct span *text, const char **why)
{
	*why = "no such file";
	return -1;
}

/* Returns 0 with a diff, -1 without memory. */
static int attach(bool detach)
{
	static const char cfg[] = "defaults\n mode http\nfrontend f\n use_backend %[str(b)]\nbackend b\n"
	    " timeout server 1h\n server s1 127.0.0.1:1\n", marked[] = "global # kvroute-doctor\nglobal\n";
	static const struct doctor_attach o = { .spoe = "/k.spoe", .root = "" };
	struct buf diff = { 0 }, said = { 0 };
	struct doctor_opts opts;
	struct doctor *d;
	int status = -1;

	doctor_defaults(&opts);
	opts.open = open_none;
	if ((d = doctor_new(&opts)) != NULL) {
		doctor_file(d, "/h.cfg", span_str(detach ? marked : cfg));
		if (doctor_check(d) == 0)
			status = detach ? doctor_detach(d, &o, &diff, &said) :
			    doctor_attach(d, &o, &diff, &said);
	}
	doctor_free(d);
	assert_true(status < 0 ? diff.n == 0 : diff.n > 50);
	buf_free(&diff);
	buf_free(&said);
	return status;
}

static void test_attach_no_memory(void **state)
{
	for (int detach = 0; detach < 2; detach++) {
		int status = -1;
		unsigned long k;

		for (k = 1; status < 0; k++) {
			fault_begin(k);
			status = attach(detach);
			if (!fault_end())
				break;
		}
		assert_int_equal(status, 0);
		assert_true(k > 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words), cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_no_memory), cmocka_unit_test(test_attach_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
