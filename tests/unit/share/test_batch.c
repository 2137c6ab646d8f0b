/* test_batch.c - entries through a batch and back: all kinds, limits, damage, two versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/fleet/names.h"
#include "agent/index/index.h"
#include "agent/share/fields_in.h"
#include "agent/share/outbox.h"
#include "tests/lib/share/entries.h"
#include "tests/unit/edge.h"

/* limits of the modules whose numbers travel */
_Static_assert(SHARE_NAME_MAX == POOL_NAME_MAX && SHARE_NAME_MAX == SERVER_NAME_MAX, "names");
_Static_assert(SHARE_ROOM_MAX == ROOM_MAX, "spaces");
_Static_assert(SHARE_PRIORITIES == INDEX_PRIORITIES, "priorities");
_Static_assert(SHARE_TOKENS_MAX == (unsigned long long)FACT_TOKENS_MAX, "tokens");

static struct hash_key key;
static struct share_reader reader;
static struct share_writer writer;
static uint8_t room[SHARE_BATCH_MAX];
static const struct share_batch about = { .agent = 7, .part = 3, .number = 9, .made_ms = 1000 };

static void start(void)
{
	share_write_start(&writer, &key, room, sizeof(room));
}

static size_t end(void)
{
	return share_write_end(&key, room, writer.n, &about);
}

/* The batch ends at an unreadable page. */
static uint8_t *read_copy(const void *p, size_t n)
{
	uint8_t *copy = edge_copy(p, n);

	assert_int_equal(share_read_start(&reader, &key, span_of(copy, n)), 0);
	return copy;
}

static size_t write_one(const struct share_entry *e)
{
	start();
	assert_int_equal(share_write(&writer, e), 0);
	return end();
}

/* Repair the checksum of changed bytes. */
static void sign(uint8_t *p, size_t n)
{
	wire_put(p + n - 8, hash64(&key, p, n - 8), 8);
}

/* ---- round trip ---------------------------------------------------------------------------- */

static void all_kinds_come_back(void **state)
{
	struct share_entry e[200], got;
	unsigned kinds[SHARE_KINDS] = { 0 };
	uint8_t *copy;
	struct rng rng;
	size_t n, size;

	rng_init(&rng, 1);
	for (unsigned round = 0; round < 200; round++) {
		entry_lists(&rng);
		start();
		for (n = 0; n < 200; n++) {
			e[n] = entry_random(&rng, round % 10 == 0 ? 400 : 40);
			if (share_write(&writer, &e[n]) != 0)
				break;
			kinds[e[n].kind]++;
		}
		size = end();
		copy = read_copy(room, size);
		assert_memory_equal(&reader.batch, &about, sizeof(about));
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(share_read_next(&reader, &got), 1);
			assert_true(same_entry(&e[i], &got));
		}
		assert_int_equal(share_read_next(&reader, &got), 0);
		assert_int_equal(share_read_next(&reader, &got), 0);
		edge_free(copy, size);
	}
	for (unsigned i = SHARE_PLACED; i < SHARE_KINDS; i++)
		assert_true(kinds[i] > 100);
}

