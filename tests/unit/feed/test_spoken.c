/* test_spoken.c - recognize the protocol of a connection by its first bytes, without reading beyond
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/feed/spoken.h"
#include "tests/unit/edge.h"

#define B(lit)	lit, sizeof(lit) - 1

static const struct { const char *name, *bytes; size_t n; enum spoken want; } cases[] = {
	{ "PROXY version 1", B("PROXY TCP4 127.0.0.1 127.0.0.1 4711 9400\r\n"), SPOKEN_PROXY },
	{ "PROXY version 1, unknown", B("PROXY UNKNOWN\r\n"), SPOKEN_PROXY },
	{ "PROXY version 2", B("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"), SPOKEN_PROXY },
	{ "half of its signature", B("\r\n\r\n\0\r\n"), SPOKEN_UNKNOWN },
	{ "a HELLO", B("\0\0\0\x4e\1\0\0\0\1\0\0\x12supported-versions"), SPOKEN_SPOP },
	{ "a HELLO, cut", B("\0\0\0\x4e\1\0\0"), SPOKEN_UNKNOWN },
	{ "another frame of SPOP", B("\0\0\0\x4e\3\0\0\0\1\0\0\x12"), SPOKEN_UNKNOWN },
	{ "a ClientHello", B("\x16\3\1\2\0\1\0\1\xfc\3\3"), SPOKEN_TLS },
	{ "another record of TLS", B("\x15\3\3\0\2\2\x28"), SPOKEN_UNKNOWN },
	{ "GET", B("GET /metrics HTTP/1.1\r\n"), SPOKEN_HTTP },
	{ "POST", B("POST / HTTP/1.1\r\n"), SPOKEN_HTTP },
	{ "option httpchk", B("OPTIONS / HTTP/1.0\r\n"), SPOKEN_HTTP },
	{ "HTTP/2", B("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), SPOKEN_HTTP },
	{ "in other letters", B("get / HTTP/1.1\r\n"), SPOKEN_UNKNOWN },
	{ "format raw", B("{\"uid\":\"u\"}\n"), SPOKEN_LOG },
	{ "rfc3164", B("<134>Nov 21 01:15:00 lb1 haproxy[77]: "), SPOKEN_LOG },
	{ "rfc5424", B("<6>1 2026-11-21T"), SPOKEN_LOG },
	{ "its length before it", B("231 <134>1 2026-11-21T"), SPOKEN_LOG },
	{ "no priority", B("<>1 2026"), SPOKEN_UNKNOWN },
	{ "too much of one", B("<1345>1 2026"), SPOKEN_UNKNOWN },
	{ "digits for ever", B("99999999999999999999999"), SPOKEN_UNKNOWN },
	{ "a number and a space", B("12 "), SPOKEN_UNKNOWN },
	{ "nothing", B(""), SPOKEN_UNKNOWN },
	{ "zeros", B("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), SPOKEN_UNKNOWN },
};

static void protocols(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *edge = edge_copy(cases[i].bytes, cases[i].n);

		if (spoken_of(edge, cases[i].n) != cases[i].want)
			fail_msg("%s", cases[i].name);
		edge_free(edge, cases[i].n);
	}
}

/* Each beginning of a protocol gives that protocol or "unknown yet", never another one. */
static void beginnings(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t n = 0; n < cases[i].n; n++) {
			uint8_t *edge = edge_copy(cases[i].bytes, n);
			enum spoken s = spoken_of(edge, n);

			if (s != SPOKEN_UNKNOWN && s != cases[i].want)
				fail_msg("%s, %zu bytes", cases[i].name, n);
			edge_free(edge, n);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(protocols),
					    cmocka_unit_test(beginnings) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
