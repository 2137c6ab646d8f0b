/* test_metrics.c - an engine's metrics as one report. The files in tests/data/metrics/ have names,
 * labels and help lines of the engines' releases, some of their histograms, and invented values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/feed/metrics.h"
#include "tests/unit/edge.h"

struct told {
	char text[8192];
};

static void tell_adapters(char *out, size_t cap, const struct engine_report *r)
{
	for (uint32_t i = 0; i < r->n_adapters; i++) {
		size_t n = strlen(out);
		const struct engine_adapter *a = &r->adapter[i];

		snprintf(out + n, cap - n, " %.40s%s%s", a->name, a->running ? "+" : "", a->waiting ? "?" : "");
	}
}

static void tell(struct told *t, struct metrics *m)
{
	struct engine_report r;
	int rc = metrics_end(m, &r);
	size_t n;

	if (rc < 0) {
		snprintf(t->text, sizeof(t->text), "%s", metrics_strerror(rc));
	} else {
		snprintf(t->text, sizeof(t->text), "w%lld r%lld u%.4g b%u c%llu",
		    (long long)r.waiting, (long long)r.running, r.kv_used, r.block_size,
		    (unsigned long long)r.capacity);
		n = strlen(t->text);
		if (r.ranks > 1)
			n += (size_t)snprintf(t->text + n, sizeof(t->text) - n, " ranks %u", r.ranks);
		if (r.started != 0)
			snprintf(t->text + n, sizeof(t->text) - n, " since %.1f", r.started);
		tell_adapters(t->text, sizeof(t->text), &r);
	}
	n = strlen(t->text);
	if (m->bad_lines)
		snprintf(t->text + n, sizeof(t->text) - n, " bad %d", (int)m->bad_lines);
}

/* In pieces of <size> bytes, each of which ends at an unreadable page. */
static const char *feed(const char *p, size_t n, size_t size)
{
	static struct metrics m;
	static struct told t;

	metrics_init(&m);
	for (size_t used = 0; used < n; ) {
		size_t k = n - used < size ? n - used : size;
		uint8_t *edge = edge_copy(p + used, k);

		metrics_feed(&m, edge, k);
		edge_free(edge, k);
		used += k;
	}
	tell(&t, &m);
	return t.text;
}

static void feed_all(const char *name, const char *p, size_t n, const char *want)
{
	for (size_t k = 0; k < 4; k++) {
		size_t size = (const size_t[]){ n ? n : 1, 1, 3, 64 }[k];
		const char *got = size == 1 && n > 2000 ? want : feed(p, n, size);

		if (strcmp(got, want) != 0)
			fail_msg("%s, %zu bytes a time:\ngot  %s\nwant %s", name, size, got, want);
	}
}

