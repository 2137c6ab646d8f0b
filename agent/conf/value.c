/* value.c - values as text, both ways.
 *
 * Strict on purpose: what a person might have meant otherwise (1_000, 010, 5 without a unit, KB,
 * yes) is refused with the right way to write it, instead of being taken for one of its meanings.
 * What is printed is read back to the same bits: numbers are printed with as many digits as that
 * takes, sizes and times in the largest unit that leaves no rest. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/conf/near.h"
#include "agent/conf/value.h"

static int bad_value(char *why, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int bad_value(char *why, size_t cap, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, cap, fmt, ap);
	va_end(ap);
	return -1;
}

const char *conf_type_name(enum conf_type t)
{
	static const char *const names[] = {
		[TYPE_INT] = "integer", [TYPE_SIZE] = "size", [TYPE_TIME] = "time",
		[TYPE_NUMBER] = "number", [TYPE_BOOL] = "boolean", [TYPE_WORD] = "word",
		[TYPE_MODE] = "mode", [TYPE_TEXT] = "text", [TYPE_NAME] = "name",
		[TYPE_PATH] = "path", [TYPE_FILE] = "path", [TYPE_URL] = "url",
		[TYPE_NAMES] = "list", [TYPE_ADDRS] = "list", [TYPE_ORDER] = "list",
		[TYPE_WORDS] = "list",
	};

	return names[t];
}

bool conf_type_is_list(enum conf_type t)
{
	return t == TYPE_ADDRS || t == TYPE_NAMES || t == TYPE_ORDER || t == TYPE_WORDS;
}

/* ---- units ------------------------------------------------------------------------------- */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {	/* largest first */
	{ "GiB", 1ull << 30 }, { "MiB", 1ull << 20 }, { "KiB", 1ull << 10 }, { NULL, 1 },
};

static const struct unit time_units[] = {
	{ "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 }, { NULL, 1 },
};

static void unit_text(uint64_t v, const struct unit *u, char *out, size_t cap)
{
	while (u->name != NULL && (v == 0 || v % u->factor != 0))
		u++;
	if (u->name == NULL)
		snprintf(out, cap, "%llu", (unsigned long long)v);
	else
		snprintf(out, cap, "%llu %s", (unsigned long long)(v / u->factor), u->name);
}

/* As few digits as give the same number again, and e-9 rather than e-09. */
static void number_text(double v, char *out, size_t cap)
{
	char *e;

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(out, cap, "%.*g", digits, v);
		if (strtod(out, NULL) == v)
			break;
	}
	if ((e = strchr(out, 'e')) == NULL)
		return;
	for (e += 2; e[0] == '0' && e[1] != '\0'; )
		memmove(e, e + 1, strlen(e));
}

static void bound_text(const struct conf_key *k, double v, char *out, size_t cap)
{
	switch (k->type) {
	case TYPE_SIZE:
		unit_text((uint64_t)v, size_units, out, cap);
		break;
	case TYPE_TIME:
		unit_text((uint64_t)v, time_units, out, cap);
		break;
	case TYPE_MODE:
		snprintf(out, cap, "%04o", (unsigned)v);
		break;
	case TYPE_NUMBER:
		number_text(v, out, cap);
		break;
	default:
		snprintf(out, cap, "%.0f", v);
		break;
	}
}

static void words_text(const char *const *words, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; words[i] != NULL && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? ", " : "", words[i]);
}

/* A longer list has its place in the manual, and in the sentence that refuses a word. */
#define WORDS_SHOWN	6

static size_t n_words(const char *const *words)
{
	size_t n = 0;

	while (words[n] != NULL)
		n++;
	return n;
}

