/* test_judge.c - findings of spop-check on the bytes of an agent, without a socket. Each row of the
 * tables is an agent with one property. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop-check/check_in.h"
#include "tests/unit/edge.h"
#include "tests/unit/hex.h"

#define VERSION_2	"07 \"version\" 08 03 \"2.0\" "
#define SIZE_16380	"0e \"max-frame-size\" 03 fc f0 06 "
#define CAPABILITIES	"0c \"capabilities\" 08 0a \"pipelining\" "
#define HELLO		"65 00000001 00 00 " VERSION_2 SIZE_16380 CAPABILITIES
#define ACK		"67 00000001 01 01 01 03 02 01 \"v\" 11 "
#define MESSAGE		"07 \"message\" 08 02 \"no\" "
#define BYE(code)	"66 00000001 00 00 0b \"status-code\" 03 " code " " MESSAGE

/* Frames with '|' between them; each gets its length word, unless it begins with '!'. */
static struct hex frames(const char *text)
{
	struct hex out = { NULL, 0 };
	char part[2000];
	size_t n, at;

	hex_add(&out, "", 0);
	for (; *text; text += n + (text[n] == '|')) {
		n = strcspn(text, "|");
		snprintf(part, sizeof(part), "%.*s", (int)n, text);
		at = out.n;
		if (part[0] == '!') {
			hex_parse(&out, part + 1);
		} else {
			hex_parse(&out, "00000000");
			hex_parse(&out, part);
			hex_length(&out, at);
		}
	}
	return out;
}

static void judge(const struct check_case *c, const char *reply, enum check_end end, size_t first,
		  struct check_verdict *v)
{
	struct check_plan p = { .c = c, .n_ids = 1, .ids = { { 1, 1, CHECK_MUST } } };
	struct hex h = frames(reply);
	const uint8_t *b = edge_copy(h.p, h.n);
	struct check_seen s = { .p = b, .n = h.n, .end = end, .first = first ? first : h.n };

	v->n = 0;
	check_judge(&p, &s, v);
	edge_free(b, h.n);
	free(h.p);
}

/* <want>: the worst level, and words of one of the findings. */
static void expect(
    const char *reply, const struct check_verdict *v, enum check_level level, const char *words)
{
	unsigned i;

	for (i = 0; i < v->n; i++)
		if (words && strstr(v->f[i].text, words) && v->f[i].level == level)
			break;
	if (check_worst(v) != level || (words && i == v->n))
		fail_msg("%s\ngives level %d, and first \"%s\"\nand not level %d, \"%s\"", reply, check_worst(v),
			 v->n ? v->f[0].text : "", level, words ? words : "");
}

/* ---- common to all cases: the NOTIFY (1, 1) must be ACKed ------------------------------- */

static const struct check_case served = {
	.name = "t/served", .level = CHECK_MUST, .expect = { .outcome = CHECK_SERVED }
};

