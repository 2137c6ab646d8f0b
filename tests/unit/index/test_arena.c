/* test_arena.c - the arena against a list of allocated blocks, with every payload filled by its
 * owner's byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/rng.h"
#include "agent/index/arena.c"	/* so that tags can be broken */

#define MB		((size_t)1 << 20)
#define SHADOW		65536

struct shadow {
	struct region r;
	struct arena a;
	struct rng rng;
	struct { arena_ref ref; uint32_t bytes; uint8_t mark; } got[SHADOW];
	unsigned n;
	size_t cost;		/* lower bound of the cost of all blocks in <got> */
};

static void start(struct shadow *s, size_t bytes, uint64_t seed)
{
	memset(s, 0, sizeof(*s));
	rng_init(&s->rng, seed);
	assert_int_equal(region_take(&s->r, bytes, false), 0);
	arena_init(&s->a, &s->r, 0, bytes);
	assert_null(arena_check(&s->a));
}

/* Return sizes as of nodes and records: many small ones, some large. */
static uint32_t node_size(struct rng *rng)
{
	return 48 + (rng_below(rng, 4) ? rng_below(rng, 256) : rng_below(rng, 4049));
}

static bool take(struct shadow *s, uint32_t bytes, bool fill)
{
	arena_ref ref = arena_alloc(&s->a, bytes);
	uint8_t *p = region_at(&s->r, ref);

	if (ref == 0)
		return false;
	assert_true(s->n < SHADOW);
	assert_int_equal((uintptr_t)p % 16, 0);
	assert_in_range(arena_size(&s->a, ref), bytes, bytes + 2 * ARENA_UNIT + 7);
	assert_true(p + arena_size(&s->a, ref) <= s->r.base + s->r.bytes);
	s->got[s->n].ref = ref;
	s->got[s->n].bytes = bytes;
	s->got[s->n].mark = (uint8_t)rng_next(&s->rng);
	if (fill)
		memset(p, s->got[s->n].mark, arena_size(&s->a, ref));
	s->n++;
	s->cost += arena_cost(bytes);
	return true;
}

static void drop(struct shadow *s, unsigned i, bool look)
{
	size_t n = arena_size(&s->a, s->got[i].ref);
	const uint8_t *p = region_at(&s->r, s->got[i].ref);

	for (size_t k = 0; look && k < n; k++)
		assert_int_equal(p[k], s->got[i].mark);
	arena_free(&s->a, s->got[i].ref);
	s->cost -= arena_cost(s->got[i].bytes);
	s->got[i] = s->got[--s->n];
}

static void end(struct shadow *s, bool look)
{
	while (s->n > 0)
		drop(s, rng_below(&s->rng, s->n), look);
	assert_null(arena_check(&s->a));
	assert_int_equal(arena_used(&s->a), 0);
	/* everything is one block again */
	assert_int_equal(arena_largest(&s->a), arena_room(&s->a) - ARENA_TAG);
	region_give(&s->r);
}

static double fill_of(const struct shadow *s)
{
	return (double)arena_used(&s->a) / (double)arena_room(&s->a);
}

/* ---- what the header promises ---- */

static void sizes_cost_what_is_said(void **state)
{
	static const struct { size_t bytes, cost, size; } t[] = {
		{ 1, 32, 24 }, { 8, 32, 24 }, { 24, 32, 24 }, { 25, 48, 40 }, { 40, 48, 40 }, { 41, 64, 56 },
		{ 56, 64, 56 }, { 4096, 4112, 4104 }, { 16 * MB, 16 * MB + 16, 16 * MB + 8 },
	};
	static struct shadow s;

	start(&s, 64 * MB, 1);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		arena_ref ref = arena_alloc(&s.a, t[i].bytes);

		assert_int_not_equal(ref, 0);
		assert_int_equal(arena_cost(t[i].bytes), t[i].cost);
		assert_int_equal(arena_used(&s.a), t[i].cost);
		assert_int_equal(arena_size(&s.a, ref), t[i].size);
		arena_free(&s.a, ref);
	}
	arena_free(&s.a, 0);
	assert_int_equal(arena_alloc(&s.a, SIZE_MAX), 0);
	assert_int_equal(arena_alloc(&s.a, SIZE_MAX - 15), 0);
	assert_int_equal(arena_alloc(&s.a, 64 * MB), 0);
	assert_int_equal(arena_alloc(&s.a, ((size_t)1 << 32) + 40), 0);
	end(&s, false);
}

