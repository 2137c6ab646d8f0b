/* test_traffic.c - requests on their way to a recording: the queue, the lines, and the records of a
 * router. */
#include "agent/route/traffic_text.h"
#include "tests/unit/route/world.h"

#define HALF	(64u << 10)

struct lines {
	char text[1 << 18];
	size_t n, count;
};

static void keep_line(void *arg, const char *line, size_t n)
{
	struct lines *l = arg;

	assert_true(n > 2 && line[n - 1] == '\n' && memchr(line, '\n', n) == line + n - 1);
	assert_true(l->n + n < sizeof(l->text));
	memcpy(l->text + l->n, line, n);
	l->n += n;
	l->text[l->n] = '\0';
	l->count++;
}

static struct lines lines;

static struct traffic *queue(void)
{
	struct hash_key k = test_key();
	struct traffic *t = traffic_new(HALF, 32, &k, 7);

	assert_non_null(t);
	return t;
}

static struct traffic_text *text_of(struct traffic_text_opts o)
{
	struct traffic_text *t = traffic_text_new(&o, keep_line, &lines);
	struct hash_key secret = test_key();

	assert_non_null(t);
	traffic_text_secret(t, &secret);
	memset(&lines, 0, sizeof(lines));
	return t;
}

static struct traffic_text *usual_text(void)
{
	struct traffic_text_opts o;

	traffic_text_defaults(&o);
	return text_of(o);
}

static void take(struct traffic *q, struct traffic_text *t)
{
	const struct traffic_sink sink = { t, traffic_text_asked, traffic_text_ended };

	traffic_take(q, &sink);
}

static void asked(struct traffic_text *t, uint64_t uid, msec at, const uint64_t *blocks, uint32_t n)
{
	struct traffic_asked a = { .uid = uid,
		.at = at,
		.tokens = n * 32 + 5,
		.cached = 32,
		.block_tokens = 32,
		.n_blocks = n,
		.server = 77 };

	traffic_text_asked(t, &a, blocks);
}

static void done(struct traffic_text *t, uint64_t uid, msec at)
{
	struct traffic_ended e = {
		.uid = uid, .at = at, .kind = TRAFFIC_DONE, .status = 200, .output_tokens = 9
	};

	traffic_text_ended(t, &e);
}

static void first(struct traffic_text *t, uint64_t uid, msec at, bool stream)
{
	struct traffic_ended e = {
		.uid = uid, .at = at, .kind = TRAFFIC_FIRST, .stream = stream, .status = 200
	};

	traffic_text_ended(t, &e);
}

static void has(const char *what)
{
	if (strstr(lines.text, what) == NULL)
		fail_msg("no %s in %s", what, lines.text);
}

static const uint64_t abc[] = { 0xa00000001, 0xb00000002, 0xc00000003 },
		      abd[] = { 0xa00000001, 0xb00000002, 0xd00000004 };

/* ---- lines ----------------------------------------------------------------------------------- */

static void a_line_has_the_outcome(void **state)
{
	struct traffic_text *t = usual_text();

	asked(t, 1, 1000, abc, 3);
	asked(t, 2, 1500, abd, 3);
	assert_int_equal(lines.count, 0);
	first(t, 2, 1600, true);
	done(t, 2, 1900);
	has("{\"timestamp\":500,\"input_length\":101,\"output_length\":9,\"hash_ids\":[1,2,4],"
	    "\"block_size\":32,\"cached\":32,"
	    "\"first_ms\":100,\"total_ms\":400,\"status\":200,\"server\":\"");
	first(t, 1, 1950, false);	/* a whole answer: no first token */
	done(t, 1, 2000);
	has("{\"timestamp\":0,\"input_length\":101,\"output_length\":9,\"hash_ids\":[1,2,3],"
	    "\"block_size\":32,\"cached\":32,"
	    "\"total_ms\":1000,\"status\":200,\"server\":\"");
	done(t, 1, 2100);		/* it comes twice */
	done(t, 3, 2100);		/* unknown uid */
	assert_int_equal(lines.count, 2);
	traffic_text_free(t);
}

