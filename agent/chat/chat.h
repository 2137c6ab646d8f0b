/* chat.h - render a conversation as its engine does: a body of chat completions, messages or
 * responses becomes the text that the tokenizer gets.
 *
 *   body -> values -> messages as the engine builds them -> template (or harmony) -> text, in runs
 *
 * The rules are those of vLLM 0.32; make_in.h names the sources. The result equals the engine's, or
 * is CHAT_UNKNOWN: for images and audio, a template in the body, an earlier response that only the
 * engine has. Pure: the caller passes the time, no file is read. A struct chat is immutable and
 * shared by threads; a scratch belongs to one thread. */
#ifndef KVROUTE_CHAT_CHAT_H
#define KVROUTE_CHAT_CHAT_H

#include "agent/base/work.h"
#include "agent/jinja/jinja.h"

struct chat;
struct chat_scratch;

enum chat_format {
	CHAT_TEMPLATE,	/* a chat template */
	CHAT_HARMONY	/* gpt-oss: see harmony.h; needs no template */
};

struct chat_source {
	enum chat_format format;
	struct span template;	/* n == 0: use "chat_template" of <config> */
	struct span config;	/* tokenizer_config.json: special tokens, templates; n == 0: none */
	const char *template_name, *config_name;	/* file names for errors */
	/* the engine's transformers is older than 5.21: reasoning has no second name "thinking" */
	bool no_aliases;
};

/* Tell if there is anything to load: a template, or a format that needs none. A configuration that
 * is no JSON object counts as one with a template, so that chat_load() rejects it. */
bool chat_source_has(const struct chat_source *src, const struct hash_key *key);

/* Copy and compile all. Returns NULL and fills <e> with place, cause and remedy. */
struct chat *chat_load(const struct chat_source *src, const struct hash_key *key, struct err *e);
struct chat *chat_ref(struct chat *c);
void chat_unref(struct chat *c);
size_t chat_bytes(const struct chat *c);		/* memory it holds */
uint64_t chat_fingerprint(const struct chat *c);	/* equal for two that write the same text */

/* Allocate a scratch for at most <max_bytes> of values. Returns NULL if there is no memory. */
struct chat_scratch *chat_scratch_new(size_t max_bytes, const struct hash_key *key);
void chat_scratch_free(struct chat_scratch *s);		/* wipes it */

enum chat_api { CHAT_COMPLETIONS, CHAT_MESSAGES, CHAT_RESPONSES };

/* What a turn of a conversation leaves, so that the next one is rendered on from there (resume.h).
 * The caller stores <left> for bodies whose first <left_at> bytes are the same, and only for these.
 * It has no text of a message. */
struct chat_turn {
	const struct hash_key *key;
	struct span memo;	/* what an earlier body left after <at> bytes; n == 0: nothing is known */
	uint64_t at;
	struct span lead;	/* the text is to begin with it, if <resumed> */
	bool only;		/* CHAT_UNKNOWN if the text cannot go on from there */
	/* set by chat_render() */
	bool resumed;		/* the text is <lead> and what follows the place of <memo> */
	bool good;		/* the rest is set */
	uint64_t left_at;
	size_t text_at;		/* the bytes of the text that belong to these */
	struct span left;	/* borrowed as the text */
};

struct chat_body {
	enum chat_api api;
	struct span raw;	/* borrowed for the call */
	bool cut;		/* its end has not arrived */
	struct jinja_time now;	/* the engine's time */
	/* charged for what is done; NULL: only the limits of one rendering apply */
	struct work_left *work;
	struct chat_turn *turn;	/* NULL: nothing is known or kept */
};

enum chat_result {
	CHAT_DONE,
	CHAT_REFUSED,	/* the engine answers it with an error: there is no prompt */
	CHAT_UNKNOWN,	/* what the engine makes of it is not known here */
	CHAT_LIMIT,	/* work, steps, bytes or depth */
	CHAT_NO_MEMORY
};

enum chat_run_kind {
	RUN_TEXT,	/* added tokens in it are tokens; all output of a template is one such run */
	RUN_PLAIN,	/* text, never a token as a whole */
	RUN_TOKEN	/* one special token */
};

struct chat_run {
	uint32_t at, n;
	enum chat_run_kind kind;
};

/* "truncation_side": the side to drop; by default engines drop the left one */
enum chat_side { SIDE_USUAL, SIDE_LEFT, SIDE_RIGHT };

/* The result for one body; valid until the next use of the scratch. */
struct chat_text {
	const char *p;
	size_t n;
	const struct chat_run *runs;
	size_t n_runs;
	bool part;		/* of a cut body: what any body with this beginning starts with; more text follows */
	bool special;		/* "add_special_tokens": the tokenizer adds its own tokens */
	bool tools_unseen;	/* cut before any tools, with which the text would start differently */
	bool system_unseen;	/* the same for "system" or "instructions" */
	/* cut within its messages: later ones of role developer would change the start */
	bool developer_unseen;
	enum chat_side side;	/* the side to drop of more than <keep> tokens */
	size_t keep;		/* > 0; SIZE_MAX: all */
	char why[160];		/* why, unless CHAT_DONE; may quote the body: not for logs */
};

/* Render <b>. Always fills <out>. Costs reading the body and writing its text, about 1 GB/s each;
 * bounded by the limits of jinja.h. */
enum chat_result chat_render(
    const struct chat *c, struct chat_scratch *s, const struct chat_body *b, struct chat_text *out);

#endif