/* The longest entries, in blocks that have no byte more than they may need. */
static void longest_lists(void **state)
{
	struct share_entry got, e[] = {
		{ .kind = SHARE_PLACED, .u.placed = {
			.at = { SPAN("llm"), SPAN("s1") }, .space = { { 1, 2 }, UINT64_MAX,
			SHARE_ROOM_MAX, SHARE_ROOM_MAX }, .anchor = { 3, SHARE_DEPTH_MAX },
			.pages = entry_pages, .n = SHARE_PAGES_MAX, .priority = SHARE_PRIORITIES - 1,
			.nominal_s = SHARE_SECONDS_MAX, .unseen_s = SHARE_SECONDS_MAX,
			.work_tokens = SHARE_TOKENS_MAX, .prompt_tokens = SHARE_TOKENS_MAX,
			.common_tokens = SHARE_TOKENS_MAX, .branched = SHARE_DEPTH_MAX,
			.grown = SHARE_DEPTH_MAX, .grown_ago_ms = SHARE_NUMBER_MAX, .block = SHARE_DEPTH_MAX,
			.end = { 4, SHARE_TOKENS_MAX, UINT32_MAX, UINT16_MAX } } },
		{ .kind = SHARE_HELD, .u.held = { .pages = entry_pages, .n = SHARE_PAGES_MAX } },
		{ .kind = SHARE_ENDS, .u.ends = { .ends = entry_ends, .n = SHARE_ENDS_MAX } },
		{ .kind = SHARE_WANT, .u.want = { .ends = entry_ends, .n = SHARE_ENDS_MAX } },
		{ .kind = SHARE_DIGEST, .u.digest = { .sums = entry_pages, .n = SHARE_SUMS_MAX } },
		{ .kind = SHARE_HEAD, .u.head.bytes = { entry_bytes, SHARE_HEAD_MAX } },
	};
	struct rng rng;

	rng_init(&rng, 2);
	entry_lists(&rng);
	for (size_t i = 0; i < SHARE_ENDS_MAX; i++)
		entry_ends[i].depth = SHARE_DEPTH_MAX;
	for (size_t i = 0; i < sizeof(e) / sizeof(e[0]); i++) {
		size_t most = share_write_most(&e[i]), n;
		uint8_t *copy;

		/* an outbox adds an entry to a batch of almost SHARE_DELAY_BYTES */
		assert_true(most + SHARE_DELAY_BYTES + SHARE_EMPTY_BYTES <= SHARE_BATCH_MAX);
		share_write_start(&writer, &key, room, SHARE_EMPTY_BYTES + most);
		assert_int_equal(share_write(&writer, &e[i]), 0);
		n = end();
		copy = read_copy(room, n);
		assert_int_equal(share_read_next(&reader, &got), 1);
		assert_true(same_entry(&e[i], &got));
		edge_free(copy, n);
	}
}

/* Lists are cut, numbers are limited, and what cannot be written is refused. */
static void above_the_limits(void **state)
{
	static const char name[SHARE_NAME_MAX + 2];
	struct share_entry got, e = { .kind = SHARE_PLACED, .u.placed = {
		.pages = entry_pages, .n = SHARE_PAGES_MAX + 5, .priority = 200, .nominal_s = 1e30,
		.unseen_s = 0.0 / 0.0, .work_tokens = UINT64_MAX, .anchor = { 5, UINT32_MAX },
		.space = { .tenant = 9999, .part_room = UINT32_MAX, .page_room = 65536 } } };
	const struct share_placed *p = &got.u.placed;

	assert_int_equal(share_read_start(&reader, &key, span_of(room, write_one(&e))), 0);
	assert_int_equal(share_read_next(&reader, &got), 1);
	assert_int_equal(p->n, SHARE_PAGES_MAX);
	assert_int_equal(p->priority, SHARE_PRIORITIES - 1);
	assert_true(p->nominal_s == SHARE_SECONDS_MAX && p->unseen_s == 0);
	assert_int_equal(p->work_tokens, SHARE_TOKENS_MAX);
	assert_int_equal(p->anchor.depth, SHARE_DEPTH_MAX);
	assert_int_equal(p->space.tenant, 9999);
	assert_int_equal(p->space.part_room, SHARE_ROOM_MAX);
	assert_int_equal(p->space.page_room, SHARE_ROOM_MAX);

	start();
	e.u.placed.at.pool = span_of(name, SHARE_NAME_MAX + 1);
	assert_int_equal(share_write(&writer, &e), -SHARE_E_ENTRY);
	e = (struct share_entry){ .kind = SHARE_HEAD };
	e.u.head.bytes = span_of(entry_bytes, SHARE_HEAD_MAX + 1);
	assert_int_equal(share_write(&writer, &e), -SHARE_E_ENTRY);
	e.kind = SHARE_KINDS;
	assert_int_equal(share_write(&writer, &e), -SHARE_E_ENTRY);
	e.kind = 0;
	assert_int_equal(share_write(&writer, &e), -SHARE_E_ENTRY);
	assert_int_equal(writer.n, SHARE_HEADER_BYTES);
}