void conf_value_range(const struct conf_key *k, char *out, size_t cap)
{
	char min[32], max[32];

	bound_text(k, k->min, min, sizeof(min));
	bound_text(k, k->max, max, sizeof(max));
	switch (k->type) {
	case TYPE_BOOL:
		snprintf(out, cap, "true, false");
		break;
	case TYPE_WORD:
		if (n_words(k->words) > WORDS_SHOWN)
			snprintf(out, cap, "one of those in kvroute.yaml(5)");
		else
			words_text(k->words, out, cap);
		break;
	case TYPE_TEXT:
	case TYPE_NAME:
	case TYPE_PATH:
	case TYPE_FILE:
	case TYPE_URL:
		snprintf(out, cap, "%s to %s bytes", min, max);
		break;
	case TYPE_NAMES:
		snprintf(out, cap, "%s to %s names of 1 to %d bytes", min, max, PROMPT_NAME_MAX);
		break;
	case TYPE_ADDRS:
		snprintf(out, cap, "%s to %s addresses", min, max);
		break;
	case TYPE_WORDS:
		snprintf(out, cap, "%s to %s of those in kvroute.yaml(5)", min, max);
		break;
	case TYPE_ORDER:
		snprintf(out, cap, "system, tools, messages, each once");
		break;
	default:
		snprintf(out, cap, "%s to %s", min, max);
		break;
	}
}

void conf_value_allowed(const struct conf_key *k, char *out, size_t cap)
{
	char range[CONF_ALLOWED_MAX - 16];

	if (k->type == TYPE_WORD)
		words_text(k->words, range, sizeof(range));
	else
		conf_value_range(k, range, sizeof(range));
	switch (k->type) {
	case TYPE_INT:
		snprintf(out, cap, "a whole number from %s", range);
		break;
	case TYPE_SIZE:
		snprintf(out, cap, "a size from %s (bytes, or with KiB, MiB or GiB)", range);
		break;
	case TYPE_TIME:
		snprintf(out, cap, "a time from %s (with ms, s, m or h)", range);
		break;
	case TYPE_NUMBER:
		snprintf(out, cap, "a number from %s", range);
		break;
	case TYPE_BOOL:
		snprintf(out, cap, "true or false");
		break;
	case TYPE_WORD:
		snprintf(out, cap, "one of: %s", range);
		break;
	case TYPE_MODE:
		snprintf(out, cap, "an octal file mode from %s", range);
		break;
	case TYPE_TEXT:
		snprintf(out, cap, "a text of %s", range);
		break;
	case TYPE_NAME:
		snprintf(out, cap, "a name of %s, or \"*\"", range);
		break;
	case TYPE_PATH:
		snprintf(out, cap, "an absolute path of %s", range);
		break;
	case TYPE_FILE:
		snprintf(out, cap, "a path beneath models_dir of %s", range);
		break;
	case TYPE_URL:
		snprintf(out, cap, "an address like 127.0.0.1:8000 or http://127.0.0.1:8000/metrics, of %s", range);
		break;
	case TYPE_ADDRS:
		snprintf(out, cap, "a list of %s like 127.0.0.1:9400, [::1]:9400 or unix@/path", range);
		break;
	case TYPE_NAMES:
	case TYPE_ORDER:
	case TYPE_WORDS:
		snprintf(out, cap, "a list of %s", range);
		break;
	}
}

/* ---- numbers ----------------------------------------------------------------------------- */

static uint64_t field_get(const void *p, size_t width)
{
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	switch (width) {
	case 1: memcpy(&u8, p, 1); return u8;
	case 2: memcpy(&u16, p, 2); return u16;
	case 4: memcpy(&u32, p, 4); return u32;
	default: memcpy(&u64, p, 8); return u64;
	}
}

static void field_put(void *p, size_t width, uint64_t v)
{
	uint8_t u8 = (uint8_t)v;
	uint16_t u16 = (uint16_t)v;
	uint32_t u32 = (uint32_t)v;

	switch (width) {
	case 1: memcpy(p, &u8, 1); break;
	case 2: memcpy(p, &u16, 2); break;
	case 4: memcpy(p, &u32, 4); break;
	default: memcpy(p, &v, 8); break;
	}
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The digits at the start of <s>, taken off it. -1: none, or more than 2^64 - 1. */
static int take_digits(struct span *s, uint64_t *v)
{
	size_t n = 0;

	*v = 0;
	for (; n < s->n && is_digit(s->p[n]); n++)
		if (__builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(s->p[n] - '0'), v))
			return -1;
	*s = span_of(s->p + n, s->n - n);
	return n > 0 ? 0 : -1;
}

