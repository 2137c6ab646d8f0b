/* json_scan.h - inner loops of the JSON scanner: plain text, and text with escapes. */
#ifndef KVROUTE_BASE_JSON_SCAN_H
#define KVROUTE_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/simd16.h"

#define JSON_COPY_ROOM	64	/* json_copy_fn may do nothing with less room than this, in bytes */

/* Skip the bytes from <p> that are literal in a JSON string: valid UTF-8 other than '"' and
 * '\\'. Returns where it stopped: <end>, a quote, a backslash, or the first byte of a character
 * that is invalid or incomplete. Reads no byte at or after <end>. <p> must be at the start of a
 * character. */
typedef const char *json_scan_fn(const char *p, const char *end);

/* Decode text of a JSON string with its escapes from <p> into <out>. If <keep>, '"' and '\\'
 * stay escaped. Returns where it stopped: as json_scan_fn, but after valid escapes; or earlier,
 * near <end> or <out_end> or at half a surrogate pair. <*out> advances past the bytes written.
 * Bytes from there to <out_end> may be overwritten. */
typedef const char *json_copy_fn(const char *p, const char *end, char **out, char *out_end,
				 bool keep);

struct json_scan {
	const char *name;
	json_scan_fn *plain;
	json_copy_fn *copy;
};

extern const struct json_scan json_scan_plain;	/* 8 bytes per step, any machine */

#ifdef __x86_64__
extern const struct json_scan json_scan_sse2;	/* 16 bytes per step */
extern const struct json_scan json_scan_avx2;	/* 32 bytes per step */
#elif SIMD16
extern const struct json_scan json_scan_neon;	/* 16 bytes per step */
#endif

const struct json_scan *json_scan_best(void);	/* the fastest one this CPU supports */

/* Return the number of plain ASCII bytes before a quote, or -1 if none is among the next 16 bytes.
 * Inlined because names and most values other than prose are that short. */
static inline int json_short(const char *p, const char *end)
{
#if SIMD16
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

/* Return the quote that ends the plain text at <p>, or NULL if the text is not plain or has no end
 * there. */
static inline const char *json_plain_end(
    const struct json_scan *scan, const char *p, const char *end)
{
	int n = json_short(p, end);
	const char *stop;

	if (n >= 0)
		return p + n;
	stop = scan->plain(p, end);
	return stop < end && *stop == '"' ? stop : NULL;
}

#endif
