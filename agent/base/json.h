/* json.h - a resumable JSON scanner that also makes sense of a text cut short.
 *
 * Bytes are pushed in as they come, in pieces of any size; events come out through a callback, and
 * are the same however the bytes were split. No library does this: on a text that ends inside a
 * string they give nothing of that string, and here the cut string is the prompt.
 *
 * RFC 8259, with what is not said there settled as follows:
 *   - a string comes in pieces, decoded to UTF-8, as far as it was seen; JSON_STRING_END ends it
 *   - bad UTF-8 and lone surrogates become U+FFFD, one per maximal bad part (Unicode 15, 3.9);
 *     "\u0000" is a NUL byte; raw control characters in strings are taken as they are
 *   - numbers are passed on as text, up to JSON_NUMBER_MAX bytes; longer ones are an error
 *   - keys longer than JSON_KEY_MAX bytes are cut there: no key anyone looks for is that long
 *   - nesting above <max_depth> is an error; so is anything but white space behind the value
 *   - a byte order mark before the value is skipped
 *   - a bare number is whole when white space follows: its end cannot be seen otherwise
 * Never recurses, never allocates. Strings without escapes are passed on as borrowed bytes of the
 * input, found 16 or 32 bytes at a step (SSE2, AVX2 when the CPU has it).
 *
 * A value that counts as text and not by its members (a tool's definition) can be had as text, from
 * its start to its end: json_as_text(). That is compact JSON: no white space, only '"' and '\'
 * escaped, everything else as itself; so most of it, too, is borrowed bytes of the input. */
#ifndef KVROUTE_BASE_JSON_H
#define KVROUTE_BASE_JSON_H

#include "agent/base/json_scan.h"
#include "agent/base/types.h"

#define JSON_DEPTH_MAX	512
#define JSON_KEY_MAX	63
#define JSON_NUMBER_MAX	63

enum json_event {
	JSON_OBJECT, JSON_OBJECT_END, JSON_ARRAY, JSON_ARRAY_END,
	JSON_KEY,		/* text: the whole key, decoded; lives for the call */
	JSON_STRING,		/* a string value starts; no text */
	JSON_STRING_PART,	/* text: some more of it, decoded; lives for the call; never empty */
	JSON_STRING_END,
	JSON_NUMBER,		/* text: as written; lives for the call */
	JSON_TRUE, JSON_FALSE, JSON_NULL,
	JSON_TEXT		/* text: some more of a value that is taken as text; never empty */
};

enum json_state {
	JSON_MORE,	/* no whole value yet: feed more, or call it cut */
	JSON_DONE,	/* a whole value, and nothing but white space behind it */
	JSON_BAD	/* not JSON; stays so */
};

struct json;

/* j->depth: how many objects and arrays are open around the event; the one that starts or ends
 * with it is not counted. */
typedef void json_sink(void *arg, const struct json *j, enum json_event ev, struct span text);

/* Embedded by its owner; the fields are json.c's own business. Holds no pointer into itself or
 * into the input between calls, so it may be moved and handed to another thread. */
struct json {
	json_sink *sink;
	void *arg;
	const struct json_scan *scan;	/* json_scan_best(); may be set to another after json_init() */
	uint64_t offset;		/* bytes taken so far; on JSON_BAD: where it went wrong */
	int64_t integer;		/* at JSON_NUMBER: its value, or -1: look at the text */
	uint16_t depth, max_depth;
	uint8_t state, resume;		/* enum json_state; where to go on */
	uint8_t expect;
	uint8_t literal, literal_at;
	uint8_t text_n;			/* bytes in <text> */
	uint8_t utf8_n, utf8_need;	/* bytes of an unfinished character in <utf8> */
	uint8_t utf8[4];
	uint8_t hex_n;			/* digits seen of a \u escape */
	bool in_key;
	uint16_t hex, high;		/* value so far; a high surrogate that waits for its low one */
	char text[JSON_KEY_MAX + 5];	/* a key or a number that is being put together */
	uint64_t is_object[JSON_DEPTH_MAX / 64];	/* a bit for each level */
	/* a value taken as text */
	bool as_text, dropping, had_member;
	uint16_t text_depth, drop_depth;
	const char *drop_key;		/* of static storage */
	const char *from;		/* within json_feed(): text not passed on yet begins here */
};

void json_init(struct json *j, uint16_t max_depth, json_sink *sink, void *arg);
/* To be called by the sink, at JSON_OBJECT or JSON_ARRAY: until that value's end event there will be
 * JSON_TEXT events only, which together are the value, brackets included. Members named <drop_key> of
 * objects that lie <levels> deep in it (1: its own members; 0: none) are left out as if they were not
 * there; other keys at that depth count by their first JSON_KEY_MAX bytes. */
void json_as_text(struct json *j, uint16_t levels, const char *drop_key);

enum json_state json_feed(struct json *j, const char *p, size_t n);

#endif
