/* test_host_port.c - addresses that may go into a header. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/feed/host_port.h"
#include "tests/unit/edge.h"

static const struct { const char *text; bool is; } table[] = {
	{ "10.0.0.7:8000", true }, { "10.0.0.7:1", true }, { "255.255.255.255:65535", true },
	{ "[fd00::7]:8000", true }, { "[::1]:8000", true }, { "[::ffff:10.0.0.7]:8000", true },
	{ "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535", true },
	{ "", false }, { ":", false }, { ":8000", false }, { "10.0.0.7", false }, { "10.0.0.7:", false },
	{ "10.0.0.7:0", false }, { "10.0.0.7:08000", false }, { "10.0.0.7:65536", false },
	{ "10.0.0.7:+1", false }, { "10.0.0.7: 1", false }, { "10.0.0.7:8000 ", false },
	{ "10.0.0.7:99999999999999999999", false }, { "10.0.0.7:8a", false }, { "10.0.0:8000", false },
	{ "10.0.0.7.1:8000", false }, { "010.0.0.7:8000", false }, { " 10.0.0.7:8000", false },
	{ "10.0.0.7:80\r\nx: y", false }, { "10.0.0.7\r\nx:1", false }, { "p1.example:8000", false },
	{ "localhost:8000", false }, { "unix@/run/p1.sock:1", false }, { "fd00::7:8000", false },
	{ "[fd00::7:8000", false }, { "fd00::7]:8000", false }, { "[]:8000", false }, { "[:8000", false },
	{ "[10.0.0.7]:8000", false }, { "[fd00::7%eth0]:8000", false }, { "[[fd00::7]]:8000", false },
	{ "[fd00::7]8000", false }, { "0.0.0.0:8000", false }, { "[::]:8000", false },
	{ "[0:0:0:0:0:0:0:0]:8000", false }, { "10.0.0.7:8000,10.0.0.8:8000", false },
	{ "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:0000000065535", false },
};

static bool at_edge(const char *text, size_t n)
{
	uint8_t *p = edge_copy(text, n);
	bool is = host_port_is(span_of(p, n));

	edge_free(p, n);
	return is;
}

static void numeric_hosts_and_ports_only(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (at_edge(table[i].text, strlen(table[i].text)) != table[i].is)
			fail_msg("\"%s\"", table[i].text);
	assert_false(at_edge("10.0.0.7\0:8000", 14));
	assert_false(at_edge("10.0.0.7:8000\0", 14));
	assert_false(at_edge("[fd00::7\0]:8000", 15));
}

/* What is accepted, written again by the system, is an address of the same meaning and has no other
 * characters than these. */
static void must_be_plain(const char *text, size_t n)
{
	char copy[HOST_PORT_MAX + 1], *colon;
	uint8_t to[16];
	bool six;

	assert_true(n <= HOST_PORT_MAX);
	memcpy(copy, text, n);
	copy[n] = '\0';
	assert_int_equal(strspn(copy, "0123456789abcdefABCDEF.:[]"), n);
	colon = strrchr(copy, ':');
	assert_int_equal(strspn(colon + 1, "0123456789"), strlen(colon + 1));
	assert_true(atoi(colon + 1) > 0 && atoi(colon + 1) < 65536);
	six = copy[0] == '[';
	colon[six ? -1 : 0] = '\0';
	assert_int_equal(inet_pton(six ? AF_INET6 : AF_INET, copy + six, to), 1);
}

/* Good ones with random changes, and random bytes of the alphabet of addresses. */
static void random_changes(void **state)
{
	static const char letters[] = "0123456789abcdef.:[]::..\r\n \0x%@,/";
	unsigned accepted = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, 7);
	for (int i = 0; i < 200000; i++) {
		char text[96];
		size_t n;

		if (i % 4 == 0) {
			n = rng_below(&rng, 64);
			for (size_t k = 0; k < n; k++)
				text[k] = letters[rng_below(&rng, sizeof(letters) - 1)];
		} else {
			n = strlen(table[i % 7].text);
			memcpy(text, table[i % 7].text, n);
			for (uint32_t k = rng_below(&rng, 3); k > 0; k--)
				text[rng_below(&rng, (uint32_t)n)] = i % 5 == 0
				    ? (char)rng_below(&rng, 256) : letters[rng_below(&rng, sizeof(letters) - 1)];
		}
		if (!host_port_is(span_of(text, n)))
			continue;
		must_be_plain(text, n);
		accepted++;
	}
	assert_true(accepted > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numeric_hosts_and_ports_only),
		cmocka_unit_test(random_changes),
	};

	return cmocka_run_group_tests_name("feed host_port", tests, NULL, NULL);
}
