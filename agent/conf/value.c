/* value.c - values from text.
 *
 * Strict on purpose: a text that could mean two things (1_000, 010, 5 without a unit, KB, yes) is
 * rejected with the right way to write it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/conf/near_in.h"
#include "agent/conf/value_in.h"

static int bad_value(char *why, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int bad_value(char *why, size_t cap, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, cap, fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- numbers ----------------------------------------------------------------------------- */

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

/* Remove the digits at the start of <s>. Returns -1 if there are none or the number exceeds 2^64 -
 * 1. */
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

/* Returns true for digits, or '-' and digits, which are a whole number out of range. */
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

static int parse_unit(const struct conf_key *k, struct span s, const struct conf_unit *u,
    uint64_t *v, char *why, size_t cap)
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

/* Accepts: sign digits . digits e sign digits. strtod() alone would also accept inf, nan, hex and
 * spaces. */
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
		*v = 0;		/* not -0, which would be printed */
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
			return bad_value(why, cap, "contains an invisible character");
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
			return bad_value(why, cap, "contains characters other than A-Z a-z 0-9 - _ . :");
	return 0;
}

/* Rejects "..": such a path cannot be opened, or is reached through a link elsewhere. */
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
	if (k->type == TYPE_URL && s.n > 0)
		return conf_url_check(s, why, cap);
	if (k->type == TYPE_ENDPOINT && s.n > 0)
		return conf_endpoint_check(s, k->optional, why, cap);
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
	case TYPE_SIZE:	rc = parse_unit(k, text, conf_size_units, &v, why, cap); break;
	case TYPE_TIME:	rc = parse_unit(k, text, conf_time_units, &v, why, cap); break;
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
	case TYPE_ENDPOINT:
		if ((rc = parse_text(k, text, why, cap)) != 0)
			return rc;
		memset(at, 0, k->width);
		memcpy(at, text.p, text.n);
		return 0;
	case TYPE_HOSTS:
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

static int part_of(struct span text)
{
	for (int i = 0; i < TEXT_PARTS; i++)
		if (span_eq(text, span_str(conf_part_words[i])))
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
		return bad_value(why, cap, "contains *, which only models.name may");
	return check_seen(s, why, cap);
}

int conf_item_check(const struct conf_key *k, struct span text, char *why, size_t cap)
{
	if (k->type == TYPE_ADDRS)
		return conf_addr_check(text, k->optional, why, cap);
	if (k->type == TYPE_HOSTS)
		return conf_host_check(text, why, cap);
	if (k->type == TYPE_WORDS) {
		uint64_t word;

		return parse_word(k, text, &word, why, cap);
	}
	if (k->type == TYPE_NAMES)
		return check_model_name(text, k->optional, why, cap);
	if (part_of(text) < 0)
		return bad_value(why, cap, "is not a part of a prompt");
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

static void hosts_set(const struct conf_key *k, void *rec, const struct span *items, size_t n)
{
	char *at = (char *)rec + k->at;

	memset(at, 0, (size_t)k->max * ADDR_MAX);
	for (size_t i = 0; i < n; i++)
		memcpy(at + i * ADDR_MAX, items[i].p, items[i].n);
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
	if (k->type == TYPE_HOSTS) {
		hosts_set(k, rec, items, n);
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

