/* test_formats.c - snapshots that earlier agents wrote, tests/data/snapshot, are read: their tree
 * is the same whatever their format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/sections.h"
#include "tests/unit/hex.h"
#include "tests/unit/index/snapshots.h"

#define COMMON		9u	/* pages of all three prompts */
#define OWN		11u	/* of each */
#define ROOM		256u	/* of a page of 16 tokens, in 16ths of a token */

/* of the files */
static const struct space_key space = { .h = { 0x454997a3a1a0fe65, 0x6ccf84a7cc12f1fc } };
static const struct snapshot_of of = {
	.key_id = 0x52576d35b17c0700, .text_page = 64, .token_page = 16, .tenants = 1,
};

static struct hex file_of(unsigned format)
{
	char name[64], line[512];
	struct hex h = { NULL, 0 };
	FILE *f;

	snprintf(name, sizeof(name), "tests/data/snapshot/%u.hex", format);
	assert_non_null(f = fopen(name, "r"));
	while (fgets(line, sizeof(line), f) != NULL)
		hex_parse(&h, line);
	fclose(f);
	return h;
}

/* "pool", NUL, "s1" and perhaps what was learned: return the server's number. */
static int number_of(void *arg, struct span name)
{
	*(unsigned *)arg += 1;
	return name.n >= 7 ? name.p[6] - '0' : -1;
}

static struct index *loaded(struct hex h, struct err *e)
{
	struct index_opts o;
	struct snapshot_stats st = { 0 };
	struct index *ix;
	unsigned named = 0;

	index_defaults(&o);
	o.max_bytes = 1 << 20;
	assert_non_null(ix = index_new(&o));
	if (snapshot_load(ix, &of, h.p, h.n, number_of, &named, 1000, &st, e) == 0) {
		assert_int_equal(named, 2);
		assert_int_equal(st.pages, COMMON + 3 * OWN);
		assert_int_equal(st.held, 3);
		assert_null(index_check(ix));
		return ix;
	}
	index_free(ix);
	return NULL;
}

/* The room that the pages take in the cache of the one server which has them. */
static uint64_t room_taken(struct index *ix)
{
	return index_server_room(ix, 1) + index_server_room(ix, 2);
}

static void each_format_is_read(void **state)
{
	char *first = NULL;

	for (unsigned format = SNAPSHOT_VERSION_OLD; format <= SNAPSHOT_VERSION; format++) {
		struct hex h = file_of(format);
		struct err e = { 0 };
		struct index *ix = loaded(h, &e);
		struct held held;
		char keys[8192] = "";

		if (ix == NULL)
			fail_msg("format %u: %s", format, e.text);
		assert_int_equal(get32(h.p + 8), format);
		assert_int_equal(room_taken(ix), ROOM * (COMMON + 3 * OWN));
		held_in(ix, &space, &held);
		assert_int_equal(held.n, 3);
		/* without the server's number, which chance gave */
		for (size_t i = 0; i < held.n; i++)
			strcat(keys, strchr(held.line[i], ':'));
		if (first == NULL)
			first = strdup(keys);
		assert_string_equal(keys, first);
		held_free(&held);
		index_free(ix);
		free(h.p);
	}
	free(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_format_is_read),
	};

	return cmocka_run_group_tests_name("formats of snapshots", tests, NULL, NULL);
}