static void fields_that_do_not_travel(void **state)
{
	struct share_entry got, e = { .kind = SHARE_FACT };
	struct fact *f = &e.u.fact.fact;
	size_t n;

	fact_init(f, FACT_DONE);
	f->uid = f->wanted = f->orca = f->token = f->why = f->response = span_str("secret");
	f->lacks = "secret";
	f->line = f->has_why = true;
	f->type = span_str("application/secret");
	f->error = 3;
	f->status = 200;
	n = write_one(&e);
	assert_null(memmem(room, n, "secret", 6));
	assert_int_equal(share_read_start(&reader, &key, span_of(room, n)), 0);
	assert_int_equal(share_read_next(&reader, &got), 1);
	fact_init(f, FACT_DONE);
	f->status = 200;
	assert_true(same_fact(f, &got.u.fact.fact));
}

/* A name costs its bytes once. 256 servers fit; the next one needs another batch. */
static void servers_are_named_once(void **state)
{
	struct share_entry got, e = { .kind = SHARE_CLEARED };
	char name[16];
	size_t first;

	start();
	for (unsigned i = 0; i < 3 * SHARE_SERVERS_MAX; i++) {
		snprintf(name, sizeof(name), "s%u", i % SHARE_SERVERS_MAX);
		e.u.cleared.at = (struct share_server){ SPAN("llm"), span_str(name) };
		first = writer.n;
		assert_int_equal(share_write(&writer, &e), 0);
		assert_true((writer.n - first < 10) == (i >= SHARE_SERVERS_MAX));
	}
	/* the same letters in other names */
	e.u.cleared.at = (struct share_server){ SPAN("ll"), SPAN("ms0") };
	assert_int_equal(share_write(&writer, &e), -SHARE_E_FULL);
	assert_int_equal(share_read_start(&reader, &key, span_of(room, end())), 0);
	for (unsigned i = 0; i < 3 * SHARE_SERVERS_MAX; i++) {
		snprintf(name, sizeof(name), "s%u", i % SHARE_SERVERS_MAX);
		assert_int_equal(share_read_next(&reader, &got), 1);
		assert_true(span_eq(got.u.cleared.at.pool, SPAN("llm")));
		assert_true(span_eq(got.u.cleared.at.server, span_str(name)));
	}
	assert_int_equal(share_read_next(&reader, &got), 0);
}

/* In a block of any size an entry is written whole or not at all. */
static void room_is_kept(void **state)
{
	struct share_entry e;
	size_t most, n;
	struct rng rng;
	uint8_t *p;

	rng_init(&rng, 5);
	entry_lists(&rng);
	for (unsigned i = 0; i < 3000; i++) {
		e = entry_random(&rng, 40);
		most = share_write_most(&e);
		n = SHARE_EMPTY_BYTES + most - rng_below(&rng, 2);
		p = malloc(n);
		share_write_start(&writer, &key, p, n);
		if (n < SHARE_EMPTY_BYTES + most) {
			assert_int_equal(share_write(&writer, &e), -SHARE_E_ROOM);
			assert_int_equal(writer.n, SHARE_HEADER_BYTES);
			p = realloc(p, n + 1);
			share_write_moved(&writer, p, n + 1);
		}
		assert_int_equal(share_write(&writer, &e), 0);
		assert_true(writer.n + 8 <= writer.room);
		free(p);
	}
}