/* Counters of the prefix cache, of all ranks and of the names that engines have had for them. */
static void what_the_prefix_cache_had(void **state)
{
	static const struct { const char *text; double hit, asked; } told[] = {
		{ "vllm:num_requests_waiting 1\n", -1, -1 },
		{ "vllm:prefix_cache_hits_total{engine=\"0\"} 300.0\n"
		  "vllm:prefix_cache_hits_total{engine=\"1\"} 5e+02\n"
		  "vllm:prefix_cache_queries_total{engine=\"0\"} 1000\n", 800, 1000 },
		{ "vllm:gpu_prefix_cache_hits_total 3\nvllm:gpu_prefix_cache_queries_total 4\n", 3, 4 },
		{ "sglang:cached_tokens_total 7\nsglang:prompt_tokens_total 9\n", 7, 9 },
		{ "vllm:prefix_cache_hits_total 1e300\nvllm:prefix_cache_queries_total 5\n", -1, 5 },
		{ "vllm:prefix_cache_hits_total NaN\nvllm:prefix_cache_queries_total -5\n"
		  "vllm:num_requests_waiting 1\n", -1, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		struct engine_report r;
		struct metrics m;

		metrics_init(&m);
		metrics_feed(&m, told[i].text, strlen(told[i].text));
		assert_int_equal(metrics_end(&m, &r), 0);
		if (r.hit_tokens != told[i].hit || r.asked_tokens != told[i].asked)
			fail_msg("case %zu: %g of %g", i, r.hit_tokens, r.asked_tokens);
	}
}

#define W	"vllm:num_requests_waiting"
#define R	"vllm:num_requests_running"
#define U	"vllm:kv_cache_usage_perc"
#define LORA	"vllm:lora_requests_info"
#define CONF	"vllm:cache_config_info"

static const struct { const char *name, *text, *want;
} cases[] = {
	{ "nothing", "", "the answer has no metric of a known engine" },
	{ "a page of another kind", "<html><body>404</body></html>\n",
	    "the answer has no metric of a "
	    "known engine" },
	{ "other metrics", "go_goroutines 148\n# HELP x y\nx{a=\"b\"} 3\n",
	    "the answer has no metric of "
	    "a known engine" },
	{ "one", W " 3\n", "w3 r-1 u-1 b0 c0" },
	{ "its last line has no end", W " 3", "w3 r-1 u-1 b0 c0" },
	{ "blanks before the labels", W " {a=\"b\"} 4\n",
	    "the answer has no metric of a known engine bad "
	    "1" },
	{ "CR LF, empty lines", "\r\n\n" W "\t4.0\r\n\r\n", "w4 r-1 u-1 b0 c0" },
	{ "a time stamp", W "{a=\"b\"} 4.0 1700000000000\r\n", "w4 r-1 u-1 b0 c0" },
	{ "blanks", " " W "{ a = \"b\" , }  4\n", "w4 r-1 u-1 b0 c0" },
	{ "one rank", R "{engine=\"0\"} 3\n", "w-1 r3 u-1 b0 c0" },
	{ "ranks from 0 on, in any order", R "{engine=\"2\"} 1\n" R "{engine=\"0\"} 1\n" R
		"{engine=\"1\"} 1\n" R "{engine=\"1\"} 1\n", "w-1 r4 u-1 b0 c0 ranks 3" },
	{ "ranks of another node", R "{engine=\"2\"} 1\n" R "{engine=\"3\"} 1\n",
	    "w-1 r2 u-1 b0 c0" },
	{ "a rank above the last", R "{engine=\"0\"} 1\n" R "{engine=\"64\"} 1\n",
	    "w-1 r2 u-1 b0 c0" },
	{ "ranks that are no numbers", R "{engine=\"a\"} 1\n" R "{engine=\"-1\"} 1\n",
	    "w-1 r2 u-1 b0 c0" },
	{ "the start of the process", R " 1\nprocess_start_time_seconds 1.79432118047e+09\n",
	    "w-1 r1 u-1 b0 c0 since 1794321180.5" },
	{ "a start that is none", R " 1\nprocess_start_time_seconds NaN\n", "w-1 r1 u-1 b0 c0" },
	{ "the start of another program", "process_start_time_seconds 1.79432118047e+09\n",
	    "the answer has no metric of a known engine" },
	{ "counts are added up", W "{engine=\"0\"} 3\n" W "{engine=\"1\"} 2\n",
	    "w5 r-1 u-1 b0 c0" },
	{ "shares are averaged", U "{engine=\"0\"} 0.5\n" U "{engine=\"1\"} 0.1\n",
	    "w-1 r-1 u0.3 b0 c0" },
	{ "a share above all of it", U " 1.7\n", "w-1 r-1 u1 b0 c0" },
	{ "two names of one thing", "vllm:gpu_cache_usage_perc 0.9\n" U " 0.2\n",
	    "w-1 r-1 u0.2 b0 c0" },
	{ "names that begin like ours, or end",
	    W "x 1\nx" W " 1\n" W "_total 2\nvllm:num_requests_waitin 3\n" U " 0\n",
	    "w-1 r-1 u0 b0 c0" },
	{ "a name of all its length",
	    "a123456789012345678901234567890123456789012345678 1\n" W " 1\n", "w1 r-1 u-1 b0 c0" },
	{ "numbers of all kinds", W " 1e1\n" W " +2\n" W " 0.5e1\n", "w17 r-1 u-1 b0 c0" },
	{ "no numbers, and said so", W " NaN\n" W " +Inf\n" W " -Inf\n" U " 0\n",
	    "w-1 r-1 u0 b0 c0" },
	{ "no numbers",
	    W " x\n" W " 0x10\n" W " 1e\n" W " \n" W "\n" W " 1e999\n" W " --1\n" U " 0\n",
	    "w-1 r-1 u0 b0 c0 bad 7" },
	{ "negative, and far too large", W " -1\n" W " 1e30\n" U " -0.1\n" U " 0.25\n",
	    "w-1 r-1 u0.25 b0 "
	    "c0" },
	{ "a number too long", W " 1.00000000000000000000000000000000000000000\n" U " 0\n",
	    "w-1 r-1 u0 "
	    "b0 c0 bad 1" },
	{ "labels that are none",
	    W "{a} 1\n" W "{a=b} 1\n" W "{a=\"b\"x} 1\n" W "{a=\"b\" 1\n" W "{\"a\"} 1\n" W
	      "{a=\"\n" U " 0\n",
	    "w-1 r-1 u0 b0 c0 bad 6" },
	{ "escapes", W "{a=\"x\\\"} 7\\n\\\\\"} 1\n", "w1 r-1 u-1 b0 c0" },
	{ "a label as long as it likes",
	    W "{a234567890123456789012345678901234567890=\""
	      "0123456789012345678901234567890123456789"
	      "\"} 1\n",
	    "w1 r-1 u-1 b0 c0" },
	{ "capacity by blocks", CONF "{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n",
	    "w-1 r-1 u-1 b16 "
	    "c1584" },
	{ "capacity by tokens goes before",
	    CONF "{block_size=\"784\",kv_cache_size_tokens=\"5000\",num_gpu_blocks=\"100\"} 1\n",
	    "w-1 r-1 u-1 b784 c4950" },
	{ "what is not known yet",
	    CONF "{block_size=\"None\",num_gpu_blocks=\"None\",kv_cache_size_tokens=\"\"} 1\n",
	    "w-1 r-1 u-1 b0 c0" },
	{ "numbers that overflow",
	    CONF
	    "{block_size=\"999999999999999\",num_gpu_blocks=\"999999999999999\","
	    "kv_cache_size_tokens=\"9999999999999999\"} 1\n",
	    "w-1 r-1 u-1 b0 c0" },
	{ "the smallest block of several ranks",
	    CONF "{block_size=\"32\",num_gpu_blocks=\"10\"} 1\n" CONF
		 "{block_size=\"16\",num_gpu_blocks=\"10\"} 1\n",
	    "w-1 r-1 u-1 b16 c432" },
	{ "blocks without their size", "trtllm_kv_cache_max_blocks 100\n", "w-1 r-1 u-1 b0 c0" },
	{ "pages of a pipeline are counted once",
	    "sglang:num_queue_reqs{pp_rank=\"0\"} "
	    "3\nsglang:num_queue_reqs{pp_rank=\"1\"} 3\n",
	    "w3 r-1 u-1 b0 c0" },
	{ "adapters",
	    LORA "{max_lora=\"4\",running_lora_adapters=\"a,b\",waiting_lora_adapters=\"c,a\"} "
		 "1e9\n",
	    "w-1 r-1 u-1 b0 c0 a+? b+ c?" },
	{ "no adapters",
	    LORA "{max_lora=\"4\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} "
		 "1e9\n",
	    "w-1 r-1 u-1 b0 c0" },
	{ "the newest holds, whatever the order",
	    LORA
	    "{max_lora=\"1\",running_lora_adapters=\"b\",waiting_lora_adapters=\"\"} 1.2e9\n" LORA
	    "{max_lora=\"1\",running_lora_adapters=\"a\",waiting_lora_adapters=\"b\"} 1.1e9\n",
	    "w-1 r-1 u-1 b0 c0 b+" },
	{ "ranks of one moment",
	    LORA "{engine=\"0\",running_lora_adapters=\"a\"} 5\n" LORA
		 "{engine=\"1\",running_lora_adapters=\"b\"} 5\n",
	    "w-1 r-1 u-1 b0 c0 a+ b+" },
	{ "odd lists", LORA "{running_lora_adapters=\",,a,,\",waiting_lora_adapters=\",\"} 5\n",
	    "w-1 r-1 u-1 b0 c0 a+" },
	{ "who only waited is not loaded",
	    LORA "{max_lora=\"4\",running_lora_adapters=\"a\",waiting_lora_adapters=\"w\"} 5\n" LORA
		 "{max_lora=\"4\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 6\n",
	    "w-1 r-1 u-1 "
	    "b0 c0 a" },
	{ "lists of a line do not reach the next",
	    LORA "{running_lora_adapters=\"a\",waiting_lora_adapters=\"b\"} 5\n" LORA
		 "{max_lora=\"1\"} 4\n",
	    "w-1 r-1 u-1 b0 c0 a+ b?" },
};

static void texts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		feed_all(cases[i].name, cases[i].text, strlen(cases[i].text), cases[i].want);
}

