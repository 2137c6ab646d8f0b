/* json_in.h - what json.c and json_string.c share: where the scanner is, and how text goes out. */
#ifndef KVROUTE_BASE_JSON_IN_H
#define KVROUTE_BASE_JSON_IN_H

#include "agent/base/json.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

enum json_expect {
	EXPECT_START,		/* the value itself, or a byte order mark */
	EXPECT_VALUE,
	EXPECT_VALUE_OR_END,	/* behind '[' */
	EXPECT_KEY_OR_END,	/* behind '{' */
	EXPECT_KEY,		/* behind ',' in an object */
	EXPECT_COLON,
	EXPECT_COMMA_OR_END,
	EXPECT_NOTHING		/* behind the value */
};

enum json_resume { IN_NOTHING, IN_STRING, IN_ESCAPE, IN_HEX, IN_NUMBER, IN_LITERAL, IN_BOM };

static inline void json_bad(struct json *j)
{
	j->state = JSON_BAD;
}

static inline void json_emit(struct json *j, enum json_event ev, const char *p, size_t n)
{
	j->sink(j->arg, j, ev, span_of(p, n));
}

/* A key whose name has to be known: every one, but inside a value that is taken as text. */
static inline bool json_key_counts(const struct json *j)
{
	return !j->as_text || j->depth == j->drop_depth;
}

/* Bytes up to <p> belong to the value that is taken as text: pass them on. */
static inline void json_text_until(struct json *j, const char *p)
{
	if (j->from != NULL && p > j->from)
		json_emit(j, JSON_TEXT, j->from, (size_t)(p - j->from));
	j->from = NULL;
}

/* How many bytes of plain ASCII stand before a quote, if it comes among the next 16; else -1. Names
 * and most values that are not prose are so short; a call and its preparations would cost more. */
static inline int json_short(const char *p, const char *end)
{
#ifdef __x86_64__
	__m128i v, quote;
	unsigned int quotes, others;

	if (end - p < 16)
		return -1;
	v = _mm_loadu_si128((const __m128i *)p);
	quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
	quotes = (unsigned int)_mm_movemask_epi8(quote);
	others = (unsigned int)_mm_movemask_epi8(_mm_or_si128(v, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
	if (quotes == 0 || (others & (quotes ^ (quotes - 1))) != 0)
		return -1;
	return __builtin_ctz(quotes);
#else
	return -1;
#endif
}

/* json.c: behind a value; behind a key whose name is <name> */
void json_value_end(struct json *j);
void json_key_end(struct json *j, struct span name);

/* json_string.c: <p> is behind the opening quote; back is where to go on */
const char *json_string_start(struct json *j, const char *p, const char *end, bool key);
const char *json_string_feed(struct json *j, const char *p, const char *end);

#endif
