/* test_cases.c - the table of spop-check and the bytes it sends, tried on an agent in memory: the
 * library of spoe/, which ACKs every NOTIFY. Every case must pass there, in every round, and the
 * bytes must be what the case says they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop-check/check_in.h"
#include "tests/unit/edge.h"
#include "tests/unit/hex.h"

static uint8_t hello_bytes[CHECK_BYTES_MAX], body_bytes[CHECK_BYTES_MAX],
    reply_bytes[CHECK_BYTES_MAX];

static const struct check_message plain = { .name = "spop-check" };
static const struct check_message full = { .name = "route",
	.n_args = 2,
	.args = { { { "uid", 3 }, { .type = SPOP_T_STR, .s = { "u-1", 3 } } },
	    { { "n", 1 }, { .type = SPOP_T_INT64, .i = -7 } } } };

static void plan_init(
    struct check_plan *p, const struct check_case *c, const struct check_message *m, unsigned round)
{
	p->hello = (struct spop_wr){ hello_bytes, 0, sizeof(hello_bytes), false };
	p->body = (struct spop_wr){ body_bytes, 0, sizeof(body_bytes), false };
	check_plan_init(p, c, m, round);
}

static unsigned rounds(const struct check_case *c)
{
	return c->rounds ? c->rounds : 1;
}

/* ---- an agent in memory ----------------------------------------------------------------- */

struct memory_agent {
	struct spop_conn conn;
	struct spop_wr out;
};

static void agent_take(struct memory_agent *a, const uint8_t *p, size_t n)
{
	struct spop_event ev;
	struct spop_ack ack;
	ssize_t used;

	while ((used = spop_conn_next(&a->conn, p, n, &a->out, &ev)) > 0) {
		p += used;
		n -= (size_t)used;
		if (ev.kind == SPOP_EV_NOTIFY) {
			spop_ack_begin(&ack, &a->conn, &a->out, ev.stream_id, ev.frame_id);
			spop_ack_set_int(&ack, SPOP_SCOPE_TXN, "v", 1);
			spop_ack_end(&ack);
		}
	}
}

static struct check_seen agent_seen(const struct memory_agent *a)
{
	return (struct check_seen){
		.p = a->out.p, .n = a->out.n, .first = a->out.n,
		.end = a->conn.state == SPOP_CONN_CLOSED ? CHECK_CLOSED : CHECK_OPEN,
	};
}

static bool can_go_on(const struct check_plan *p, const struct memory_agent *a)
{
	struct check_seen s = agent_seen(a);

	return !p->c->no_probe && p->c->expect.outcome != CHECK_ENDED &&
	    check_body_settled(p, &s) && s.end == CHECK_OPEN;
}

static void run_round(const struct check_case *c, const struct check_message *m, unsigned round,
		      struct check_verdict *v)
{
	struct memory_agent a = { .out = { reply_bytes, 0, sizeof(reply_bytes), false } };
	struct spop_conn_opts o;
	struct check_plan p;
	struct check_seen s;

	spop_conn_defaults(&o);
	spop_conn_init(&a.conn, &o);
	plan_init(&p, c, m, round);
	check_plan_hello(&p);
	agent_take(&a, p.hello.p, p.hello.n);
	if (a.conn.state != SPOP_CONN_CLOSED) {
		check_plan_body(&p);
		agent_take(&a, p.body.p, p.body.n);
		if (p.more) {
			check_plan_bye(&p);
			agent_take(&a, p.body.p, p.body.n);
		}
		if (c->how == CHECK_HALF_CLOSE)
			a.conn.state = SPOP_CONN_CLOSED;	/* as the loop does it */
		if (can_go_on(&p, &a)) {
			check_plan_probe(&p);
			agent_take(&a, p.body.p, p.body.n);
		}
	}
	assert_false(p.hello.full || p.body.full || a.out.full);
	s = agent_seen(&a);
	check_judge(&p, &s, v);
	spop_conn_fini(&a.conn);
}

static bool is_talk(const struct check_case *c)
{
	return c->how != CHECK_HANG_UP && c->how != CHECK_RESET && c->how != CHECK_BESIDE;
}

static void test_all_pass_in_memory(void **state)
{
	const struct check_message *const messages[] = { &plain, &full };
	const struct check_case *c;
	struct check_verdict v;
	unsigned i, k, n = 0;

	for (c = check_cases; c < check_cases + check_n_cases; c++) {
		for (k = 0; k < 2 && is_talk(c); k++) {
			for (i = 0; i < rounds(c); i++, n++) {
				v.n = 0;
				run_round(c, messages[k], i, &v);
				if (v.n > 0)
					fail_msg("%s, round %u, message %s: %s", c->name, i, messages[k]->name, v.f[0].text);
			}
		}
	}
	assert_true(n > 250);
}

/* ---- the table -------------------------------------------------------------------------- */

static void test_table(void **state)
{
	const struct check_case *c, *d;

	for (c = check_cases; c < check_cases + check_n_cases; c++) {
		assert_non_null(strchr(c->name, '/'));
		assert_true(c->level == CHECK_MUST || c->level == CHECK_SHOULD);
		assert_true(c->clause[0] && c->sent[0] && c->expected[0]);
		assert_null(strchr(c->sent, '|'));	/* it is a cell of a table in the manual page */
		for (d = check_cases; d < c; d++)
			assert_string_not_equal(c->name, d->name);
	}
}

