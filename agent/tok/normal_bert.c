/* normal_bert.c - the steps of BertNormalizer that nothing else has: control characters,
 * ideographs, nonspacing marks. The loader puts NFD and Lowercase between and after them. */
#include "agent/base/utf8.h"
#include "agent/tok/normal_forms_in.h"
#include "agent/tok/unicode/bert_in.h"
#include "agent/tok/unicode/unicode.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

/* Not U+2B820 .. U+2B91F, because the library does not have them. */
static const struct uc_range ideographs[] = { { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff },
	{ 0xf900, 0xfaff }, { 0x20000, 0x2a6df }, { 0x2a700, 0x2b81f }, { 0x2b920, 0x2ceaf },
	{ 0x2f800, 0x2fa1f } };

void bert_clean(struct rewrite *w)
{
	size_t at, len;
	uint32_t cp;

	for (at = 0; at < w->n; at += len) {
		len = utf8_get(w->in + at, w->n - at, &cp);
		if (cp >= ' ' && cp < 0x7f)
			continue;
		if (uc_range_of(bert_controls, COUNT(bert_controls), cp) != NULL)
			rewrite_put(w, at, at + len, NULL, 0);
		else if (uc_class(cp) & UC_SPACE)
			rewrite_put(w, at, at + len, " ", 1);
	}
}

void bert_ideographs(struct rewrite *w)
{
	uint8_t u[UTF8_MAX + 2] = " ";
	size_t at, len;
	uint32_t cp;

	for (at = 0; at < w->n; at += len) {
		len = utf8_get(w->in + at, w->n - at, &cp);
		if (cp < 0x3400 || uc_range_of(ideographs, COUNT(ideographs), cp) == NULL)
			continue;
		memcpy(u + 1, w->in + at, len);
		u[len + 1] = ' ';
		rewrite_put(w, at, at + len, u, len + 2);
	}
}

void bert_marks_out(struct rewrite *w)
{
	size_t at, len;
	uint32_t cp;

	for (at = 0; at < w->n; at += len) {
		len = utf8_get(w->in + at, w->n - at, &cp);
		if (cp >= 0x300 && uc_range_of(bert_marks, COUNT(bert_marks), cp) != NULL)
			rewrite_put(w, at, at + len, NULL, 0);
	}
}
