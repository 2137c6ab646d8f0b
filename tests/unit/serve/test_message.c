/* test_message.c - SPOE messages with arguments of any type, read into requests and facts. */
#include "agent/route/vars.h"
#include "agent/serve/message_in.h"
#include "tests/unit/serve/peer.h"

/* ---- names -------------------------------------------------------------------------------- */

static void names(void **state)
{
	static const struct { const char *name; enum message_kind kind; int64_t seq; } cases[] = {
		{ "route", MESSAGE_ROUTE, -1 },
		{ "route-0", MESSAGE_ROUTE, 0 },
		{ "route-1", MESSAGE_ROUTE, 1 },
		{ "route-12", MESSAGE_ROUTE, 12 },
		{ "route-9999", MESSAGE_ROUTE, 9999 },
		{ "route-10000", MESSAGE_UNKNOWN, -1 },
		{ "route-", MESSAGE_UNKNOWN, -1 },
		{ "route-x", MESSAGE_UNKNOWN, -1 },
		{ "route--1", MESSAGE_UNKNOWN, -1 },
		{ "route1", MESSAGE_UNKNOWN, -1 },
		{ "Route", MESSAGE_UNKNOWN, -1 },
		{ "rout", MESSAGE_UNKNOWN, -1 },
		{ "", MESSAGE_UNKNOWN, -1 },
		{ "model", MESSAGE_MODEL, -1 },
		{ "model-1", MESSAGE_UNKNOWN, -1 },
		{ "first", MESSAGE_FIRST, -1 },
		{ "firs", MESSAGE_UNKNOWN, -1 },
		{ "done", MESSAGE_DONE, -1 },
		{ "done ", MESSAGE_UNKNOWN, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spop_message m = { .name = { cases[i].name, strlen(cases[i].name) } };
		struct route_request q;

		if (message_kind(&m) != cases[i].kind)
			fail_msg("wrong kind for message %s", cases[i].name);
		if (cases[i].kind == MESSAGE_ROUTE) {
			message_request(&m, &q);
			assert_int_equal(q.seq, cases[i].seq);
			assert_int_equal(q.visible, -1);
			assert_int_equal(q.whole, -1);
			assert_int_equal(q.body.n + q.uid.n + q.pool.n + q.load.n, 0);
		}
	}
}

/* ---- values ------------------------------------------------------------------------------- */

#define STR(lit)	{ .type = SPOP_T_STR, .s = { lit, sizeof(lit) - 1 } }
#define BIN(lit)	{ .type = SPOP_T_BIN, .s = { lit, sizeof(lit) - 1 } }
#define INT(t, v)	{ .type = SPOP_T_##t, .i = (v) }

static struct spop_message one_arg(const char *message, const char *name, const struct spop_data *d,
				   struct spop_wr *w)
{
	struct spop_rd r;
	struct spop_message m;

	w->n = 0;
	spop_put_str(w, message, strlen(message));
	w->p[w->n++] = 1;
	spop_put_str(w, name, strlen(name));
	spop_put_data(w, d);
	r = (struct spop_rd){ w->p, w->n };
	assert_int_equal(spop_message_next(&r, &m), 1);
	return m;
}

static void numbers(void **state)
{
	static const struct { struct spop_data d; int64_t blen; int32_t st; } cases[] = {
		{ INT(INT32, 7), 7, 7 },
		{ INT(INT32, -1), -1, -1 },
		{ INT(UINT32, UINT32_MAX), UINT32_MAX, -1 },		/* <st> has 32 bits, so this counts as missing */
		{ INT(INT64, INT64_MIN), INT64_MIN, -1 },
		{ { .type = SPOP_T_UINT64, .u = UINT64_MAX }, INT64_MAX, -1 },
		{ { .type = SPOP_T_BOOL, .b = true }, 1, 1 },
		{ STR("200"), 200, 200 },
		{ BIN("200"), 200, 200 },
		{ STR("-3"), -3, -3 },
		{ STR("+3"), 3, 3 },
		{ STR("999999999999999999"), 999999999999999999, -1 },
		{ STR("9999999999999999999"), -1, -1 },
		{ STR(""), -1, -1 },
		{ STR("-"), -1, -1 },
		{ STR("1x"), -1, -1 },
		{ STR(" 1"), -1, -1 },
		{ { .type = SPOP_T_NULL }, -1, -1 },
		{ { .type = SPOP_T_IPV4, .ip = { 1, 2, 3, 4 } }, -1, -1 },
	};
	uint8_t buf[256];
	struct spop_wr w = { .p = buf, .cap = sizeof(buf) };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spop_message m = one_arg("route", "blen", &cases[i].d, &w);
		struct route_request q;
		struct fact f;

		message_request(&m, &q);
		if (q.visible != cases[i].blen)
			fail_msg("case %zu: blen %lld", i, (long long)q.visible);
		m = one_arg("done", "st", &cases[i].d, &w);
		message_fact(&m, FACT_DONE, &f);
		if (f.status != cases[i].st)
			fail_msg("case %zu: st %d", i, f.status);
	}
}

static void texts(void **state)
{
	static const struct { struct spop_data d; const char *uid;
	} cases[] = {
		{ STR("abc"), "abc" },
		{ BIN("abc"), "abc" },
		{ STR(""), "" },
		{ { .type = SPOP_T_NULL }, "" },
		{ INT(INT32, 5), "" },
		{ { .type = SPOP_T_BOOL, .b = true }, "" },
	};
	uint8_t buf[256];
	struct spop_wr w = { .p = buf, .cap = sizeof(buf) };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spop_message m = one_arg("route", "uid", &cases[i].d, &w);
		struct route_request q;

		message_request(&m, &q);
		assert_span(q.uid, cases[i].uid);
	}
}

