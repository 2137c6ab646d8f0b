/* model.h - options of models, and which of them a model name in a request means. */
#ifndef KVROUTE_REQUEST_MODEL_H
#define KVROUTE_REQUEST_MODEL_H

#include "agent/base/types.h"
#include "agent/chat/chat.h"
#include "agent/prompt/prompt.h"
#include "agent/tok/tok.h"

#define MODEL_ALIASES_MAX	8
#define MODEL_PATH_MAX		511
#define MODEL_PATTERN_MAX	511

enum model_mode {
	MODEL_TEXT,	/* pages of canonical text: needs no files */
	MODEL_TOKENS	/* pages of the ids that its tokenizer makes */
};

/* Special tokens that the engine adds around a prompt that is text and not a conversation. */
enum model_special {
	SPECIAL_AUTO,	/* by the body ("add_special_tokens"), else by the tokenizer's file, as engines do */
	SPECIAL_ADD, SPECIAL_NONE
};

/* How a conversation becomes the text that the tokenizer gets. */
enum model_chat {
	CHAT_AUTO,	/* by its chat template, if there is one */
	CHAT_BY_HARMONY,	/* as engines do for gpt-oss */
	CHAT_BY_NONE		/* not at all: conversations stay in text mode */
};

/* Version of Hugging Face's transformers in the engine; templates get other variables from each. */
enum model_transformers {
	TRANSFORMERS_NEWEST,	/* 5.21 or later */
	TRANSFORMERS_5_20	/* or earlier */
};

/* Normalization that the engine's own code applies to a text before it looks into a rank file.
 * AUTO: by the name of the pattern. */
enum model_normalizer { NORMALIZER_AUTO, NORMALIZER_NONE, NORMALIZER_NFC };

struct model_opts {
	char name[PROMPT_NAME_MAX + 1];	/* as in requests; each "*" in it matches any text, also none */
	char aliases[MODEL_ALIASES_MAX][PROMPT_NAME_MAX + 1];	/* other names of it; "" ends them */
	/* LoRA adapters that engines serve as models of their own, with the tokenizer and template of
	 * this one. Each is a name, or a pattern with "*". "" ends them. Their caches are separate. */
	char adapters[MODEL_ALIASES_MAX][PROMPT_NAME_MAX + 1];
	struct text_order text_order;
	enum model_mode mode;
	/* tokenizer.json, tekken.json, a SentencePiece model or a tiktoken rank file */
	char tokenizer[MODEL_PATH_MAX + 1];
	/* "": tokenizer_config.json beside it, if any; "none" */
	char tokenizer_config[MODEL_PATH_MAX + 1];
	char pattern[MODEL_PATTERN_MAX + 1];	/* of a rank file: "cl100k", "o200k", ... */
	enum model_normalizer normalizer;	/* of a rank file */
	uint32_t block_size;		/* tokens in a page of this model; 0: prompt.token_page */
	enum model_special special;
	enum model_chat chat_by;
	enum model_transformers transformers;
	char chat_template[MODEL_PATH_MAX + 1];	/* a file; "": "chat_template" of tokenizer_config */
	/* loaded files; these options hold one reference to each; NULL in text mode */
	struct tok *tok;
	struct chat *chat;		/* NULL: conversations stay in text mode */
};

/* Borrowed options of all models. */
struct model_table {
	const struct model_opts *list;
	size_t n;
	const struct model_opts *fallback;	/* for names that no entry of <list> means */
};

void model_defaults(struct model_opts *o);

/* Return the entry whose name or alias is <name>; else the first with an adapter pattern that
 * matches; else the first with a "*" in its name that matches; else the fallback. Checks each
 * entry: about 10 ns for a name. */
const struct model_opts *model_options_of(const struct model_table *t, struct span name);

/* Tell if any of them is encoded to ids. */
bool models_have_tokenizer(const struct model_table *t);

/* Return the name that <asked> counts under, <m> being its options: of aliases the one name, else
 * <asked> itself. The result points to either. */
struct span model_name_of(const struct model_opts *m, struct span asked);

/* Tell if <name>, whose options are <m>, is one of its adapters. */
bool model_has_adapter(const struct model_opts *m, struct span name);

/* Ids in one page of <m>. */
static inline uint32_t model_block_of(const struct prompt_opts *o, const struct model_opts *m)
{
	return m->block_size != 0 ? m->block_size : o->token_page;
}

/* Tell if prompts of <m> are encoded to ids. */
static inline bool model_encodes(const struct model_opts *m)
{
	return m->mode == MODEL_TOKENS && m->tok != NULL;
}

#endif
