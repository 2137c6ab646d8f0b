/* json_in.h - private to json.c and json_string.c: the scanner's positions and its output. */
#ifndef KVROUTE_BASE_JSON_IN_H
#define KVROUTE_BASE_JSON_IN_H

#include "agent/base/json.h"

enum json_expect {
	EXPECT_START,		/* the value itself, or a byte order mark */
	EXPECT_VALUE,
	EXPECT_VALUE_OR_END,	/* after '[' */
	EXPECT_KEY_OR_END,	/* after '{' */
	EXPECT_KEY,		/* after ',' in an object */
	EXPECT_COLON,
	EXPECT_COMMA_OR_END,
	EXPECT_NOTHING		/* after the value */
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

/* Tell if the name of the current key is needed: inside a value read as text, only at the depth
 * where a key may be dropped. */
static inline bool json_key_counts(const struct json *j)
{
	return !j->as_text || j->depth == j->drop_depth;
}

/* Report the pending bytes before <p> of a value that is read as text. */
static inline void json_text_until(struct json *j, const char *p)
{
	if (j->from != NULL && p > j->from)
		json_emit(j, JSON_TEXT, j->from, (size_t)(p - j->from));
	j->from = NULL;
}

/* json.c: end a value; end a key called <name> */
void json_value_end(struct json *j);
void json_key_end(struct json *j, struct span name);

/* json_string.c: read a string from <p>, after its opening quote. Returns where reading
 * continues. */
const char *json_string_start(struct json *j, const char *p, const char *end, bool key);
const char *json_string_feed(struct json *j, const char *p, const char *end);

#endif
