/* make_in.h - values that are made of a body: dicts, lists and texts in the memory of one rendering. Inside agent/chat only. */
#ifndef KVROUTE_CHAT_MAKE_IN_H
#define KVROUTE_CHAT_MAKE_IN_H

#include "agent/base/work.h"
#include "agent/chat/jval_get.h"

enum make_state {
	MAKE_GOOD,
	MAKE_NO_MEMORY,
	MAKE_REFUSED,	/* the engine would not take this body */
	MAKE_SPENT,	/* the work is used up */
	MAKE_UNKNOWN	/* what the engine makes of it cannot be said here: pictures, sounds */
};

/* Once it is not good it stays so, and what is made from there on is void. */
struct make {
	struct jinja_mem *mem;
	struct work_left *work;	/* who pays for JSON inside of texts; NULL: nobody */
	enum make_state state;
	bool developer;		/* there was a message of that role */
};

/* Prices in steps of work.h: of a value of the body, bytes of the body for one step, and bytes of what is made of it. */
#define STEPS_VALUE	5
#define STEP_JSON	32
#define STEP_MADE	40

/* A list that grows. */
struct make_list {
	struct jval *v;
	uint32_t n, cap;
};

void make_fail(struct make *k, enum make_state why);	/* the first reason stays */
void *make_take(struct make *k, size_t n);		/* NULL: k->state says it */
struct jval make_dict(struct make *k);
void make_put(struct make *k, struct jval dict, const char *key, struct jval value);
void make_put_any(struct make *k, struct jval dict, struct jval key, struct jval value);
void make_add(struct make *k, struct make_list *l, struct jval v);
struct jval make_str(const char *s);			/* borrowed */
/* Texts one behind the other, <between> between each two; of one text that text itself. */
struct jval make_joined(struct make *k, const struct make_list *texts, const char *between);
/* jval_from_json() that is paid for: as that, and errno E2BIG when the work is used up. */
int make_from_json(struct jinja_mem *m, struct work_left *w, struct span text, unsigned max_depth, struct jval *out);
/* A dict with the members of <of>. */
struct jval make_copy(struct make *k, struct jval of);

static inline struct jval make_list_value(const struct make_list *l)
{
	return jval_list(l->v, l->n);
}

/* ---- what bodies become: a body of chat completions ----------------------------------------------------- */

struct make_how {
	bool parts;		/* content is a list of parts */
	bool aliases;		/* what was thought is there as "thinking", too */
	bool responses;		/* parts may have the types of that API */
};

/* messages.c: <messages> as engines give them to a template. Tool definitions likewise. */
struct jval make_messages(struct make *k, const struct make_how *how, struct jval messages);
struct jval make_tools(struct make *k, struct jval tools);

/* system.c: the same for a template that knows no role "developer": such messages are of role system, and if there is one, all texts
 * of that role are one message in front. */
struct jval make_systems(struct make *k, struct jval messages);
bool make_is_billing(struct jval text);	/* begins with x-anthropic-billing-header */

/* What depends on a model's template in a body of messages: find.c of this folder finds it when the template is loaded. */
struct make_anthropic {
	bool merge;		/* texts of role system go to the front, as the template raises an error elsewhere */
	const char *disabled;	/* reasoning_effort where "thinking" is disabled: "none" or "low" */
};

/* anthropic.c, responses.c: the body of another API as one of chat completions, with "messages" and "tools". */
struct jval make_of_anthropic(struct make *k, const struct make_anthropic *how, struct jval body);
struct jval make_of_responses(struct make *k, struct jval body);

#endif
