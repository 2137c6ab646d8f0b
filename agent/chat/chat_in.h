/* chat_in.h - the inside of struct chat and its scratch. Inside agent/chat only. */
#ifndef KVROUTE_CHAT_CHAT_IN_H
#define KVROUTE_CHAT_CHAT_IN_H

#include "agent/base/buf.h"
#include "agent/base/vec.h"
#include "agent/chat/chat.h"
#include "agent/chat/make_in.h"

/* What engines find out of a template before they use it. */
struct chat_traits {
	bool parts;		/* it walks through the parts of content */
	bool developer;		/* it names the role developer */
	bool content;		/* it names "content" */
	bool generation;	/* it has the tag generation */
};

struct chat {
	unsigned refs;			/* atomic */
	enum chat_format format;
	struct jinja *plain, *tool_use;	/* tool_use: for bodies with tools; NULL: the plain one is */
	struct chat_traits plain_traits, tool_traits;
	bool aliases;			/* see struct chat_source */
	struct make_anthropic anthropic;
	bool moves_system;		/* a late message of role system or developer changes what stands in front */
	struct jinja_mem *mem;		/* of <tokens> */
	struct jval tokens;		/* special tokens, as variables of the template: a dict */
	uint64_t fingerprint;
};

struct chat_scratch {
	struct jinja_mem *mem;
	struct buf closed;		/* a cut body, closed */
	struct buf text, other;	/* <other>: the text of the same with one more message */
	VEC(struct chat_run) runs;
};

/* One body on its way. */
struct rendering {
	const struct chat *c;
	struct chat_scratch *s;
	const struct chat_body *b;
	struct chat_text *out;
	struct buf *into;
	struct jval body, messages, tools;
	bool completion;	/* an answer begins behind it */
	bool in_list;		/* the body was cut within its messages: others may follow */
	struct work_left *work, any;	/* who pays; <any>: nobody */
};

static inline const struct chat_traits *traits_of(const struct rendering *r)
{
	return r->c->tool_use != NULL && is_list(r->tools) ? &r->c->tool_traits : &r->c->plain_traits;
}

enum chat_result chat_why(struct rendering *r, enum chat_result result, const char *text);
enum chat_result chat_of_make(struct rendering *r, const struct make *k);
enum chat_result chat_write(struct rendering *r, struct buf *into);	/* the text of r->messages */

/* part.c: the text of a cut body: what any body that begins like it has in front. Before it becomes one of chat completions: what
 * of such a front may still come. */
void chat_note_unseen(struct rendering *r);
enum chat_result chat_write_part(struct rendering *r);

/* options.c */
struct jval chat_variables(struct make *k, const struct rendering *r);	/* of the template */
enum chat_result chat_take_truncation(struct rendering *r);
bool chat_truth(struct jval v, bool otherwise);

/* continue_last.c: the last message goes on. Before r->messages are written, and when they are. */
enum chat_result chat_tag_last(struct rendering *r, struct span *last);
enum chat_result chat_end_at_tag(struct rendering *r, struct span last);

/* probe.c: fills c->anthropic and c->moves_system. -1: no memory. */
int chat_probe(struct chat *c, const struct hash_key *key);

#endif