static void sizes(void **state)
{
	struct share_entry e = { .kind = SHARE_PLACED, .u.placed = {
		.uid = 1ull << 63, .process = 1ull << 62, .at = { SPAN("llm"), SPAN("gpu-17") },
		.space = { .h = { UINT64_MAX, UINT64_MAX }, .part_room = 16, .page_room = 16 },
		.anchor = { UINT64_MAX, 2048 }, .pages = entry_pages, .n = 100, .nominal_s = 0.7,
		.work_tokens = 1600, .prompt_tokens = 34000, .common_tokens = 32000,
		.block = 16, .end = { UINT64_MAX, 34000, UINT32_MAX, 3 } } };
	struct share_entry fact = { .kind = SHARE_FACT };
	size_t first;

	fact_init(&fact.u.fact.fact, FACT_DONE);
	fact.u.fact.fact.pool = SPAN("llm");
	fact.u.fact.fact.server = SPAN("gpu-17");
	fact.u.fact.fact.total_ms = 12000;
	start();
	assert_int_equal(share_write(&writer, &e), 0);
	first = writer.n;
	assert_int_equal(share_write(&writer, &e), 0);
	assert_int_equal(writer.n - first, 800 + 85);
	first = writer.n;
	assert_int_equal(share_write(&writer, &fact), 0);
	assert_true(writer.n - first <= 40);
}

/* ---- damage -------------------------------------------------------------------------------- */

static size_t write_some(struct rng *rng, unsigned entries)
{
	struct share_entry e;

	start();
	for (unsigned i = 0; i < entries; i++) {
		e = entry_random(rng, 20);
		assert_int_equal(share_write(&writer, &e), 0);
	}
	return end();
}

static void every_cut_is_refused(void **state)
{
	struct rng rng;
	size_t n;

	rng_init(&rng, 6);
	entry_lists(&rng);
	n = write_some(&rng, 20);
	for (size_t cut = 0; cut < n; cut++) {
		uint8_t *copy = edge_copy(room, cut);
		int rc = share_read_start(&reader, &key, span_of(copy, cut));

		assert_int_equal(rc, -SHARE_E_DAMAGED);
		edge_free(copy, cut);
	}
	assert_int_equal(share_read_start(&reader, &key, span_of(NULL, 0)), -SHARE_E_DAMAGED);
	/* a byte after it */
	assert_int_equal(share_read_start(&reader, &key, span_of(room, n + 1)), -SHARE_E_DAMAGED);
}