static void a_tiny_arena_is_used_to_its_end(void **state)
{
	static struct shadow s;
	struct arena a;

	start(&s, 8192, 2);
	assert_int_equal(arena_room(&s.a), 8192 - 16);
	assert_int_equal(arena_largest(&s.a), 8192 - 24);
	while (take(&s, 24, true))
		;
	assert_int_equal(s.n, (8192 - 16) / 32);
	assert_int_equal(arena_used(&s.a), arena_room(&s.a));
	assert_int_equal(arena_largest(&s.a), 0);
	assert_null(arena_check(&s.a));
	end(&s, true);

	start(&s, 8192, 2);
	assert_true(take(&s, 8192 - 24, true));		/* all of it */
	assert_int_equal(arena_alloc(&s.a, 1), 0);
	end(&s, true);

	/* too small for any block, at each length and place */
	assert_int_equal(region_take(&s.r, 4096, false), 0);
	for (size_t from = 0; from < 32; from++) {
		for (size_t bytes = 0; bytes <= 80; bytes++) {
			size_t cells = 0;	/* of 16 bytes that are completely inside */

			for (size_t at = 0; at < 256; at += 16)
				cells += at >= 64 + from && at + 16 <= 64 + from + bytes;
			memset(s.r.base, 0xa5, 256);
			arena_init(&a, &s.r, 64 + from, bytes);
			assert_null(arena_check(&a));
			assert_int_equal(arena_room(&a), cells >= 3 ? cells * 16 - 16 : 0);
			assert_int_equal(arena_largest(&a), cells >= 3 ? cells * 16 - 24 : 0);
			assert_int_equal(arena_alloc(&a, 1) != 0, cells >= 3);
			for (size_t i = 0; i < 64 + from; i++)
				assert_int_equal(s.r.base[i], 0xa5);
			for (size_t i = 64 + from + bytes; i < 256; i++)
				assert_int_equal(s.r.base[i], 0xa5);
		}
	}
	region_give(&s.r);
}

static void parts_do_not_touch(void **state)
{
	static struct shadow s[4];

	assert_int_equal(region_take(&s[0].r, 4 * MB, false), 0);
	for (unsigned i = 0; i < 4; i++) {
		s[i].n = 0;
		s[i].r = s[0].r;
		rng_init(&s[i].rng, i);
		arena_init(&s[i].a, &s[0].r, i * MB, MB);
	}
	for (unsigned k = 0; k < 40000; k++) {
		struct shadow *t = &s[k % 4];

		if (t->n > 0 && rng_below(&t->rng, 2))
			drop(t, rng_below(&t->rng, t->n), true);
		else if (!take(t, node_size(&t->rng), true))
			drop(t, 0, true);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_null(arena_check(&s[i].a));
		while (s[i].n > 0)
			drop(&s[i], 0, true);
		assert_int_equal(arena_used(&s[i].a), 0);
	}
	region_give(&s[0].r);
}

/* Use the largest arena, with refs near the end of 32 bits. Only touched pages take memory. */
static void four_gigabytes_at_the_end_of_a_region(void **state)
{
	const size_t gb = (size_t)1 << 30;
	struct region r;
	struct arena a;
	arena_ref ref[4];

	if (region_take(&r, 64 * gb - 8192, false) != 0)
		skip();	/* a limit on addresses, or a sanitizer */
	(void)madvise(r.base, r.bytes, MADV_NOHUGEPAGE);
	arena_init(&a, &r, 0, r.bytes);		/* more than it can use */
	assert_int_equal(arena_room(&a), 4 * gb - 16);
	arena_init(&a, &r, r.bytes - 4 * gb, 4 * gb);
	assert_int_equal(arena_room(&a), 4 * gb - 16);
	ref[0] = arena_alloc(&a, 4 * gb - 24);
	assert_int_not_equal(ref[0], 0);
	assert_int_equal(arena_largest(&a), 0);
	arena_free(&a, ref[0]);
	for (unsigned i = 0; i < 4; i++)
		assert_int_not_equal(ref[i] = arena_alloc(&a, gb - 64), 0);
	*(uint8_t *)region_at(&r, ref[3]) = 1;
	assert_true((uint8_t *)region_at(&r, ref[3]) >= r.base + 62 * gb);
	assert_null(arena_check(&a));
	for (unsigned i = 0; i < 4; i++)
		arena_free(&a, ref[i]);
	assert_int_equal(arena_largest(&a), 4 * gb - 24);
	arena_init(&a, &r, r.bytes - 8192, 8192);
	assert_int_equal(arena_room(&a), 8192 - 16);
	assert_int_not_equal(arena_alloc(&a, 8192 - 24), 0);
	assert_null(arena_check(&a));
	region_give(&r);
}