static int in_range(const struct conf_key *k, double v, char *why, size_t cap)
{
	if (v < k->min)
		return bad_value(why, cap, "is below what is allowed");
	if (v > k->max)
		return bad_value(why, cap, "is above what is allowed");
	return 0;
}

/* All digits, or a '-' and digits: then it is a whole number out of range rather than nonsense. */
static bool looks_whole(struct span s)
{
	size_t i = s.n > 0 && s.p[0] == '-';

	if (i == s.n)
		return false;
	for (; i < s.n; i++)
		if (!is_digit(s.p[i]))
			return false;
	return true;
}

static int parse_int(const struct conf_key *k, struct span s, uint64_t *v, char *why, size_t cap)
{
	if (!looks_whole(s))
		return bad_value(why, cap, "is not a whole number");
	if (s.p[0] == '-')
		return bad_value(why, cap, "is below what is allowed");
	if (s.n > 1 && s.p[0] == '0')
		return bad_value(why, cap, "starts with a zero");
	if (take_digits(&s, v) != 0)
		return bad_value(why, cap, "is above what is allowed");
	return in_range(k, (double)*v, why, cap);
}

static int parse_unit(const struct conf_key *k, struct span s, const struct unit *u, uint64_t *v,
		      char *why, size_t cap)
{
	bool bare_ok = k->type == TYPE_SIZE;
	struct span number = s;

	if (s.n == 0 || !is_digit(s.p[0]))
		return bad_value(why, cap, looks_whole(s) ? "is below what is allowed" :
			     "does not start with a whole number");
	if (s.n > 1 && s.p[0] == '0' && is_digit(s.p[1]))
		return bad_value(why, cap, "starts with a zero");
	if (take_digits(&number, v) != 0)
		return bad_value(why, cap, "is above what is allowed");
	while (number.n > 0 && number.p[0] == ' ')
		number = span_of(number.p + 1, number.n - 1);
	if (number.n > 0 && number.p[0] == '.')
		return bad_value(why, cap, "has a fraction; use a smaller unit");
	if (number.n == 0 && *v != 0 && !bare_ok)
		return bad_value(why, cap, "has no unit");
	for (; number.n > 0 && u->name != NULL; u++)
		if (span_eq(number, span_str(u->name)))
			break;
	if (number.n > 0 && u->name == NULL)
		return bad_value(why, cap, "has an unknown unit");
	if (number.n > 0 && __builtin_mul_overflow(*v, u->factor, v))
		return bad_value(why, cap, "is above what is allowed");
	return in_range(k, (double)*v, why, cap);
}

/* sign digits . digits e sign digits; strtod() alone would also take inf, nan, hex and spaces. */
static bool looks_number(struct span s)
{
	size_t i = 0, whole, part = 0;

	if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
		i++;
	for (whole = i; i < s.n && is_digit(s.p[i]); i++)
		;
	whole = i - whole;
	if (i < s.n && s.p[i] == '.')
		for (i++; i < s.n && is_digit(s.p[i]); i++)
			part++;
	if (whole + part == 0)
		return false;
	if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
		i++;
		if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
			i++;
		if (i == s.n)
			return false;
		while (i < s.n && is_digit(s.p[i]))
			i++;
	}
	return i == s.n;
}

static int parse_number(const struct conf_key *k, struct span s, double *v, char *why, size_t cap)
{
	char text[64];

	if (!looks_number(s) || s.n >= sizeof(text))
		return bad_value(why, cap, "is not a number");
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	*v = strtod(text, NULL);
	if (*v == 0)
		*v = 0;		/* not -0, which would print as it */
	return in_range(k, *v, why, cap);
}