static const struct {
	const char *reply;
	enum check_end end;
	enum check_level level;
	const char *words;
} replies[] = {
	{ HELLO "|" ACK, CHECK_OPEN, CHECK_NONE, NULL },
	{ HELLO "| 67 00000001 01 01", CHECK_OPEN, CHECK_NONE, NULL }, /* no action: allowed */
	{ HELLO "| 67 00000001 01 01 02 02 04 01 \"v\"", CHECK_OPEN, CHECK_NONE, NULL },
	{ HELLO "|" ACK, CHECK_CLOSED, CHECK_MUST, "closed the connection, which must go on" },
	{ HELLO "|" ACK, CHECK_WAS_RESET, CHECK_MUST, "reset the connection, which must go on" },
	{ HELLO, CHECK_OPEN, CHECK_MUST, "no ACK of stream 1, frame 1" },
	{ "", CHECK_OPEN, CHECK_MUST, "no AGENT-HELLO" },
	{ "", CHECK_CLOSED, CHECK_MUST, "no AGENT-HELLO came; the agent closed" },
	{ ACK "|" HELLO, CHECK_OPEN, CHECK_MUST, "ACK before AGENT-HELLO" },
	{ HELLO "|" HELLO "|" ACK, CHECK_OPEN, CHECK_SHOULD, "more than one AGENT-HELLO" },
	/* ACKs */
	{ HELLO "|" ACK "|" ACK, CHECK_OPEN, CHECK_MUST, "more than once" },
	{ HELLO "|" ACK "| 67 00000001 02 01", CHECK_OPEN, CHECK_MUST,
	    "stream 2, frame 1: no such NOTIFY" },
	{ HELLO "| 67 00000001 01 02", CHECK_OPEN, CHECK_MUST,
	    "stream 1, frame 2: no such NOTIFY" },
	{ HELLO "| 67 00000000 01 01", CHECK_OPEN, CHECK_MUST, "ACK without FIN" },
	{ HELLO "| 67 00000003 01 01", CHECK_OPEN, CHECK_SHOULD, "flags 00000003" },
	{ HELLO "| 67 00000001 01 01 03 02 02 01 \"v\"", CHECK_OPEN, CHECK_MUST, "action 3" },
	{ HELLO "| 67 00000001 01 01 01 02 02 01 \"v\" 00", CHECK_OPEN, CHECK_MUST,
	    "set-var with 2 arguments" },
	{ HELLO "| 67 00000001 01 01 02 03 02 01 \"v\"", CHECK_OPEN, CHECK_MUST,
	    "unset-var with 3 arguments" },
	{ HELLO "| 67 00000001 01 01 01 03 05 01 \"v\" 00", CHECK_OPEN, CHECK_MUST, "scope 5" },
	{ HELLO "| 67 00000001 01 01 01 03 02 00 00", CHECK_OPEN, CHECK_MUST, "without a name" },
	{ HELLO "| 67 00000001 01 01 01 03 02 01 \"v\" 0a", CHECK_OPEN, CHECK_MUST,
	    "cannot be read to its end" },
	{ HELLO "| 67 00000001 01 01 01 03 02 09 \"v\"", CHECK_OPEN, CHECK_MUST,
	    "cannot be read to its end" },
	{ HELLO "| 67 00000001 01 01 01 03", CHECK_OPEN, CHECK_MUST, "cannot be read to its end" },
	/* frames */
	{ HELLO "|" ACK "|! 00000010 67", CHECK_OPEN, CHECK_MUST, "not all here" },
	{ HELLO "|" ACK "|! 000000", CHECK_OPEN, CHECK_MUST, "not all here" },
	{ HELLO "|" ACK "|! 00003ffd 67", CHECK_OPEN, CHECK_MUST,
	    "is announced, above the agreed 16380" },
	{ HELLO "|" ACK "|! ffffffff", CHECK_OPEN, CHECK_MUST, "4294967295 bytes is announced" },
	{ HELLO "|" ACK "|! 00000000", CHECK_OPEN, CHECK_MUST, "no readable header" },
	{ HELLO "|" ACK "| 67 000000", CHECK_OPEN, CHECK_MUST, "no readable header" },
	{ HELLO "|" ACK "| 67 00000001", CHECK_OPEN, CHECK_MUST, "no readable header" },
	{ HELLO "|" ACK "| 67 00000001 01 f0", CHECK_OPEN, CHECK_MUST, "no readable header" },
	{ HELLO "|" ACK "| 03 00000001 01 01", CHECK_OPEN, CHECK_MUST,
	    "type 3, which no agent sends" },
	{ HELLO "|" ACK "| 6e 00000001 00 00", CHECK_OPEN, CHECK_MUST,
	    "type 110, which no agent sends" },
	/* AGENT-HELLO */
	{ "65 00000001 01 00 " VERSION_2 SIZE_16380 CAPABILITIES "|" ACK, CHECK_OPEN, CHECK_MUST,
	    "stream-id 1" },
	{ "65 00000000 00 00 " VERSION_2 SIZE_16380 CAPABILITIES "|" ACK, CHECK_OPEN, CHECK_MUST,
	    "AGENT-HELLO without FIN" },
	{ "65 00000001 00 00 " SIZE_16380 CAPABILITIES "|" ACK, CHECK_OPEN, CHECK_MUST,
	    "no version" },
	{ "65 00000001 00 00 07 \"version\" 08 03 \"2.1\" " SIZE_16380 CAPABILITIES "|" ACK,
	    CHECK_OPEN, CHECK_MUST, "version \"2.1\"" },
	{ "65 00000001 00 00 07 \"version\" 03 02 " SIZE_16380 CAPABILITIES "|" ACK, CHECK_OPEN,
	    CHECK_MUST, "no version" },
	{ "65 00000001 00 00 " VERSION_2 CAPABILITIES "|" ACK, CHECK_OPEN, CHECK_MUST,
	    "no max-frame-size" },
	{ "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 08 05 \"16380\" " CAPABILITIES
	  "|" ACK,
	    CHECK_OPEN, CHECK_MUST, "is no integer" },
	{ "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 04 fc f0 06 " CAPABILITIES "|" ACK,
	    CHECK_OPEN, CHECK_SHOULD, "no UINT32" },
	{ "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 03 fd f0 06 " CAPABILITIES "|" ACK,
	    CHECK_OPEN, CHECK_MUST, "above the 16380 offered" },
	{ "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 03 ff 00 " CAPABILITIES "|" ACK,
	    CHECK_OPEN, CHECK_MUST, "below the smallest" },
	{ "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 03 f0 01 " CAPABILITIES "|" ACK,
	    CHECK_OPEN, CHECK_NONE, NULL },
	{ "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 03 f0 01 " CAPABILITIES
	  "| 67 00000001 01 01 01 03 02 01 \"v\" 08 f6 00 \"x\"*246",
	    CHECK_OPEN, CHECK_MUST,
	    "above the agreed 256" },
	{ "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 03 f0 01 " CAPABILITIES
	  "| 67 00000001 01 01 01 03 02 01 \"v\" 08 f1 00 \"x\"*241",
	    CHECK_OPEN, CHECK_NONE, NULL }, /* 256 */
	{ "65 00000001 00 00 " VERSION_2 SIZE_16380 "|" ACK, CHECK_OPEN, CHECK_MUST,
	    "no capabilities" },
	{ "65 00000001 00 00 " VERSION_2 SIZE_16380 CAPABILITIES "05 \"x\"|" ACK, CHECK_OPEN,
	    CHECK_MUST, "no list of keys" },
	/* AGENT-DISCONNECT */
	{ HELLO "|" ACK "|" BYE("00"), CHECK_CLOSED, CHECK_MUST,
	    "status 0, where the connection must go on" },
	{ HELLO "|" BYE("00") "|" ACK, CHECK_CLOSED, CHECK_MUST, "ACK after AGENT-DISCONNECT" },
};

