/* Log lines: a value from outside cannot change the form of a line, and each kind of line has a
 * rate limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/loop/log_in.h"

struct log_out {
	struct log log;
	int fd[2];
	char text[65536];
};

static struct log_out *out_new(enum log_level level)
{
	struct log_out *o = calloc(1, sizeof(*o));

	assert_non_null(o);
	assert_int_equal(pipe2(o->fd, O_NONBLOCK), 0);
	log_init(&o->log, o->fd[1], level);
	return o;
}

static void out_free(struct log_out *o)
{
	log_fini(&o->log);
	close(o->fd[0]);
	close(o->fd[1]);
	free(o);
}

/* Return the text written since the last call. */
static const char *out_text(struct log_out *o)
{
	ssize_t n = read(o->fd[0], o->text, sizeof(o->text) - 1);

	o->text[n > 0 ? n : 0] = '\0';
	return o->text;
}

struct value_case {
	const char *in;
	size_t n;
	const char *out;	/* the text after "v=" */
};

static const struct value_case value_cases[] = {
	{ "plain", 5, "plain" },
	{ "a.b-c_d/e:1,2;3", 15, "a.b-c_d/e:1,2;3" },
	{ "", 0, "\"\"" },
	{ "two words", 9, "\"two words\"" },
	{ "a=b", 3, "\"a=b\"" },
	{ "say \"x\"", 7, "\"say \\\"x\\\"\"" },
	{ "back\\slash", 10, "\"back\\\\slash\"" },
	{ "x\nlevel=error", 13, "\"x\\nlevel=error\"" },
	{ "\r\t\0z", 4, "\"\\x0d\\x09\\x00z\"" },
	{ "\x1b[31m", 5, "\"\\x1b[31m\"" },
	{ "\xc3\xa4\xff", 3, "\"\\xc3\\xa4\\xff\"" },
	{ "\x7f", 1, "\"\\x7f\"" },
};

static void values(void **state)
{
	struct log_out *o = out_new(LOG_INFO);
	struct log_line ln;
	char want[256];
	size_t i;

	for (i = 0; i < sizeof(value_cases) / sizeof(value_cases[0]); i++) {
		const struct value_case *c = &value_cases[i];

		assert_true(log_begin(&ln, &o->log, LOG_INFO, LOG_LIFE, "m"));
		log_span(&ln, "v", span_of(c->in, c->n));
		log_int(&ln, "n", -5);
		log_end(&ln);
		snprintf(want, sizeof(want), "Z level=info msg=m v=%s n=-5\n", c->out);
		out_text(o);
		assert_int_equal(strncmp(o->text, "ts=20", 5), 0);
		if (strlen(o->text) < 26 || strcmp(o->text + 26, want) != 0)
			fail_msg("case %zu: got  %swanted %s", i, o->text + 26, want);
	}
	out_free(o);
}

/* Long values are cut, and a field that does not fit is left out. A line always ends in one line
 * feed and is never longer than a pipe takes at once. */
static void long_lines(void **state)
{
	struct log_out *o = out_new(LOG_INFO);
	struct log_line ln;
	static char big[5000];
	int i;

	assert_true(LOG_LINE_MAX <= PIPE_BUF);
	memset(big, 'x', sizeof(big));
	assert_true(log_begin(&ln, &o->log, LOG_INFO, LOG_LIFE, "m"));
	log_span(&ln, "v", span_of(big, LOG_VALUE_MAX + 1));
	log_end(&ln);
	out_text(o);
	assert_int_equal(strlen(strstr(o->text, " v=")), 3 + LOG_VALUE_MAX + 3 + 1);

	memset(big, 1, sizeof(big));	/* four bytes each, when escaped */
	assert_true(log_begin(&ln, &o->log, LOG_INFO, LOG_LIFE, "m"));
	for (i = 0; i < 5; i++)
		log_span(&ln, "v", span_of(big, sizeof(big)));
	log_text(&ln, "last", "here");
	ln.suppressed = UINT64_MAX;
	log_end(&ln);
	out_text(o);
	assert_true(strlen(o->text) <= LOG_LINE_MAX);
	assert_non_null(strstr(o->text, " v=\"\\x01"));
	assert_non_null(strstr(o->text, "\"... last=here suppressed=18446744073709551615\n"));
	assert_ptr_equal(strchr(o->text, '\n'), o->text + strlen(o->text) - 1);
	out_free(o);
}

static void levels(void **state)
{
	struct log_out *o = out_new(LOG_WARN);

	log_msg(&o->log, LOG_INFO, LOG_LIFE, "quiet");
	assert_string_equal(out_text(o), "");
	log_msg(&o->log, LOG_WARN, LOG_LIFE, "loud");
	assert_non_null(strstr(out_text(o), "level=warn msg=loud\n"));
	log_set_level(&o->log, LOG_DEBUG);
	log_msg(&o->log, LOG_DEBUG, LOG_LIFE, "fine");
	assert_non_null(strstr(out_text(o), "level=debug msg=fine\n"));
	out_free(o);
}