static void test_names(void **state)
{
	assert_true(check_name_is("hello/size-256", "hello/size-256"));
	assert_true(check_name_is("hello/size-256", "hello"));
	assert_true(check_name_is("hello/size-256", "hello/size*"));
	assert_true(check_name_is("hello/size-256", "*"));
	assert_false(check_name_is("hello/size-256", "hello/size"));
	assert_false(check_name_is("hello/size-256", "hell"));
	assert_false(check_name_is("hello/size-256", "hello/size-256 "));
	assert_false(check_name_is("hello/size-256", ""));
}

static const struct check_case *find(const char *name)
{
	const struct check_case *c;

	for (c = check_cases; c < check_cases + check_n_cases; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	fail_msg("no case %s", name);
	return NULL;
}

/* ---- bytes ------------------------------------------------------------------------------ */

static const char *const too_long[] = { "frame/above-size" };
static const char *const no_frames[] = { "order/http-request", "frame/length-2^31",
	"frame/length-2^32-1", "peer/half-a-frame", "peer/hangs-up", "peer/resets" };

static bool among(const char *name, const char *const *list, size_t n)
{
	while (n-- > 0)
		if (strcmp(name, list[n]) == 0)
			return true;
	return false;
}

/* Check the bytes of a case that is not about wrong lengths: whole frames, none above the agreed
 * size, however small. */
static void frames_of(const struct check_case *c, uint32_t agreed, unsigned round)
{
	struct check_plan p;
	size_t at, n;

	plan_init(&p, c, &full, round);
	p.agreed = agreed;
	check_plan_body(&p);
	assert_false(p.body.full);
	for (at = 0; at + 4 <= p.body.n; at += 4 + n) {
		n = (size_t)p.body.p[at] << 24 | (size_t)p.body.p[at + 1] << 16 |
		    (size_t)p.body.p[at + 2] << 8 | p.body.p[at + 3];
		if (among(c->name, no_frames, sizeof(no_frames) / sizeof(no_frames[0])))
			return;
		if (n > p.body.n - at - 4 || (n > agreed && !among(c->name, too_long, 1)))
			fail_msg("%s, round %u: a frame of %zu bytes, agreed were %u", c->name, round, n, agreed);
	}
	assert_int_equal(at, p.body.n);
}

static void test_frames_fit(void **state)
{
	static const uint32_t sizes[] = { 1024, 4096, CHECK_FRAME_SIZE };
	const struct check_case *c;
	unsigned i, k;

	for (c = check_cases; c < check_cases + check_n_cases; c++)
		for (k = 0; k < 3; k++)
			for (i = 0; i < rounds(c); i++)
				frames_of(c, sizes[k], i);
}

static void body_of(struct check_plan *p, const char *name, uint32_t agreed)
{
	plan_init(p, find(name), &plain, 0);
	p->agreed = agreed;
	check_plan_body(p);
}

/* Also at sizes where a length takes one more byte. */
static void test_exact_sizes(void **state)
{
	struct check_plan p;
	uint32_t n;

	for (n = 256; n < 3000; n++) {
		body_of(&p, "frame/at-size", n);
		assert_int_equal(p.body.n, n + 4);
		body_of(&p, "frame/above-size", n);
		assert_int_equal(p.body.n, n + 5);
	}
}

static void must_be(const struct spop_wr *w, const char *text)
{
	struct hex h = hex(text);

	if (w->n != h.n || memcmp(w->p, h.p, h.n) != 0)
		fail_msg("not the bytes of %s", text);
	free(h.p);
}

static void test_bytes(void **state)
{
	struct check_plan p;

	body_of(&p, "notify/one", 16380);
	must_be(&p.body, "00000013 03 00000001 01 01 0a \"spop-check\" 00");
	body_of(&p, "frame/length-0", 16380);
	must_be(&p.body, "00000000");
	body_of(&p, "frame/id-of-11-bytes", 16380);
	must_be(&p.body, "00000012 03 00000001 ff*10 01 01 00");
	body_of(&p, "fragments/abort", 16380);
	must_be(&p.body,
		"0000000b 03 00000000 01 01 0a \"spo\"  0000000b 00 00000000 01 01 \"p-ch\"  00000007 00 "
		"00000003 01 01");
	body_of(&p, "disconnect/after-hello", 16380);
	must_be(&p.body,
		"00000025 02 00000001 00 00 0b \"status-code\" 03 00 07 \"message\" 08 06 \"normal\"");
	plan_init(&p, find("hello/healthcheck-as-haproxy"), &plain, 0);
	check_plan_hello(&p);
	must_be(&p.hello,
		"0000004e 01 00000001 00 00 12 \"supported-versions\" 08 03 \"2.0\" 0e \"max-frame-size\" 03 "
		"fcf006 0c \"capabilities\" 08 00 0b \"healthcheck\" 11");
	plan_init(&p, find("hello/size-2^32-1"), &plain, 0);
	check_plan_hello(&p);
	assert_non_null(memmem(p.hello.p, p.hello.n, "max-frame-size\x03\xff\xf0\xfe\xfe\x7e", 20));
}

/* A message that does not fit is sent without its arguments. */
static void test_message_that_does_not_fit(void **state)
{
	uint8_t b[64];
	struct spop_wr w = { b, 0, sizeof(b), false };

	check_put_message(&w, &full, 29);
	assert_int_equal(w.n, 29);
	w.n = 0;
	check_put_message(&w, &full, 28);
	must_be(&w, "05 \"route\" 00");
	w = (struct spop_wr){ b, 0, 10, false };
	check_put_message(&w, &full, 100);
	must_be(&w, "05 \"route\" 00");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_pass_in_memory),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_frames_fit),
		cmocka_unit_test(test_exact_sizes),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_message_that_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
