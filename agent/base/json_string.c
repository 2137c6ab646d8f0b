/* Strings of the JSON scanner: decode the text between quotes as it arrives.
 *
 * There are three ways, tried in this order:
 *   1. Plain text up to the quote is a borrowed run of the input, without a copy (json_scan_fn).
 *      Most strings and most bytes need nothing else.
 *   2. Text with escapes is decoded into a buffer on the stack (json_copy_fn), which is reported
 *      when it is full or the string ends. Source code has an escape every 30 bytes; a callback
 *      for each piece between two escapes would cost more than the copy.
 *   3. All else is decoded byte by byte, and the struct keeps an incomplete character or escape:
 *      bad UTF-8, half a surrogate pair, a character or an escape that crosses the end of the
 *      input.
 * The third way alone would be correct. Tests compare all three with a slow reader at every split.
 *
 * In a value read as text, plain text is not reported here: it stays part of the run at j->from
 * until the output has to differ from the input. Decoded text then keeps the backslash before
 * '"' and '\\'. */
#include "agent/base/json_in.h"
#include "agent/base/num.h"
#include "agent/base/utf8.h"

#define PIECES		4096
#define ROOM		(PIECES + JSON_COPY_ROOM)
#define SHORT_RUN	512	/* a run up to this length is copied if the buffer is not empty */

struct pieces {
	struct json *j;
	bool keep;		/* '"' and '\\' stay escaped */
	size_t n;
	char buf[ROOM];
};

static const char replacement[3] = { '\xef', '\xbf', '\xbd' };	/* U+FFFD */

static void emit_text(struct json *j, const char *p, size_t n)
{
	size_t room;

	if (j->in_key && json_key_counts(j)) {
		room = JSON_KEY_MAX - j->text_n;
		n = n < room ? n : room;
		memcpy(j->text + j->text_n, p, n);
		j->text_n += (uint8_t)n;
	} else if (!j->as_text) {
		json_emit(j, JSON_STRING_PART, p, n);
	} else if (!j->dropping) {
		json_emit(j, JSON_TEXT, p, n);
	}
}

static void flush(struct pieces *o)
{
	if (o->n > 0)
		emit_text(o->j, o->buf, o->n);
	o->n = 0;
}

static void put(struct pieces *o, const char *p, size_t n)
{
	if (n > SHORT_RUN || o->n == 0) {
		flush(o);
		emit_text(o->j, p, n);
		return;
	}
	if (n > PIECES - o->n)
		flush(o);
	memcpy(o->buf + o->n, p, n);
	o->n += n;
}

static void put_few(struct pieces *o, const char *p, size_t n)
{
	if (n > PIECES - o->n)
		flush(o);
	memcpy(o->buf + o->n, p, n);
	o->n += n;
}

static void put_code(struct pieces *o, uint32_t c)
{
	char u[UTF8_MAX];

	if (o->keep && (c == '"' || c == '\\'))
		put_few(o, "\\", 1);
	put_few(o, u, utf8_put(u, c));
}

/* ---- one byte at a time ---------------------------------------------------------------------- */

/* Handle a complete \uXXXX escape in j->hex: pair it, or replace a surrogate without its other
 * half. */
static void code_unit(struct pieces *o)
{
	struct json *j = o->j;
	uint16_t v = j->hex;
	bool low = v >= 0xdc00 && v < 0xe000, high = v >= 0xd800 && v < 0xdc00;

	if (j->high != 0 && low) {
		put_code(o, 0x10000 + ((uint32_t)(j->high - 0xd800) << 10) + (v - 0xdc00u));
		j->high = 0;
		return;
	}
	if (j->high != 0)
		put_few(o, replacement, 3);
	j->high = high ? v : 0;
	if (low)
		put_few(o, replacement, 3);
	else if (!high)
		put_code(o, v);
}

static char escape_value(char c)
{
	switch (c) {
	case '"': case '\\': case '/':
		return c;
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	default:
		return 0;
	}
}

static void lone_high(struct pieces *o)
{
	if (o->j->high != 0)
		put_few(o, replacement, 3);
	o->j->high = 0;
}

/* Handle a byte above 0x7f at which the scan stopped, or the next byte of an incomplete character.
 * Returns false if the character ended early: <c> is then not consumed. */
static bool utf8_byte(struct pieces *o, uint8_t c)
{
	struct json *j = o->j;
	bool first = j->utf8_n == 0;

	j->utf8[j->utf8_n++] = c;
	if (utf8_cut(j->utf8, j->utf8_n) == j->utf8_n)
		return true;
	if (utf8_good(j->utf8, j->utf8_n) == j->utf8_n) {
		put_few(o, (const char *)j->utf8, j->utf8_n);
		first = true;
	} else {
		put_few(o, replacement, 3);
	}
	j->utf8_n = 0;
	return first;
}