static void every_flip_is_refused(void **state)
{
	struct rng rng;
	size_t n;

	rng_init(&rng, 7);
	entry_lists(&rng);
	n = write_some(&rng, 12);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		int rc;

		room[bit / 8] ^= (uint8_t)(1 << bit % 8);
		rc = share_read_start(&reader, &key, span_of(room, n));
		assert_int_equal(rc, bit / 64 == 1 ? -SHARE_E_STRANGER : -SHARE_E_DAMAGED);
		room[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(share_read_start(&reader, &key, span_of(room, n)), 0);
}

/* What an entry says is within limits, whatever its bytes are. */
static void check_limits(const struct share_entry *e)
{
	struct share_entry again;
	uint32_t n;

	assert_true(e->kind >= SHARE_PLACED && e->kind < SHARE_KINDS);
	if (e->kind == SHARE_PLACED) {
		const struct share_placed *p = &e->u.placed;

		assert_true(p->n <= SHARE_PAGES_MAX && p->priority < SHARE_PRIORITIES);
		assert_true(p->nominal_s >= 0 && p->nominal_s <= SHARE_SECONDS_MAX);
		assert_true(p->anchor.depth <= SHARE_DEPTH_MAX);
		assert_true(p->prompt_tokens <= SHARE_TOKENS_MAX && p->branched <= SHARE_DEPTH_MAX);
	} else if (e->kind == SHARE_FACT) {
		assert_true(e->u.fact.fact.end <= END_PROXY && e->u.fact.fact.status <= 0xffff);
		assert_true(e->u.fact.fact.total_ms >= -1);
	}
	/* it can be written and read again */
	n = (uint32_t)share_write_most(e);
	assert_true(n < SHARE_BATCH_MAX);
	start();
	assert_int_equal(share_write(&writer, e), 0);
	{
		static struct share_reader second;

		assert_int_equal(share_read_start(&second, &key, span_of(room, end())), 0);
		assert_int_equal(share_read_next(&second, &again), 1);
		assert_true(same_entry(e, &again));
	}
}

/* A batch with a good checksum and bad contents, as a sibling with a bug makes it. */
static void good_checksum_bad_contents(void **state)
{
	unsigned good = 0, bad = 0, unknown = 0;
	uint8_t bytes[4096], *copy;
	struct share_entry e;
	struct rng rng;
	size_t n;
	int rc;

	rng_init(&rng, 8);
	entry_lists(&rng);
	for (unsigned i = 0; i < 20000; i++) {
		do
			n = write_some(&rng, 1 + rng_below(&rng, 6));
		while (n > sizeof(bytes));
		memcpy(bytes, room, n);
		for (unsigned k = 0; k <= rng_below(&rng, 3); k++)
			bytes[SHARE_HEADER_BYTES + rng_below(&rng, (uint32_t)(n - SHARE_EMPTY_BYTES))] =
			    rng_below(&rng, 2) ? 0xff : (uint8_t)rng_next(&rng);
		if (rng_below(&rng, 4) == 0)
			n -= rng_below(&rng, (uint32_t)(n - SHARE_EMPTY_BYTES + 1));
		sign(bytes, n);
		copy = read_copy(bytes, n);
		while ((rc = share_read_next(&reader, &e)) != 0) {
			good += rc == 1;
			bad += rc == -SHARE_E_ENTRY;
			unknown += rc == -SHARE_E_KIND;
			if (rc == 1)
				check_limits(&e);
		}
		edge_free(copy, n);
	}
	assert_true(good > 10000 && bad > 1000 && unknown > 100);
}

/* ---- fields at their limits ---------------------------------------------------------------- */

/* Append an entry of raw bytes to a batch in <room>. */
static void raw(unsigned kind, const void *payload, size_t n)
{
	wire_put(room + writer.n, kind | (uint64_t)n << 8, WIRE_HEAD);
	memcpy(room + writer.n + WIRE_HEAD, payload, n);
	writer.n += WIRE_HEAD + n;
}

#define RAW(kind, bytes)	raw(kind, bytes, sizeof(bytes) - 1)

static int read_raw(struct share_entry *e)
{
	size_t n = end();

	assert_int_equal(share_read_start(&reader, &key, span_of(room, n)), 0);
	return share_read_next(&reader, e);
}

static void numbers(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		int64_t open;	/* -1: refused */
	} cases[] = {
#define C(b, v)	{ b, sizeof(b) - 1, v }
		C("\0\0", 0), C("\1\x7f", 127), C("\1\x80\1", 128), C("\0\xff\xff\xff\xff\x0f", UINT32_MAX),
		C("\0\xff\xff\xff\xff\x1f", -1),		/* 2^33 - 1 */
		C("\0\x85\x80\x80\0", 5),			/* longer than it need be */
		C("\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\0", 0),
		C("\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\2", -1),	/* 2^64 */
		C("\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0", -1),	/* 11 bytes */
		C("\0\x80", -1), C("\0", -1), C("", -1),
		C("\0\5later fields", 5),
		C("\xfe\1\5", 5),				/* flags that are unknown */
#undef C
	};
	struct share_entry e;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start();
		raw(SHARE_ALIVE, cases[i].bytes, cases[i].n);
		RAW(SHARE_ALIVE, "\1\2");
		if (cases[i].open < 0) {
			assert_int_equal(read_raw(&e), -SHARE_E_ENTRY);
		} else {
			assert_int_equal(read_raw(&e), 1);
			assert_int_equal(e.u.alive.open, cases[i].open);
		}
		assert_int_equal(share_read_next(&reader, &e), 1);
		assert_true(e.u.alive.warm && e.u.alive.open == 2);
		assert_int_equal(share_read_next(&reader, &e), 0);
	}
}