/* ---- random ---- */

static void against_a_list(void **state)
{
	static struct shadow s;

	for (uint64_t seed = 1; seed <= 6; seed++) {
		start(&s, MB >> (seed % 3 * 2), seed);
		for (unsigned k = 0; k < 30000; k++) {
			/* growing and shrinking in turn */
			bool grow = rng_below(&s.rng, 100) < (k / 2000 % 2 ? 35u : 65u);

			if (grow || s.n == 0)
				(void)take(&s, 1 + node_size(&s.rng) / (1 + rng_below(&s.rng, 64)), true);
			else
				drop(&s, rng_below(&s.rng, s.n), true);
			assert_true(arena_used(&s.a) >= s.cost);
			assert_true(arena_used(&s.a) <= s.cost + ARENA_UNIT * s.n);
			if (k % 64 == 0)
				assert_null(arena_check(&s.a));
		}
		end(&s, true);
	}
}

/* Sizes of one class differ by less than 1/32, and classes do not overlap. */
static void classes_are_narrow_and_in_order(void **state)
{
	unsigned row, col, last = 0;
	uint32_t from = LEAST;

	for (uint32_t units = LEAST; units < 1u << 28; units += 1 + units / 4096) {
		class_of(units, &row, &col);
		assert_true(row < ARENA_ROWS && col < ARENA_COLS);
		assert_true(row * ARENA_COLS + col >= last);
		if (row * ARENA_COLS + col > last)
			from = units;
		last = row * ARENA_COLS + col;
		assert_true(units - from <= (units < 64 ? 0 : from / 32));
	}
}

static uint32_t largest_free(const struct arena *a)
{
	uint32_t most = 0;

	for (arena_ref ref = a->first; ref != a->end; ref += units_of(a, ref))
		if (is_free(a, ref) && units_of(a, ref) > most)
			most = units_of(a, ref);
	return most;
}

/* A block of arena_largest() can be allocated and is nearly the largest possible. */
static void the_largest_can_be_taken(void **state)
{
	static struct shadow s;

	start(&s, MB, 3);
	for (unsigned k = 0; k < 20000; k++) {
		if (s.n == 0 || rng_below(&s.rng, 2))
			(void)take(&s, node_size(&s.rng), false);
		else
			drop(&s, rng_below(&s.rng, s.n), false);
		if (k % 100 == 0 && arena_largest(&s.a) > 0) {
			size_t n = arena_largest(&s.a);

			assert_true((n + ARENA_TAG) * 33 / 32 >= largest_free(&s.a) * ARENA_UNIT);
			assert_true(take(&s, (uint32_t)n, false));
			assert_int_equal(arena_size(&s.a, s.got[s.n - 1].ref), n);
			drop(&s, s.n - 1, false);
		}
	}
	end(&s, false);
}

static void the_largest_of_two_in_a_row(void **state)
{
	static const uint32_t bytes[] = { 1100, 48, 1900, 48, 1500, 48 };
	static struct shadow s;

	for (unsigned first = 0; first < 6; first += 2) {
		start(&s, 8192, 8);
		for (unsigned i = 0; i < 6; i++)
			assert_true(take(&s, bytes[i], false));
		while (take(&s, 24, false))
			;
		for (unsigned i = 0; i < 6; i += 2)
			arena_free(&s.a, s.got[(first + i) % 6].ref);
		assert_in_range(arena_largest(&s.a), 1900, 1900 + 23);
		region_give(&s.r);
	}
}

/* ---- how full it gets ---- */

/* Allocate until 16 tries in a row fail, as an owner would that frees something each time. */
static void fill(struct shadow *s)
{
	for (unsigned misses = 0; misses < 16; )
		misses = take(s, node_size(&s->rng), false) ? 0 : misses + 1;
}

