/* json_scan.h - the inner loops of the JSON scanner: plain text, and text with escapes in it. */
#ifndef KVROUTE_BASE_JSON_SCAN_H
#define KVROUTE_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_COPY_ROOM	64	/* bytes of room below which json_copy_fn may do nothing */

/* Skip from <p> over bytes that stand for themselves in a JSON string: everything but '"' and '\\',
 * as long as it is good UTF-8. Returns where it stopped: <end>, a quote, a backslash, or the first
 * byte of a character that is bad or is not all there yet. Reads nothing at or behind <end>, and needs
 * <p> to be at the start of a character. */
typedef const char *json_scan_fn(const char *p, const char *end);

/* Decode text of a JSON string from <p> into <out>, escapes too; <keep>: but '"' and '\\' stay
 * escaped. Stops where json_scan_fn does, but for good escapes, and sooner: near <end>, near <out_end>,
 * at half a surrogate pair. Returns where; <*out> has moved behind what was written, bytes up to
 * <out_end> may have been overwritten. */
typedef const char *json_copy_fn(const char *p, const char *end, char **out, char *out_end, bool keep);

struct json_scan {
	const char *name;
	json_scan_fn *plain;
	json_copy_fn *copy;
};

extern const struct json_scan json_scan_plain;	/* 8 bytes a step, any machine */

#ifdef __x86_64__
extern const struct json_scan json_scan_sse2;	/* 16 bytes a step */
extern const struct json_scan json_scan_avx2;	/* 32 bytes a step */
#endif

const struct json_scan *json_scan_best(void);	/* the fastest that this CPU has */

#endif
