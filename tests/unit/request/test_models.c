/* test_models.c - the options that the name of a model has, and the name it counts under. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "agent/request/model.h"

static struct model_opts models[] = {
	{ .name = "meta/*-Instruct", .block_size = 1 },
	{ .name = "meta/*", .block_size = 2 },
	{ .name = "meta/Llama-Instruct",
	    .aliases = { "llama", "chat", "meta/alias-Instruct" },
	    .block_size = 3 },
	{ .name = "*a*a*b", .block_size = 4 },
	{ .name = "plain", .block_size = 5 },
};

static const struct model_opts others = { .name = "*", .block_size = 9 };

static const struct model_table opts = {
	.list = models, .n = sizeof(models) / sizeof(*models), .fallback = &others,
};

static void assert_model(struct span asked, uint32_t block_size, struct span name)
{
	const struct model_opts *m = model_options_of(&opts, asked);

	if (m->block_size != block_size || !span_eq(model_name_of(m, asked), name))
		fail_msg(SPAN_FMT " is %u " SPAN_FMT, SPAN_ARG(asked), m->block_size,
		    SPAN_ARG(model_name_of(m, asked)));
}

static void names_are_found(void **state)
{
	static const struct { const char *asked; uint32_t block_size; const char *name; } table[] = {
		{ "plain", 5, "plain" }, { "plai", 9, "plai" }, { "plainer", 9, "plainer" }, { "", 9, "" },
		{ "meta/Llama-Instruct", 3, "meta/Llama-Instruct" },		/* a name goes before any "*" */
		{ "llama", 3, "meta/Llama-Instruct" }, { "chat", 3, "meta/Llama-Instruct" },
		{ "meta/alias-Instruct", 3, "meta/Llama-Instruct" },
		{ "meta/x-Instruct", 1, "meta/x-Instruct" }, { "meta/-Instruct", 1, "meta/-Instruct" },
		{ "meta/x-Instruct-Instruct", 1, "meta/x-Instruct-Instruct" },
		{ "meta/x-Instruct2", 2, "meta/x-Instruct2" }, { "meta/", 2, "meta/" }, { "meta", 9, "meta" },
		{ "aab", 4, "aab" }, { "xaxaxbxaxb", 4, "xaxaxbxaxb" }, { "ab", 9, "ab" }, { "aabb", 4, "aabb" },
		{ "aaba", 9, "aaba" }, { "*", 9, "*" },
		{ "meta/*", 2, "meta/*" },					/* the pattern itself as a name */
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		assert_model(span_str(table[i].asked), table[i].block_size, span_str(table[i].name));
}

/* The name in a body may be any bytes. */
static void a_name_may_hold_zeros(void **state)
{
	assert_model(span_of("plain\0", 6), 9, span_of("plain\0", 6));
	assert_model(span_of("meta/x-Instruct\0", 16), 2, span_of("meta/x-Instruct\0", 16));
	assert_model(span_of("\0aab\0meta/*", 11), 9, span_of("\0aab\0meta/*", 11));
}

/* A slow reference: return true if <s> matches <p>, trying each "*" with every length. */
static bool fits(const char *p, const char *s)
{
	if (*p == '\0')
		return *s == '\0';
	if (*p != '*')
		return *p == *s && fits(p + 1, s + 1);
	for (;; s++) {
		if (fits(p + 1, s))
			return true;
		if (*s == '\0')
			return false;
	}
}

/* All patterns of up to 5 of "ab*", and all names of up to 5 of "ab". */
static void stars_match_as_they_should(void **state)
{
	struct model_opts *m = &(struct model_opts){ .name = "" };
	struct model_table o = { .list = m, .n = 1, .fallback = &others };
	char name[8];
	size_t n = 0;

	for (unsigned p = 0; p < 3 * 3 * 3 * 3 * 3; p++) {
		memset(m->name, 0, 8);
		for (unsigned i = 0, v = p; i < 1 + p % 5; i++, v /= 3)
			m->name[i] = "ab*"[v % 3];
		if (strchr(m->name, '*') == NULL)
			continue;
		for (unsigned s = 0; s < 64; s++) {
			memset(name, 0, sizeof(name));
			for (unsigned i = 0; i < s / 11; i++)
				name[i] = "ab"[s >> i & 1];
			if ((model_options_of(&o, span_str(name)) == m) != fits(m->name, name))
				fail_msg("%s %s", m->name, name);
			n++;
		}
	}
	assert_true(n > 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(a_name_may_hold_zeros),
		cmocka_unit_test(stars_match_as_they_should),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
