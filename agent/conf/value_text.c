/* value_text.c - values, types and ranges as text.
 *
 * What is printed is read back to the same bits: numbers have as many digits as that takes, sizes
 * and times the largest unit that leaves no remainder. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/conf/value_in.h"

const char *conf_type_name(enum conf_type t)
{
	static const char *const names[] = {
		[TYPE_INT] = "integer", [TYPE_SIZE] = "size", [TYPE_TIME] = "time",
		[TYPE_NUMBER] = "number", [TYPE_BOOL] = "boolean", [TYPE_WORD] = "word",
		[TYPE_MODE] = "mode", [TYPE_TEXT] = "text", [TYPE_NAME] = "name",
		[TYPE_PATH] = "path", [TYPE_FILE] = "path", [TYPE_URL] = "url",
		[TYPE_ENDPOINT] = "url",
		[TYPE_NAMES] = "list", [TYPE_ADDRS] = "list", [TYPE_ORDER] = "list",
		[TYPE_WORDS] = "list", [TYPE_HOSTS] = "list",
	};

	return names[t];
}

bool conf_type_is_list(enum conf_type t)
{
	return t == TYPE_ADDRS || t == TYPE_HOSTS || t == TYPE_NAMES || t == TYPE_ORDER || t == TYPE_WORDS;
}

/* ---- units ------------------------------------------------------------------------------- */

const struct conf_unit conf_size_units[] = {	/* largest first */
	{ "GiB", 1ull << 30 }, { "MiB", 1ull << 20 }, { "KiB", 1ull << 10 }, { NULL, 1 },
};

const struct conf_unit conf_time_units[] = {
	{ "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 }, { NULL, 1 },
};

static void unit_text(uint64_t v, const struct conf_unit *u, char *out, size_t cap)
{
	while (u->name != NULL && (v == 0 || v % u->factor != 0))
		u++;
	if (u->name == NULL)
		snprintf(out, cap, "%llu", (unsigned long long)v);
	else
		snprintf(out, cap, "%llu %s", (unsigned long long)(v / u->factor), u->name);
}

/* Print the fewest digits that give the same number again, with e-9 instead of e-09. */
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
		unit_text((uint64_t)v, conf_size_units, out, cap);
		break;
	case TYPE_TIME:
		unit_text((uint64_t)v, conf_time_units, out, cap);
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

/* A longer list stands in the manual and in the error for a wrong word. */
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
	case TYPE_ENDPOINT:
		snprintf(out, cap, "%s to %s bytes", min, max);
		break;
	case TYPE_NAMES:
		snprintf(out, cap, "%s to %s names of 1 to %d bytes", min, max, PROMPT_NAME_MAX);
		break;
	case TYPE_HOSTS:
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
		snprintf(out, cap,
		    "an address like 127.0.0.1:8000 or http://127.0.0.1:8000/metrics, of %s",
		    range);
		break;
	case TYPE_ENDPOINT:
		snprintf(out, cap,
		    "an address like tcp://127.0.0.1:5557 or tcp://{address}:5557%s, of %s",
		    k->optional ? ", or auto" : "", range);
		break;
	case TYPE_HOSTS:
		snprintf(out, cap,
		    "a list of %s like 10.0.0.5:6379, redis.internal:6379 or unix@/path", range);
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

/* ---- a whole value ----------------------------------------------------------------------- */

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

const char *const conf_part_words[] = {
	[TEXT_SYSTEM] = "system", [TEXT_TOOLS] = "tools", [TEXT_MESSAGES] = "messages", NULL
};

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

static void hosts_text(const struct conf_key *k, const char *at, char *out, size_t cap)
{
	size_t n = (size_t)snprintf(out, cap, "[");

	for (size_t i = 0; i < (size_t)k->max && at[i * ADDR_MAX] != '\0' && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, "%s\"%s\"", i ? ", " : "", at + i * ADDR_MAX);
	if (n < cap)
		snprintf(out + n, cap - n, "]");
}

static void order_text(const struct text_order *o, char *out, size_t cap)
{
	snprintf(out, cap, "[%s, %s, %s]", conf_part_words[o->part[0] % TEXT_PARTS],
		 conf_part_words[o->part[1] % TEXT_PARTS], conf_part_words[o->part[2] % TEXT_PARTS]);
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
	case TYPE_ENDPOINT:
		quote_text(at, out, cap);
		break;
	case TYPE_NAMES:
		names_list(k, at, out, cap);
		break;
	case TYPE_HOSTS:
		hosts_text(k, at, out, cap);
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