static void test_replies(void **state)
{
	struct check_verdict v;
	size_t i;

	for (i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		judge(&served, replies[i].reply, replies[i].end, 0, &v);
		expect(replies[i].reply, &v, replies[i].level, replies[i].words);
	}
}

/* ---- how a connection ends -------------------------------------------------------------- */

static const struct check_case refused = { .name = "t/refused",
	.level = CHECK_MUST,
	.expect = { .outcome = CHECK_ENDED,
	    .hello = CHECK_HELLO_NO,
	    .disconnect = CHECK_MUST,
	    .n_status = 1,
	    .status = { 8 } } },
			       ended = { .name = "t/ended",
				       .level = CHECK_MUST,
				       .expect = { .outcome = CHECK_ENDED,
					   .disconnect = CHECK_SHOULD,
					   .n_status = 2,
					   .status = { 4, 3 } } },
			       acked = { .name = "t/acked",
				       .level = CHECK_MUST,
				       .expect = { .outcome = CHECK_ENDED, .acked = true } },
			       either = { .name = "t/either",
				       .level = CHECK_MUST,
				       .expect = { .outcome = CHECK_EITHER,
					   .disconnect = CHECK_SHOULD,
					   .n_status = 1,
					   .status = { 4 } } },
			       rather = { .name = "t/rather",
				       .level = CHECK_MUST,
				       .expect = { .outcome = CHECK_EITHER,
					   .disconnect = CHECK_SHOULD,
					   .rather_ended = true,
					   .n_status = 1,
					   .status = { 4 } } },
			       soft = { .name = "t/soft",
				       .level = CHECK_SHOULD,
				       .expect = { .outcome = CHECK_ENDED,
					   .hello = CHECK_HELLO_NO,
					   .disconnect = CHECK_MUST,
					   .n_status = 1,
					   .status = { 9 } } },
			       echo = { .name = "t/echo",
				       .level = CHECK_MUST,
				       .expect = { .outcome = CHECK_SERVED, .echo = true } },
			       bare = { .name = "t/bare",
				       .level = CHECK_MUST,
				       .hello = { .odd = CHECK_NO_HELLO },
				       .expect = { .outcome = CHECK_ENDED,
					   .disconnect = CHECK_MUST } },
			       health = { .name = "t/health",
				       .level = CHECK_SHOULD,
				       .expect = { .outcome = CHECK_ENDED } };

