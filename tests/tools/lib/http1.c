/* http1.c - heads and bodies.
 *
 * A head is parsed at once when its empty line has arrived; before that only the search for it is
 * repeated, which HTTP_HEAD_MAX bounds. Ambiguous heads (two lengths, a length and chunks, white
 * space before a colon) are rejected. Trailers are read and dropped. */
#include "tests/tools/lib/http1.h"

#include <stdlib.h>
#include <strings.h>

enum { CHUNK_SIZE, CHUNK_EXT, CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF,
       TRAILER_START, TRAILER, TRAILER_END_LF };

#define CHUNK_MAX	(UINT64_C(1) << 40)

static struct span trim(struct span s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
		s.n--;
	return s;
}

static bool same_word(struct span s, const char *word)
{
	return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

/* Return the line at <*s>, without its end, and move <*s> after it. */
static struct span line_next(struct span *s)
{
	const char *nl = memchr(s->p, '\n', s->n);
	struct span line = span_of(s->p, nl ? (size_t)(nl - s->p) : s->n);

	s->n -= nl ? line.n + 1 : line.n;
	s->p += nl ? line.n + 1 : line.n;
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

static bool version(struct span s, struct http_head *h)
{
	if (s.n != 8 || memcmp(s.p, "HTTP/1.", 7) || (s.p[7] != '0' && s.p[7] != '1'))
		return false;
	h->minor = s.p[7] - '0';
	h->close = h->minor == 0;
	return true;
}

static bool request_line(struct span s, struct http_head *h)
{
	const char *a = memchr(s.p, ' ', s.n), *b;

	if (a == NULL)
		return false;
	h->method = span_of(s.p, (size_t)(a - s.p));
	s.n -= h->method.n + 1;
	s.p = a + 1;
	if ((b = memchr(s.p, ' ', s.n)) == NULL)
		return false;
	h->target = span_of(s.p, (size_t)(b - s.p));
	for (size_t i = 0; i < h->method.n; i++)
		if (h->method.p[i] < 'A' || h->method.p[i] > 'Z')
			return false;
	return h->method.n && h->target.n &&
	       version(span_of(b + 1, s.n - h->target.n - 1), h);
}

static bool status_line(struct span s, struct http_head *h)
{
	if (s.n < 12 || !version(span_of(s.p, 8), h) || s.p[8] != ' ')
		return false;
	for (int i = 9; i < 12; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		h->status = h->status * 10 + s.p[i] - '0';
	}
	return h->status >= 100 && (s.n == 12 || s.p[12] == ' ');
}

static bool length_field(struct span v, struct http_head *h)
{
	int64_t n = 0;

	if (v.n == 0 || v.n > 15)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
		n = n * 10 + v.p[i] - '0';
	}
	if (h->length >= 0 && h->length != n)
		return false;
	h->length = n;
	return true;
}

/* Read the header fields that the tools use. */
static bool known_field(const struct http_field *f, struct http_head *h)
{
	if (same_word(f->name, "content-length"))
		return length_field(f->value, h);
	if (same_word(f->name, "transfer-encoding")) {
		h->chunked = same_word(f->value, "chunked");
		return h->chunked;
	}
	if (same_word(f->name, "connection")) {
		if (same_word(f->value, "close"))
			h->close = true;
		else if (same_word(f->value, "keep-alive"))
			h->close = false;
	}
	if (same_word(f->name, "expect"))
		h->expect = same_word(f->value, "100-continue");
	return true;
}

static bool field_line(struct span s, struct http_head *h)
{
	const char *colon = memchr(s.p, ':', s.n);
	struct http_field *f;

	if (colon == NULL || colon == s.p || h->n == HTTP_FIELDS_MAX)
		return false;
	f = &h->fields[h->n++];
	f->name = span_of(s.p, (size_t)(colon - s.p));
	f->value = trim(span_of(colon + 1, s.n - f->name.n - 1));
	for (size_t i = 0; i < f->name.n; i++)
		if ((unsigned char)f->name.p[i] <= ' ' || (unsigned char)f->name.p[i] >= 0x7f)
			return false;
	return known_field(f, h);
}

/* Bytes up to and with the empty line; 0 when it is not here yet. */
static size_t head_end(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *nl = memchr(p + i, '\n', n - i);

		if (nl == NULL)
			return 0;
		i = (size_t)(nl - p);
		if (i + 1 < n && p[i + 1] == '\n')
			return i + 2;
		if (i + 2 < n && p[i + 1] == '\r' && p[i + 2] == '\n')
			return i + 3;
	}
	return 0;
}

