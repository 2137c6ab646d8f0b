/* test_http_answer.c - answers to a GET, cut in any way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/feed/http_answer.h"
#include "tests/unit/edge.h"

struct told {
	char text[1024];
	size_t n;
};

static void take(void *arg, const char *p, size_t n)
{
	struct told *t = arg;

	if (n < sizeof(t->text) - t->n) {
		memcpy(t->text + t->n, p, n);
		t->n += n;
	}
}

/* The body, "|", and the result. */
static const char *feed(const char *p, size_t n, size_t size)
{
	static struct http_answer a;
	static struct told t;
	size_t used = 0;
	ssize_t rc = 0;

	memset(&t, 0, sizeof(t));
	http_answer_init(&a, take, &t);
	while (rc == 0 && used < n) {
		size_t k = n - used < size ? n - used : size;
		uint8_t *edge = edge_copy(p + used, k);

		rc = http_answer_feed(&a, edge, k);
		edge_free(edge, k);
		used += rc > 0 ? (size_t)rc : k;
	}
	if (rc == 0)
		rc = http_answer_eof(&a) == 0 ? 1 : a.error;
	if (rc < 0)
		sprintf(t.text + t.n, "| %s", http_answer_strerror((int)rc));
	else
		sprintf(t.text + t.n, "| %d%s%s", a.status, a.keep ? " keep" : "", used < n ? " more" : "");
	return t.text;
}

#define OK	"HTTP/1.1 200 OK\r\n"

static const struct { const char *name, *text, *want;
} cases[] = {
	{ "a length", OK "Content-Length: 3\r\n\r\nabc", "abc| 200 keep" },
	{ "and something behind it", OK "content-length:3 \r\n\r\nabcd", "abc| 200 keep more" },
	{ "nothing in it", OK "Content-Length: 0\r\n\r\n", "| 200 keep" },
	{ "until the end", OK "\r\nabc", "abc| 200" },
	{ "line feeds alone", "HTTP/1.1 200\nContent-Length: 3\n\nabc", "abc| 200 keep" },
	{ "asked to close", OK "Connection: Keep-Alive , CLOSE\r\nContent-Length: 3\r\n\r\nabc",
	    "abc| 200" },
	{ "1.0", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc| 200" },
	{ "1.0 that stays",
	    "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
	    "abc| 200 keep" },
	{ "chunks",
	    OK "Transfer-Encoding: "
	       "chunked\r\n\r\n3\r\nabc\r\n00a;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
	    "abc0123456789| 200 keep" },
	{ "no chunks", OK "transfer-encoding: Chunked\r\n\r\n0\r\n\r\n", "| 200 keep" },
	{ "another status", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
	    "no| 404 keep" },
	{ "without a body", "HTTP/1.1 204 No Content\r\n\r\n", "| 204 keep" },
	{ "to be continued",
	    "HTTP/1.1 100 Continue\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 "
	    "OK\r\nContent-Length: 1\r\n\r\na",
	    "a| 200 keep" },
	{ "headers that are not ours",
	    OK "Content-Lengthy: x\r\nX\r\nServer: uvicorn\r\nContent-Length: "
	       "1\r\n\r\na",
	    "a| 200 keep" },
	{ "the same length twice", OK "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
	    "a| 200 keep" },
	{ "two lengths", OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\na",
	    "| the length of the body "
	    "is ambiguous" },
	{ "a length and chunks",
	    OK "Content-Length: 1\r\nTransfer-Encoding: "
	       "chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	    "| the length of the body is ambiguous" },
	{ "a length that is none", OK "Content-Length: 1x\r\n\r\na",
	    "| the length of the body is "
	    "ambiguous" },
	{ "a length below", OK "Content-Length: -1\r\n\r\na",
	    "| the length of the body is ambiguous" },
	{ "a length of more digits", OK "Content-Length: 9999999999999999999\r\n\r\na",
	    "| the length of "
	    "the body is ambiguous" },
	{ "no length", OK "Content-Length:\r\n\r\na", "| the length of the body is ambiguous" },
	{ "another coding", OK "Transfer-Encoding: gzip, chunked\r\n\r\na",
	    "| the length of the body is "
	    "ambiguous" },
	{ "chunks twice", OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\na",
	    "| the length of the body is ambiguous" },
	{ "no size of a chunk", OK "Transfer-Encoding: chunked\r\n\r\n\r\nabc",
	    "| the length of the body "
	    "is ambiguous" },
	{ "words for a size", OK "Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc",
	    "| the length of the "
	    "body is ambiguous" },
	{ "a size of nine digits", OK "Transfer-Encoding: chunked\r\n\r\n000000001\r\na",
	    "| the length "
	    "of the body is ambiguous" },
	{ "more in a chunk than said", OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
	    "a| the length "
	    "of the body is ambiguous" },
	{ "cut in its head", OK "Content-Len",
	    "| the connection closed before the end of the answer" },
	{ "cut in its body", OK "Content-Length: 3\r\n\r\nab",
	    "ab| the connection closed before the end "
	    "of the answer" },
	{ "cut in a chunk", OK "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
	    "ab| the connection closed "
	    "before the end of the answer" },
	{ "cut before the last chunk", OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
	    "ab| the connection closed before the end of the answer" },
	{ "no answer", "", "| the connection closed before the end of the answer" },
	{ "another protocol", "SSH-2.0-OpenSSH_9.2\r\n", "| not HTTP/1" },
	{ "HTTP/2", "HTTP/2 200\r\n\r\n", "| not HTTP/1" },
	{ "statuses that are none", "HTTP/1.1 20\r\n\r\n", "| not HTTP/1" },
	{ "a status too long", "HTTP/1.1 2000\r\n\r\n", "| not HTTP/1" },
	{ "a version that is none", "HTTP/1.x 200\r\n\r\n", "| not HTTP/1" },
};

static void answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t size = 1; size < 1000; size = size * 3 + 1) {
			const char *got = feed(cases[i].text, strlen(cases[i].text), size);

			if (strcmp(got, cases[i].want) != 0)
				fail_msg("%s, %zu bytes a time:\ngot  %s\nwant %s", cases[i].name, size, got, cases[i].want);
		}
	}
}

