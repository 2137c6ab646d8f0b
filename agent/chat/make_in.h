/* make_in.h - private to agent/chat: build dicts, lists and texts in the memory of one rendering.
 */
#ifndef KVROUTE_CHAT_MAKE_IN_H
#define KVROUTE_CHAT_MAKE_IN_H

#include "agent/base/work.h"
#include "agent/chat/jval_get.h"

enum make_state {
	MAKE_GOOD,
	MAKE_NO_MEMORY,
	MAKE_REFUSED,	/* the engine rejects this body */
	MAKE_SPENT,	/* the work is used up */
	MAKE_UNKNOWN	/* what the engine makes of it is not known here: images, audio */
};

/* The state of building. After a failure it stays failed, and all later values are void. */
struct make {
	struct jinja_mem *mem;
	struct work_left *work;	/* charged for JSON inside of texts; NULL: nothing is */
	enum make_state state;
	bool developer;		/* there was a message of that role */
};

/* Prices in steps of work.h: a value of the body; bytes of the body per step; bytes built per step.
 */
#define STEPS_VALUE	5
#define STEP_JSON	32
#define STEP_MADE	40

/* A list that grows. */
struct make_list {
	struct jval *v;
	uint32_t n, cap;
};

void make_fail(struct make *k, enum make_state why);	/* the first reason stays */
void *make_take(struct make *k, size_t n);		/* NULL: k->state says why */
struct jval make_dict(struct make *k);
void make_put(struct make *k, struct jval dict, const char *key, struct jval value);
void make_put_any(struct make *k, struct jval dict, struct jval key, struct jval value);
void make_add(struct make *k, struct make_list *l, struct jval v);
struct jval make_str(const char *s);			/* borrowed */
/* Join texts with <between>; a single text is returned as it is. */
struct jval make_joined(struct make *k, const struct make_list *texts, const char *between);
/* jval_from_json() charged to <w>. Sets errno to E2BIG if the work is used up. */
int make_from_json(struct jinja_mem *m, struct work_left *w, struct span text, unsigned max_depth,
    struct jval *out);
/* Return a dict with the members of <of>. */
struct jval make_copy(struct make *k, struct jval of);

static inline struct jval make_list_value(const struct make_list *l)
{
	return jval_list(l->v, l->n);
}

/* ---- what bodies become: a body of chat completions ------------------------------------------ */

struct make_how {
	bool parts;		/* content is a list of parts */
	bool aliases;		/* reasoning has the second name "thinking" */
	bool responses;		/* parts may have the types of that API */
};

/* messages.c: build <messages> as engines pass them to a template; likewise tool definitions. */
struct jval make_messages(struct make *k, const struct make_how *how, struct jval messages);
struct jval make_tools(struct make *k, struct jval tools);

/* system.c: the same for a template without the role "developer": such messages get the role
 * system, and if there is one, all texts of that role become one message at the start. */
struct jval make_systems(struct make *k, struct jval messages);
bool make_is_billing(struct jval text);	/* tells if it begins as base/billing.h says */

/* How many messages were made of the first ones of a body. */
struct make_map {
	uint32_t *after;	/* of message i and all before it; in the memory of the rendering */
	uint32_t n;
	bool system;		/* one of them has the role system (API of messages) */
	bool joins;		/* one of them joins the message before them (API of responses) */
};

/* What an item of the API of responses finds in the message before it, which it joins if that is an
 * assistant's without such a member. */
enum { HAS_ASSISTANT = 1, HAS_CONTENT = 2, HAS_REASONING = 4 };

/* What a body of messages depends on in a model's template: probe.c detects it at load. */
struct make_anthropic {
	/* texts of role system go to the start, because the template raises an error elsewhere */
	bool merge;
	const char *disabled;	/* reasoning_effort if "thinking" is disabled: "none" or "low" */
};

/* anthropic.c, responses.c: convert the body of another API to one of chat completions, with
 * "messages" and "tools". */
struct jval make_of_anthropic(struct make *k, const struct make_anthropic *how, struct jval body,
    struct make_map *map);
/* Convert <messages> alone. Nothing is made of those of role system if they go to the start. */
struct jval make_of_anthropic_list(struct make *k, const struct make_anthropic *how,
    struct jval messages, struct make_map *map);
struct jval make_of_responses(struct make *k, struct jval body, struct make_map *map);
/* Convert <items> alone. <before>: HAS_... of the message before them. */
struct jval make_of_responses_list(
    struct make *k, struct jval items, unsigned before, struct make_map *map);
/* Only name the members of <body> as gpt_oss.h does: its items are not converted. */
struct jval make_of_items(struct make *k, struct jval body);
/* Set the options in <out>, what is made of <body>, which depend on its last item, too. */
void make_responses_options(struct make *k, struct jval out, struct jval body);
unsigned make_has(struct jval message);		/* HAS_... of a message that was converted */

#endif