static const struct {
	const struct check_case *c;
	const char *reply;
	enum check_end end;
	enum check_level level;
	const char *words;
} ends[] = {
	{ &refused, BYE("08"), CHECK_CLOSED, CHECK_NONE, NULL },
	{ &refused, BYE("08"), CHECK_WAS_RESET, CHECK_NONE, NULL },
	{ &refused, BYE("08"), CHECK_OPEN, CHECK_MUST,
	    "AGENT-DISCONNECT came, but the connection stayed open" },
	{ &refused, BYE("04"), CHECK_CLOSED, CHECK_SHOULD,
	    "status 4 (invalid frame received) instead of 8 (unsupported version)" },
	{ &refused, BYE("2a"), CHECK_CLOSED, CHECK_SHOULD, "none SPOE.txt knows" },
	{ &refused, "", CHECK_CLOSED, CHECK_MUST, "no AGENT-DISCONNECT came" },
	{ &refused, "", CHECK_OPEN, CHECK_MUST, "stayed open" },
	{ &refused, HELLO "|" BYE("08"), CHECK_CLOSED, CHECK_MUST,
	    "AGENT-HELLO, where the agent must refuse" },
	{ &refused, "66 00000001 00 00 " MESSAGE, CHECK_CLOSED, CHECK_MUST, "no status-code" },
	{ &refused, "66 00000001 00 00 0b \"status-code\" 03 08", CHECK_CLOSED, CHECK_MUST,
	    "no message" },
	{ &refused, "66 00000001 00 00 0b \"status-code\" 08 01 \"8\" " MESSAGE, CHECK_CLOSED,
	    CHECK_MUST, "is no integer" },
	{ &refused, "66 00000001 00 00 0b \"status-code\" 02 08 " MESSAGE, CHECK_CLOSED,
	    CHECK_SHOULD, "no UINT32" },
	{ &refused, "66 00000001 01 00 0b \"status-code\" 03 08 " MESSAGE, CHECK_CLOSED, CHECK_MUST,
	    "stream-id 1" },
	{ &refused, "66 00000001 00 00 0b \"status\"", CHECK_CLOSED, CHECK_MUST,
	    "no list of keys" },
	{ &refused, BYE("08") "|" BYE("08"), CHECK_CLOSED, CHECK_MUST, "after AGENT-DISCONNECT" },

	{ &ended, HELLO "|" BYE("04"), CHECK_CLOSED, CHECK_NONE, NULL },
	{ &ended, HELLO "|" BYE("03"), CHECK_CLOSED, CHECK_NONE, NULL },
	{ &ended, HELLO, CHECK_CLOSED, CHECK_SHOULD, "no AGENT-DISCONNECT came; the agent closed" },
	{ &ended, HELLO, CHECK_OPEN, CHECK_MUST, "the connection stayed open" },
	{ &ended, HELLO "|" ACK "|" BYE("04"), CHECK_CLOSED, CHECK_NONE, NULL },

	{ &acked, HELLO "|" ACK, CHECK_CLOSED, CHECK_NONE, NULL },
	{ &acked, HELLO, CHECK_CLOSED, CHECK_MUST, "no ACK of stream 1" },

	{ &either, HELLO "|" ACK, CHECK_OPEN, CHECK_NONE, NULL },
	{ &either, HELLO "|" BYE("04"), CHECK_CLOSED, CHECK_NONE, NULL },
	{ &either, HELLO, CHECK_CLOSED, CHECK_SHOULD, "no AGENT-DISCONNECT" },
	{ &either, HELLO, CHECK_OPEN, CHECK_MUST, "no ACK" },
	{ &either, HELLO "|" BYE("04"), CHECK_OPEN, CHECK_MUST,
	    "came, but the connection stayed open" },

	{ &rather, HELLO "|" BYE("04"), CHECK_CLOSED, CHECK_NONE, NULL },
	{ &rather, HELLO "|" ACK, CHECK_OPEN, CHECK_SHOULD, "went on, where it should end" },

	{ &soft, BYE("09"), CHECK_CLOSED, CHECK_NONE, NULL },
	{ &soft, HELLO "|" ACK, CHECK_OPEN, CHECK_SHOULD, "where the agent must refuse" },
	{ &soft, "", CHECK_CLOSED, CHECK_SHOULD, "no AGENT-DISCONNECT" },

	{ &echo, HELLO "|" ACK, CHECK_OPEN, CHECK_NONE, NULL },
	{ &echo,
	    "65 00000001 00 00 " VERSION_2 "0e \"max-frame-size\" 03 f0 01 " CAPABILITIES "|" ACK,
	    CHECK_OPEN, CHECK_SHOULD, "below the 16380 offered" },

	{ &bare, BYE("00"), CHECK_CLOSED, CHECK_NONE, NULL },
	{ &bare, "", CHECK_CLOSED, CHECK_MUST, "no AGENT-DISCONNECT" },

	{ &health, HELLO, CHECK_CLOSED, CHECK_NONE, NULL },
	{ &health, HELLO, CHECK_OPEN, CHECK_SHOULD, "stayed open" },
};

