/* test_order.c - the order of the parts of a prompt, with and without the head of another body. A
 * page is a letter of a string here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/prompt/prompt.h"

static struct page_vec letters(page_key *room, const char *s)
{
	struct page_vec v = { .p = room };

	for (; *s != '\0'; s++)
		room[v.n++] = (page_key)*s;
	v.cap = v.n;
	if (v.n == 0)
		v.p = NULL;
	return v;
}

enum { DONE = 1, SYS = 2, TOOLS = 4, PROMPT = 8 };

static const struct text_order usual = { { TEXT_SYSTEM, TEXT_TOOLS, TEXT_MESSAGES } };
static const struct text_order tools_first = { { TEXT_TOOLS, TEXT_SYSTEM, TEXT_MESSAGES } };
static const struct text_order tools_last = { { TEXT_SYSTEM, TEXT_MESSAGES, TEXT_TOOLS } };
static const struct text_order twice = { { TEXT_SYSTEM, TEXT_SYSTEM, TEXT_SYSTEM } };

static const struct {
	const struct text_order *order;
	int seen;
	const char *system, *tools, *messages;
	uint32_t lead;
	const char *head_system, *head_tools;	/* NULL: no head */
	const char *want;
} cases[] = {
	/* whole bodies: a head is not used */
	{ NULL, DONE, "s", "t", "m", 0, NULL, NULL, "stm" },
	{ &usual, DONE, "s", "t", "lm", 1, NULL, NULL, "sltm" },
	{ &usual, DONE, "", "", "lm", 1, "S", "T", "lm" },
	{ &usual, DONE, "", "t", "ll", 2, NULL, NULL, "llt" },
	{ &tools_first, DONE, "s", "t", "lm", 1, NULL, NULL, "tslm" },
	{ &tools_last, DONE, "s", "t", "lm", 1, NULL, NULL, "slmt" },
	{ &twice, DONE, "s", "t", "lm", 1, NULL, NULL, "slslsl" },
	{ &usual, DONE, "", "", "", 0, NULL, NULL, "" },
	/* cut, without a head: the parts read to their end, and the messages */
	{ &usual, PROMPT, "", "", "lm", 1, NULL, NULL, "lm" },
	{ &usual, PROMPT | TOOLS, "", "t", "lm", 1, NULL, NULL, "ltm" },
	{ &usual, 0, "", "", "lmm", 1, NULL, NULL, "lmm" },
	/* cut inside tools or system, after the messages: the cut part is left out */
	{ &usual, PROMPT, "", "t", "lm", 1, NULL, NULL, "lm" },
	{ &usual, PROMPT, "s", "", "m", 0, NULL, NULL, "m" },
	/* no part after the cut one: it is used */
	{ &usual, 0, "s", "", "", 0, NULL, NULL, "s" },
	{ &usual, 0, "", "t", "", 0, NULL, NULL, "t" },
	{ &tools_last, PROMPT, "", "t", "m", 0, NULL, NULL, "mt" },
	/* cut inside the leading messages: nothing follows them */
	{ &usual, SYS | TOOLS, "s", "t", "ll", 2, NULL, NULL, "sll" },
	{ &tools_first, TOOLS, "", "t", "ll", 2, NULL, NULL, "tll" },
	{ &usual, 0, "", "", "ll", 2, NULL, "T", "ll" },
	{ &usual, PROMPT, "", "", "ll", 2, NULL, "T", "llT" },
	/* a head replaces only the parts that were not read to their end */
	{ &usual, PROMPT, "", "", "lm", 1, "S", "T", "SlTm" },
	{ &usual, PROMPT, "s", "t", "m", 0, "SS", "TT", "SSTTm" },
	{ &usual, PROMPT | SYS, "s", "t", "m", 0, "SS", "TT", "sTTm" },
	{ &usual, PROMPT | TOOLS, "", "t", "m", 0, "SS", "TT", "SStm" },
	{ &usual, PROMPT | TOOLS | SYS, "", "", "m", 0, "SS", "TT", "m" },
	{ &usual, PROMPT, "s", "t", "m", 0, "", "", "m" },
};

static void test_order(void **state)
{
	page_key room[5][8];
	struct page_vec out = { 0 };
	char got[32];
	size_t i, k;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool lent = cases[i].head_system != NULL || cases[i].head_tools != NULL;
		struct prompt p = {
			.json = cases[i].seen & DONE ? JSON_DONE : JSON_MORE,
			.system_seen = cases[i].seen & SYS, .tools_seen = cases[i].seen & TOOLS,
			.prompt_seen = cases[i].seen & PROMPT, .n_leading = cases[i].lead,
			.system = letters(room[0], cases[i].system), .tools = letters(room[1], cases[i].tools),
			.messages = letters(room[2], cases[i].messages),
		};
		struct page_vec s = letters(room[3], lent && cases[i].head_system ? cases[i].head_system : "");
		struct page_vec t = letters(room[4], lent && cases[i].head_tools ? cases[i].head_tools : "");
		struct prompt_head head = { .system = s.p, .n_system = s.n, .tools = t.p, .n_tools = t.n };

		assert_int_equal(prompt_pages(&p, cases[i].order, lent ? &head : NULL, &out), 0);
		for (k = 0; k < out.n; k++)
			got[k] = (char)out.p[k];
		got[k] = '\0';
		if (strcmp(got, cases[i].want) != 0)
			fail_msg("case %zu: got %s, want %s", i, got, cases[i].want);
	}
	page_vec_free(&out);
}

/* The input of what is stored has pages of its own, the system messages that lead it included. */
static void a_stored_input(void **state)
{
	const uint64_t mark = 1ull << 40;
	page_key room[3][8];
	struct page_vec out = { 0 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct prompt p = {
			.api = API_RESPONSES, .json = JSON_DONE, .n_leading = 1,
			.previous = i == 1 ? mark : 0, .named[NAMED_CONVERSATION] = i == 2 ? mark : 0,
			.system = letters(room[0], "s"), .tools = letters(room[1], "t"),
			.messages = letters(room[2], "lm"),
		};

		assert_int_equal(prompt_pages(&p, NULL, NULL, &out), 0);
		assert_int_equal(out.n, 4);
		for (size_t k = 0; k < out.n; k++)
			assert_true(out.p[k] == ((page_key)"sltm"[k] ^ (i > 0 && k % 2 == 1 ? mark : 0)));
	}
	page_vec_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(a_stored_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
