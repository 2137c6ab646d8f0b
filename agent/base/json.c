/* The JSON scanner: a state machine that can stop after any byte and resume at the next.
 *
 * It has two levels. Between values, <expect> holds what may come next, and one bit per open
 * level says if it is an object; that is the whole stack. Inside a string (json_string.c),
 * number or literal, <resume> holds the position. Each token has a fast path, for a token that
 * is complete in the input at hand, and a slow path that keeps an incomplete one in the struct.
 *
 * A value read as text goes through the same machine and is checked in the same way, but has no
 * events: the run of input that starts at j->from grows. The run is reported, and a new one
 * started, where the output differs from the input: at white space, at escapes, and at the depth
 * where a key may be dropped. At that depth a key is held until its name is known, and commas
 * are written before the members that stay.
 *
 * Cost: no allocation, O(1) per byte; plain text costs as much as json_scan.c. */
#include <endian.h>

#include "agent/base/json_in.h"

static const struct {
	const char *text;
	enum json_event ev;
} literals[] = {
	{ "true", JSON_TRUE }, { "false", JSON_FALSE }, { "null", JSON_NULL },
};

static inline bool in_object(const struct json *j)
{
	uint16_t level = (uint16_t)(j->depth - 1);

	return j->depth > 0 && (j->is_object[level / 64] >> (level % 64) & 1);
}

void json_value_end(struct json *j)
{
	j->resume = IN_NOTHING;
	j->expect = j->depth == 0 ? EXPECT_NOTHING : EXPECT_COMMA_OR_END;
	if (j->dropping && j->depth == j->drop_depth)
		j->dropping = false;
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

static void number_done(struct json *j, const char *p, size_t n)
{
	if (n > JSON_NUMBER_MAX || !is_number(p, p + n)) {
		json_bad(j);
		return;
	}
	json_value_end(j);
	j->integer = -1;
	if (!j->as_text)
		json_emit(j, JSON_NUMBER, p, n);
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
		json_bad(j);
		return p;
	}
	memcpy(j->text + j->text_n, p, n);
	j->text_n += (uint8_t)n;
	if (q < end)
		number_done(j, j->text, j->text_n);
	return q;
}

/* Read an integer of up to seven digits without a branch per digit. Token ids come by the
 * thousand and their lengths vary, so such branches would be mispredicted. Returns NULL if it is
 * another number. */
static inline const char *integer_quick(struct json *j, const char *p, const char *end)
{
	uint64_t w, above_9;
	unsigned int n;

	if (end - p < 8)
		return NULL;
	memcpy(&w, p, 8);
	w = le64toh(w) ^ 0x3030303030303030ull;
	above_9 = (w | (w + 0x7676767676767676ull)) & 0x8080808080808080ull;
	if (above_9 == 0)
		return NULL;
	n = (unsigned int)__builtin_ctzll(above_9) / 8;		/* at least 1: *p is a digit */
	if (in_number(p[n]) || (*p == '0' && n > 1))
		return NULL;
	w <<= 64 - 8 * n;	/* pad with leading zeros; then join digits to pairs, pairs to fours */
	w = w * 10 + (w >> 8);
	w = ((w & 0x000000ff000000ffull) * (100 + (1000000ull << 32)) +
	     (w >> 16 & 0x000000ff000000ffull) * (1 + (10000ull << 32))) >> 32;
	json_value_end(j);
	j->integer = (int64_t)(w & 0xffffffff);
	if (!j->as_text)
		json_emit(j, JSON_NUMBER, p, n);
	return p + n;
}

static const char *literal_feed(struct json *j, const char *p, const char *end)
{
	const char *text = literals[j->literal].text;

	while (p < end && text[j->literal_at] != '\0') {
		if (*p != text[j->literal_at]) {
			json_bad(j);
			return p;
		}
		j->literal_at++;
		p++;
	}
	if (text[j->literal_at] == '\0') {
		json_value_end(j);
		if (!j->as_text)
			json_emit(j, literals[j->literal].ev, NULL, 0);
	}
	return p;
}

