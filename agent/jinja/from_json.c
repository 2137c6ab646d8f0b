/* Convert JSON text to values in one pass.
 *
 * agent/base/json.h reads text in pieces and reports events. Here the text is complete, and
 * strings without escapes, nearly all bytes of a chat, can be borrowed from it. This is
 * therefore a reader of its own over the same inner loops (json_scan.h: 16 or 32 bytes per step,
 * with UTF-8 validation). Members and items are collected on a stack and copied to the arena
 * when their list ends, at its exact size. Recursion is bounded by <max_depth>. */
#include <errno.h>
#include <stdlib.h>

#include "agent/base/json_scan.h"
#include "agent/base/json_text.h"
#include "agent/base/vec.h"
#include "agent/jinja/run_in.h"

struct reader {
	struct jinja_mem *m;
	const struct json_scan *scan;
	const char *p, *end;
	unsigned depth;
	VEC(struct jval) stack;
	uint64_t values;	/* values left */
	bool no_memory;
};

static bool no_mem(struct reader *r)
{
	r->no_memory = true;
	return false;
}

static bool push(struct reader *r, struct jval v)
{
	return vec_push(&r->stack, v) == 0 || no_mem(r);
}

static void skip_blanks(struct reader *r)
{
	r->p = json_blanks(r->p, r->end);
}

/* ---- strings ----------------------------------------------------------------------------- */

/* Return the closing quote of the string that <p> is inside of, or NULL. */
static const char *closing(const char *p, const char *end)
{
	while ((p = memchr(p, '"', (size_t)(end - p))) != NULL) {
		const char *q = p;

		while (q[-1] == '\\')
			q--;
		if ((p - q) % 2 == 0)
			return p;
		p++;
	}
	return NULL;
}

/* Charge escapes: four count as a value. Each shortens the text by at least one byte. */
static void pay_escapes(struct reader *r, size_t written, size_t read)
{
	uint64_t n = written > read ? (written - read) / 4 : 0;

	r->values = n < r->values ? r->values - n : 0;
}

/* Decode a string that cannot be borrowed; it starts at <from>, and r->p is at the first byte
 * that needs decoding. Escapes shorten the text, but each bad byte may become three. */
static bool decode(struct reader *r, const char *from, struct jval *out)
{
	const char *quote = closing(from, r->end), *q;
	size_t room, n, m;
	char *buf, *o, *limit;

	if (quote == NULL)
		return false;
	room = (size_t)(quote - from) + JSON_COPY_ROOM;
	q = r->p + utf8_ascii((const uint8_t *)r->p, (size_t)(quote - r->p));
	if (q < quote)
		room = (size_t)(q - from) + (size_t)(quote - q) * 3 + JSON_COPY_ROOM;
	buf = jinja_mem_take(r->m, room);
	if (buf == NULL)
		return no_mem(r);
	limit = buf + room;
	o = buf + (r->p - from);
	memcpy(buf, from, (size_t)(r->p - from));
	while (r->p < quote) {
		r->p = r->scan->copy(r->p, quote, &o, limit, false);
		if (r->p == quote)
			break;
		if (*r->p == '\\') {
			if ((n = json_escape(r->p, r->end, true, o, &m)) == 0)
				return false;
			r->p += n;
			o += m;
			continue;
		}
		q = r->scan->plain(r->p, quote);
		memcpy(o, r->p, (size_t)(q - r->p));
		o += q - r->p;
		r->p = q;
		if (q < quote && *q != '\\') {
			o += utf8_put(o, 0xfffd);
			r->p += utf8_bad((const uint8_t *)q, (size_t)(quote - q));
		}
	}
	r->p = quote + 1;
	*out = jval_str(buf, (size_t)(o - buf));
	pay_escapes(r, (size_t)(quote - from), out->n);
	return true;
}

static bool read_string(struct reader *r, struct jval *out)
{
	const char *from = ++r->p;

	r->p = r->scan->plain(r->p, r->end);
	if (r->p == r->end)
		return false;
	if (*r->p != '"')
		return decode(r, from, out);
	*out = jval_str(from, (size_t)(r->p - from));
	r->p++;
	return true;
}

/* ---- numbers ----------------------------------------------------------------------------- */

static bool read_float(struct reader *r, const char *from, struct jval *out)
{
	size_t n = (size_t)(r->p - from);
	char small[64], *text = small;

	if (n >= sizeof(small)) {
		text = jinja_mem_take(r->m, n + 1);
		if (text == NULL)
			return no_mem(r);
	}
	memcpy(text, from, n);
	text[n] = '\0';
	*out = jval_float(strtod(text, NULL));
	return true;
}

