/* http - the request parser of the metrics listener.
 *
 * The result for a request head does not depend on later bytes. The parser accepts the requests
 * that a slow reader of the first line accepts, and its results lie within the input. Any header
 * Accept can be judged. */
#include "agent/loop/http.h"
#include "tests/fuzz/lib/fuzz.h"

/* Find a line of nothing but CRs. Returns the end of the head, or 0. */
static size_t slow_end(const char *p, size_t n)
{
	size_t i, k, start = 0;

	for (i = 0; i < n; i++) {
		if (p[i] != '\n')
			continue;
		for (k = start; k < i && p[k] == '\r'; k++)
			;
		if (k == i)
			return i + 1;
		start = i + 1;
	}
	return 0;
}

static bool visible(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

/* "METHOD /path HTTP/1.0" or 1.1, one space each. */
static bool slow_line(const char *p, struct span *method, struct span *path)
{
	size_t n = (size_t)((const char *)strchr(p, '\n') - p), last;
	const char *space;

	if (n > 0 && p[n - 1] == '\r')
		n--;
	if (n < 12 || (memcmp(p + n - 9, " HTTP/1.0", 9) != 0 && memcmp(p + n - 9, " HTTP/1.1", 9) != 0))
		return false;
	last = n - 9;
	space = memchr(p, ' ', last);
	if (space == NULL)
		return false;
	*method = span_of(p, (size_t)(space - p));
	*path = span_of(space + 1, last - method->n - 1);
	return visible(*method) && visible(*path) && path->p[0] == '/';
}

/* Write answers of every known status and some unknown ones; each ends within its room. */
static void check_answer(size_t length)
{
	static const int status[] = { 200, 400, 404, 405, 431, 500, 503, 0, -1 };
	char *head = must_alloc(malloc(HTTP_HEAD_MAX));
	size_t i, n;

	for (i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		n = http_head(head, status[i], "text/plain; version=0.0.4", length);
		must(n > 4 && n < HTTP_HEAD_MAX && strlen(head) == n);
		must(memcmp(head + n - 4, "\r\n\r\n", 4) == 0);
	}
	free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = must_alloc(malloc(size + 1));
	struct http_request whole = { 0 }, cut = { 0 };
	struct span method = { 0 }, path = { 0 }, query;
	size_t end, k;
	int rc, rc_cut;

	memcpy(text, data, size);
	text[size] = '\0';
	rc = http_parse((const char *)data, size, &whole);
	end = memchr(data, '\0', size) != NULL ? 0 : slow_end(text, size);
	if (memchr(data, '\0', size) == NULL) {
		if (end == 0)
			must(rc == (size >= HTTP_REQUEST_MAX ? 431 : HTTP_MORE));
		else
			must(rc == (slow_line(text, &method, &path) ? 0 : 400));
	}
	if (rc == 0) {
		must(span_within(whole.method, data, size) && span_within(whole.path, data, size));
		must(visible(whole.method) && whole.path.p[0] == '/');
		must(whole.accept.n == 0 || span_within(whole.accept, data, size));
		http_wants_openmetrics(whole.accept);
	}
	if (rc == 0 && end > 0) {
		query = span_of(path.p, path.n);
		if (memchr(path.p, '?', path.n) != NULL)
			query.n = (size_t)((const char *)memchr(path.p, '?', path.n) - path.p);
		must(span_eq(method, whole.method) && span_eq(query, whole.path));
	}
	for (k = 0; k < size; k++) {	/* byte by byte, as it may come; long ones line by line */
		if (size > 300 && k > 0 && data[k - 1] != '\n')
			continue;
		rc_cut = http_parse((const char *)data, k, &cut);
		if (rc_cut == HTTP_MORE)
			continue;
		must(rc_cut == 431 || rc_cut == rc);
		if (rc_cut == 0)
			must(span_eq(cut.method, whole.method) && span_eq(cut.path, whole.path));
		break;
	}
	check_answer(size);
	free(text);
	return 0;
}
