/* billing.h - the text that Claude Code puts before its system prompt:
 *
 *   x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;
 *
 * It differs with each request, and vLLM leaves it out before it renders a prompt. */
#ifndef KVROUTE_BASE_BILLING_H
#define KVROUTE_BASE_BILLING_H

#include "agent/base/types.h"

#define BILLING_BEGIN	"x-anthropic-billing-header"
#define BILLING_BEGIN_N	(sizeof(BILLING_BEGIN) - 1)

static inline bool billing_begins(struct span text)
{
	return text.n >= BILLING_BEGIN_N && memcmp(text.p, BILLING_BEGIN, BILLING_BEGIN_N) == 0;
}

#endif