static void counts_above_what_is_left(void **state)
{
	struct share_entry e;

	start();
	RAW(WIRE_NAME, "\1p\1s");
	RAW(SHARE_DIGEST, "\0\0\0\0\2" "12345678");	/* two sums in the bytes of one */
	RAW(SHARE_DIGEST, "\0\0\0\0\1" "12345678");
	RAW(SHARE_DIGEST, "\0\0\0\0\xff\xff\xff\xff\x0f" "12345678");
	RAW(SHARE_ENDS, "\0\0" "12345678" "\2" "12345678" "\1");
	RAW(SHARE_HEAD, "\x05" "1234");
	RAW(SHARE_HEAD, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1");
	assert_int_equal(read_raw(&e), -SHARE_E_ENTRY);
	assert_int_equal(share_read_next(&reader, &e), 1);
	assert_int_equal(e.u.digest.n, 1);
	assert_memory_equal(e.u.digest.sums, "12345678", 8);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(share_read_next(&reader, &e), -SHARE_E_ENTRY);
	assert_int_equal(share_read_next(&reader, &e), 0);
}

static void names(void **state)
{
	char long_name[SHARE_NAME_MAX + 4] = { (char)(SHARE_NAME_MAX + 1), 1 };
	struct share_entry e;

	/* a server that was not named */
	start();
	RAW(SHARE_CLEARED, "\0\0\0");
	RAW(WIRE_NAME, "\1p\1s");
	RAW(SHARE_CLEARED, "\1\0\0");
	RAW(SHARE_CLEARED, "\0\0\0");
	assert_int_equal(read_raw(&e), -SHARE_E_ENTRY);
	assert_int_equal(share_read_next(&reader, &e), -SHARE_E_ENTRY);
	assert_int_equal(share_read_next(&reader, &e), 1);
	assert_true(span_eq(e.u.cleared.at.server, SPAN("s")));

	/* a bad name ends the batch: later numbers would mean other servers */
	for (unsigned i = 0; i < 2; i++) {
		start();
		if (i == 0)
			RAW(WIRE_NAME, "\1p\2s");
		else
			RAW(WIRE_NAME, long_name);
		RAW(WIRE_NAME, "\1p\1s");
		RAW(SHARE_CLEARED, "\0\0\0");
		assert_int_equal(read_raw(&e), -SHARE_E_ENTRY);
		assert_int_equal(share_read_next(&reader, &e), 0);
	}

	/* one name too many */
	start();
	for (unsigned i = 0; i <= SHARE_SERVERS_MAX; i++)
		RAW(WIRE_NAME, "\1p\1s");
	assert_int_equal(read_raw(&e), -SHARE_E_ENTRY);
	assert_int_equal(share_read_next(&reader, &e), 0);
}

static void entry_longer_than_the_batch(void **state)
{
	struct share_entry e;

	start();
	RAW(SHARE_ALIVE, "\1\2");
	wire_put(room + writer.n, SHARE_ALIVE | 5u << 8, WIRE_HEAD);
	writer.n += WIRE_HEAD + 4;
	assert_int_equal(read_raw(&e), 1);
	assert_int_equal(share_read_next(&reader, &e), -SHARE_E_ENTRY);
	assert_int_equal(share_read_next(&reader, &e), 0);
	start();
	writer.n += WIRE_HEAD - 1;
	assert_int_equal(read_raw(&e), -SHARE_E_ENTRY);
	assert_int_equal(share_read_next(&reader, &e), 0);
}

static void headers(void **state)
{
	static const struct {
		size_t at, n;
		uint64_t v;
		int rc;
	} cases[] = {
		{ 0, 1, 'x', SHARE_E_DAMAGED },
		{ 3, 1, 0, SHARE_E_DAMAGED },		/* version */
		{ 3, 1, SHARE_VERSION + 1, SHARE_E_NEWER },
		{ 3, 1, 255, SHARE_E_NEWER },
		{ 4, 4, SHARE_PARTS_MAX - 1, 0 },
		{ 4, 4, SHARE_PARTS_MAX, SHARE_E_DAMAGED },
		{ 8, 8, 0, SHARE_E_STRANGER },
		{ 16, 8, 0, SHARE_E_DAMAGED },		/* agent */
		{ 24, 8, 0, SHARE_E_DAMAGED },		/* number */
		{ 24, 8, SHARE_NUMBER_MAX, 0 },
		{ 24, 8, UINT64_MAX, SHARE_E_DAMAGED },
		{ 32, 8, SHARE_NUMBER_MAX, 0 },		/* time */
		{ 32, 8, SHARE_NUMBER_MAX + 1, SHARE_E_DAMAGED },
		{ 32, 8, UINT64_MAX, SHARE_E_DAMAGED },
	};
	struct hash_key other = entry_key(99);
	size_t n;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start();
		n = end();
		wire_put(room + cases[i].at, cases[i].v, cases[i].n);
		sign(room, n);
		assert_int_equal(share_read_start(&reader, &key, span_of(room, n)), -cases[i].rc);
	}
	start();
	n = end();
	assert_int_equal(share_read_start(&reader, &other, span_of(room, n)), -SHARE_E_STRANGER);
	/* the key id is no secret: the checksum needs the key */
	wire_put(room + 8, hash_key_id(&other), 8);
	sign(room, n);
	assert_int_equal(share_read_start(&reader, &other, span_of(room, n)), -SHARE_E_DAMAGED);
}

