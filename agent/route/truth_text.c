/* truth_text.c - words for pages and metrics; a file of its own, because they need no router. */
#include "agent/route/truth.h"

const char *truth_text(enum truth t)
{
	static const char *const texts[TRUTHS] = { "tree", "events", "sent", "both" };

	return texts[t];
}