/* Names are hashed under the file's secret, so names in two files cannot be compared. */
static void another_secret_other_names(void **state)
{
	struct traffic_text *t = usual_text();
	struct hash_key secret;
	const char *a, *b;

	asked(t, 1, 0, abc, 1);
	done(t, 1, 1);
	asked(t, 2, 0, abc, 1);
	done(t, 2, 1);
	memset(&secret, 0x5a, sizeof(secret));
	traffic_text_secret(t, &secret);
	asked(t, 3, 0, abc, 1);
	done(t, 3, 1);
	a = strstr(lines.text, "\"server\":");
	b = strstr(a + 1, "\"server\":");
	assert_memory_equal(a, b, 19);
	b = strstr(b + 1, "\"server\":");
	assert_int_not_equal(memcmp(a, b, 19), 0);
	assert_null(strstr(lines.text, "4d"));	/* 77 itself */
	traffic_text_free(t);
}

/* The request that has waited longest is written without its end. */
static void those_that_wait_are_bounded(void **state)
{
	struct traffic_text *t =
	    text_of((struct traffic_text_opts){ .blocks = 64, .waiting = 3, .waiting_bytes = 40 });

	for (uint64_t i = 1; i <= 3; i++)
		asked(t, i, (msec)i, abc, 3);
	assert_int_equal(lines.count, 0);
	asked(t, 4, 4, abc, 1);		/* no slot left */
	assert_int_equal(lines.count, 1);
	has("{\"timestamp\":0,");
	assert_null(strstr(lines.text, "status"));
	asked(t, 5, 5, abc, 3);		/* no slot left, and no bytes for a third list of three */
	assert_int_equal(lines.count, 2);
	asked(t, 4, 6, abc, 2);		/* the same uid again reuses its slot */
	assert_int_equal(lines.count, 2);
	traffic_text_flush(t, false);
	assert_int_equal(lines.count, 2);
	asked(t, 6, 6 + TRAFFIC_AGE_MS, abc, 0);
	traffic_text_flush(t, false);
	assert_int_equal(lines.count, 5);
	traffic_text_flush(t, true);
	assert_int_equal(lines.count, 6);
	traffic_text_free(t);
}

/* A full table drops the blocks used longest ago; one that comes again gets another number, and
 * none has two. */
static void forgotten_blocks_are_new(void **state)
{
	struct traffic_text *t =
	    text_of((struct traffic_text_opts){ .blocks = 8, .waiting = 4, .waiting_bytes = 4096 });
	uint64_t often = 99ull << 32, b;
	char want[64];

	asked(t, 1, 0, &often, 1);
	done(t, 1, 0);
	has("[1]");
	for (uint64_t i = 0; i < 100; i++) {
		b = (1000 + i) << 32;
		asked(t, 2, 0, &b, 1);
		done(t, 2, 0);
		snprintf(want, sizeof(want), "[%llu]", (unsigned long long)(2 + i));
		has(want);
		lines.n = 0;
		asked(t, 3, 0, &often, 1);
		done(t, 3, 0);
		has("[1]");
		lines.n = 0;
	}
	b = 1000ull << 32;
	asked(t, 4, 0, &b, 1);
	done(t, 4, 0);
	has("[102]");
	traffic_text_free(t);
}

/* ---- the queue ------------------------------------------------------------------------------- */

static void lines_that_do_not_fit_are_dropped(void **state)
{
	static uint64_t blocks[TRAFFIC_BLOCKS_MAX];
	struct traffic_asked a = { .uid = 1, .n_blocks = TRAFFIC_BLOCKS_MAX, .tokens = 1 };
	struct traffic_text *t = usual_text();
	struct traffic *q = queue();

	traffic_ask(q, &a, blocks);
	a.uid = 2;
	traffic_ask(q, &a, blocks);	/* 2 x 32 KiB and heads are more than 64 KiB */
	assert_int_equal(traffic_dropped(q), 1);
	a.uid = 3;
	a.n_blocks = 5;
	traffic_ask(q, &a, blocks);
	assert_int_equal(traffic_dropped(q), 1);
	take(q, t);
	traffic_text_flush(t, true);
	assert_int_equal(lines.count, 2);
	a.uid = 4;
	traffic_ask(q, &a, blocks);	/* the other half is empty */
	traffic_close(q);
	a.uid = 5;
	traffic_ask(q, &a, blocks);
	assert_false(traffic_wants(q));
	take(q, t);
	take(q, t);
	traffic_text_flush(t, true);
	assert_int_equal(lines.count, 3);
	assert_int_equal(traffic_dropped(q), 1);
	traffic_free(q);
	traffic_text_free(t);
	assert_false(traffic_wants(NULL));
	traffic_ask(NULL, &a, blocks);
	traffic_free(NULL);
	traffic_text_free(NULL);
}