static ssize_t head(const char *p, size_t n, struct http_head *h, bool response)
{
	size_t skip = 0, end;
	struct span rest, line;

	/* one or two empty lines before a request are ignored: RFC 9112, 2.2 */
	while (!response && skip < n && skip < 4 && (p[skip] == '\r' || p[skip] == '\n'))
		skip++;
	end = head_end(p + skip, n - skip);
	if (end == 0)
		return n > HTTP_HEAD_MAX ? -1 : 0;
	if (end > HTTP_HEAD_MAX)
		return -1;
	memset(h, 0, offsetof(struct http_head, fields));
	h->length = -1;
	rest = span_of(p + skip, end);
	line = line_next(&rest);
	if (response ? !status_line(line, h) : !request_line(line, h))
		return -1;
	while ((line = line_next(&rest)).n)
		if (!field_line(line, h))
			return -1;
	if (h->chunked && h->length >= 0)
		return -1;
	return (ssize_t)(skip + end);
}

ssize_t http_request_head(const char *p, size_t n, struct http_head *h)
{
	return head(p, n, h, false);
}

ssize_t http_response_head(const char *p, size_t n, struct http_head *h)
{
	return head(p, n, h, true);
}

struct span http_field(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (same_word(h->fields[i].name, name))
			return h->fields[i].value;
	return (struct span){ "", 0 };
}

void http_body_init(struct http_body *b, const struct http_head *h, bool response)
{
	*b = (struct http_body){ .kind = HTTP_BODY_NONE, .done = true };
	if (response && (h->status < 200 || h->status == 204 || h->status == 304))
		return;
	if (h->chunked)
		b->kind = HTTP_BODY_CHUNKED;
	else if (h->length > 0)
		b->kind = HTTP_BODY_LENGTH;
	else if (response && h->length < 0)
		b->kind = HTTP_BODY_CLOSE;
	b->left = h->length > 0 ? (uint64_t)h->length : 0;
	b->done = b->kind == HTTP_BODY_NONE;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		return (c | 0x20) - 'a' + 10;
	return -1;
}

/* One byte that is not chunk data; false when it cannot stand here. <b->left> is the size being
 * read; its digits end at the first byte that is none. */
static bool chunk_byte(struct http_body *b, char c)
{
	switch (b->state) {
	case CHUNK_SIZE:
		if (hex_digit(c) >= 0) {
			b->left = b->left * 16 + (uint64_t)hex_digit(c);
			return b->left < CHUNK_MAX;
		}
		b->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXT;
		return c == '\r' || c == ';' || c == ' ' || c == '\t';
	case CHUNK_EXT:
		if (c == '\r')
			b->state = CHUNK_SIZE_LF;
		return c != '\n';
	case CHUNK_SIZE_LF:
		b->state = b->left ? CHUNK_DATA : TRAILER_START;
		return c == '\n';
	case CHUNK_DATA_CR:
		b->state = CHUNK_DATA_LF;
		return c == '\r';
	case CHUNK_DATA_LF:
		b->state = CHUNK_SIZE;
		return c == '\n';
	case TRAILER_START:
		b->state = c == '\r' ? TRAILER_END_LF : TRAILER;
		return c != '\n';
	case TRAILER:
		if (c == '\n')
			b->state = TRAILER_START;
		return true;
	default:	/* TRAILER_END_LF */
		b->done = true;
		return c == '\n';
	}
}

static ssize_t chunked_feed(struct http_body *b, const char *p, size_t n, struct buf *out)
{
	size_t i = 0;

	while (i < n && !b->done) {
		if (b->state == CHUNK_DATA) {
			size_t take = n - i < b->left ? n - i : (size_t)b->left;

			buf_put(out, p + i, take);
			i += take;
			b->left -= take;
			if (b->left == 0)
				b->state = CHUNK_DATA_CR;
		} else if (!chunk_byte(b, p[i++])) {
			return -1;
		}
	}
	return (ssize_t)i;
}

ssize_t http_body_feed(struct http_body *b, const char *p, size_t n, struct buf *out)
{
	switch (b->kind) {
	case HTTP_BODY_CHUNKED:
		return chunked_feed(b, p, n, out);
	case HTTP_BODY_LENGTH:
		if (n > b->left)
			n = (size_t)b->left;
		b->left -= n;
		b->done = b->left == 0;
		buf_put(out, p, n);
		return (ssize_t)n;
	case HTTP_BODY_CLOSE:
		buf_put(out, p, n);
		return (ssize_t)n;
	default:
		return 0;
	}
}

void http_put_chunk(struct buf *out, struct span data)
{
	buf_putf(out, "%zx\r\n", data.n);
	buf_put(out, data.p, data.n);
	buf_puts(out, "\r\n");
}