/* Handle one byte after a backslash or after \u. */
static void escape_byte(struct pieces *o, char c)
{
	struct json *j = o->j;
	int v;

	if (j->resume == IN_HEX) {
		v = num_hex(c);
		if (v < 0) {
			json_bad(j);
			return;
		}
		j->hex = (uint16_t)(j->hex << 4 | v);
		if (++j->hex_n == 4) {
			j->resume = IN_STRING;
			code_unit(o);
		}
		return;
	}
	if (c == 'u') {
		j->resume = IN_HEX;
		j->hex = j->hex_n = 0;
		return;
	}
	lone_high(o);
	c = escape_value(c);
	if (c == 0) {
		json_bad(j);
		return;
	}
	j->resume = IN_STRING;
	put_code(o, (uint8_t)c);
}

static bool pending(const struct json *j)
{
	return j->resume != IN_STRING || j->utf8_n > 0 || j->high != 0;
}

/* Decode byte by byte until nothing is pending. Returns where reading continues. */
static const char *slow(struct pieces *o, const char *p, const char *end)
{
	struct json *j = o->j;

	while (p < end && j->state != JSON_BAD) {
		if (j->resume != IN_STRING) {
			escape_byte(o, *p);
			if (j->state != JSON_BAD)
				p++;
		} else if (j->utf8_n > 0) {
			p += utf8_byte(o, (uint8_t)*p);
		} else if (j->high != 0 && *p == '\\') {
			j->resume = IN_ESCAPE;
			p++;
		} else {
			lone_high(o);
			return p;
		}
	}
	return p;
}

/* ---- whole strings --------------------------------------------------------------------------- */

/* End the string; <p> is at its closing quote. Returns the byte after it. */
static const char *closed(struct json *j, const char *p)
{
	j->resume = IN_NOTHING;
	if (j->in_key) {
		json_key_end(j, span_of(j->text, j->text_n));
		return p + 1;
	}
	if (!j->as_text)
		json_emit(j, JSON_STRING_END, NULL, 0);
	json_value_end(j);
	return p + 1;
}

/* Handle the byte at <p> that ended a run of plain text. Returns where reading continues. */
static const char *over(struct pieces *o, const char *p, const char *end)
{
	const char *next;
	char *out = o->buf + o->n;

	if (*p != '\\')
		return p + utf8_byte(o, (uint8_t)*p);
	next = o->j->scan->copy(p, end, &out, o->buf + ROOM, o->keep);
	o->n = (size_t)(out - o->buf);
	if (o->n > PIECES - SHORT_RUN)
		flush(o);
	if (next > p)
		return next;
	o->j->resume = IN_ESCAPE;
	return p + 1;
}

/* Read from the first byte that is not plain text, with output through the buffer instead of
 * j->from. */
static const char *decode(struct json *j, const char *p, const char *end)
{
	struct pieces o;
	const char *run;

	json_text_until(j, p);
	o.j = j;
	o.n = 0;
	o.keep = j->as_text && !(j->in_key && json_key_counts(j));
	for (;;) {
		if (pending(j)) {
			p = slow(&o, p, end);
			if (p == end || j->state == JSON_BAD)
				break;
		}
		run = p;
		p = j->scan->plain(p, end);
		if (p > run)
			put(&o, run, (size_t)(p - run));
		if (p == end)
			break;
		if (*p == '"') {
			flush(&o);
			if (j->as_text && !j->dropping && !(j->in_key && json_key_counts(j)))
				j->from = p;
			return closed(j, p);
		}
		p = over(&o, p, end);
	}
	flush(&o);
	return p;
}

const char *json_string_feed(struct json *j, const char *p, const char *end)
{
	const char *run = p;

	if (pending(j))
		return decode(j, p, end);
	p = j->scan->plain(p, end);
	if (p > run && j->from == NULL)
		emit_text(j, run, (size_t)(p - run));
	if (p == end)
		return p;
	return *p == '"' ? closed(j, p) : decode(j, p, end);
}

/* Report a string of <n> plain bytes at <p>, complete in the input, as most names are. */
static const char *whole(struct json *j, const char *p, size_t n, bool key)
{
	if (key) {
		json_key_end(j, span_of(p, n < JSON_KEY_MAX ? n : JSON_KEY_MAX));
		return p + n + 1;
	}
	if (!j->as_text) {
		json_emit(j, JSON_STRING, NULL, 0);
		if (n > 0)
			json_emit(j, JSON_STRING_PART, p, n);
		json_emit(j, JSON_STRING_END, NULL, 0);
	}
	json_value_end(j);
	return p + n + 1;
}

const char *json_string_start(struct json *j, const char *p, const char *end, bool key)
{
	int n = json_short(p, end);
	const char *stop;

	if (n >= 0)
		return whole(j, p, (size_t)n, key);
	j->in_key = key;
	if (key) {
		stop = j->scan->plain(p, end);
		if (stop < end && *stop == '"')
			return whole(j, p, (size_t)(stop - p), true);
	}
	j->resume = IN_STRING;
	j->text_n = 0;
	j->high = 0;
	j->utf8_n = 0;
	if (!key && !j->as_text)
		json_emit(j, JSON_STRING, NULL, 0);
	return json_string_feed(j, p, end);
}
