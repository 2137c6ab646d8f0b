/* chat_in.h - private to agent/chat: struct chat, its scratch, and one rendering. */
#ifndef KVROUTE_CHAT_CHAT_IN_H
#define KVROUTE_CHAT_CHAT_IN_H

#include "agent/base/buf.h"
#include "agent/base/vec.h"
#include "agent/chat/chat.h"
#include "agent/chat/make_in.h"
#include "agent/jinja/resume.h"

/* Properties of a template that engines detect before they use it. */
struct chat_traits {
	bool parts;		/* it iterates over the parts of content */
	bool developer;		/* it names the role developer */
	bool content;		/* it names "content" */
	bool generation;	/* it has the tag generation */
};

struct chat {
	unsigned refs;			/* atomic */
	enum chat_format format;
	struct jinja *plain, *tool_use;	/* tool_use: for bodies with tools; NULL: use <plain> */
	struct chat_traits plain_traits, tool_traits;
	bool aliases;			/* see struct chat_source */
	struct make_anthropic anthropic;
	bool moves_system;		/* a late message of role system or developer changes the start of the text */
	struct jinja_mem *mem;		/* memory of <tokens> */
	struct jval tokens;		/* a dict: special tokens, as variables of the template */
	uint64_t fingerprint;
};

struct chat_scratch {
	struct jinja_mem *mem;
	struct buf closed;		/* a cut body with its brackets closed */
	struct buf text, other;	/* <other>: the text with one more message */
	struct buf left;	/* what a turn leaves */
	struct buf shared;	/* a state of the template: see cut_prefix.c */
	struct buf ends;	/* of its messages */
	struct jinja_resume resume;
	VEC(struct chat_run) runs;
};

/* The state of rendering one body. */
struct rendering {
	const struct chat *c;
	struct chat_scratch *s;
	const struct chat_body *b;
	struct chat_text *out;
	struct buf *into;
	struct jinja_resume *resume;	/* NULL: the text is not to go on later */
	const char *known;	/* what an earlier body left of its messages; NULL: none (turn.c) */
	/* the bytes of tools that are those of the earlier body; n == 0: they are read (turn.c) */
	struct span same_tools;
	struct jval read_tools;	/* what they are, if the template reads them after all */
	struct jval *all;	/* the messages, with those that are not read */
	struct make_map map;	/* of the messages that were read, if they are converted */
	struct jval body, messages, tools;
	struct jval made;	/* messages that were read, as a body of chat completions has them */
	bool completion;	/* the text ends with the start of an answer */
	bool developer;		/* there is a message of that role */
	uint32_t sure;		/* of a cut body: messages that cannot change */
	uint32_t known_n;	/* messages of an earlier body; those that were read follow them */
	uint32_t marked;	/* see chat_marked() */
	bool in_list;		/* the body was cut within its messages: more may follow */
	struct work_left *work, any;	/* the budget; <any>: if the caller has none */
};

static inline const char *chat_list_name(const struct rendering *r)
{
	return r->b->api == CHAT_RESPONSES ? "input" : "messages";
}

/* Tell if the messages of the body are converted to others: one may become none or several. Harmony
 * writes items of responses as they are. */
static inline bool chat_converts(const struct rendering *r)
{
	return r->b->api == CHAT_MESSAGES ||
	       (r->b->api == CHAT_RESPONSES && r->c->format != CHAT_HARMONY);
}

static inline bool chat_uses_tools(const struct rendering *r)
{
	return r->c->tool_use != NULL && (is_list(r->tools) || r->tools.kind == JV_UNREAD);
}

static inline const struct chat_traits *traits_of(const struct rendering *r)
{
	return chat_uses_tools(r) ? &r->c->tool_traits : &r->c->plain_traits;
}

enum chat_result chat_why(struct rendering *r, enum chat_result result, const char *text);
enum chat_result chat_of_make(struct rendering *r, const struct make *k);
/* write.c: writes the text of r->messages */
enum chat_result chat_write(struct rendering *r, struct buf *into);

/* cut_prefix.c: chat_write_part() writes the text that any body with this beginning starts with.
 * chat_note_unseen() notes what may still change that start; call it before conversion to chat
 * completions. */
void chat_note_unseen(struct rendering *r);
enum chat_result chat_write_part(struct rendering *r);

/* chat.c: the steps of rendering a body that is not cut */
enum chat_result chat_of_body(struct rendering *r, struct span raw);	/* reads it */
enum chat_result chat_close(struct rendering *r);	/* ends the cut body in s->closed */
bool chat_goes_on(const struct rendering *r);
bool chat_completes(const struct rendering *r);
bool chat_has_replacement(struct span text);
enum chat_result chat_check_halves(struct rendering *r);

/* turn.c: chat_turn_on() renders on from b->turn->memo; without the tools, if <light> and they are
 * the same. Returns false if it does not fit: all is to be rendered. Before that, chat_turn_start()
 * says what is to be noted; chat_turn_leave() sets what is left, after success. */
bool chat_turn_on(struct rendering *r, bool light);
bool chat_turn_is_light(const struct chat_body *b);	/* <light> may be set */
void chat_turn_start(struct rendering *r);
void chat_turn_leave(struct rendering *r, uint32_t known, struct span memo);
bool chat_turn_read(void *rendering, uint32_t at, struct jval *out);	/* jinja_resume.read */
/* Return the first of the last messages of <list> that has a marker of caches; UINT32_MAX: none. In
 * the next turn the marker is in a later message, and the bytes of this one are others. */
uint32_t chat_marked(struct jval list);
/* Return how many of the messages of a whole body will be the same in the next turn. */
uint32_t chat_lasting(const struct rendering *r);

/* options.c */
/* variables of the template */
struct jval chat_variables(struct make *k, const struct rendering *r);
enum chat_result chat_take_truncation(struct rendering *r);
bool chat_truth(struct jval v, bool otherwise);

/* continue_last.c: continue the last message. chat_tag_last() before r->messages are written,
 * chat_end_at_tag() after. */
enum chat_result chat_tag_last(struct rendering *r, struct span *last);
enum chat_result chat_end_at_tag(struct rendering *r, struct span last);

/* probe.c: fill c->anthropic and c->moves_system. Returns -1 if there is no memory. */
int chat_probe(struct chat *c, const struct hash_key *key);

#endif