/* ---- bounds ----------------------------------------------------------------------------- */

static char big[2 * HTTP_ANSWER_HEAD_MAX];

static const char *padded(const char *before, size_t n, const char *behind, size_t size)
{
	size_t at = strlen(before);

	memcpy(big, before, at);
	memset(big + at, 'x', n);
	strcpy(big + at + n, behind);
	return feed(big, at + n + strlen(behind), size);
}

static void a_head_just_fits(void **state)
{
	static const char end[] = "\r\nContent-Length: 1\r\n\r\na";
	size_t room = HTTP_ANSWER_HEAD_MAX - strlen(OK "X: ") - (strlen(end) - 1);

	(void)state;
	for (size_t size = 1; size < 20000; size *= 140) {
		assert_string_equal(padded(OK "X: ", room, end, size), "a| 200 keep");
		assert_string_equal(padded(OK "X: ", room + 1, end, size), "| the head is too long");
		assert_string_equal(padded(OK "X: ", 2 * room, "", size), "| the head is too long");
	}
	assert_string_equal(padded("x", 2 * room, "", SIZE_MAX), "| not HTTP/1");
	assert_string_equal(padded("HTTP/", 2 * room, "", SIZE_MAX), "| the head is too long");
	assert_string_equal(padded(OK "Content-Length: 1", 300, "\r\n\r\n", SIZE_MAX), "| the length of "
		"the body is ambiguous");
	assert_string_equal(
	    padded(OK "Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", 2 * room, "", SIZE_MAX),
	    "| the head is too long");
}

static void a_body_has_an_end(void **state)
{
	static const char head[] = OK "\r\n", part[1 << 20];
	static struct http_answer a;
	struct told t = { .n = sizeof(t.text) };

	(void)state;
	http_answer_init(&a, take, &t);
	assert_int_equal(http_answer_feed(&a, head, strlen(head)), 0);
	for (int i = 0; i < 32; i++)
		assert_int_equal(http_answer_feed(&a, part, sizeof(part)), 0);
	assert_int_equal(http_answer_feed(&a, part, 1), -HTTP_ANSWER_E_BODY);
	assert_int_equal(http_answer_feed(&a, part, 0), -HTTP_ANSWER_E_BODY);
	assert_int_equal(http_answer_eof(&a), -HTTP_ANSWER_E_BODY);
}

static void every_error_has_a_text(void **state)
{
	(void)state;
	for (int e = 0; e < HTTP_ANSWER_E_COUNT; e++)
		assert_true(strlen(http_answer_strerror(-e)) > 5);
	assert_string_equal(http_answer_strerror(-99), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(a_head_just_fits),
		cmocka_unit_test(a_body_has_an_end),
		cmocka_unit_test(every_error_has_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
