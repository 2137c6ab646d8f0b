/* json_scan.h - the inner loop of json.c: how far does plain text go?
 *
 * Skip from <p> over bytes that stand for themselves in a JSON string: everything but '"' and '\\',
 * as long as it is good UTF-8. Returns where it stopped: <end>, a quote, a backslash, or the first
 * byte of a sequence that is bad or is not all there yet. Reads nothing at or behind <end>, and needs
 * <p> to be at the start of a character. */
#ifndef KVROUTE_BASE_JSON_SCAN_H
#define KVROUTE_BASE_JSON_SCAN_H

typedef const char *json_scan_fn(const char *p, const char *end);

json_scan_fn json_scan_plain;	/* 8 bytes a step, any machine */

#ifdef __x86_64__
json_scan_fn json_scan_sse2;	/* 16 bytes a step; UTF-8 by the character */
json_scan_fn json_scan_avx2;	/* 32 bytes a step; UTF-8 by the block */
#endif

json_scan_fn *json_scan_best(void);	/* the fastest that this CPU has */

#endif
