/* jval_get.h - read members of a body. An absent member and one of another kind read as nothing. */
#ifndef KVROUTE_CHAT_JVAL_GET_H
#define KVROUTE_CHAT_JVAL_GET_H

#include "agent/jinja/value.h"

/* Returns JV_MISSING if <of> is no dict or has no such member. */
static inline struct jval get(struct jval of, const char *key)
{
	const struct jval *v = of.kind == JV_DICT ? jdict_get_str(of.d, key, strlen(key)) : NULL;

	return v != NULL ? *v : (struct jval){ .kind = JV_MISSING };
}

/* Returns n == 0 if it is no text. */
static inline struct span get_text(struct jval of, const char *key)
{
	struct jval v = get(of, key);

	return v.kind == JV_STR ? jval_span(v) : (struct span){ .n = 0 };
}

static inline bool is_list(struct jval v)
{
	return v.kind == JV_LIST;
}

static inline bool is_str(struct jval v)
{
	return v.kind == JV_STR;
}

/* Tell if <v> is absent or null. */
static inline bool is_none(struct jval v)
{
	return v.kind == JV_MISSING || v.kind == JV_NONE;
}

static inline bool is_word(struct span s, const char *word)
{
	return span_eq(s, span_str(word));
}

#endif