static void test_ends(void **state)
{
	struct check_verdict v;
	size_t i;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		judge(ends[i].c, ends[i].reply, ends[i].end, 0, &v);
		expect(ends[i].reply, &v, ends[i].level, ends[i].words);
	}
}

static void test_never_acked(void **state)
{
	struct check_plan p = {
		.c = &served, .n_ids = 2, .ids = { { 1, 1, CHECK_MUST }, { 9, 1, CHECK_NONE } }
	};
	struct hex h = frames(HELLO "|" ACK "| 67 00000001 09 01");
	struct check_seen s = { .p = h.p, .n = h.n };
	struct check_verdict v = { .n = 0 };

	check_judge(&p, &s, &v);
	expect("an ACK of 9, 1", &v, CHECK_MUST, "stream 9, frame 1, which must not be ACKed");
	free(h.p);
}

static void test_length_word_in_pieces(void **state)
{
	const struct check_case c = { .level = CHECK_SHOULD,
		.expect = { .outcome = CHECK_SERVED, .in_one = true } };
	struct check_verdict v;

	judge(&c, HELLO "|" ACK, CHECK_OPEN, 3, &v);
	expect("3 bytes first", &v, CHECK_SHOULD, "the first of 3 bytes");
	judge(&c, HELLO "|" ACK, CHECK_OPEN, 4, &v);
	expect("4 bytes first", &v, CHECK_NONE, NULL);
}

/* ---- waiting ---------------------------------------------------------------------------- */

/* Wait while bytes are missing and not longer; the end of the stream settles everything. */
static void test_settled(void **state)
{
	struct check_plan p = { .c = &served, .n_ids = 1, .ids = { { 1, 1, CHECK_MUST } } };
	struct hex h = frames(HELLO "|" ACK), hello = frames(HELLO);
	struct check_seen s = { .p = h.p };

	for (s.n = 0; s.n <= h.n; s.n++) {
		s.end = CHECK_OPEN;
		assert_int_equal(check_hello_settled(&s), s.n >= hello.n);
		assert_int_equal(check_body_settled(&p, &s), s.n == h.n);
		s.end = CHECK_CLOSED;
		assert_true(check_hello_settled(&s) && check_body_settled(&p, &s));
	}
	s.n = h.n;
	s.end = CHECK_OPEN;
	p.c = &ended;
	assert_false(check_body_settled(&p, &s));	/* the end is to come */
	free(h.p);
	h = frames(HELLO "|" BYE("00"));
	p.c = &served;
	s = (struct check_seen){ .p = h.p, .n = h.n };
	assert_false(check_body_settled(&p, &s));	/* the same after an AGENT-DISCONNECT */
	free(h.p);
	h = frames("! ffffffff");
	s = (struct check_seen){ .p = h.p, .n = h.n };
	assert_true(check_hello_settled(&s) && check_body_settled(&p, &s));	/* more bytes cannot help */
	free(h.p);
	free(hello.p);
}

