/* page_text_in.h - formatted text, labels and JSON strings for the pages of the metrics listener.
 * These are buffers with a limit (base/buf). The owner checks <failed> once at the end. */
#ifndef KVROUTE_LOOP_PAGE_TEXT_IN_H
#define KVROUTE_LOOP_PAGE_TEXT_IN_H

#include "agent/base/buf.h"

/* Append formatted text of less than 512 bytes. Longer text sets <failed>. */
void page_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Append one Prometheus label, name="value". Backslash, quote and newline are escaped as the format
 * requires. Every byte that is not printable ASCII becomes \\xNN. So any name gives valid text, and
 * different names stay different. */
void page_label(struct buf *b, const char *name, struct span value);

/* Append a JSON string with its quotes. A byte that is not printable ASCII becomes \\u00xx, so any
 * name gives valid JSON. */
void page_json(struct buf *b, const char *s);

#endif