/* ---- engines ---------------------------------------------------------------------------- */

static const struct { const char *name, *want; } engines[] = {
	{ "vllm-two-engines", "w3 r21 u0.425 b16 c900992 ranks 2 since 1794321180.5" },
	{ "vllm-lora", "w7 r4 u0.9371 b16 c184944 poem? mail+ tidy? sql" },
	{ "sglang", "w5 r31 u0.43 b64 c419584" },
	{ "sglang-dp", "w2 r14 u0.3 b32 c95680 ranks 3" },
	{ "trtllm", "w2 r17 u0.8125 b32 c419424" },
};

static size_t read_file(const char *name, char *buf, size_t room)
{
	char path[200];
	FILE *in;
	size_t n;

	snprintf(path, sizeof(path), "tests/data/metrics/%s.txt", name);
	if ((in = fopen(path, "r")) == NULL)
		fail_msg("%s cannot be read", path);
	n = fread(buf, 1, room, in);
	fclose(in);
	assert_true(n > 0 && n < room);
	return n;
}

/* Whole, and in two pieces cut at every byte. */
static void three_engines(void **state)
{
	static struct metrics m;
	static char buf[64 << 10];
	struct told t;

	(void)state;
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		size_t n = read_file(engines[i].name, buf, sizeof(buf));

		feed_all(engines[i].name, buf, n, engines[i].want);
		for (size_t cut = 0; cut <= n; cut++) {
			metrics_init(&m);
			assert_int_equal(metrics_feed(&m, buf, cut), 0);
			assert_int_equal(metrics_feed(&m, buf + cut, n - cut), 0);
			tell(&t, &m);
			assert_string_equal(t.text, engines[i].want);
		}
	}
}