static int parse_mode(const struct conf_key *k, struct span s, uint64_t *v, char *why, size_t cap)
{
	if (s.n > 2 && s.p[0] == '0' && s.p[1] == 'o')
		s = span_of(s.p + 2, s.n - 2);
	*v = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '7')
			return bad_value(why, cap, "is not an octal number");
		if (*v <= 07777777)
			*v = *v * 8 + (uint64_t)(s.p[i] - '0');
	}
	if (s.n == 0)
		return bad_value(why, cap, "is not an octal number");
	return in_range(k, (double)*v, why, cap);
}

static int parse_bool(struct span s, uint64_t *v, char *why, size_t cap)
{
	if (!span_eq(s, SPAN("true")) && !span_eq(s, SPAN("false")))
		return bad_value(why, cap, "is neither true nor false");
	*v = s.n == 4;
	return 0;
}

static int parse_word(const struct conf_key *k, struct span s, uint64_t *v, char *why, size_t cap)
{
	struct near near;

	near_init(&near, s);
	for (*v = 0; k->words[*v] != NULL; ++*v) {
		if (span_eq(s, span_str(k->words[*v])))
			return 0;
		near_try(&near, k->words[*v]);
	}
	if (near.best != NULL)
		return bad_value(why, cap, "is unknown, did you mean %s", near.best);
	return bad_value(why, cap, "is unknown");
}

/* ---- texts ------------------------------------------------------------------------------- */

static int check_seen(struct span s, char *why, size_t cap)
{
	uint32_t cp;
	size_t n;

	for (; s.n > 0; s = span_of(s.p + n, s.n - n))
		if ((n = conf_utf8(s, &cp)) == 0 || !conf_can_be_seen(cp))
			return bad_value(why, cap, "holds a character that cannot be seen");
	return 0;
}

static bool name_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
	       c == '_' || c == '.' || c == ':';
}

static int check_name(struct span s, char *why, size_t cap)
{
	if (span_eq(s, SPAN("*")))
		return 0;
	for (size_t i = 0; i < s.n; i++)
		if (!name_char(s.p[i]))
			return bad_value(why, cap, "holds characters other than A-Z a-z 0-9 - _ . :");
	return 0;
}

/* A part ".." would be looked for beneath the directory in vain, or found behind a link: not what was written. */
static int check_file(struct span s, char *why, size_t cap)
{
	size_t n;

	if (s.n > 0 && s.p[s.n - 1] == '/')
		return bad_value(why, cap, "ends in /");
	for (; s.n > 0; s = span_of(s.p + n, s.n - n)) {
		for (n = 0; n < s.n && s.p[n] != '/'; n++)
			;
		if (n == 2 && s.p[0] == '.' && s.p[1] == '.')
			return bad_value(why, cap, "has .. in it");
		n += n < s.n;
	}
	return 0;
}

static int parse_text(const struct conf_key *k, struct span s, char *why, size_t cap)
{
	if ((double)s.n < k->min)
		return bad_value(why, cap, "is empty");
	if ((double)s.n > k->max)
		return bad_value(why, cap, "is too long");
	if (check_seen(s, why, cap) != 0)
		return -1;
	if (k->type == TYPE_NAME)
		return check_name(s, why, cap);
	if (k->type == TYPE_URL)
		return conf_url_check(s, why, cap);
	if (k->type == TYPE_FILE)
		return check_file(s, why, cap);
	if (k->type == TYPE_PATH && s.n > 0 && s.p[0] != '/')
		return bad_value(why, cap, "does not start with /");
	return 0;
}

/* ---- all types --------------------------------------------------------------------------- */

