/* resume.h - render a list of messages on from where an earlier rendering was, exactly.
 *
 *   prelude   {% set ... %} header        executed each time; its text and its values are hashed
 *   loop      m1 m2 m3 | m4 m5            passed over up to a state that an earlier rendering left
 *   the rest  start of an answer          executed each time
 *
 * A loop over all messages, or all but the first ones, at the top level of a template: when an item
 * starts, what follows depends on the variables of the top level, the caller's variables, and what
 * earlier items changed. In this language that is nothing but members of namespaces, because all
 * else that a loop sets is lost after each turn. While the loop runs, each read of the list is
 * noted: an item by its index, the end (loop.last in the last item) as such, and anything else
 * (length, a filter, a slice) as a read of the whole. So the state at the start of an item is known
 * to follow from the messages before it if nothing later was read. A later rendering that comes to
 * the same loop with the same variables and the same text so far, and whose messages begin with the
 * same ones, would come to the same state: it starts there.
 *
 * A whole number in a namespace, such as the index of the last question, may differ if all that was
 * done with it is comparing, and each comparison would come out the same.
 *
 * Tools are most of what many preludes print. A loop over them that prints nothing else than they
 * and constants is a function of them, so a state has what it cost and a second hash: of all that
 * the first one is of, less the tools and the text of such loops. If the caller knows that the
 * tools are those of the state, neither is made again.
 *
 * Messages that are passed over need not be read: the caller gives items of kind JV_UNREAD, and
 * gives a few of them if a template uses more of one than its role, as many look for the last
 * message of a user first. Otherwise it fails with JINJA_MISSED, and all are rendered. Nothing is
 * proved in advance, so any template is followed; one that reads the end first leaves no state that
 * fits. */
#ifndef KVROUTE_JINJA_RESUME_H
#define KVROUTE_JINJA_RESUME_H

#include "agent/jinja/jinja.h"

/* Flags of the list that is the variable "messages", and of its slices. */
enum {
	JV_WATCHED = 64,	/* reads are noted */
	JV_HAS_UNREAD = 128	/* an item may be JV_UNREAD */
};

/* Return the number of a role, or 0 if it is none of the usual ones. */
unsigned jinja_role(struct span name);

/* aux of JV_UNREAD: the variable "tools", a list that is not empty and was not read. */
#define UNREAD_TOOLS	0xfffe
#define TOOLS_AT	UINT32_MAX	/* asked for by jinja_resume.read */

static inline struct jval jinja_unread_tools(void)
{
	return (struct jval){ .kind = JV_UNREAD, .aux = UNREAD_TOOLS, .n = TOOLS_AT };
}

/* Return item <at> of the list, not read; it is a dict with members. <role>: jinja_role() of its
 * "role" */
static inline struct jval jinja_unread(uint32_t at, unsigned role)
{
	return (struct jval){ .kind = JV_UNREAD, .aux = (uint16_t)role, .n = at };
}

struct jinja_resume {
	const struct hash_key *key;
	/* the sink is jinja_buf_sink() of it; when items are passed over, it becomes <lead> */
	struct buf *text;
	struct span lead;
	uint64_t most_steps;	/* of all messages; those of the call are for what is executed */
	const struct jval *list;	/* items of "messages" */
	uint32_t n;
	uint32_t sure;		/* no state is left that follows from more of them */
	struct span from;	/* a state, not in <state>; n == 0: from the start */
	/* set <*out> to item <at>, which is unread. Returns false if that fails. NULL: it would */
	bool (*read)(void *arg, uint32_t at, struct jval *out);
	void *arg;
	/* The variable "tools": a list, or jinja_unread_tools(): then the caller knows that they are
	 * what they were when the state was left. Other kinds: loops over it are not noted. */
	struct jval tools;
	/* set by rendering */
	bool resumed;		/* <text> is what follows that state */
	bool good;		/* <state> is set: it follows from the first <messages> */
	bool more;		/* and from there being another one */
	uint32_t messages;
	size_t text_at;		/* bytes of <text> before it */
	bool light;		/* <tools> need not be read to go on from it */
	struct buf state;	/* the caller frees it; has no text of a message */
};

/* As jinja_render(). JINJA_MISSED: as->from does not fit, or an unread item was used. */
enum jinja_result jinja_render_on(const struct jinja *t, struct jinja_mem *m,
    const struct jdict *vars, const struct jinja_time *now, const struct jinja_limits *limits,
    struct jinja_resume *as, struct jinja_error *why);

#endif