static void longest_batch(void **state)
{
	static uint8_t big[SHARE_BATCH_MAX + 1];
	size_t n;

	for (size_t extra = 0; extra < 2; extra++) {
		share_write_start(&writer, &key, big, sizeof(big));
		n = SHARE_BATCH_MAX + extra - 8 - SHARE_HEADER_BYTES - WIRE_HEAD;
		wire_put(big + SHARE_HEADER_BYTES, 200 | (uint64_t)n << 8, WIRE_HEAD);
		n += SHARE_HEADER_BYTES + WIRE_HEAD;
		n = share_write_end(&key, big, n, &about);
		assert_int_equal(share_read_start(&reader, &key, span_of(big, n)),
		    extra ? -SHARE_E_DAMAGED : 0);
	}
}

/* ---- old and new version side by side ------------------------------------------------------ */

static void newer_entries(void **state)
{
	struct share_entry e;

	start();
	RAW(WIRE_NAME, "\3llm\2s1" "and more");
	RAW(200, "a kind that is not known");
	RAW(SHARE_CLEARED, "\0\1\7" "a field that is not known");
	RAW(SHARE_KINDS, "");
	RAW(SHARE_ALIVE, "\1\2");
	assert_int_equal(read_raw(&e), -SHARE_E_KIND);
	assert_int_equal(share_read_next(&reader, &e), 1);
	assert_true(e.u.cleared.gone && e.u.cleared.ago_ms == 7);
	assert_true(span_eq(e.u.cleared.at.server, SPAN("s1")));
	assert_int_equal(share_read_next(&reader, &e), -SHARE_E_KIND);
	assert_int_equal(share_read_next(&reader, &e), 1);
	assert_int_equal(e.kind, SHARE_ALIVE);
	assert_int_equal(share_read_next(&reader, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_come_back),
		cmocka_unit_test(longest_lists),
		cmocka_unit_test(above_the_limits),
		cmocka_unit_test(fields_that_do_not_travel),
		cmocka_unit_test(servers_are_named_once),
		cmocka_unit_test(room_is_kept),
		cmocka_unit_test(sizes),
		cmocka_unit_test(every_cut_is_refused),
		cmocka_unit_test(every_flip_is_refused),
		cmocka_unit_test(good_checksum_bad_contents),
		cmocka_unit_test(numbers),
		cmocka_unit_test(counts_above_what_is_left),
		cmocka_unit_test(names),
		cmocka_unit_test(entry_longer_than_the_batch),
		cmocka_unit_test(headers),
		cmocka_unit_test(longest_batch),
		cmocka_unit_test(newer_entries),
	};

	key = entry_key(42);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
