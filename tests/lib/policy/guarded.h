/* guarded.h - which rules the guard applies to, for tests. */
#ifndef TESTS_LIB_POLICY_GUARDED_H
#define TESTS_LIB_POLICY_GUARDED_H

#include "agent/policy/rules_in.h"

static inline bool policy_rule_guarded(enum policy_rule r)
{
	static const struct rule *const rules[] = {
#define X(name, word) [RULE_##name] = &rule_##word,
		POLICY_RULE_LIST(X)
#undef X
	};

	return rules[r]->guarded;
}

#endif