/* A "+" before the number of retries means that the request was redispatched, as in a log line. */
static void retries(void **state)
{
	static const struct { struct spop_data d; int32_t retries; bool redispatched; } cases[] = {
		{ STR("0"), 0, false }, { STR("2"), 2, false }, { STR("+1"), 1, true },
		{ INT(INT32, 3), 3, false }, { STR("-1"), -1, false }, { STR("+"), -1, false },
		{ STR("2147483648"), -1, false }, { { .type = SPOP_T_NULL }, -1, false },
	};
	uint8_t buf[256];
	struct spop_wr w = { .p = buf, .cap = sizeof(buf) };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spop_message m = one_arg("done", "rc", &cases[i].d, &w);
		struct fact f;

		message_fact(&m, FACT_DONE, &f);
		if (f.retries != cases[i].retries || f.redispatched != cases[i].redispatched)
			fail_msg("case %zu: retries %d, redispatched %d", i, f.retries, f.redispatched);
	}
}

/* Every argument is stored in its field, also among unknown ones. */
static void all_arguments(void **state)
{
	struct spop_message m;
	struct route_request q;
	struct spop_rd r;
	struct world w;
	struct peer p;
	struct fact f;

	(void)state;
	world_start(&w);
	peer_connect(&p, &w);
	message(&p, "route-2");
	arg_str(&p, "uid", SPAN("u"));
	arg_str(&p, "uid2", SPAN("no"));
	arg_str(&p, "", SPAN("no"));
	arg_str(&p, "pool", SPAN("p"));
	arg_str(&p, "load", SPAN("l"));
	arg_str(&p, "path", SPAN("/"));
	arg_str(&p, "tenant", SPAN("t"));
	arg_str(&p, "model", SPAN("m"));
	arg_str(&p, "session", SPAN("s"));
	arg_str(&p, "user", SPAN("w"));
	arg_int(&p, "seq", 5);
	arg_int(&p, "blen", 6);
	arg_int(&p, "bsize", 7);
	arg_bin(&p, "body", SPAN("b"));
	message(&p, "done");
	arg_str(&p, "uid", SPAN("u"));
	arg_str(&p, "be", SPAN("p"));
	arg_str(&p, "srv", SPAN("s1"));
	arg_str(&p, "want", SPAN("s2"));
	arg_str(&p, "ct", SPAN("text/plain"));
	arg_int(&p, "st", 200);
	arg_str(&p, "ts", SPAN("CD"));
	for (const char **t = (const char *[]){ "tw", "tc", "tr", "ta", "out", "in", NULL }; *t; t++)
		arg_int(&p, *t, (*t)[1]);
	r = (struct spop_rd){ p.in.p, p.in.n };
	assert_int_equal(spop_message_next(&r, &m), 1);
	message_request(&m, &q);
	assert_span(q.uid, "u");
	assert_span(q.pool, "p");
	assert_span(q.load, "l");
	assert_span(q.path, "/");
	assert_span(q.tenant, "t");
	assert_span(q.model, "m");
	assert_span(q.session, "s");
	assert_span(q.user, "w");
	assert_span(q.body, "b");
	assert_true(q.seq == 5 && q.visible == 6 && q.whole == 7);
	assert_int_equal(spop_message_next(&r, &m), 1);
	message_fact(&m, FACT_DONE, &f);
	assert_span(f.uid, "u");
	assert_span(f.pool, "p");
	assert_span(f.server, "s1");
	assert_span(f.wanted, "s2");
	assert_span(f.type, "text/plain");
	assert_true(f.kind == FACT_DONE && f.status == 200 && f.end == END_CLIENT);
	assert_memory_equal(f.ts, "CD", 2);
	assert_true(f.queue_ms == 'w' && f.connect_ms == 'c' && f.response_ms == 'r');
	assert_true(f.total_ms == 'a' && f.bytes_out == 'u' && f.bytes_in == 'n');
	peer_end(&p);
	world_end(&w);
}

static void names_of_variables(void **state)
{
	static const struct { struct span names; uint32_t vars; } cases[] = {
		{ SPAN(""), VARS_ALL },
		{ SPAN("server"), 1u << VAR_SERVER },
		{ SPAN("server+alt+why"), 1u << VAR_SERVER | 1u << VAR_ALT | 1u << VAR_WHY },
		{ SPAN(" hit_tokens,  hit;"), 1u << VAR_HIT_TOKENS | 1u << VAR_HIT },
		{ SPAN("hit_token+Hit+hits+serve"), 0 },
		{ SPAN("+"), 0 },
		{ SPAN("why\0us"), 1u << VAR_WHY | 1u << VAR_US },
	};
	char full[257];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(route_vars(cases[i].names), cases[i].vars);
	for (unsigned v = 0; v < N_VARS; v++)
		assert_int_equal(route_vars(route_var_names[v]), 1u << v);
	/* one byte too far */
	memset(full, '+', sizeof(full));
	memcpy(full + 253, "why", 3);
	assert_int_equal(route_vars(span_of(full, 257)), 1u << VAR_WHY);
	memset(full, '+', sizeof(full));
	memcpy(full + 254, "why", 3);
	assert_int_equal(route_vars(span_of(full, 257)), 0);
	/* a name whose beginning is another name */
	memset(full, '+', sizeof(full));
	memcpy(full + 253, "hit_tokens", 4);
	assert_int_equal(route_vars(span_of(full, 257)), 0);
	assert_int_equal(route_vars(span_of(full, 256)), 1u << VAR_HIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(numbers),
		cmocka_unit_test(texts),
		cmocka_unit_test(retries),
		cmocka_unit_test(all_arguments),
		cmocka_unit_test(names_of_variables),
	};

	return cmocka_run_group_tests_name("serve message", tests, NULL, NULL);
}
