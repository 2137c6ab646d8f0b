/* The JSON scanner: a machine that can stop at any byte and go on at the next.
 *
 * Two levels. Between values, <expect> says what may come next and one bit for each open level says
 * whether it is an object; that is the whole stack. Inside a string, number or literal, <resume>
 * says where to go on. Everything has two ways: a quick one for what lies whole in the bytes at hand
 * and, at their end, a slow one that takes a byte at a time and keeps what is unfinished in the
 * struct. The slow way alone would be right; tests compare both at every split.
 *
 * Text goes out as borrowed runs of the input. Around escapes the runs are short, so these are put
 * together in a small buffer on the stack (struct pieces) and go out in one call: in source code an
 * escape comes every 30 bytes, and a call for each half line costs more than the copy.
 *
 * Cost: no allocation, O(1) for a byte; a run of plain text costs what json_scan.c costs. */
#include "agent/base/json.h"

enum expect {
	EXPECT_START,		/* the value itself, or a byte order mark */
	EXPECT_VALUE,
	EXPECT_VALUE_OR_END,	/* behind '[' */
	EXPECT_KEY_OR_END,	/* behind '{' */
	EXPECT_KEY,		/* behind ',' in an object */
	EXPECT_COLON,
	EXPECT_COMMA_OR_END,
	EXPECT_NOTHING		/* behind the value */
};

enum resume { IN_NOTHING, IN_STRING, IN_ESCAPE, IN_HEX, IN_NUMBER, IN_LITERAL, IN_BOM };

static const struct {
	const char *text;
	enum json_event ev;
} literals[] = {
	{ "true", JSON_TRUE }, { "false", JSON_FALSE }, { "null", JSON_NULL },
};

#define PIECES		2048	/* bytes of decoded text put together */
#define SHORT_RUN	64	/* runs up to here are copied by one block of fixed size */
#define WORTH_COPY	512	/* runs up to here are worth a copy */

struct pieces {
	struct json *j;
	size_t n;
	char buf[PIECES];
};

static const char replacement[3] = { '\xef', '\xbf', '\xbd' };	/* U+FFFD */

static void emit(struct json *j, enum json_event ev, const char *p, size_t n)
{
	j->sink(j->arg, j, ev, span_of(p, n));
}

/* ---- text of strings --------------------------------------------------------------------- */

static void emit_text(struct json *j, const char *p, size_t n)
{
	size_t room;

	if (!j->in_key) {
		emit(j, JSON_STRING_PART, p, n);
		return;
	}
	room = JSON_KEY_MAX - j->text_n;
	if (n > room) {
		n = room;
		j->key_cut = true;
	}
	memcpy(j->text + j->text_n, p, n);
	j->text_n += (uint8_t)n;
}

static void pieces_flush(struct pieces *o)
{
	if (o->n > 0)
		emit_text(o->j, o->buf, o->n);
	o->n = 0;
}

/* <end> is how far may be read from <p>: short runs are copied by fixed blocks. */
static inline void pieces_run(struct pieces *o, const char *p, size_t n, const char *end)
{
	if (n > WORTH_COPY) {
		pieces_flush(o);
		emit_text(o->j, p, n);
		return;
	}
	if (o->n > PIECES - WORTH_COPY)
		pieces_flush(o);
	if (n <= SHORT_RUN && end - p >= SHORT_RUN)
		memcpy(o->buf + o->n, p, SHORT_RUN);
	else
		memcpy(o->buf + o->n, p, n);
	o->n += n;
}

static inline void pieces_byte(struct pieces *o, char c)
{
	if (o->n == PIECES)
		pieces_flush(o);
	o->buf[o->n++] = c;
}

static void pieces_copy(struct pieces *o, const char *p, size_t n)	/* n <= 4 */
{
	if (o->n > PIECES - 4)
		pieces_flush(o);
	memcpy(o->buf + o->n, p, n);
	o->n += n;
}

static void pieces_code(struct pieces *o, uint32_t c)
{
	char u[4];
	size_t n;

	if (c < 0x80) {
		pieces_byte(o, (char)c);
		return;
	}
	if (c < 0x800) {
		u[0] = (char)(0xc0 | c >> 6);
		n = 2;
	} else if (c < 0x10000) {
		u[0] = (char)(0xe0 | c >> 12);
		u[1] = (char)(0x80 | (c >> 6 & 0x3f));
		n = 3;
	} else {
		u[0] = (char)(0xf0 | c >> 18);
		u[1] = (char)(0x80 | (c >> 12 & 0x3f));
		u[2] = (char)(0x80 | (c >> 6 & 0x3f));
		n = 4;
	}
	u[n - 1] = (char)(0x80 | (c & 0x3f));
	pieces_copy(o, u, n);
}