/* A burst passes, then one line a second; the next line reports the number of suppressed ones. */
static void last_warnings_are_kept(void **state)
{
	struct log_out *o = out_new(LOG_INFO);
	char line[LOG_LINE_MAX], want[32];
	uint64_t at = 0;

	assert_false(log_kept(&o->log, &at, line));
	log_msg(&o->log, LOG_INFO, LOG_LIFE, "news");
	assert_false(log_kept(&o->log, &at, line));
	for (int i = 1; i <= LOG_KEPT + 8; i++) {
		snprintf(want, sizeof(want), "line-%d", i);
		log_msg(&o->log, i % 2 ? LOG_WARN : LOG_ERROR, LOG_LIFE, want);
	}
	for (int i = 9; i <= LOG_KEPT + 8; i++) {
		snprintf(want, sizeof(want), "msg=line-%d", i);
		assert_true(log_kept(&o->log, &at, line));
		assert_int_equal(at, i);
		assert_non_null(strstr(line, want));
		assert_null(strchr(line, '\n'));
	}
	assert_false(log_kept(&o->log, &at, line));
	log_clear_kept(&o->log);
	at = 0;
	assert_false(log_kept(&o->log, &at, line));
	log_msg(&o->log, LOG_WARN, LOG_LIFE, "later");
	assert_true(log_kept(&o->log, &at, line));
	assert_non_null(strstr(line, "msg=later"));
	out_free(o);
}

static void gate(void **state)
{
	struct log_gate g = { 0 };
	uint64_t kept = 99;
	msec now = 1000000;
	int i;

	for (i = 0; i < LOG_BURST; i++) {
		assert_true(log_gate_pass(&g, now, &kept));
		assert_int_equal(kept, 0);
	}
	for (i = 0; i < 7; i++)
		assert_false(log_gate_pass(&g, now, &kept));
	assert_false(log_gate_pass(&g, now + LOG_EVERY_MS - 1, &kept));
	assert_true(log_gate_pass(&g, now + LOG_EVERY_MS, &kept));
	assert_int_equal(kept, 8);
	assert_false(log_gate_pass(&g, now + LOG_EVERY_MS, &kept));
	assert_true(log_gate_pass(&g, now + 2 * LOG_EVERY_MS, &kept));
	assert_int_equal(kept, 1);
	assert_false(log_gate_pass(&g, now + 2 * LOG_EVERY_MS + 1, &kept));

	now += 1000 * LOG_EVERY_MS;		/* long silence: a whole burst again, no more */
	for (i = 0; i < LOG_BURST; i++)
		assert_true(log_gate_pass(&g, now, &kept));
	assert_false(log_gate_pass(&g, now, &kept));
}

static int count_lines(const char *s)
{
	int n = 0;

	for (; *s != '\0'; s++)
		n += *s == '\n';
	return n;
}

static void kinds_are_limited_apart(void **state)
{
	struct log_out *o = out_new(LOG_INFO);
	int i;

	for (i = 0; i < 100; i++) {
		log_msg(&o->log, LOG_WARN, LOG_FRAME, "frame");
		log_msg(&o->log, LOG_WARN, LOG_FULL, "full");
	}
	assert_int_equal(count_lines(out_text(o)), 2 * LOG_BURST);
	for (i = 0; i < 100; i++)
		log_msg(&o->log, LOG_WARN, LOG_LIFE, "life");
	assert_int_equal(count_lines(out_text(o)), 100);
	out_free(o);
}

/* If the reader does not read, lines are dropped whole and the writer never waits. */
static void full_pipe(void **state)
{
	struct log_out *o = out_new(LOG_INFO);
	int i, lines = 0;
	ssize_t n;

	assert_int_equal(fcntl(o->fd[1], F_SETFL, 0), 0);	/* blocking, as stderr is */
	for (i = 0; i < 5000; i++)
		log_msg(&o->log, LOG_INFO, LOG_LIFE, "a line of some length, for the pipe to be full");
	assert_true(log_lost(&o->log) > 0);
	while ((n = read(o->fd[0], o->text, sizeof(o->text) - 1)) > 0) {
		o->text[n] = '\0';
		lines += count_lines(o->text);
	}
	assert_int_equal(lines + (int)log_lost(&o->log), 5000);
	out_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(long_lines),
		cmocka_unit_test(levels),
		cmocka_unit_test(gate),
		cmocka_unit_test(kinds_are_limited_apart),
		cmocka_unit_test(last_warnings_are_kept),
		cmocka_unit_test(full_pipe),
	};

	return cmocka_run_group_tests_name("loop/log", tests, NULL, NULL);
}
