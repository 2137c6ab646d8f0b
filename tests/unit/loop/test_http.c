/* Request heads: whole, cut at every byte, and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/loop/http.h"

struct request_case {
	const char *head;
	int status;		/* result of http_parse() */
	const char *method, *path, *query;
};

static const struct request_case cases[] = {
	{ "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 0, "GET", "/metrics" },
	{ "GET /live HTTP/1.0\r\n\r\n", 0, "GET", "/live" },
	{ "GET /live HTTP/1.1\n\n", 0, "GET", "/live" },
	{ "HEAD /ready?x=1&y HTTP/1.1\r\nA: b\r\nC: d\r\n\r\n", 0, "HEAD", "/ready", "x=1&y" },
	{ "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 0, "POST", "/" },
	{ "GET /?/metrics HTTP/1.1\r\n\r\n", 0, "GET", "/", "/metrics" },
	{ "get /metrics HTTP/1.1\r\n\r\n", 0, "get", "/metrics" },
	{ "\r\n", 400 },
	{ "\n", 400 },
	{ " / HTTP/1.1\r\n\r\n", 400 },
	{ "GET\r\n\r\n", 400 },
	{ "GET \r\n\r\n", 400 },
	{ "GET /metrics\r\n\r\n", 400 },
	{ "GET /metrics HTTP/1.2\r\n\r\n", 400 },
	{ "GET /metrics HTTP/2.0\r\n\r\n", 400 },
	{ "GET /metrics HTTP/1.1 \r\n\r\n", 400 },
	{ "GET  /metrics HTTP/1.1\r\n\r\n", 400 },
	{ "GET metrics HTTP/1.1\r\n\r\n", 400 },
	{ "GET http://x/metrics HTTP/1.1\r\n\r\n", 400 },
	{ "GET /a\tb HTTP/1.1\r\n\r\n", 400 },
	{ "GET /\xff HTTP/1.1\r\n\r\n", 400 },
	{ "\x16\x03\x01\x02 / HTTP/1.1\r\n\r\n", 400 },
};

/* Return a copy of <p> that ends at an unreadable page. It is never freed: tests are short. */
static const char *edge(const char *p, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (n / page + 2) * page;
	char *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(m != MAP_FAILED);
	assert_int_equal(mprotect(m + size - page, page, PROT_NONE), 0);
	memcpy(m + size - page - n, p, n);
	return m + size - page - n;
}

static void heads(void **state)
{
	struct http_request r;
	size_t i, n;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct request_case *c = &cases[i];
		size_t whole = strlen(c->head);

		for (n = 0; n < whole; n++)
			if (http_parse(edge(c->head, n), n, &r) != HTTP_MORE)
				fail_msg("case %zu: %zu of %zu bytes are enough?", i, n, whole);
		if (http_parse(edge(c->head, whole), whole, &r) != c->status)
			fail_msg("case %zu: wrong status", i);
		if (c->status == 0) {
			assert_true(span_eq(r.method, span_str(c->method)));
			assert_true(span_eq(r.path, span_str(c->path)));
			assert_true(span_eq(r.query, span_str(c->query)));
		}
	}
}

static void later_bytes_do_not_matter(void **state)
{
	static const char two[] = "GET /live HTTP/1.1\r\n\r\nGET /ready HTTP/1.1\r\n\r\n";
	struct http_request r;

	assert_int_equal(http_parse(two, sizeof(two) - 1, &r), 0);
	assert_true(span_eq(r.path, SPAN("/live")));
}

static void bound(void **state)
{
	char *p = malloc(HTTP_REQUEST_MAX);
	struct http_request r;

	memset(p, 'a', HTTP_REQUEST_MAX);
	assert_int_equal(http_parse(p, HTTP_REQUEST_MAX - 1, &r), HTTP_MORE);
	assert_int_equal(http_parse(p, HTTP_REQUEST_MAX, &r), 431);
	memcpy(p, "GET /x HTTP/1.1\r\nA: ", 20);
	memcpy(p + HTTP_REQUEST_MAX - 4, "\r\n\r\n", 4);
	assert_int_equal(http_parse(p, HTTP_REQUEST_MAX, &r), 0);
	free(p);
}

static void accepted_types(void **state)
{
	static const struct {
		const char *head, *accept;
		bool open;
	} accepts[] = {
		{ "GET / HTTP/1.1\r\n\r\n", "", false },
		{ "GET / HTTP/1.1\r\nHost: x\r\naccept:\t*/* \r\n\r\n", "*/*", false },
		{ "GET / HTTP/1.1\r\nX-Accept: no\r\nAccept: application/openmetrics-text\r\n\r\n",
		  "application/openmetrics-text", true },
		/* of Prometheus 2 and 3 */
		{ "GET / HTTP/1.1\nAccept: application/openmetrics-text;version=1.0.0,application/"
		  "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\n\n",
		  "application/openmetrics-text;version=1.0.0,application/"
		  "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", true },
		{ "GET / HTTP/1.1\nAccept: application/openmetrics-text; q=0.4 , text/plain; q=0.5\n\n",
		  "application/openmetrics-text; q=0.4 , text/plain; q=0.5", false },
		{ "GET / HTTP/1.1\nAccept: application/openmetrics-text;q=0\n\n",
		  "application/openmetrics-text;q=0", false },
		{ "GET / HTTP/1.1\nAccept: application/openmetrics-text;q=9x\n\n",
		  "application/openmetrics-text;q=9x", false },
		{ "GET / HTTP/1.1\nAccept: application/openmetrics-text;q=0.05,text/plain;q=0.049\n\n",
		  "application/openmetrics-text;q=0.05,text/plain;q=0.049", true },
	};
	struct http_request r;

	for (size_t i = 0; i < sizeof(accepts) / sizeof(accepts[0]); i++) {
		size_t n = strlen(accepts[i].head);

		assert_int_equal(http_parse(edge(accepts[i].head, n), n, &r), 0);
		if (!span_eq(r.accept, span_str(accepts[i].accept)) ||
		    http_wants_openmetrics(r.accept) != accepts[i].open)
			fail_msg("case %zu", i);
	}
}

static void answer_heads(void **state)
{
	char out[HTTP_HEAD_MAX];
	size_t n = http_head(out, 200, "text/plain", 12);

	assert_true(n < sizeof(out));
	assert_int_equal(memcmp(out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
				"Content-Length: 12\r\nX-Content-Type-Options: nosniff\r\n"
				"X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
				"Cache-Control: no-store\r\nConnection: close\r\n\r\n", n), 0);
	http_head(out, 405, "text/plain", 0);
	assert_non_null(strstr(out, "\r\nAllow: GET, HEAD\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads),
		cmocka_unit_test(later_bytes_do_not_matter),
		cmocka_unit_test(bound),
		cmocka_unit_test(accepted_types),
		cmocka_unit_test(answer_heads),
	};

	return cmocka_run_group_tests_name("loop/http", tests, NULL, NULL);
}