static void full_and_full_again(void **state)
{
	static struct shadow s;
	double first, again = 1;

	start(&s, 8 * MB, 4);
	fill(&s);
	first = fill_of(&s);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned n = s.n / 2; n > 0; n--)
			drop(&s, rng_below(&s.rng, s.n), false);
		assert_null(arena_check(&s.a));
		fill(&s);
		again = fill_of(&s) < again ? fill_of(&s) : again;
	}
	printf(
	    "fill %.4f, after half of it was freed at random and filled again ten times at least %.4f\n",
	    first, again);
	assert_true(first >= 0.99);
	assert_true(again >= 0.97);
	end(&s, false);
}

/* A full index: for each new node as many old ones are freed as it needs. */
static void a_million_replacements(void **state)
{
	static struct shadow s;
	double sum = 0, least = 1;
	unsigned i, freed = 0, looks = 0;

	start(&s, 8 * MB, 5);
	fill(&s);
	for (i = 0; i < 1000000; i++) {
		uint32_t bytes = node_size(&s.rng);

		for (; !take(&s, bytes, false); freed++)
			drop(&s, rng_below(&s.rng, s.n), false);
		if (i % 1000 == 0) {
			least = fill_of(&s) < least ? fill_of(&s) : least;
			sum += fill_of(&s);
			looks++;
		}
	}
	assert_null(arena_check(&s.a));
	printf("10^6 replacements: fill mean %.4f, least %.4f, %.3f freed for each taken\n",
	    sum / looks, least, (double)freed / i);
	assert_true(sum / looks >= 0.85);	/* not a promise: a broken search would not reach it */
	end(&s, false);
}

/* ---- the check finds what is broken ---- */

static void the_check_can_fail(void **state)
{
	static struct shadow s;
	arena_ref ref[4];

	for (unsigned kind = 0; kind < 8; kind++) {
		start(&s, 65536, 6);
		for (unsigned i = 0; i < 4; i++)
			ref[i] = arena_alloc(&s.a, 100);
		arena_free(&s.a, ref[1]);
		assert_null(arena_check(&s.a));
		switch (kind) {
		case 0: tag_of(&s.a, ref[0])->size += 2; break;
		case 1: tag_of(&s.a, ref[3])->before++; break;
		case 2: tag_of(&s.a, ref[2])->size |= FREE; break;
		case 3: s.a.used++; break;
		case 4: s.a.heads[0][7] = 0; break;
		case 5: s.a.cols[0] = 0; break;
		case 6: links_of(&s.a, ref[1])->prev = ref[2]; break;
		case 7: links_of(&s.a, ref[1])->next = ref[1]; break;
		}
		assert_non_null(arena_check(&s.a));
		region_give(&s.r);
	}
}

/* A block that was joined with its neighbor when it was freed is still known to be free. */
static void freed_twice(void **state)
{
	static struct shadow s;
	int status;
	pid_t pid;

	for (unsigned joined = 0; joined < 4; joined++) {
		start(&s, 65536, 7);
		for (unsigned i = 0; i < 4; i++)
			assert_true(take(&s, 100, false));
		if (joined & 1)
			arena_free(&s.a, s.got[0].ref);
		if (joined & 2)
			arena_free(&s.a, s.got[2].ref);
		arena_free(&s.a, s.got[1].ref);
		assert_null(arena_check(&s.a));
		assert_true((pid = fork()) >= 0);
		if (pid == 0) {
			(void)signal(SIGABRT, SIG_DFL);
			close(2);
			arena_free(&s.a, s.got[1].ref);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		region_give(&s.r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_cost_what_is_said),
		cmocka_unit_test(a_tiny_arena_is_used_to_its_end),
		cmocka_unit_test(parts_do_not_touch),
		cmocka_unit_test(four_gigabytes_at_the_end_of_a_region),
		cmocka_unit_test(against_a_list),
		cmocka_unit_test(classes_are_narrow_and_in_order),
		cmocka_unit_test(the_largest_can_be_taken),
		cmocka_unit_test(the_largest_of_two_in_a_row),
		cmocka_unit_test(full_and_full_again),
		cmocka_unit_test(a_million_replacements),
		cmocka_unit_test(the_check_can_fail),
		cmocka_unit_test(freed_twice),
	};

	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