int conf_value_set(const struct conf_key *k, void *rec, struct span text, char *why, size_t cap)
{
	char *at = (char *)rec + k->at;
	uint64_t v = 0;
	double d = 0;
	int rc = -1;

	switch (k->type) {
	case TYPE_INT:	rc = parse_int(k, text, &v, why, cap); break;
	case TYPE_SIZE:	rc = parse_unit(k, text, size_units, &v, why, cap); break;
	case TYPE_TIME:	rc = parse_unit(k, text, time_units, &v, why, cap); break;
	case TYPE_BOOL:	rc = parse_bool(text, &v, why, cap); break;
	case TYPE_WORD:	rc = parse_word(k, text, &v, why, cap); break;
	case TYPE_MODE:	rc = parse_mode(k, text, &v, why, cap); break;
	case TYPE_NUMBER:
		if ((rc = parse_number(k, text, &d, why, cap)) == 0)
			memcpy(at, &d, sizeof(d));
		return rc;
	case TYPE_TEXT:
	case TYPE_NAME:
	case TYPE_PATH:
	case TYPE_FILE:
	case TYPE_URL:
		if ((rc = parse_text(k, text, why, cap)) != 0)
			return rc;
		memset(at, 0, k->width);
		memcpy(at, text.p, text.n);
		return 0;
	case TYPE_ADDRS:
	case TYPE_NAMES:
	case TYPE_ORDER:
	case TYPE_WORDS:
		return bad_value(why, cap, "is not a list");
	}
	if (rc == 0)
		field_put(at, k->width, v);
	return rc;
}

static const char *const part_words[] = {
	[TEXT_SYSTEM] = "system", [TEXT_TOOLS] = "tools", [TEXT_MESSAGES] = "messages", NULL
};

static int part_of(struct span text)
{
	for (int i = 0; i < TEXT_PARTS; i++)
		if (span_eq(text, span_str(part_words[i])))
			return i;
	return -1;
}

static int check_model_name(struct span s, bool star, char *why, size_t cap)
{
	if (s.n == 0)
		return bad_value(why, cap, "is empty");
	if (s.n > PROMPT_NAME_MAX)
		return bad_value(why, cap, "is too long");
	if (!star && memchr(s.p, '*', s.n) != NULL)
		return bad_value(why, cap, "has a * in it, which only models.name may");
	return check_seen(s, why, cap);
}

int conf_item_check(const struct conf_key *k, struct span text, char *why, size_t cap)
{
	if (k->type == TYPE_ADDRS)
		return conf_addr_check(text, k->optional, why, cap);
	if (k->type == TYPE_WORDS) {
		uint64_t word;

		return parse_word(k, text, &word, why, cap);
	}
	if (k->type == TYPE_NAMES)
		return check_model_name(text, k->optional, why, cap);
	if (part_of(text) < 0)
		return bad_value(why, cap, "is no part of a prompt");
	return 0;
}

static void addrs_set(const struct conf_key *k, void *rec, const struct span *items, size_t n)
{
	char *at = (char *)rec + k->at;
	struct conf *c = rec;
	struct span s;

	for (size_t i = 0; i < LISTEN_MAX; i++) {
		bool optional = false;

		memset(at + i * ADDR_MAX, 0, ADDR_MAX);
		if (i < n) {
			s = items[i];
			optional = conf_addr_optional(&s);
			memcpy(at + i * ADDR_MAX, s.p, s.n);
		}
		if (k->optional)
			c->loop.spop_optional[i] = optional;
	}
}

static void words_set(const struct conf_key *k, void *rec, const struct span *items, size_t n)
{
	uint8_t *at = (uint8_t *)rec + k->at;
	char why[CONF_REASON_MAX];
	uint64_t word;

	memset(at, 0, k->width);
	for (size_t i = 0; i < n && i < k->width; i++)
		if (parse_word(k, items[i], &word, why, sizeof(why)) == 0)
			at[i] = (uint8_t)(word + 1);
}

static void names_set(const struct conf_key *k, void *rec, const struct span *items, size_t n)
{
	char *at = (char *)rec + k->at;

	memset(at, 0, k->width);
	for (size_t i = 0; i < n && (i + 1) * (PROMPT_NAME_MAX + 1) <= k->width; i++)
		memcpy(at + i * (PROMPT_NAME_MAX + 1), items[i].p, items[i].n);
}

