/* Parses a request head once it is complete: the empty line ends it, its size is bounded, and it is
 * read in one pass. Headers are skipped, except the first Accept, by which /metrics chooses its
 * format. A line may end in LF alone (RFC 9112, 2.2). Any other irregularity is a 400. The
 * connection ends after any answer. */
#include <stdio.h>
#include <strings.h>

#include "agent/loop/http.h"

static const char *status_reason(int status)
{
	switch (status) {
	case 200: return "OK";
	case 400: return "Bad Request";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 431: return "Request Header Fields Too Large";
	case 500: return "Internal Server Error";
	case 503: return "Service Unavailable";
	}
	return "Unknown";
}

/* Returns the bytes up to and including the empty line, or 0 if there is none yet. */
static size_t head_length(const char *p, size_t n)
{
	size_t i, line = 0;		/* length of the current line without CR */

	for (i = 0; i < n; i++) {
		if (p[i] == '\n') {
			if (line == 0)
				return i + 1;
			line = 0;
		} else if (p[i] != '\r') {
			line++;
		}
	}
	return 0;
}

/* Remove the next word from <*s>, up to a space, and return it. It is empty if there is none. */
static struct span next_word(struct span *s)
{
	struct span w = { s->p, 0 };

	while (w.n < s->n && s->p[w.n] != ' ')
		w.n++;
	s->p += w.n;
	s->n -= w.n;
	if (s->n > 0) {
		s->p++;
		s->n--;
	}
	return w;
}

static bool is_printable(struct span s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] <= 0x20 || (unsigned char)s.p[i] >= 0x7f)
			return false;
	return true;
}

static bool version_ok(struct span v)
{
	return v.n == 8 && memcmp(v.p, "HTTP/1.", 7) == 0 && (v.p[7] == '0' || v.p[7] == '1');
}

static struct span trimmed(struct span s)
{
	while (s.n > 0 && (*s.p == ' ' || *s.p == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t' || s.p[s.n - 1] == '\r'))
		s.n--;
	return s;
}

/* Return the part of <*s> before <c>, and leave the rest after it in <*s>. */
static struct span part_before(struct span *s, char c)
{
	const char *at = s->n > 0 ? memchr(s->p, c, s->n) : NULL;
	struct span part = { s->p, at != NULL ? (size_t)(at - s->p) : s->n };
	size_t used = part.n + (at != NULL);

	s->p += used;
	s->n -= used;
	return part;
}

static bool same_word(struct span s, const char *word)
{
	return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

/* Return the value of the first header <name> in <lines>; empty if there is none. */
static struct span header_of(struct span lines, const char *name)
{
	while (lines.n > 0) {
		struct span line = part_before(&lines, '\n');
		struct span key = part_before(&line, ':');

		if (same_word(key, name))
			return trimmed(line);
	}
	return span_of(NULL, 0);
}

/* Return the quality of an element of Accept in permille: 1000 without a parameter q, and 0 if it
 * is not of the form 0.ddd or 1.000. */
static int quality_of(struct span parameters)
{
	while (parameters.n > 0) {
		struct span value = trimmed(part_before(&parameters, ';'));
		struct span key = trimmed(part_before(&value, '='));
		int q, unit = 100;

		if (!same_word(key, "q"))
			continue;
		value = trimmed(value);
		if (value.n == 0 || value.n > 5 || (value.p[0] != '0' && value.p[0] != '1') ||
		    (value.n > 1 && value.p[1] != '.'))
			return 0;
		q = (value.p[0] - '0') * 1000;
		for (size_t i = 2; i < value.n; i++, unit /= 10) {
			if (value.p[i] < '0' || value.p[i] > '9')
				return 0;
			q += (value.p[i] - '0') * unit;
		}
		return q <= 1000 ? q : 0;
	}
	return 1000;
}

bool http_wants_openmetrics(struct span accept)
{
	int open = 0, plain = 0;

	while (accept.n > 0) {
		struct span element = part_before(&accept, ',');
		struct span type = trimmed(part_before(&element, ';'));
		int q = quality_of(element);

		if (same_word(type, "application/openmetrics-text"))
			open = q > open ? q : open;
		else if (same_word(type, "text/plain"))
			plain = q > plain ? q : plain;
	}
	return open > 0 && open >= plain;
}

int http_parse(const char *p, size_t n, struct http_request *r)
{
	struct span line = { p, 0 }, version;
	size_t head = head_length(p, n);
	const char *query;

	if (head == 0)
		return n >= HTTP_REQUEST_MAX ? 431 : HTTP_MORE;
	while (line.p[line.n] != '\n')
		line.n++;
	r->accept = header_of(span_of(p + line.n + 1, head - line.n - 1), "accept");
	if (line.n > 0 && line.p[line.n - 1] == '\r')
		line.n--;
	r->method = next_word(&line);
	r->path = next_word(&line);
	version = line;
	if (r->method.n == 0 || !is_printable(r->method) || !is_printable(r->path) || !version_ok(version))
		return 400;
	if (r->path.n == 0 || r->path.p[0] != '/')
		return 400;
	r->query = span_of(NULL, 0);
	query = memchr(r->path.p, '?', r->path.n);
	if (query != NULL) {
		r->query = span_of(query + 1, r->path.n - (size_t)(query - r->path.p) - 1);
		r->path.n = (size_t)(query - r->path.p);
	}
	return 0;
}

size_t http_head(char *out, int status, const char *type, size_t length)
{
	int n = snprintf(out, HTTP_HEAD_MAX,
			 "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
			 "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
			 "Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"
			 "Connection: close\r\n\r\n", status, status_reason(status), type, length,
			 status == 405 ? "Allow: GET, HEAD\r\n" : "");

	return n < 0 ? 0 : n < HTTP_HEAD_MAX ? (size_t)n : HTTP_HEAD_MAX - 1;
}

size_t http_head_endless(char *out, const char *type)
{
	return (size_t)snprintf(out, HTTP_HEAD_MAX,
	    "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n", type);
}
