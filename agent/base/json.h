/* json.h - a resumable JSON scanner that reports the contents of truncated text too.
 *
 * The caller feeds bytes in pieces of any size. Events go to a callback and do not depend on how
 * the bytes were split. Libraries report nothing of a string that does not end; here that string
 * is the prompt of a truncated request body.
 *
 * The grammar is RFC 8259. Where the RFC leaves a choice:
 *   - a string is reported in pieces, decoded to UTF-8, as they arrive; JSON_STRING_END ends it
 *   - bad UTF-8 and lone surrogates become U+FFFD, one per maximal bad part (Unicode 15, 3.9);
 *     "\u0000" is a NUL byte; raw control characters in strings are accepted unchanged
 *   - a number is reported as text, up to JSON_NUMBER_MAX bytes; a longer one is an error
 *   - a key is truncated after JSON_KEY_MAX bytes, because no key of interest is longer
 *   - nesting above <max_depth> is an error; so is anything but white space after the value
 *   - a byte order mark before the value is skipped
 *   - a number at the top level ends at white space, because its end is not known otherwise
 * Never recurses, never allocates. Strings without escapes are reported as borrowed bytes of the
 * input, scanned 16 or 32 bytes per step (SSE2, or AVX2 if the CPU has it).
 *
 * json_as_text() reports a whole value, such as a tool's definition, as text instead of as
 * events. The text is compact JSON: no white space, only '"' and '\' escaped, all other
 * characters literal. Most of it is therefore borrowed bytes of the input too. */
#ifndef KVROUTE_BASE_JSON_H
#define KVROUTE_BASE_JSON_H

#include "agent/base/json_scan.h"
#include "agent/base/types.h"

#define JSON_DEPTH_MAX	512
#define JSON_KEY_MAX	63
#define JSON_NUMBER_MAX	63

enum json_event {
	JSON_OBJECT, JSON_OBJECT_END, JSON_ARRAY, JSON_ARRAY_END,
	JSON_KEY,		/* text: the whole key, decoded; valid during the call */
	JSON_STRING,		/* a string value starts; no text */
	JSON_STRING_PART,	/* text: its next piece, decoded; valid during the call; never empty */
	JSON_STRING_END,
	JSON_NUMBER,		/* text: as written; valid during the call */
	JSON_TRUE, JSON_FALSE, JSON_NULL,
	JSON_TEXT		/* text: the next piece of a value read as text; never empty */
};

enum json_state {
	JSON_MORE,	/* the value is incomplete: feed more, or treat it as truncated */
	JSON_DONE,	/* one complete value, followed by white space only */
	JSON_BAD	/* not JSON; final */
};

struct json;

/* Receive one event. j->depth is the number of objects and arrays open around the event, without
 * the one that starts or ends with it. */
typedef void json_sink(void *arg, const struct json *j, enum json_event ev, struct span text);

/* Embedded by its owner; its fields are private to json*.c except as noted. It keeps no pointer
 * into itself or into the input between calls, so it may be moved and passed to another thread. */
struct json {
	json_sink *sink;
	void *arg;
	const struct json_scan *scan;	/* json_scan_best(); a caller may replace it after json_init() */
	uint64_t offset;		/* bytes consumed so far; on JSON_BAD: the offset of the error */
	/* when an object or array starts: the offset of its bracket; when it ends: that after it */
	uint64_t edge;
	uint64_t skip_to;		/* offset at which reading continues, if larger; 0: none is */
	int64_t integer;		/* at JSON_NUMBER: the value, or -1 if only the text has it */
	uint16_t depth, max_depth;
	uint8_t state, resume;		/* enum json_state, enum json_resume */
	uint8_t expect;
	uint8_t literal, literal_at;
	uint8_t text_n;			/* bytes in <text> */
	uint8_t utf8_n;			/* bytes of an unfinished character in <utf8> */
	uint8_t utf8[4];
	uint8_t hex_n;			/* digits seen of a \u escape */
	bool in_key;
	uint16_t hex, high;		/* value so far; a high surrogate whose low one is pending */
	char text[JSON_KEY_MAX + 5];	/* an incomplete key or number */
	uint64_t is_object[JSON_DEPTH_MAX / 64];	/* one bit per level */
	/* a value read as text */
	bool as_text, dropping, had_member;
	uint16_t text_depth, drop_depth;
	const char *drop_key;		/* of static storage */
	/* during json_feed(): start and end of the input; start of the text not reported yet */
	const char *begin, *end, *from;
};

/* Prepare <j> to read one value of at most <max_depth> levels (bounded by JSON_DEPTH_MAX). */
void json_init(struct json *j, uint16_t max_depth, json_sink *sink, void *arg);

/* Read the value that starts now as text. The sink calls this at JSON_OBJECT or JSON_ARRAY. It
 * then receives only JSON_TEXT events until the value's end event; together they are the value
 * with its brackets. Members named <drop_key> of objects <levels> deep in it are omitted (1: its
 * own members; 0: none). At that depth only the first JSON_KEY_MAX bytes of other keys are kept. */
void json_as_text(struct json *j, uint16_t levels, const char *drop_key);

/* Leave out the object or array that starts now, whose bytes are known: it ends before <offset>.
 * The sink calls this at JSON_OBJECT or JSON_ARRAY; its content and its end have no events. */
void json_skip(struct json *j, uint64_t offset);

/* Return the bytes at hand from the bracket of the object that starts now. The sink calls this at
 * JSON_OBJECT. */
struct span json_at_hand(const struct json *j);

/* Go on inside a string of the object that starts now: its first <n> bytes at hand are whole
 * members, and a key with the opening quote of its value. The sink calls this at JSON_OBJECT, and
 * does what these bytes mean: they have no events, nor has the start of the string. */
void json_enter_string(struct json *j, size_t n);

/* Consume <n> more bytes. Returns the state after them; j->offset says how many were consumed. */
enum json_state json_feed(struct json *j, const char *p, size_t n);

/* Tell, during an event, if it is a piece of a string or literal: how many of them there are
 * depends on how the bytes were split, and on what follows. */
static inline bool json_in_token(const struct json *j)
{
	return j->resume != 0;
}

/* Bring <j>, which json_init() has prepared, to the state after the first <offset> bytes of an
 * input: an object is open, in it an array, and an element of this has just ended. */
void json_resume_list(struct json *j, uint64_t offset);

#endif
