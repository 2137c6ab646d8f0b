/* truth_text.c - words for pages and metrics; a file of its own, because they need no router. */
#include "agent/route/truth.h"

const char *truth_text(enum truth t)
{
	static const char *const texts[TRUTHS] = { "tree", "events", "sent", "both" };

	return texts[t];
}

const char *truth_cause_text(enum truth_cause c)
{
#define WORD(name, word, sentence)	[CAUSE_##name] = word,
	static const char *const words[TRUTH_CAUSES] = { [CAUSE_NONE] = "", TRUTH_CAUSE_LIST(WORD) };
#undef WORD

	return words[c];
}
