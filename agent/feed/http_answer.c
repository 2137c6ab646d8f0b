/* Parse an HTTP/1 response line by line. Only the start of each line is buffered; the body is
 * passed on as it arrives. */
#include "agent/base/num.h"
#include "agent/feed/http_answer.h"

const char *http_answer_strerror(int error)
{
	static const char *const texts[HTTP_ANSWER_E_COUNT] = {
		"no error",
		"not HTTP/1",
		"the head is too long",
		"the length of the body is ambiguous",
		"the body is too long",
		"the connection closed before the end of the answer",
	};

	if (error < 0)
		error = -error;
	return error < HTTP_ANSWER_E_COUNT ? texts[error] : "unknown error";
}

void http_answer_init(struct http_answer *a, http_answer_fn *body, void *arg)
{
	memset(a, 0, sizeof(*a));
	a->body = body;
	a->arg = arg;
	a->length = -1;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Parse "HTTP/1.1 200", followed by the end of the line or a blank. */
static int status_line(struct http_answer *a, struct span s)
{
	if (s.n < 12 || memcmp(s.p, "HTTP/1.", 7) != 0 || !is_digit(s.p[7]) || s.p[8] != ' ' ||
	    !is_digit(s.p[9]) || !is_digit(s.p[10]) || !is_digit(s.p[11]) ||
	    (s.n > 12 && s.p[12] != ' '))
		return -HTTP_ANSWER_E_FOREIGN;
	a->status = (s.p[9] - '0') * 100 + (s.p[10] - '0') * 10 + (s.p[11] - '0');
	a->keep = s.p[7] != '0';
	a->at = HTTP_AT_HEADER;
	return 0;
}

static bool same(struct span s, const char *lower)
{
	size_t n = strlen(lower);

	return s.n == n && (n == 0 || strncasecmp(s.p, lower, n) == 0);
}

static struct span trimmed(struct span s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = span_of(s.p + 1, s.n - 1);
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* Tell if <word> is an element of a list with commas. */
static bool lists(struct span list, const char *word)
{
	while (list.n > 0) {
		const char *comma = memchr(list.p, ',', list.n);
		size_t n = comma ? (size_t)(comma - list.p) : list.n;

		if (same(trimmed(span_of(list.p, n)), word))
			return true;
		n += comma != NULL;
		list = span_of(list.p + n, list.n - n);
	}
	return false;
}

static int content_length(struct http_answer *a, struct span value)
{
	int64_t n;

	if (value.n == 0 || !is_digit(value.p[0]) || !num_parse(value, &n) ||
	    (a->length >= 0 && a->length != n))
		return -HTTP_ANSWER_E_LENGTH;
	a->length = n;
	return 0;
}

static int header(struct http_answer *a, struct span line, bool whole)
{
	const char *colon = memchr(line.p, ':', line.n);
	struct span name, value;

	if (colon == NULL)
		return 0;	/* ignored */
	name = span_of(line.p, (size_t)(colon - line.p));
	value = trimmed(span_of(colon + 1, line.n - name.n - 1));
	if (same(name, "content-length"))
		return whole ? content_length(a, value) : -HTTP_ANSWER_E_LENGTH;
	if (same(name, "transfer-encoding")) {
		if (!whole || a->chunked || !same(value, "chunked"))
			return -HTTP_ANSWER_E_LENGTH;
		a->chunked = true;
	} else if (same(name, "connection")) {
		a->keep = (a->keep || lists(value, "keep-alive")) && whole && !lists(value, "close");
	}
	return 0;
}

/* Handle the empty line after the headers. */
static int head_end(struct http_answer *a)
{
	if (a->status < 200) {
		http_answer_init(a, a->body, a->arg);
		return 0;
	}
	if (a->chunked && a->length >= 0)
		return -HTTP_ANSWER_E_LENGTH;
	a->head_bytes = 0;
	a->left = a->length > 0 ? (uint64_t)a->length : 0;
	if (a->chunked)
		a->at = HTTP_AT_CHUNK;
	else if (a->status == 204 || a->status == 304 || a->length == 0)
		a->at = HTTP_AT_END;
	else
		a->at = HTTP_AT_BODY;
	if (a->length < 0 && a->at == HTTP_AT_BODY)
		a->keep = false;
	return 0;
}

/* Parse the size of a chunk: hexadecimal digits, then an optional extension after ';'. */
static int chunk_line(struct http_answer *a, struct span s)
{
	size_t i;

	a->left = 0;
	for (i = 0; i < s.n; i++) {
		char c = s.p[i];
		int digit = num_hex(c);

		if (digit < 0)
			break;
		if (i == 8)
			return -HTTP_ANSWER_E_LENGTH;
		a->left = a->left * 16 + (uint64_t)digit;
	}
	if (i == 0 || (i < s.n && s.p[i] != ';' && s.p[i] != ' ' && s.p[i] != '\t'))
		return -HTTP_ANSWER_E_LENGTH;
	a->head_bytes = 0;
	a->at = a->left > 0 ? HTTP_AT_DATA : HTTP_AT_TRAILER;
	return 0;
}

static int line_end(struct http_answer *a)
{
	bool whole = a->n_line <= HTTP_ANSWER_LINE_MAX;
	struct span s = span_of(a->line, whole ? a->n_line : HTTP_ANSWER_LINE_MAX);

	a->n_line = 0;
	if (s.n > 0 && whole && s.p[s.n - 1] == '\r')
		s.n--;
	switch (a->at) {
	case HTTP_AT_STATUS:
		return status_line(a, s);
	case HTTP_AT_HEADER:
		return s.n == 0 ? head_end(a) : header(a, s, whole);
	case HTTP_AT_CHUNK:
		return chunk_line(a, s);
	case HTTP_AT_DATA_END:
		a->at = HTTP_AT_CHUNK;
		return s.n == 0 ? 0 : -HTTP_ANSWER_E_LENGTH;
	default:
		if (s.n == 0)
			a->at = HTTP_AT_END;
		return 0;
	}
}

/* Consume one line at most: status line, header, size of a chunk or trailer. Returns the bytes
 * used. */
static ssize_t in_line(struct http_answer *a, const char *p, size_t n)
{
	const char *lf = memchr(p, '\n', n);
	size_t len = lf ? (size_t)(lf - p) : n, room = HTTP_ANSWER_LINE_MAX + 1 - a->n_line,
	       k = len < room ? len : room;
	int rc;

	memcpy(a->line + a->n_line, p, k);
	a->n_line += (uint32_t)k;
	if (a->at == HTTP_AT_STATUS && a->n_line >= 5 && memcmp(a->line, "HTTP/", 5) != 0)
		return -HTTP_ANSWER_E_FOREIGN;
	if (len >= HTTP_ANSWER_HEAD_MAX - a->head_bytes)
		return -HTTP_ANSWER_E_HEAD;
	a->head_bytes += (uint32_t)len + 1;
	if (lf == NULL) {
		a->head_bytes--;
		return (ssize_t)len;
	}
	rc = line_end(a);
	return rc < 0 ? rc : (ssize_t)len + 1;
}

static ssize_t in_body(struct http_answer *a, const char *p, size_t n)
{
	bool bounded = a->at == HTTP_AT_DATA || a->length >= 0;
	size_t k = bounded && a->left < n ? (size_t)a->left : n;

	if (k > HTTP_ANSWER_BODY_MAX - a->body_bytes)
		return -HTTP_ANSWER_E_BODY;
	a->body_bytes += k;
	a->body(a->arg, p, k);
	if (!bounded)
		return (ssize_t)k;
	a->left -= k;
	if (a->left == 0)
		a->at = a->at == HTTP_AT_DATA ? HTTP_AT_DATA_END : HTTP_AT_END;
	return (ssize_t)k;
}

ssize_t http_answer_feed(struct http_answer *a, const void *p, size_t n)
{
	const char *text = p;
	size_t used = 0;
	ssize_t k;

	while (a->error == 0 && used < n && a->at != HTTP_AT_END) {
		if (a->at == HTTP_AT_BODY || a->at == HTTP_AT_DATA)
			k = in_body(a, text + used, n - used);
		else
			k = in_line(a, text + used, n - used);
		if (k < 0)
			a->error = (int)k;
		else
			used += (size_t)k;
	}
	if (a->error < 0)
		return a->error;
	return a->at == HTTP_AT_END ? (ssize_t)used : 0;
}

int http_answer_eof(struct http_answer *a)
{
	a->keep = false;
	if (a->error == 0 && a->at == HTTP_AT_BODY && a->length < 0)
		a->at = HTTP_AT_END;
	if (a->error == 0 && a->at != HTTP_AT_END)
		a->error = -HTTP_ANSWER_E_CUT;
	return a->error;
}
