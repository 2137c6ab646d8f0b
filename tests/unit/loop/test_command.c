/* test_command.c - lines of the runtime socket: each command, each mistake with its place, and
 * lines that end at an unreadable page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/loop/command.h"
#include "tests/unit/edge.h"

static struct command c;
static struct err e;

static int parse(const char *line)
{
	size_t n = strlen(line);

	return command_parse(span_of(edge_copy(line, n), n), 0, &c, &e);
}

static void test_good(void **state)
{
	assert_int_equal(parse("show servers json"), 0);
	assert_true(c.what == COMMAND_SHOW && c.show == SHOW_SERVERS && c.json);
	assert_int_equal(parse("  show\tdecisions  25 "), 0);
	assert_true(c.what == COMMAND_SHOW && c.show == SHOW_DECISIONS && c.number == 25 && !c.json);
	assert_int_equal(parse("show decisions json"), 0);
	assert_true(c.number == 10 && c.json);
	assert_int_equal(parse("why a\\;b\\ c\\\\ json"), 0);
	assert_true(c.what == COMMAND_WHY && c.json);
	assert_string_equal(c.text[0], "a;b c\\");
	assert_int_equal(parse("why json"), 0);
	assert_string_equal(c.text[0], "json");
	assert_int_equal(parse("ask 1048576 pool chat model m-1 json"), 0);
	assert_true(c.what == COMMAND_ASK && c.number == COMMAND_BODY_MAX && c.json);
	assert_string_equal(c.text[ASK_POOL], "chat");
	assert_string_equal(c.text[ASK_MODEL], "m-1");
	assert_null(c.text[ASK_PATH]);
	assert_int_equal(parse("clear space 0123456789abcdefFEDCBA9876543210"), 0);
	assert_true(c.space[0] == 0x0123456789abcdef && c.space[1] == 0xfedcba9876543210);
	assert_int_equal(parse("clear server chat/s1"), 0);
	assert_string_equal(c.text[0], "chat");
	assert_string_equal(c.text[1], "s1");
	assert_int_equal(parse("set log level debug"), 0);
	assert_true(c.what == COMMAND_SET_LOG_LEVEL && c.number == 3);
	assert_int_equal(parse(""), 0);
	assert_true(c.what == COMMAND_NONE);
}

static const struct {
	const char *line;
	int column;
	const char *sentence;
} bad[] = {
	{ "shew", 1, "\"shew\" is no command here; type \"help\" for the commands" },
	{ "clear", 6, "the command is not complete; type \"help\" for the commands" },
	{ "clear all", 7, "\"all\" is no command here; type \"help\" for the commands" },
	{ "set log loud", 9, "\"loud\" is no command here; type \"help\" for the commands" },
	{ "show config json", 13, "\"json\" is too much; the command is: show WHAT [json]" },
	{ "help me", 6, "\"me\" is too much; the command is: help" },
	{ "why", 4, "expected a uid at the end of the command" },
	{ "ask", 4, "expected the bytes of the body, 1 to 1048576, at the end of the command" },
	{ "ask 1048577", 5, "expected the bytes of the body, 1 to 1048576, instead of \"1048577\"" },
	{ "ask 0", 5, "expected the bytes of the body, 1 to 1048576, instead of \"0\"" },
	{ "ask 5 pool", 11, "expected a value at the end of the command" },
	{ "ask 5 body x", 7,
	    "expected pool, path, tenant, model or session instead of \"body\"" },
	{ "show decisions 257", 16,
	    "expected a number of decisions, 1 to 256, instead of \"257\"" },
	{ "show decisions 99999999999999999999", 16,
	    "expected a number of decisions, 1 to 256, instead of \"99999999999999999999\"" },
	{ "clear server /s1", 14, "expected POOL/SERVER instead of \"/s1\"" },
	{ "clear server a/", 14, "expected POOL/SERVER instead of \"a/\"" },
	{ "clear space 0123456789abcdef0123456789abcdef0", 13,
	    "expected the 32 hexadecimal digits of a space instead of "
	    "\"0123456789abcdef0123456789abcdef0\"" },
	{ "help \x7f", 6, "byte 0x7f is not printable ASCII; type \"help\" for the commands" },
	{ "a b c d e f g h i j k l m", 25, "more than 12 words; type \"help\" for the commands" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		print_message("%s\n", bad[i].line);
		assert_int_equal(parse(bad[i].line), -1);
		assert_string_equal(e.text, bad[i].sentence);
		assert_int_equal(e.column, bad[i].column);
	}
}

static void test_length(void **state)
{
	char line[COMMAND_LINE_MAX + 2];

	memset(line, 'x', sizeof(line));
	assert_int_equal(command_parse(span_of(line, COMMAND_LINE_MAX), 0, &c, &e), -1);
	assert_int_equal(e.column, 1);
	assert_int_equal(command_parse(span_of(line, COMMAND_LINE_MAX + 1), 0, &c, &e), -1);
	assert_string_equal(e.text, "the line is longer than 2048 bytes");
	line[0] = 'w', line[1] = 'h', line[2] = 'y', line[3] = ' ';
	assert_int_equal(command_parse(span_of(line, COMMAND_LINE_MAX), 0, &c, &e), 0);
	assert_int_equal(strlen(c.text[0]), COMMAND_LINE_MAX - 4);
}

static void test_split(void **state)
{
	struct span line = span_str("show info;;why a\\;b; bogus"), one;
	static const char *const want[] = { "show info", "", "why a\\;b", " bogus" };
	static const size_t place[] = { 0, 10, 11, 20 };
	size_t at = 0, before = 0;

	for (size_t i = 0; i < 4; i++) {
		assert_true(command_split(&line, &at, &one));
		assert_true(span_eq(one, span_str(want[i])));
		assert_int_equal(before, place[i]);
		if (i == 3) {
			assert_int_equal(command_parse(one, before, &c, &e), -1);
			assert_int_equal(e.column, 22);
		}
		before = at;
	}
	assert_false(command_split(&line, &at, &one));
	line = span_str("x\\");
	at = 0;
	assert_true(command_split(&line, &at, &one));
	assert_int_equal(one.n, 2);
	assert_false(command_split(&line, &at, &one));
}

/* Each command of the list begins a line of help, and help parses. */
static void test_help(void **state)
{
	static const char *const words[] = {
#define X(name, word, help) "show " word,
		SHOW_LIST(X)
#undef X
		"why", "ask", "clear errors", "clear space", "clear server", "save snapshot",
		"set log level", "help", "prompt", "quit",
	};
	char text[COMMAND_HELP_MAX + 1], find[64];
	size_t n = command_help(text);

	assert_true(n > 0 && n < COMMAND_HELP_MAX);
	text[n] = '\0';
	assert_null(strstr(text, "\n\n"));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		snprintf(find, sizeof(find), "\n%s", words[i]);
		if (strstr(text, find) == NULL && strncmp(text, words[i], strlen(words[i])) != 0)
			fail_msg("help lacks %s", words[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good), cmocka_unit_test(test_bad), cmocka_unit_test(test_length),
		cmocka_unit_test(test_split), cmocka_unit_test(test_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