static void test_agent_hello(void **state)
{
	struct hex h = frames("65 00000001 00 00 " VERSION_2 SIZE_16380
		"0c \"capabilities\" 08 1a \"pipelining , fragmentation\"");
	struct check_seen s = { .p = h.p, .n = h.n };
	struct check_agent a;

	assert_true(check_agent_read(&s, &a));
	assert_true(a.known);
	assert_string_equal(a.version, "2.0");
	assert_string_equal(a.capabilities, "pipelining , fragmentation");
	assert_int_equal(a.size, 16380);
	assert_int_equal(a.can, CHECK_PIPELINING | CHECK_FRAGMENTATION);
	s.n--;
	assert_false(check_agent_read(&s, &a));
	assert_false(a.known);
	free(h.p);
	h = frames("65 00000001 00 00 " VERSION_2 SIZE_16380
		"0c \"capabilities\" 08 0e \"pipeliningless\"");
	s = (struct check_seen){ .p = h.p, .n = h.n };
	assert_true(check_agent_read(&s, &a));
	assert_int_equal(a.can, 0);
	free(h.p);
}

/* ---- nonsense --------------------------------------------------------------------------- */

/* Any bytes of an agent are judged without reading beyond them. */
static void test_prefixes_and_changes(void **state)
{
	static const uint8_t masks[] = { 0x01, 0x80, 0xff };
	const struct check_case *const cases[] = { &served, &refused, &either };
	struct hex h = frames(HELLO "|" ACK "|" BYE("04"));
	struct check_plan p = { .n_ids = 1, .ids = { { 1, 1, CHECK_MUST } } };
	struct check_verdict v;
	struct check_agent a;
	struct check_seen s;
	size_t i, k, n;

	for (i = 0; i < h.n; i++) {
		for (k = 0; k < sizeof(masks); k++) {
			p.c = cases[k];
			n = k == 0 ? i : h.n;		/* cut there, or changed there */
			h.p[i] ^= k == 0 ? 0 : masks[k];
			s = (struct check_seen){ .p = edge_copy(h.p, n), .n = n, .end = CHECK_CLOSED, .first = n };
			v.n = 0;
			check_judge(&p, &s, &v);
			assert_true((v.n > 0 || k > 0) && v.n <= CHECK_FINDINGS_MAX);
			check_agent_read(&s, &a);
			check_hello_settled(&s);
			s.end = CHECK_OPEN;
			check_body_settled(&p, &s);
			edge_free(s.p, n);
			h.p[i] ^= k == 0 ? 0 : masks[k];
		}
	}
	free(h.p);
}

static void test_findings_are_bounded(void **state)
{
	struct check_verdict v = { .n = 0 };
	int i;

	check_find(&v, CHECK_NONE, "not kept");
	assert_int_equal(v.n, 0);
	assert_int_equal(check_worst(&v), CHECK_NONE);
	for (i = 0; i < 20; i++)
		check_find(&v, i == 3 ? CHECK_MUST : CHECK_SHOULD, "%d", i);
	assert_int_equal(v.n, CHECK_FINDINGS_MAX);
	assert_int_equal(check_worst(&v), CHECK_MUST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_never_acked),
		cmocka_unit_test(test_length_word_in_pieces),
		cmocka_unit_test(test_settled),
		cmocka_unit_test(test_agent_hello),
		cmocka_unit_test(test_prefixes_and_changes),
		cmocka_unit_test(test_findings_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
