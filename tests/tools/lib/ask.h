/* ask.h - read a request body for the stub engine: prompts as tokens, and the options of the
 * answer.
 *
 * Rendering, for every API with messages (a | begins a new token):
 *
 *    [system]|text... [tools]|json... [user]|text... [end]|[assistant]|text... [end]|[assistant]|
 *
 * A word in brackets is one token; text is cut every 4 bytes, and starts anew after each bracket.
 * So an answer that returns as the assistant's turn gives the same tokens, and the prompt of a
 * conversation is a prefix of its next turn's. An image is 64 tokens made from its URL. */
#ifndef KVROUTE_TOOLS_ASK_H
#define KVROUTE_TOOLS_ASK_H

#include "agent/base/types.h"

#define ASK_PROMPTS_MAX	64
#define ASK_MODEL_MAX	128

enum api { API_CHAT, API_COMPLETIONS, API_RESPONSES, API_MESSAGES, API_EMBEDDINGS, API_GENERATE,
	   API_CONTENTS, API_STREAM_CONTENTS, API_NONE };

struct tokens {
	uint32_t *t;
	size_t n, cap;
};

/* kv_transfer_params of vLLM: one engine computes a prompt and another decodes it. */
struct ask_kv {
	bool hold;			/* do_remote_decode: keep the KV until it is fetched */
	bool fetch;			/* do_remote_prefill: get it from the engine at <host>:<port> */
	char host[64];
	uint32_t port;
	char request[40];		/* remote_request_id: the answer there */
};

struct ask {
	enum api api;
	char model[ASK_MODEL_MAX];
	uint64_t space;			/* of model, adapter and cache_salt */
	bool stream;
	bool max_given;
	uint32_t max_out;		/* per prompt */
	size_t n_prompts;
	struct tokens prompts[ASK_PROMPTS_MAX];
	struct ask_kv kv;
};

struct ask_limits {
	const char *model;		/* of requests that name none */
	uint32_t default_out, max_out;
};

/* The API that answers to POST <path>; API_NONE when none does. */
enum api api_of_path(struct span path);

/* Fill <a> from the <n> bytes at <body>. NULL when all is well, else what to tell the client.
 * Either way ask_fini() frees what was taken. */
const char *ask_parse(struct ask *a, enum api api, const char *body, size_t n,
		      const struct ask_limits *lim);
void ask_fini(struct ask *a);

#endif
