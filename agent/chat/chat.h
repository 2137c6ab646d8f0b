/* chat.h - a conversation as its engine writes it for the model: a body of chat completions, messages or responses, into the text
 * that the tokenizer sees.
 *
 *     body -> values -> messages as the engine builds them -> template (or harmony) -> text, in runs
 *
 * As vLLM 0.32 does it; make_in.h names the files that say so. What the engine makes of a body is known exactly, or it is said that it is
 * not: pictures and sounds, a template of the body's own, an earlier response that only the engine has. Pure: time comes in, no file
 * is read. A struct chat is immutable and shared by threads; a scratch belongs to one. */
#ifndef KVROUTE_CHAT_CHAT_H
#define KVROUTE_CHAT_CHAT_H

#include "agent/base/work.h"
#include "agent/jinja/jinja.h"

struct chat;
struct chat_scratch;

enum chat_format {
	CHAT_TEMPLATE,	/* a chat template */
	CHAT_HARMONY	/* gpt-oss: harmony.h; needs no template */
};

struct chat_source {
	enum chat_format format;
	struct span template;	/* n == 0: "chat_template" of <config> */
	struct span config;	/* tokenizer_config.json: special tokens, templates; n == 0: none */
	const char *template_name, *config_name;	/* of the files, for errors */
	bool no_aliases;	/* the engine's transformers is older than 5.21: what was thought has no name "thinking" */
};

/* Returns true if there is anything to load: a template, or a format that needs none. A configuration that is no JSON object counts
 * as one that has a template, so that chat_load() refuses it. */
bool chat_source_has(const struct chat_source *src, const struct hash_key *key);

/* NULL and <e>: where, what, and what is understood. All is copied. */
struct chat *chat_load(const struct chat_source *src, const struct hash_key *key, struct err *e);
struct chat *chat_ref(struct chat *c);
void chat_unref(struct chat *c);
size_t chat_bytes(const struct chat *c);		/* memory it holds */
uint64_t chat_fingerprint(const struct chat *c);	/* two that are equal write the same text */

/* At most <max_bytes> of values while rendering. NULL: no memory. */
struct chat_scratch *chat_scratch_new(size_t max_bytes, const struct hash_key *key);
void chat_scratch_free(struct chat_scratch *s);		/* wipes it */

enum chat_api { CHAT_COMPLETIONS, CHAT_MESSAGES, CHAT_RESPONSES };

struct chat_body {
	enum chat_api api;
	struct span raw;	/* borrowed for the call */
	bool cut;		/* its end was not seen */
	struct jinja_time now;	/* the engine's */
	struct work_left *work;	/* of the request: what is done is charged to it; NULL: only the limits of one rendering count */
};

enum chat_result {
	CHAT_DONE,
	CHAT_REFUSED,	/* the engine answers it with an error: there is no prompt */
	CHAT_UNKNOWN,	/* what the engine makes of it cannot be known here */
	CHAT_LIMIT,	/* work, steps, bytes, depth */
	CHAT_NO_MEMORY
};
const char *chat_result_name(enum chat_result r);

enum chat_run_kind {
	RUN_TEXT,	/* added tokens in it are tokens: all that a template writes is one such run */
	RUN_PLAIN,	/* text, whatever it looks like */
	RUN_TOKEN	/* one special token */
};

struct chat_run {
	uint32_t at, n;
	enum chat_run_kind kind;
};

enum chat_side { SIDE_USUAL, SIDE_LEFT, SIDE_RIGHT };	/* "truncation_side": what is cut off; engines cut off the left one unless told */

/* What a body became; lives in the scratch until its next use. */
struct chat_text {
	const char *p;
	size_t n;
	const struct chat_run *runs;
	size_t n_runs;
	bool part;		/* of a cut body: what any body that begins like this has in front; more text follows */
	bool special;		/* "add_special_tokens": the tokenizer adds its own around it */
	bool tools_unseen;	/* cut before its tools were seen, if it has any: with them the text would differ from its beginning */
	bool system_unseen;	/* the same of "system" or "instructions" */
	bool developer_unseen;	/* cut within its messages: others of role developer would change the front */
	enum chat_side side;	/* that is kept of more than <keep> tokens */
	size_t keep;		/* SIZE_MAX: all; > 0 */
	char why[160];		/* of any result but CHAT_DONE; may quote the body: not for logs */
};

/* Always fills <out>. Cost: reading the body and writing its text, some 1 GB/s each; bounded by the limits of jinja.h. */
enum chat_result chat_render(const struct chat *c, struct chat_scratch *s, const struct chat_body *b, struct chat_text *out);

#endif
