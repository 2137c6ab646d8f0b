/* json_text.h - the lexical parts of JSON (RFC 8259) in a text that is complete in memory: blanks,
 * numbers, escapes. Two readers are built on them: json_doc.h, strict, for files; and
 * agent/jinja/from_json.c, lossy, for values of request bodies. */
#ifndef KVROUTE_BASE_JSON_TEXT_H
#define KVROUTE_BASE_JSON_TEXT_H

#include "agent/base/types.h"

static inline const char *json_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

/* Return the end of the number at <p>, or NULL if there is none. Sets <real> if it has a fraction
 * or an exponent. */
const char *json_number(const char *p, const char *end, bool *real);

/* Decode the escape at <p>, a backslash, to <out>, which has room for UTF8_MAX bytes. A surrogate
 * pair is one escape. Returns the number of bytes read, or 0 if it is none of JSON's. A surrogate
 * without its other half is U+FFFD if <lossy>, otherwise it is no escape. */
size_t json_escape(const char *p, const char *end, bool lossy, char *out, size_t *n_out);

#endif