void conf_items_set(const struct conf_key *k, void *rec, const struct span *items, size_t n)
{
	struct text_order *order = (struct text_order *)((char *)rec + k->at);

	if (k->type == TYPE_ADDRS) {
		addrs_set(k, rec, items, n);
		return;
	}
	if (k->type == TYPE_WORDS) {
		words_set(k, rec, items, n);
		return;
	}
	if (k->type == TYPE_NAMES) {
		names_set(k, rec, items, n);
		return;
	}
	for (size_t i = 0; i < n && i < TEXT_PARTS; i++)
		order->part[i] = (uint8_t)part_of(items[i]);
}

/* ---- back to text ------------------------------------------------------------------------ */

static void quote_text(const char *s, char *out, size_t cap)
{
	size_t n = 0;

	out[n++] = '"';
	for (; *s != '\0' && n + 4 < cap; s++) {
		if (*s == '"' || *s == '\\')
			out[n++] = '\\';
		out[n++] = *s;
	}
	memcpy(out + n, "\"", 2);
}

static void addrs_text(const struct conf_key *k, const void *rec, char *out, size_t cap)
{
	const char (*addr)[ADDR_MAX] = (const char (*)[ADDR_MAX])((const char *)rec + k->at);
	const struct conf *c = rec;
	size_t n = (size_t)snprintf(out, cap, "[");

	for (size_t i = 0; i < LISTEN_MAX && addr[i][0] != '\0' && n < cap; i++) {
		bool optional = k->optional && c->loop.spop_optional[i];

		n += (size_t)snprintf(out + n, cap - n, "%s\"%s%s\"", i ? ", " : "", addr[i],
				      optional ? " optional" : "");
	}
	if (n < cap)
		snprintf(out + n, cap - n, "]");
}

static void order_text(const struct text_order *o, char *out, size_t cap)
{
	snprintf(out, cap, "[%s, %s, %s]", part_words[o->part[0] % TEXT_PARTS],
		 part_words[o->part[1] % TEXT_PARTS], part_words[o->part[2] % TEXT_PARTS]);
}

static void words_list(const struct conf_key *k, const uint8_t *at, char *out, size_t cap)
{
	size_t n = (size_t)snprintf(out, cap, "[");

	for (size_t i = 0; i < k->width && at[i] != 0 && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? ", " : "", k->words[at[i] - 1]);
	if (n < cap)
		snprintf(out + n, cap - n, "]");
}

static void names_list(const struct conf_key *k, const char *at, char *out, size_t cap)
{
	char name[2 * PROMPT_NAME_MAX + 3];
	size_t n = (size_t)snprintf(out, cap, "[");

	for (size_t i = 0; i < k->width && at[i] != '\0' && n < cap; i += PROMPT_NAME_MAX + 1) {
		quote_text(at + i, name, sizeof(name));
		n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? ", " : "", name);
	}
	if (n < cap)
		snprintf(out + n, cap - n, "]");
}

void conf_value_text(const struct conf_key *k, const void *rec, char *out, size_t cap)
{
	const char *at = (const char *)rec + k->at;
	double d;

	switch (k->type) {
	case TYPE_NUMBER:
		memcpy(&d, at, sizeof(d));
		number_text(d, out, cap);
		break;
	case TYPE_BOOL:
		snprintf(out, cap, "%s", field_get(at, k->width) ? "true" : "false");
		break;
	case TYPE_WORD:
		snprintf(out, cap, "%s", k->words[field_get(at, k->width)]);
		break;
	case TYPE_TEXT:
	case TYPE_NAME:
	case TYPE_PATH:
	case TYPE_FILE:
	case TYPE_URL:
		quote_text(at, out, cap);
		break;
	case TYPE_NAMES:
		names_list(k, at, out, cap);
		break;
	case TYPE_ADDRS:
		addrs_text(k, rec, out, cap);
		break;
	case TYPE_WORDS:
		words_list(k, (const uint8_t *)at, out, cap);
		break;
	case TYPE_ORDER:
		order_text((const struct text_order *)at, out, cap);
		break;
	default:
		bound_text(k, (double)field_get(at, k->width), out, cap);
		break;
	}
}