static void blocks_of_whole_pages(void **state)
{
	static page_key pages[100000];
	uint64_t out[TRAFFIC_BLOCKS_MAX], again[TRAFFIC_BLOCKS_MAX];
	struct traffic *q = queue();
	uint32_t size;

	for (size_t i = 0; i < 100000; i++)
		pages[i] = i;
	assert_int_equal(traffic_blocks(q, 1, pages, 7, 16, out, &size), 3);
	assert_int_equal(size, 32);
	assert_int_equal(traffic_blocks(q, 1, pages, 4, 16, again, &size), 2);
	assert_memory_equal(out, again, 2 * sizeof(*out));
	assert_int_equal(traffic_blocks(q, 2, pages, 4, 16, again, &size), 2);	/* another space */
	assert_int_not_equal(out[0], again[0]);
	pages[0] = 5;
	assert_int_equal(traffic_blocks(q, 1, pages, 4, 16, again, &size), 2);	/* chained */
	assert_int_not_equal(out[1], again[1]);
	/* pages are larger */
	assert_int_equal(traffic_blocks(q, 1, pages, 4, 64, again, &size), 4);
	assert_int_equal(size, 64);
	assert_int_equal(traffic_blocks(q, 1, pages, 100000, 16, again, &size), TRAFFIC_BLOCKS_MAX);
	assert_int_equal(traffic_blocks(q, 1, NULL, 0, 0, again, &size), 0);
	traffic_free(q);
}

/* ---- of a route ------------------------------------------------------------------------------ */

static uint32_t count_of(const char *what)
{
	uint32_t n = 0;

	for (const char *p = lines.text; (p = strstr(p, what)) != NULL; p++)
		n++;
	return n;
}

static void a_route_records(void **state)
{
	struct traffic_text *t = usual_text();
	struct traffic *q = queue();
	struct world w;

	world_start(&w);
	route_traffic(w.r, q);
	w.q.tenant = SPAN("acme-inc");
	w.q.session = SPAN("abcdef-session");
	ask(&w, "one", "a");
	w.now += 100;
	served(&w, "one");
	w.now += 1000;
	ask(&w, "two", "ab");
	tell_done(&w, "two", "s2", 503, "--", 5);
	take(q, t);
	traffic_text_flush(t, true);
	assert_int_equal(lines.count, 2);
	has("\"timestamp\":0,\"input_length\":160,");
	has("[1,2,3,4,5]");
	has("\"first_ms\":100,\"total_ms\":100,\"status\":200");
	has("[1,2,3,4,5,6,7,8,9,10]");
	has("\"cached\":160,");
	has("\"status\":503");
	assert_int_equal(count_of("\"tenant\":\""), 2);
	assert_int_equal(count_of("\"session\":\""), 2);
	assert_null(strstr(lines.text, "acme"));
	assert_null(strstr(lines.text, "pool\":\"pool"));
	assert_null(strstr(lines.text, "abcdef"));
	assert_null(strstr(lines.text, "s1"));
	world_end(&w);
	traffic_free(q);
	traffic_text_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_the_outcome),
		cmocka_unit_test(another_secret_other_names),
		cmocka_unit_test(those_that_wait_are_bounded),
		cmocka_unit_test(forgotten_blocks_are_new),
		cmocka_unit_test(lines_that_do_not_fit_are_dropped),
		cmocka_unit_test(blocks_of_whole_pages),
		cmocka_unit_test(a_route_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