/* ---- strings, the slow way ----------------------------------------------------------------- */

/* The \uXXXX escape in j->hex is complete: pair it, or call it alone. */
static void code_unit(struct pieces *o)
{
	struct json *j = o->j;
	uint16_t v = j->hex;
	bool low = v >= 0xdc00 && v < 0xe000, high = v >= 0xd800 && v < 0xdc00;

	if (j->high != 0 && low) {
		pieces_code(o, 0x10000 + ((uint32_t)(j->high - 0xd800) << 10) + (v - 0xdc00u));
		j->high = 0;
		return;
	}
	if (j->high != 0)
		pieces_copy(o, replacement, 3);
	j->high = high ? v : 0;
	if (low)
		pieces_copy(o, replacement, 3);
	else if (!high)
		pieces_code(o, v);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
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
		pieces_copy(o, replacement, 3);
	o->j->high = 0;
}

/* How many bytes a character has that starts with <c>; 0 when none does. */
static uint8_t utf8_length(uint8_t c)
{
	if (c < 0xc2 || c > 0xf4)
		return 0;
	return c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* May <c> go on with the character in j->utf8? (Unicode 15, table 3-7) */
static bool utf8_goes_on(const struct json *j, uint8_t c)
{
	uint8_t from = 0x80, to = 0xbf;

	if (j->utf8_n == 1) {
		switch (j->utf8[0]) {
		case 0xe0: from = 0xa0; break;
		case 0xed: to = 0x9f; break;
		case 0xf0: from = 0x90; break;
		case 0xf4: to = 0x8f; break;
		}
	}
	return c >= from && c <= to;
}

/* One byte above 0x7f that the scan stopped at, or one byte in the middle of a character.
 * False: the character was broken off before <c>, which is still to be looked at. */
static bool utf8_byte(struct pieces *o, uint8_t c)
{
	struct json *j = o->j;

	if (j->utf8_n == 0) {
		j->utf8_need = utf8_length(c);
		if (j->utf8_need == 0)
			pieces_copy(o, replacement, 3);
		else
			j->utf8[j->utf8_n++] = c;
		return true;
	}
	if (!utf8_goes_on(j, c)) {
		j->utf8_n = 0;
		pieces_copy(o, replacement, 3);
		return false;
	}
	j->utf8[j->utf8_n++] = c;
	if (j->utf8_n == j->utf8_need) {
		pieces_copy(o, (const char *)j->utf8, j->utf8_n);
		j->utf8_n = 0;
	}
	return true;
}

static void bad(struct json *j)
{
	j->state = JSON_BAD;
}

/* One byte behind a backslash, or behind \u. */
static void escape_byte(struct pieces *o, char c)
{
	struct json *j = o->j;
	int v;

	if (j->resume == IN_HEX) {
		v = hex_value(c);
		if (v < 0) {
			bad(j);
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
		bad(j);
		return;
	}
	j->resume = IN_STRING;
	pieces_byte(o, c);
}

/* Bytes one by one until nothing is pending. */
static const char *string_slow(struct pieces *o, const char *p, const char *end)
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

/* ---- strings, the quick way ---------------------------------------------------------------- */

static void string_start(struct json *j, bool key)
{
	j->resume = IN_STRING;
	j->in_key = key;
	j->key_cut = false;
	j->text_n = 0;
	j->high = 0;
	j->utf8_n = 0;
	if (!key)
		emit(j, JSON_STRING, NULL, 0);
}

static void string_end(struct json *j)
{
	j->resume = IN_NOTHING;
	j->expect = j->in_key ? EXPECT_COLON : EXPECT_COMMA_OR_END;
	if (j->in_key)
		emit(j, JSON_KEY, j->text, j->text_n);
	else
		emit(j, JSON_STRING_END, NULL, 0);
	if (j->depth == 0)
		j->expect = EXPECT_NOTHING;
}

/* The escape at <p>, a backslash, when it lies whole before <end>; NULL: the slow way. */
static inline const char *escape_quick(struct pieces *o, const char *p, const char *end)
{
	int a, b, c, d;
	char v;

	if (end - p < 6)
		return NULL;
	v = escape_value(p[1]);
	if (v != 0) {
		pieces_byte(o, v);
		return p + 2;
	}
	if (p[1] != 'u')
		return NULL;
	a = hex_value(p[2]), b = hex_value(p[3]), c = hex_value(p[4]), d = hex_value(p[5]);
	if ((a | b | c | d) < 0)
		return NULL;
	o->j->hex = (uint16_t)(a << 12 | b << 8 | c << 4 | d);
	code_unit(o);
	return p + 6;
}

static const char *string_feed(struct json *j, const char *p, const char *end)
{
	struct pieces o;
	const char *run, *next;

	o.j = j;
	o.n = 0;
	for (;;) {
		if (j->resume != IN_STRING || j->utf8_n > 0 || j->high != 0) {
			p = string_slow(&o, p, end);
			if (p == end || j->state == JSON_BAD)
				break;
		}
		run = p;
		p = j->scan(p, end);
		if (p > run) {
			if (o.n == 0 && (p == end || *p == '"'))
				emit_text(j, run, (size_t)(p - run));
			else
				pieces_run(&o, run, (size_t)(p - run), end);
		}
		if (p == end)
			break;
		if (*p == '"') {
			pieces_flush(&o);
			string_end(j);
			return p + 1;
		}
		if (*p == '\\') {
			next = escape_quick(&o, p, end);
			if (next == NULL)
				j->resume = IN_ESCAPE;
			p = next != NULL ? next : p + 1;
		} else {
			p += utf8_byte(&o, (uint8_t)*p);
		}
	}
	pieces_flush(&o);
	return p;
}

/* A key that lies whole and plain in the bytes at hand goes out without a copy. */
static const char *key_quick(struct json *j, const char *p, const char *end)
{
	const char *stop = j->scan(p, end);
	size_t n = (size_t)(stop - p);

	if (stop == end || *stop != '"')
		return NULL;
	j->expect = EXPECT_COLON;
	emit(j, JSON_KEY, p, n > JSON_KEY_MAX ? JSON_KEY_MAX : n);
	return stop + 1;
}

/* ---- numbers and literals ------------------------------------------------------------------ */

static inline bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

static inline bool in_number(char c)
{
	return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static const char *digits(const char *p, const char *end)
{
	while (p < end && is_digit(*p))
		p++;
	return p;
}

/* RFC 8259, section 6. */
static bool is_number(const char *p, const char *end)
{
	const char *q;

	if (p < end && *p == '-')
		p++;
	q = digits(p, end);
	if (q == p || (*p == '0' && q > p + 1))
		return false;
	p = q;
	if (p < end && *p == '.') {
		q = digits(p + 1, end);
		if (q == p + 1)
			return false;
		p = q;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		q = digits(p, end);
		if (q == p)
			return false;
		p = q;
	}
	return p == end;
}

static void value_done(struct json *j)
{
	j->resume = IN_NOTHING;
	j->expect = j->depth == 0 ? EXPECT_NOTHING : EXPECT_COMMA_OR_END;
}

static void number_done(struct json *j, const char *p, size_t n)
{
	if (n > JSON_NUMBER_MAX || !is_number(p, p + n)) {
		bad(j);
		return;
	}
	value_done(j);
	emit(j, JSON_NUMBER, p, n);
}

static const char *number_feed(struct json *j, const char *p, const char *end)
{
	const char *q = p;
	size_t n;

	while (q < end && in_number(*q))
		q++;
	n = (size_t)(q - p);
	if (q < end && j->text_n == 0) {
		number_done(j, p, n);
		return j->state == JSON_BAD ? p : q;
	}
	if (n > (size_t)(JSON_NUMBER_MAX - j->text_n)) {
		bad(j);
		return p;
	}
	memcpy(j->text + j->text_n, p, n);
	j->text_n += (uint8_t)n;
	if (q < end)
		number_done(j, j->text, j->text_n);
	return q;
}

static const char *literal_feed(struct json *j, const char *p, const char *end)
{
	const char *text = literals[j->literal].text;

	while (p < end && text[j->literal_at] != '\0') {
		if (*p != text[j->literal_at]) {
			bad(j);
			return p;
		}
		j->literal_at++;
		p++;
	}
	if (text[j->literal_at] == '\0') {
		value_done(j);
		emit(j, literals[j->literal].ev, NULL, 0);
	}
	return p;
}

static const char *bom_feed(struct json *j, const char *p, const char *end)
{
	static const char bom[3] = { '\xef', '\xbb', '\xbf' };

	while (p < end && j->literal_at < 3) {
		if (*p != bom[j->literal_at]) {
			bad(j);
			return p;
		}
		j->literal_at++;
		p++;
	}
	if (j->literal_at == 3) {
		j->resume = IN_NOTHING;
		j->expect = EXPECT_VALUE;
	}
	return p;
}

/* ---- between values ------------------------------------------------------------------------ */

static bool in_object(const struct json *j)
{
	uint16_t level = (uint16_t)(j->depth - 1);

	return j->depth > 0 && (j->is_object[level / 64] >> (level % 64) & 1);
}

static void open_level(struct json *j, bool object)
{
	uint64_t bit = 1ull << (j->depth % 64);

	if (j->depth >= j->max_depth) {
		bad(j);
		return;
	}
	if (object)
		j->is_object[j->depth / 64] |= bit;
	else
		j->is_object[j->depth / 64] &= ~bit;
	j->expect = object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
	emit(j, object ? JSON_OBJECT : JSON_ARRAY, NULL, 0);
	j->depth++;
}

static void close_level(struct json *j, bool object)
{
	if (j->depth == 0 || in_object(j) != object) {
		bad(j);
		return;
	}
	j->depth--;
	value_done(j);
	emit(j, object ? JSON_OBJECT_END : JSON_ARRAY_END, NULL, 0);
}

static void start_in(struct json *j, enum resume where, uint8_t literal)
{
	j->resume = where;
	j->literal = literal;
	j->literal_at = 0;
	j->text_n = 0;
}

/* <p> is at the first byte of a value; back is where to go on. */
static const char *value_start(struct json *j, const char *p)
{
	switch (*p) {
	case '"':
		string_start(j, false);
		return p + 1;
	case '{':
		open_level(j, true);
		break;
	case '[':
		open_level(j, false);
		break;
	case '-': case '0': case '1': case '2': case '3': case '4':
	case '5': case '6': case '7': case '8': case '9':
		start_in(j, IN_NUMBER, 0);
		return p;
	case 't':
		start_in(j, IN_LITERAL, 0);
		return p;
	case 'f':
		start_in(j, IN_LITERAL, 1);
		return p;
	case 'n':
		start_in(j, IN_LITERAL, 2);
		return p;
	default:
		bad(j);
	}
	return j->state == JSON_BAD ? p : p + 1;
}

static void key_start(struct json *j, char c)
{
	if (c == '"')
		string_start(j, true);
	else
		bad(j);
}

static void comma_or_end(struct json *j, char c)
{
	if (c == ',')
		j->expect = in_object(j) ? EXPECT_KEY : EXPECT_VALUE;
	else if (c == '}' || c == ']')
		close_level(j, c == '}');
	else
		bad(j);
}

/* One byte that is not white space, between values. */
static const char *step(struct json *j, const char *p)
{
	char c = *p;

	switch ((enum expect)j->expect) {
	case EXPECT_START:
		if (c == '\xef' && j->offset == 0) {
			start_in(j, IN_BOM, 0);
			return p;
		}
		return value_start(j, p);
	case EXPECT_VALUE:
		return value_start(j, p);
	case EXPECT_VALUE_OR_END:
		if (c != ']')
			return value_start(j, p);
		close_level(j, false);
		break;
	case EXPECT_KEY_OR_END:
		if (c == '}')
			close_level(j, true);
		else
			key_start(j, c);
		break;
	case EXPECT_KEY:
		key_start(j, c);
		break;
	case EXPECT_COLON:
		if (c == ':')
			j->expect = EXPECT_VALUE;
		else
			bad(j);
		break;
	case EXPECT_COMMA_OR_END:
		comma_or_end(j, c);
		break;
	case EXPECT_NOTHING:
		bad(j);
		break;
	}
	return j->state == JSON_BAD ? p : p + 1;
}

static inline bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const char *resume_feed(struct json *j, const char *p, const char *end)
{
	switch ((enum resume)j->resume) {
	case IN_STRING: case IN_ESCAPE: case IN_HEX:
		return string_feed(j, p, end);
	case IN_NUMBER:
		return number_feed(j, p, end);
	case IN_LITERAL:
		return literal_feed(j, p, end);
	case IN_BOM:
		return bom_feed(j, p, end);
	case IN_NOTHING:
		break;
	}
	return p;
}

void json_init(struct json *j, uint16_t max_depth, json_sink *sink, void *arg)
{
	memset(j, 0, sizeof(*j));
	j->sink = sink;
	j->arg = arg;
	j->scan = json_scan_best();
	j->max_depth = max_depth < JSON_DEPTH_MAX ? max_depth : JSON_DEPTH_MAX;
	j->state = JSON_MORE;
	j->expect = EXPECT_START;
}

enum json_state json_feed(struct json *j, const char *p, size_t n)
{
	const char *begin = p, *end = p + n, *next;
	uint64_t offset = j->offset;

	if (j->state == JSON_BAD || n == 0)
		return j->state;
	while (p < end && j->state != JSON_BAD) {
		if (j->resume != IN_NOTHING) {
			p = resume_feed(j, p, end);
			continue;
		}
		if (is_space(*p)) {
			p++;
			continue;
		}
		j->offset = offset + (uint64_t)(p - begin);
		if (*p == '"' && (j->expect == EXPECT_KEY || j->expect == EXPECT_KEY_OR_END) &&
		    (next = key_quick(j, p + 1, end)) != NULL)
			p = next;
		else
			p = step(j, p);
	}
	j->offset = offset + (uint64_t)(p - begin);
	if (j->state == JSON_MORE && j->expect == EXPECT_NOTHING)
		j->state = JSON_DONE;
	return j->state;
}
