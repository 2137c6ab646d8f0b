/* json_ref.h - a reference JSON reader for tests of the scanner: recursive, byte by byte, with
 * strings decoded by code point. A valid text gives a log of events; any other text gives false. It
 * reads only whole texts. For unit tests. */
#ifndef TESTS_JSON_REF_H
#define TESTS_JSON_REF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/json.h"

struct log {
	char *p;
	size_t n, cap;
};

static inline void log_bytes(struct log *l, const void *p, size_t n)
{
	if (l->n + n + 1 > l->cap) {
		l->cap = 2 * (l->n + n + 1);
		l->p = realloc(l->p, l->cap);
		if (l->p == NULL)
			abort();
	}
	if (n > 0)
		memcpy(l->p + l->n, p, n);
	l->n += n;
	l->p[l->n] = '\0';
}

/* Log an event: its depth and its letter. */
static inline void log_event(struct log *l, unsigned depth, char what)
{
	char head[32];

	log_bytes(l, head, (size_t)snprintf(head, sizeof(head), "%u%c ", depth, what));
}

static inline void log_text(struct log *l, const void *p, size_t n)
{
	char head[32];

	log_bytes(l, head, (size_t)snprintf(head, sizeof(head), "%zu:", n));
	log_bytes(l, p, n);
	log_bytes(l, "\n", 1);
}

struct ref {
	const unsigned char *p, *end;
	struct log *log;
	unsigned max_depth;
};

static inline bool ref_eat(struct ref *r, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
		return false;
	r->p += n;
	return true;
}

static inline void ref_space(struct ref *r)
{
	while (r->p < r->end && *r->p != '\0' && strchr(" \t\r\n", *r->p) != NULL)
		r->p++;
}

static inline void ref_put(struct log *out, uint32_t c)
{
	unsigned char u[4] = { 0 };
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[5] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t i;

	for (i = n; i-- > 0; c >>= 6)
		u[i] = (unsigned char)(i > 0 ? 0x80 | (c & 0x3f) : lead[n] | c);
	log_bytes(out, u, n);
}

/* Return whether <c> may follow the lead byte: Unicode 15, table 3-7. */
static inline bool ref_second(unsigned lead, unsigned c)
{
	if (lead == 0xe0)
		return c >= 0xa0 && c <= 0xbf;
	if (lead == 0xed)
		return c >= 0x80 && c <= 0x9f;
	if (lead == 0xf0)
		return c >= 0x90 && c <= 0xbf;
	if (lead == 0xf4)
		return c >= 0x80 && c <= 0x8f;
	return c >= 0x80 && c <= 0xbf;
}

static inline void ref_utf8(struct ref *r, struct log *out)
{
	unsigned lead = *r->p++, n, i;
	uint32_t c;

	n = lead >= 0xc2 && lead <= 0xdf ? 1 : lead >= 0xe0 && lead <= 0xef ? 2 :
	    lead >= 0xf0 && lead <= 0xf4 ? 3 : 0;
	c = n == 1 ? lead & 0x1f : n == 2 ? lead & 0x0f : lead & 0x07;
	for (i = 0; i < n; i++, r->p++) {
		if (r->p == r->end)
			break;
		if (i == 0 ? !ref_second(lead, *r->p) : (*r->p & 0xc0) != 0x80)
			break;
		c = c << 6 | (*r->p & 0x3f);
	}
	ref_put(out, n == 0 || i < n ? 0xfffd : c);
}

static inline int ref_hex4(struct ref *r)
{
	char digits[5] = { 0 };
	int i;

	if (r->end - r->p < 4)
		return -1;
	for (i = 0; i < 4; i++)
		if (*r->p == '\0' || strchr("0123456789abcdefABCDEF", *r->p) == NULL)
			return -1;
		else
			digits[i] = (char)*r->p++;
	return (int)strtol(digits, NULL, 16);
}

static inline bool ref_unicode(struct ref *r, struct log *out)
{
	const unsigned char *back;
	int v = ref_hex4(r), low;

	if (v < 0)
		return false;
	if (v >= 0xd800 && v < 0xdc00) {
		back = r->p;
		if (ref_eat(r, "\\u")) {
			low = ref_hex4(r);
			if (low >= 0xdc00 && low < 0xe000) {
				ref_put(out, 0x10000u + (uint32_t)(v - 0xd800) * 0x400 +
					     (uint32_t)(low - 0xdc00));
				return true;
			}
		}
		r->p = back;
	}
	ref_put(out, v >= 0xd800 && v < 0xe000 ? 0xfffd : (uint32_t)v);
	return true;
}

/* Read a string from after its opening quote. */
static inline bool ref_string(struct ref *r, struct log *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *e;

	for (;;) {
		if (r->p == r->end)
			return false;
		if (*r->p == '"') {
			r->p++;
			return true;
		}
		if (*r->p >= 0x80) {
			ref_utf8(r, out);
		} else if (*r->p != '\\') {
			log_bytes(out, r->p++, 1);
		} else {
			if (++r->p == r->end)
				return false;
			if (*r->p == 'u') {
				r->p++;
				if (!ref_unicode(r, out))
					return false;
			} else if (*r->p != '\0' && (e = strchr(from, *r->p)) != NULL) {
				log_bytes(out, to + (e - from), 1);
				r->p++;
			} else {
				return false;
			}
		}
	}
}