static bool read_number(struct reader *r, struct jval *out)
{
	const char *from = r->p, *end;
	bool real;

	if ((end = json_number(from, r->end, &real)) == NULL)
		return false;
	r->p = end;
	if (real)
		return read_float(r, from, out);
	return jx_parse_int(jval_str(from, (size_t)(end - from)), 10, out);
}

/* ---- values ------------------------------------------------------------------------------ */

static bool read_value(struct reader *r, struct jval *out);

static bool read_list(struct reader *r, struct jval *out)
{
	size_t from = r->stack.n, n;
	struct jval v, *items;

	r->p++;
	skip_blanks(r);
	if (r->p < r->end && *r->p == ']') {
		r->p++;
		*out = jval_list(NULL, 0);
		return true;
	}
	for (;;) {
		if (!read_value(r, &v) || !push(r, v))
			return false;
		skip_blanks(r);
		if (r->p == r->end || (*r->p != ',' && *r->p != ']'))
			return false;
		if (*r->p++ == ']')
			break;
	}
	n = r->stack.n - from;
	items = jinja_mem_take(r->m, n * sizeof(*items));
	if (items == NULL)
		return no_mem(r);
	memcpy(items, r->stack.p + from, n * sizeof(*items));
	r->stack.n = from;
	*out = jval_list(items, n);
	return true;
}

static bool make_dict(struct reader *r, size_t from, struct jval *out)
{
	size_t i;

	*out = jval_dict(r->m, (uint32_t)((r->stack.n - from) / 2));
	if (out->kind == JV_MISSING)
		return no_mem(r);
	for (i = from; i < r->stack.n; i += 2)
		if (!jdict_put(r->m, out->d, r->stack.p[i], r->stack.p[i + 1]))
			return no_mem(r);
	r->stack.n = from;
	return true;
}

static bool read_dict(struct reader *r, struct jval *out)
{
	size_t from = r->stack.n;
	struct jval v;

	r->p++;
	skip_blanks(r);
	if (r->p < r->end && *r->p == '}') {
		r->p++;
		return make_dict(r, from, out);
	}
	for (;;) {
		skip_blanks(r);
		if (r->p == r->end || *r->p != '"' || !read_string(r, &v) || !push(r, v))
			return false;
		skip_blanks(r);
		if (r->p == r->end || *r->p++ != ':' || !read_value(r, &v) || !push(r, v))
			return false;
		skip_blanks(r);
		if (r->p == r->end || (*r->p != ',' && *r->p != '}'))
			return false;
		if (*r->p++ == '}')
			return make_dict(r, from, out);
	}
}

static bool read_word(struct reader *r, const char *word, struct jval v, struct jval *out)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
		return false;
	r->p += n;
	*out = v;
	return true;
}

static bool read_value(struct reader *r, struct jval *out)
{
	bool ok;

	if (r->values == 0)
		return false;
	r->values--;
	skip_blanks(r);
	if (r->p == r->end)
		return false;
	switch (*r->p) {
	case '"':
		return read_string(r, out);
	case '{': case '[':
		if (r->depth == 0)
			return false;
		r->depth--;
		ok = *r->p == '{' ? read_dict(r, out) : read_list(r, out);
		r->depth++;
		return ok;
	case 't':
		return read_word(r, "true", jval_bool(true), out);
	case 'f':
		return read_word(r, "false", jval_bool(false), out);
	case 'n':
		return read_word(r, "null", jval_none(), out);
	}
	return read_number(r, out);
}

int jval_from_json(struct jinja_mem *m, struct span text, unsigned max_depth, struct jval *out,
		   size_t *at)
{
	uint64_t values = UINT64_MAX;

	return jval_from_json_within(m, text, max_depth, &values, out, at);
}

int jval_from_json_within(struct jinja_mem *m, struct span text, unsigned max_depth,
			  uint64_t *values, struct jval *out, size_t *at)
{
	struct reader r = { .m = m,
			    .scan = json_scan_best(),
			    .p = text.p,
			    .end = text.p + text.n,
			    .values = *values,
			    .depth = max_depth ? max_depth : JVAL_DEPTH };
	bool ok;

	errno = 0;
	if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
		r.p += 3;
	ok = text.n > 0 && read_value(&r, out);
	if (ok) {
		skip_blanks(&r);
		ok = r.p == r.end;
	}
	vec_free(&r.stack);
	if (at != NULL)
		*at = text.n > 0 ? (size_t)(r.p - text.p) : 0;
	*values = r.values;
	if (!ok)
		errno = r.no_memory ? ENOMEM : r.values == 0 ? E2BIG : EINVAL;
	return ok ? 0 : -1;
}