/* ---- bounds ----------------------------------------------------------------------------- */

static char big[METRICS_LIST_MAX * 4];

static const char *lora_of(const char *running, size_t n)
{
	size_t head = (size_t)sprintf(big, LORA "{max_lora=\"2\",running_lora_adapters=\"");

	memcpy(big + head, running, n);
	strcpy(big + head + n, "\"} 7\n");
	return feed(big, head + n + 5, SIZE_MAX);
}

static void a_list_just_fits(void **state)
{
	static char list[METRICS_LIST_MAX + 8];

	(void)state;
	memset(list, ',', sizeof(list));
	list[0] = 'a';
	list[METRICS_LIST_MAX - 1] = 'b';
	assert_string_equal(lora_of(list, METRICS_LIST_MAX), "w-1 r-1 u-1 b0 c0 a+ b+");
	list[METRICS_LIST_MAX - 1] = ',';
	list[METRICS_LIST_MAX] = 'b';
	assert_string_equal(lora_of(list, METRICS_LIST_MAX + 1), "w-1 r-1 u-1 b0 c0 a+");
	list[METRICS_LIST_MAX - 1] = 'b';	/* half a name is none */
	assert_string_equal(lora_of(list, METRICS_LIST_MAX + 1), "w-1 r-1 u-1 b0 c0 a+");
}