static inline bool ref_digits(struct ref *r)
{
	const unsigned char *p = r->p;

	while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
		r->p++;
	return r->p > p;
}

static inline bool ref_number(struct ref *r, unsigned depth)
{
	const unsigned char *p = r->p;

	ref_eat(r, "-");
	if (!ref_eat(r, "0") && !ref_digits(r))
		return false;
	if (ref_eat(r, ".") && !ref_digits(r))
		return false;
	if (ref_eat(r, "e") || ref_eat(r, "E")) {
		if (!ref_eat(r, "+"))
			ref_eat(r, "-");
		if (!ref_digits(r))
			return false;
	}
	if (r->p - p > JSON_NUMBER_MAX)
		return false;
	log_event(r->log, depth, 'n');
	log_text(r->log, p, (size_t)(r->p - p));
	return true;
}

static inline bool ref_text(struct ref *r, unsigned depth, char what)
{
	struct log out = { 0 };
	bool good = ref_string(r, &out);
	size_t n = what == 'k' && out.n > JSON_KEY_MAX ? JSON_KEY_MAX : out.n;

	log_event(r->log, depth, what);
	log_text(r->log, out.p, n);
	free(out.p);
	return good;
}

static inline bool ref_value(struct ref *r, unsigned depth);

static inline bool ref_members(struct ref *r, unsigned depth, bool object)
{
	const char *close = object ? "}" : "]";

	if (depth >= r->max_depth)
		return false;
	log_event(r->log, depth, object ? '{' : '[');
	for (ref_space(r); !ref_eat(r, close); ref_space(r)) {
		if (object) {
			if (!ref_eat(r, "\"") || !ref_text(r, depth + 1, 'k'))
				return false;
			ref_space(r);
			if (!ref_eat(r, ":"))
				return false;
			ref_space(r);
		}
		if (!ref_value(r, depth + 1))
			return false;
		ref_space(r);
		if (ref_eat(r, ",")) {
			ref_space(r);
			if (r->p < r->end && *r->p == (unsigned char)*close)
				return false;
		} else if (r->p == r->end || *r->p != (unsigned char)*close) {
			return false;
		}
	}
	log_event(r->log, depth, *close);
	return true;
}

static inline bool ref_value(struct ref *r, unsigned depth)
{
	if (r->p == r->end)
		return false;
	if (ref_eat(r, "{"))
		return ref_members(r, depth, true);
	if (ref_eat(r, "["))
		return ref_members(r, depth, false);
	if (ref_eat(r, "\""))
		return ref_text(r, depth, 's');
	if (ref_eat(r, "true") || ref_eat(r, "false") || ref_eat(r, "null")) {
		log_event(r->log, depth, r->p[-1] == 'l' ? '0' : r->p[-2] == 'u' ? '+' : '-');
		return true;
	}
	return ref_number(r, depth);
}

/* Read all of <p>, which must be one value with white space around it. */
static inline bool ref_read(const void *p, size_t n, unsigned max_depth, struct log *l)
{
	struct ref r = { p, (const unsigned char *)p + n, l, max_depth };

	l->n = 0;
	log_bytes(l, "", 0);
	ref_eat(&r, "\xef\xbb\xbf");
	ref_space(&r);
	if (!ref_value(&r, 0))
		return false;
	ref_space(&r);
	return r.p == r.end;
}

/* ---- the same log from the scanner ----------------------------------------------------------- */

struct recorder {
	struct json j;
	struct log log, text;
};

static inline void record_event(void *arg, const struct json *j, enum json_event ev, struct span t)
{
	struct recorder *r = arg;

	switch (ev) {
	case JSON_OBJECT: log_event(&r->log, j->depth, '{'); break;
	case JSON_OBJECT_END: log_event(&r->log, j->depth, '}'); break;
	case JSON_ARRAY: log_event(&r->log, j->depth, '['); break;
	case JSON_ARRAY_END: log_event(&r->log, j->depth, ']'); break;
	case JSON_TRUE: log_event(&r->log, j->depth, '+'); break;
	case JSON_FALSE: log_event(&r->log, j->depth, '-'); break;
	case JSON_NULL: log_event(&r->log, j->depth, '0'); break;
	case JSON_KEY: log_event(&r->log, j->depth, 'k'); log_text(&r->log, t.p, t.n); break;
	case JSON_NUMBER: log_event(&r->log, j->depth, 'n'); log_text(&r->log, t.p, t.n); break;
	case JSON_STRING: r->text.n = 0; break;
	case JSON_STRING_PART:
		if (t.n == 0)
			abort();	/* the scanner must not give empty parts */
		log_bytes(&r->text, t.p, t.n);
		break;
	case JSON_TEXT:
		abort();		/* not requested */
	case JSON_STRING_END:
		log_event(&r->log, j->depth, 's');
		log_text(&r->log, r->text.p, r->text.n);
		break;
	}
}

static inline void record_start(struct recorder *r, uint16_t max_depth,
    const struct json_scan *scan)
{
	r->log.n = r->text.n = 0;
	log_bytes(&r->log, "", 0);
	json_init(&r->j, max_depth, record_event, r);
	if (scan != NULL)
		r->j.scan = scan;
}

static inline void record_free(struct recorder *r)
{
	free(r->log.p);
	free(r->text.p);
}

#endif