static const char *bom_feed(struct json *j, const char *p, const char *end)
{
	static const char bom[3] = { '\xef', '\xbb', '\xbf' };

	while (p < end && j->literal_at < 3) {
		if (*p != bom[j->literal_at]) {
			json_bad(j);
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

/* ---- values read as text --------------------------------------------------------------------- */

void json_as_text(struct json *j, uint16_t levels, const char *drop_key)
{
	j->as_text = true;
	j->dropping = false;
	j->text_depth = j->depth;
	j->drop_depth = levels > 0 ? (uint16_t)(j->depth + levels) : 0;
	j->drop_key = drop_key;
}

static bool at_drop_depth(const struct json *j)
{
	return j->as_text && j->depth == j->drop_depth;
}

/* Start a run of output at <p>, unless one is open, or the bytes belong to a member that is
 * dropped or to a key whose name is not known yet. */
static inline void text_from(struct json *j, const char *p)
{
	bool in_name = j->resume != IN_NOTHING && j->in_key && j->depth == j->drop_depth;

	if (j->from == NULL && !j->dropping && !in_name)
		j->from = p;
}

/* Start a member called <name>: drop it, or write its key. */
static void member(struct json *j, struct span name)
{
	char text[2 * JSON_KEY_MAX + 3];
	size_t n = 0, i;

	if (span_eq(name, span_str(j->drop_key))) {
		j->dropping = true;
		return;
	}
	if (j->had_member)
		text[n++] = ',';
	j->had_member = true;
	text[n++] = '"';
	for (i = 0; i < name.n; i++) {
		if (name.p[i] == '"' || name.p[i] == '\\')
			text[n++] = '\\';
		text[n++] = name.p[i];
	}
	text[n++] = '"';
	json_emit(j, JSON_TEXT, text, n);
}

/* ---- between values ------------------------------------------------------------------------ */

static void open_level(struct json *j, const char *p, bool object)
{
	uint64_t bit = 1ull << (j->depth % 64);

	if (j->depth >= j->max_depth) {
		json_bad(j);
		return;
	}
	if (object)
		j->is_object[j->depth / 64] |= bit;
	else
		j->is_object[j->depth / 64] &= ~bit;
	j->expect = object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
	if (!j->as_text) {
		j->edge = j->offset + (uint64_t)(p - j->begin);
		json_emit(j, object ? JSON_OBJECT : JSON_ARRAY, NULL, 0);
		j->from = j->as_text ? p : NULL;
		if (j->skip_to > j->edge) {
			if (j->resume == IN_NOTHING)	/* else json_enter_string() */
				json_value_end(j);
			return;
		}
	}
	j->depth++;
	if (at_drop_depth(j))
		j->had_member = false;
}

static void close_level(struct json *j, const char *p, bool object)
{
	if (j->depth == 0 || in_object(j) != object) {
		json_bad(j);
		return;
	}
	j->depth--;
	j->edge = j->offset + (uint64_t)(p + 1 - j->begin);
	json_value_end(j);
	if (j->as_text) {
		if (j->depth != j->text_depth)
			return;
		json_text_until(j, p + 1);
		j->as_text = false;
	}
	json_emit(j, object ? JSON_OBJECT_END : JSON_ARRAY_END, NULL, 0);
}

static void start_in(struct json *j, enum json_resume where, uint8_t literal)
{
	j->resume = where;
	j->literal = literal;
	j->literal_at = 0;
	j->text_n = 0;
}

/* Read the first byte of a value at <p>. Returns where reading continues. */
static const char *value_start(struct json *j, const char *p, const char *end)
{
	const char *next;

	switch (*p) {
	case '"':
		return json_string_start(j, p + 1, end, false);
	case '{':
		open_level(j, p, true);
		break;
	case '[':
		open_level(j, p, false);
		break;
	case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8':
	case '9':
		next = integer_quick(j, p, end);
		if (next != NULL)
			return next;
		/* fall through */
	case '-':
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
		json_bad(j);
	}
	return j->state == JSON_BAD ? p : p + 1;
}

static const char *key_start(struct json *j, const char *p, const char *end)
{
	if (*p != '"') {
		json_bad(j);
		return p;
	}
	if (at_drop_depth(j))
		json_text_until(j, p);
	return json_string_start(j, p + 1, end, true);
}

void json_key_end(struct json *j, struct span name)
{
	j->expect = EXPECT_COLON;
	j->in_key = false;
	if (!j->as_text)
		json_emit(j, JSON_KEY, name.p, name.n);
	else if (j->depth == j->drop_depth)
		member(j, name);
}

static const char *comma(struct json *j, const char *p, const char *end)
{
	bool object = in_object(j);

	j->expect = object ? EXPECT_KEY : EXPECT_VALUE;
	if (object && at_drop_depth(j)) {	/* member() writes the comma */
		json_text_until(j, p);
		return p + 1;
	}
	p++;
	if (p == end || *p != '"')
		return p;
	return object ? key_start(j, p, end) : value_start(j, p, end);
}

static const char *close_at(struct json *j, const char *p, bool object)
{
	close_level(j, p, object);
	return j->state == JSON_BAD ? p : p + 1;
}

/* Skip strings, colons and commas of a value read as text, which are most of a tool's definition.
 * Returns the first byte that needs step(). */
static const char *text_run(struct json *j, const char *p, const char *end)
{
	bool object = in_object(j), hold = at_drop_depth(j) && object;
	uint8_t expect = j->expect;
	const char *stop;

	while (p < end) {
		if (*p == '"' && expect != EXPECT_COMMA_OR_END && expect != EXPECT_COLON) {
			bool key = expect == EXPECT_KEY || expect == EXPECT_KEY_OR_END;

			stop = key && hold ? NULL : json_plain_end(j->scan, p + 1, end);
			if (stop == NULL)
				break;
			expect = key ? EXPECT_COLON : EXPECT_COMMA_OR_END;
			p = stop + 1;
		} else if (*p == ':' && expect == EXPECT_COLON) {
			expect = EXPECT_VALUE;
			p++;
		} else if (*p == ',' && expect == EXPECT_COMMA_OR_END && !hold) {
			expect = object ? EXPECT_KEY : EXPECT_VALUE;
			p++;
		} else {
			break;
		}
	}
	j->expect = expect;
	return p;
}

/* Handle the byte at <p>, which is between values and not white space. <first>: it is the first
 * byte of the input. */
static const char *step(struct json *j, const char *p, const char *end, bool first)
{
	char c = *p;

	switch ((enum json_expect)j->expect) {
	case EXPECT_START:
		if (c == '\xef' && first) {
			start_in(j, IN_BOM, 0);
			return p;
		}
		return value_start(j, p, end);
	case EXPECT_VALUE:
		return value_start(j, p, end);
	case EXPECT_VALUE_OR_END:
		return c == ']' ? close_at(j, p, false) : value_start(j, p, end);
	case EXPECT_KEY_OR_END:
		return c == '}' ? close_at(j, p, true) : key_start(j, p, end);
	case EXPECT_KEY:
		return key_start(j, p, end);
	case EXPECT_COLON:
		if (c != ':')
			break;
		j->expect = EXPECT_VALUE;
		p++;
		return p < end && *p == '"' ? value_start(j, p, end) : p;
	case EXPECT_COMMA_OR_END:
		if (c == ',')
			return comma(j, p, end);
		if (c == '}' || c == ']')
			return close_at(j, p, c == '}');
		break;
	case EXPECT_NOTHING:
		break;
	}
	json_bad(j);
	return p;
}

static inline bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static const char *space(struct json *j, const char *p, const char *end)
{
	json_text_until(j, p);
	while (p < end && is_space(*p))
		p++;
	return p;
}

static const char *resume_feed(struct json *j, const char *p, const char *end)
{
	switch ((enum json_resume)j->resume) {
	case IN_STRING: case IN_ESCAPE: case IN_HEX:
		return json_string_feed(j, p, end);
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

void json_skip(struct json *j, uint64_t offset)
{
	j->skip_to = offset;
}

struct span json_at_hand(const struct json *j)
{
	const char *p = j->begin + (j->edge - j->offset);

	return span_of(p, (size_t)(j->end - p));
}

void json_enter_string(struct json *j, size_t n)
{
	j->skip_to = j->edge + n;
	j->depth++;
	j->in_key = false;
	j->resume = IN_STRING;
	j->text_n = 0;
	j->high = 0;
	j->utf8_n = 0;
}

/* Return where reading continues: <p>, or the end of a value that is left out. */
static const char *skipped(struct json *j, const char *p, const char *end)
{
	uint64_t at = j->offset + (uint64_t)(p - j->begin);

	if (j->skip_to <= at) {
		j->skip_to = 0;
		return p;
	}
	return j->skip_to - at < (uint64_t)(end - p) ? p + (j->skip_to - at) : end;
}

void json_resume_list(struct json *j, uint64_t offset)
{
	j->offset = offset;
	j->depth = 2;
	j->is_object[0] = 1;
	j->expect = EXPECT_COMMA_OR_END;
}

enum json_state json_feed(struct json *j, const char *p, size_t n)
{
	const char *begin = p, *end = p + n, *next;

	if (j->state == JSON_BAD || n == 0)
		return j->state;
	j->begin = begin;
	j->end = end;
	p = skipped(j, p, end);
	while (p < end && j->state != JSON_BAD) {
		if (j->as_text)
			text_from(j, p);
		if (j->resume != IN_NOTHING)
			p = resume_feed(j, p, end);
		else if (is_space(*p))
			p = space(j, p, end);
		else if (j->from != NULL && (next = text_run(j, p, end)) != p)
			p = next;
		else
			p = step(j, p, end, j->offset == 0 && p == begin);
		if (j->skip_to != 0)
			p = skipped(j, p, end);
	}
	json_text_until(j, p);
	j->begin = j->end = NULL;
	j->offset += (uint64_t)(p - begin);
	if (j->state == JSON_MORE && j->expect == EXPECT_NOTHING)
		j->state = JSON_DONE;
	return j->state;
}