static void a_name_just_fits(void **state)
{
	static char name[ENGINE_ADAPTER_NAME_MAX + 2];

	(void)state;
	memset(name, 'n', sizeof(name));
	assert_string_equal(lora_of(name, ENGINE_ADAPTER_NAME_MAX), "w-1 r-1 u-1 b0 c0 "
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn+");
	assert_string_equal(lora_of(name, ENGINE_ADAPTER_NAME_MAX + 1), "w-1 r-1 u-1 b0 c0");
	assert_string_equal(lora_of("a\0b", 3), "w-1 r-1 u-1 b0 c0");
}

/* Many, one after the other: the last ones are known, and the first ones are forgotten. */
static void more_adapters_than_places(void **state)
{
	static struct metrics m;
	struct engine_report r;
	char line[200];

	(void)state;
	metrics_init(&m);
	for (int i = 0; i < 100; i++) {
		int n = snprintf(line, sizeof(line),
		    LORA "{max_lora=\"60\",running_lora_adapters=\"a%d\"} %d\n", i, 1000 + i);

		metrics_feed(&m, line, (size_t)n);
	}
	assert_int_equal(metrics_end(&m, &r), 0);
	assert_int_equal(r.n_adapters, ENGINE_ADAPTERS_MAX);
	assert_string_equal(r.adapter[0].name, "a99");
	assert_true(r.adapter[0].running && !r.adapter[1].running);
	assert_string_equal(r.adapter[ENGINE_ADAPTERS_MAX - 1].name, "a68");
}

static void an_answer_has_an_end(void **state)
{
	static const char line[1 << 20];
	static struct metrics m;
	struct engine_report r;

	(void)state;
	metrics_init(&m);
	metrics_feed(&m, W " 1\n", strlen(W " 1\n"));
	for (int i = 0; i < 15; i++)
		assert_int_equal(metrics_feed(&m, line, sizeof(line)), 0);
	assert_int_equal(metrics_feed(&m, line, sizeof(line)), -METRICS_E_ANSWER);
	assert_int_equal(metrics_feed(&m, "", 0), -METRICS_E_ANSWER);
	assert_int_equal(metrics_end(&m, &r), -METRICS_E_ANSWER);
}

/* ---- chance ----------------------------------------------------------------------------- */

static void check(struct metrics *m, uint64_t *good)
{
	static struct engine_report r;

	if (metrics_end(m, &r) < 0)
		return;
	++*good;
	assert_true(r.waiting >= -1 && r.running >= -1 && r.kv_used <= 1);
	assert_true(r.capacity < (uint64_t)1e12 && r.n_adapters <= ENGINE_ADAPTERS_MAX);
	for (uint32_t i = 0; i < r.n_adapters; i++)
		assert_true(memchr(r.adapter[i].name, '\0', sizeof(r.adapter[i].name)) != NULL &&
		    r.adapter[i].name[0]);
}

static void damaged(void **state)
{
	static const char alphabet[] = "{}\"\\, \n=0e9.-av:_#\x00\xff";
	static char buf[64 << 10], was[64 << 10];
	static struct metrics m;
	struct rng rng;
	uint64_t good = 0, bad = 0;

	(void)state;
	rng_init(&rng, 5);
	for (int turn = 0; turn < 2000; turn++) {
		size_t n = read_file(engines[turn % 5].name, was, sizeof(was));

		memcpy(buf, was, n);
		for (int k = 0; k < turn % 64; k++)
			buf[rng_below(&rng, (uint32_t)n)] = alphabet[rng_below(&rng, sizeof(alphabet) - 1)];
		metrics_init(&m);
		for (size_t at = 0, k; at < n; at += k) {
			k = 1 + rng_below(&rng, 900);
			k = k < n - at ? k : n - at;
			metrics_feed(&m, buf + at, k);
		}
		bad += m.bad_lines;
		check(&m, &good);
	}
	printf("2000 damaged answers: %u with a report, %u bad lines\n", (unsigned)good, (unsigned)bad);
	assert_true(good > 1000 && bad > 100);
}

static void every_error_has_a_text(void **state)
{
	(void)state;
	for (int e = 0; e < METRICS_E_COUNT; e++)
		assert_true(strlen(metrics_strerror(-e)) > 5);
	assert_string_equal(metrics_strerror(-99), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_prefix_cache_had),
		cmocka_unit_test(texts),
		cmocka_unit_test(three_engines),
		cmocka_unit_test(a_list_just_fits),
		cmocka_unit_test(a_name_just_fits),
		cmocka_unit_test(more_adapters_than_places),
		cmocka_unit_test(an_answer_has_an_end),
		cmocka_unit_test(damaged),
		cmocka_unit_test(every_error_has_a_text),
	};

	printf("one answer being read: %zu bytes, a report %zu\n", sizeof(struct metrics),
	    sizeof(struct engine_report));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
