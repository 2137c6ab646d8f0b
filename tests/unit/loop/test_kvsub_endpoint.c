/* Endpoints of KV cache events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/loop/kvsub.h"

static const struct {
	const char *text;
	uint32_t ranks;
	uint16_t port;		/* 0: rejected */
	int family;
	bool bind, any_host;
} cases[] = {
	{ "tcp://127.0.0.1:5557", 1, 5557, AF_INET },
	{ "tcp://[::1]:5557", 0, 5557, AF_INET6 },
	{ "tcp://*:5557", 1, 5557, AF_INET, true },
	{ "tcp://0.0.0.0:5557", 1, 5557, AF_INET, true },
	{ "tcp://[::]:5557", 1, 5557, AF_INET6, true },
	{ "tcp://{address}:5557", 64, 5557, AF_INET, false, true },
	{ "tcp://127.0.0.1:65535", 1, 65535, AF_INET },
	{ "tcp://127.0.0.1:65534", 2, 65534, AF_INET },
	{ "tcp://127.0.0.1:65535", 2 },
	{ "tcp://{address}:65500", 64 },
	{ "tcp://127.0.0.1:0", 1 },
	{ "tcp://127.0.0.1", 1 },
	{ "tcp://{address}", 1 },
	{ "tcp://:5557", 1 },
	{ "tcp://{other}:5557", 1 },
	{ "tcp://gpu1:5557", 1 },
	{ "tcp://unix@/run/x.sock", 1 },
	{ "ipc:///run/x.sock", 1 },
	{ "127.0.0.1:5557", 1 },
	{ "tcp://127.0.0.1:5557/x", 1 },
	{ "tcp://", 1 },
	{ "", 1 },
};

static void endpoints(void **state)
{
	struct kvsub_endpoint p;
	struct err e;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("%s\n", cases[i].text);
		e.text[0] = '\0';
		if (cases[i].port == 0) {
			assert_int_equal(kvsub_endpoint_parse(cases[i].text, cases[i].ranks, &p, &e), -1);
			assert_non_null(strstr(e.text, cases[i].text));
			continue;
		}
		assert_int_equal(kvsub_endpoint_parse(cases[i].text, cases[i].ranks, &p, &e), 0);
		assert_int_equal(p.port, cases[i].port);
		assert_int_equal(p.to.a.sa.sa_family, cases[i].family);
		assert_int_equal(p.bind, cases[i].bind);
		assert_int_equal(p.any_host, cases[i].any_host);
	}
}

static void a_text_that_is_too_long(void **state)
{
	char text[2 * ADDR_MAX];
	struct kvsub_endpoint p;
	struct err e;

	memset(text, '0', sizeof(text));
	memcpy(text, "tcp://", 6);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(kvsub_endpoint_parse(text, 1, &p, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoints),
		cmocka_unit_test(a_text_that_is_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
