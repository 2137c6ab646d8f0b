/* answer.c - seven APIs, whole and streamed.
 *
 *    chat, completions   data: {chunk} ... data: {usage} data: [DONE]
 *    responses           event: response.created ... response.output_text.delta ... completed
 *    messages            event: message_start, content_block_delta ..., message_delta, message_stop
 *    generate            data: {all of the text so far} ... data: [DONE]
 *    contents            data: {candidates and usage so far} ...
 *
 * Generated text is lower case words, so it needs no escapes; the model's name comes from the
 * client and gets them. cached_tokens is always said, also when it is 0, streamed or not: a test
 * must be able to tell "none" from "not said". Of the messages API, input_tokens leaves out what
 * was read from the cache, as its documentation has it. */
#include "tests/tools/lib/answer.h"

struct sums {
	uint32_t prompt, cached, out;
};

static struct sums sums_of(const struct job *j)
{
	struct sums s = { 0 };

	for (size_t i = 0; i < j->ask.n_prompts; i++) {
		s.prompt += j->seqs[i].n_prompt;
		s.cached += j->seqs[i].cached;
		s.out += j->seqs[i].n_out;
	}
	return s;
}

static const char *finish_of(const struct job *j)
{
	return j->ask.max_given ? "length" : "stop";
}

static void put_text(struct buf *out, const struct seq *q)
{
	struct span s = sched_text(q);

	buf_putf(out, "\"" SPAN_FMT "\"", SPAN_ARG(s));
}

/* The newest token of <q>, as a JSON string. */
static void put_delta(const struct seq *q, struct buf *out)
{
	struct span s = sched_text(q);

	buf_putf(out, "\"%.4s\"", s.p + s.n - 4);
}

static void put_head(const struct job *j, const char *object, struct buf *out)
{
	buf_putf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", j->id, object,
		 (long long)j->created);
	buf_put_json(out, span_str(j->ask.model));
}

static void put_usage(const struct job *j, struct buf *out)
{
	struct sums s = sums_of(j);

	buf_putf(out, "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
		 "\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
		 s.prompt, s.out, s.prompt + s.out, s.cached);
}

static void put_usage_responses(const struct job *j, struct buf *out)
{
	struct sums s = sums_of(j);

	buf_putf(out, "\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
		 "\"output_tokens\":%u,\"total_tokens\":%u}",
		 s.prompt, s.cached, s.out, s.prompt + s.out);
}

static void put_usage_messages(const struct job *j, struct buf *out)
{
	struct sums s = sums_of(j);

	buf_putf(out, "\"usage\":{\"input_tokens\":%u,\"cache_read_input_tokens\":%u,"
		 "\"cache_creation_input_tokens\":0,\"output_tokens\":%u}",
		 s.prompt - s.cached, s.cached, s.out);
}

static void put_responses(const struct job *j, const char *status, bool whole, struct buf *out)
{
	buf_putf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
		 "\"model\":", j->id, (long long)j->created, status);
	buf_put_json(out, span_str(j->ask.model));
	if (whole) {
		buf_puts(out, ",\"output\":[{\"type\":\"message\",\"id\":\"msg_0\","
			 "\"status\":\"completed\",\"role\":\"assistant\","
			 "\"content\":[{\"type\":\"output_text\",\"annotations\":[],\"text\":");
		put_text(out, &j->seqs[0]);
		buf_puts(out, "}]}],");
		put_usage_responses(j, out);
	} else {
		buf_puts(out, ",\"output\":[]");
	}
	buf_puts(out, "}");
}

static void put_messages(const struct job *j, struct buf *out)
{
	buf_putf(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", j->id);
	buf_put_json(out, span_str(j->ask.model));
	buf_puts(out, ",\"content\":[{\"type\":\"text\",\"text\":");
	put_text(out, &j->seqs[0]);
	buf_putf(out, "}],\"stop_reason\":\"%s\",\"stop_sequence\":null,",
		 j->ask.max_given ? "max_tokens" : "end_turn");
	put_usage_messages(j, out);
	buf_puts(out, "}");
}

static void put_generate(const struct job *j, const struct seq *q, struct buf *out)
{
	buf_puts(out, "{\"text\":");
	put_text(out, q);
	buf_putf(out, ",\"index\":%d,\"meta_info\":{\"id\":\"%s\",\"finish_reason\":",
		 (int)(q - j->seqs), j->id);
	if (q->state == SEQ_DONE)
		buf_putf(out, "{\"type\":\"%s\",\"length\":%u}", finish_of(j), q->n_out);
	else
		buf_puts(out, "null");
	buf_putf(out, ",\"prompt_tokens\":%u,\"completion_tokens\":%u,\"cached_tokens\":%u}}",
		 q->n_prompt, q->n_out, q->cached);
}

static void put_generate_all(const struct job *j, struct buf *out)
{
	bool list = j->ask.n_prompts > 1;

	buf_puts(out, list ? "[" : "");
	for (size_t i = 0; i < j->ask.n_prompts; i++) {
		buf_puts(out, i ? "," : "");
		put_generate(j, &j->seqs[i], out);
	}
	buf_puts(out, list ? "]" : "");
}

/* The answer so far: all of its text, or its newest token. */
static void put_candidate(const struct job *j, const struct seq *q, bool whole, struct buf *out)
{
	struct sums s = sums_of(j);

	buf_puts(out, "{\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\","
	    "\"parts\":[{\"text\":");
	if (whole)
		put_text(out, q);
	else
		put_delta(q, out);
	buf_puts(out, "}]}");
	if (q->state == SEQ_DONE)
		buf_putf(out, ",\"finishReason\":\"%s\"", j->ask.max_given ? "MAX_TOKENS" : "STOP");
	buf_putf(out, "}],\"usageMetadata\":{\"promptTokenCount\":%u,\"cachedContentTokenCount\":%u,"
		 "\"candidatesTokenCount\":%u,\"totalTokenCount\":%u},\"modelVersion\":",
		 s.prompt, s.cached, s.out, s.prompt + s.out);
	buf_put_json(out, span_str(j->ask.model));
	buf_puts(out, "}");
}

/* The vector is made from the hash of the tokens. */
static void put_embedding(const struct seq *q, struct buf *out)
{
	uint64_t h = q->chance;

	buf_puts(out, "[");
	for (int i = 0; i < 8; i++, h >>= 8)
		buf_putf(out, "%s%.4f", i ? "," : "", (double)(h & 0xff) / 256 - 0.5);
	buf_puts(out, "]");
}

static void put_embeddings(const struct job *j, struct buf *out)
{
	put_head(j, "list", out);
	buf_puts(out, ",\"data\":[");
	for (size_t i = 0; i < j->ask.n_prompts; i++) {
		buf_putf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":",
			 i ? "," : "", i);
		put_embedding(&j->seqs[i], out);
		buf_puts(out, "}");
	}
	buf_puts(out, "],");
	put_usage(j, out);
	buf_puts(out, "}");
}

static void put_choices(const struct job *j, struct buf *out)
{
	bool chat = j->ask.api == API_CHAT;

	put_head(j, chat ? "chat.completion" : "text_completion", out);
	buf_puts(out, ",\"choices\":[");
	for (size_t i = 0; i < j->ask.n_prompts; i++) {
		buf_putf(out, "%s{\"index\":%zu,%s", i ? "," : "", i,
			 chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
		put_text(out, &j->seqs[i]);
		buf_putf(out, "%s,\"logprobs\":null,\"finish_reason\":\"%s\"}", chat ? "}" : "",
			 finish_of(j));
	}
	buf_puts(out, "],");
	put_usage(j, out);
	buf_puts(out, "}");
}

void answer_json(const struct job *j, struct buf *out)
{
	switch (j->ask.api) {
	case API_RESPONSES:
		put_responses(j, "completed", true, out);
		break;
	case API_MESSAGES:
		put_messages(j, out);
		break;
	case API_GENERATE:
		put_generate_all(j, out);
		break;
	case API_EMBEDDINGS:
		put_embeddings(j, out);
		break;
	case API_CONTENTS:
		put_candidate(j, &j->seqs[0], true, out);
		break;
	default:
		put_choices(j, out);
	}
}

/* Write a chunk of chat or completions; <q> NULL: the first chunk, with the role only. */
static void put_chunk(const struct job *j, const struct seq *q, struct buf *out)
{
	bool chat = j->ask.api == API_CHAT;

	buf_puts(out, "data: ");
	put_head(j, chat ? "chat.completion.chunk" : "text_completion", out);
	if (q == NULL) {
		buf_puts(out,
		    ",\"choices\":[{\"index\":0,"
		    "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
		    "\"finish_reason\":null}]}\n\n");
		return;
	}
	buf_putf(out, ",\"choices\":[{\"index\":%d,%s", (int)(q - j->seqs),
		 chat ? "\"delta\":{\"content\":" : "\"text\":");
	put_delta(q, out);
	buf_putf(out, "%s,\"logprobs\":null,\"finish_reason\":", chat ? "}" : "");
	if (q->state == SEQ_DONE)
		buf_putf(out, "\"%s\"}]}\n\n", finish_of(j));
	else
		buf_puts(out, "null}]}\n\n");
}

static void start_messages(const struct job *j, struct buf *out)
{
	struct sums s = sums_of(j);

	buf_putf(out,
	    "event: message_start\ndata: {\"type\":\"message_start\","
	    "\"message\":{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],"
	    "\"model\":",
	    j->id);
	buf_put_json(out, span_str(j->ask.model));
	buf_putf(out, ",\"stop_reason\":null,\"usage\":{\"input_tokens\":%u,"
		 "\"cache_read_input_tokens\":%u,\"cache_creation_input_tokens\":0,\"output_tokens\":0}}}\n\n",
		 s.prompt - s.cached, s.cached);
	buf_puts(out, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
		 "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
}

static void start(struct job *j, struct buf *out)
{
	j->started = true;
	if (j->ask.api == API_CHAT) {
		put_chunk(j, NULL, out);
	} else if (j->ask.api == API_MESSAGES) {
		start_messages(j, out);
	} else if (j->ask.api == API_RESPONSES) {
		buf_puts(out, "event: response.created\ndata: {\"type\":\"response.created\","
			 "\"response\":");
		put_responses(j, "in_progress", false, out);
		buf_puts(out, "}\n\n");
	}
}

void answer_token(struct job *j, const struct seq *q, struct buf *out)
{
	if (!j->started)
		start(j, out);
	switch (j->ask.api) {
	case API_MESSAGES:
		buf_puts(out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\","
			 "\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":");
		put_delta(q, out);
		buf_puts(out, "}}\n\n");
		break;
	case API_RESPONSES:
		buf_puts(out, "event: response.output_text.delta\ndata: {\"type\":"
			 "\"response.output_text.delta\",\"item_id\":\"msg_0\",\"output_index\":0,"
			 "\"content_index\":0,\"delta\":");
		put_delta(q, out);
		buf_puts(out, "}\n\n");
		break;
	case API_CONTENTS:
		buf_puts(out, "data: ");
		put_candidate(j, q, false, out);
		buf_puts(out, "\n\n");
		break;
	case API_GENERATE:
		buf_puts(out, "data: ");
		put_generate(j, q, out);
		buf_puts(out, "\n\n");
		break;
	default:
		put_chunk(j, q, out);
	}
}

static void end_messages(const struct job *j, struct buf *out)
{
	buf_puts(out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n"
		 "\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":");
	buf_puts(out, j->ask.max_given ? "\"max_tokens\"}," : "\"end_turn\"},");
	put_usage_messages(j, out);
	buf_puts(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

void answer_end(struct job *j, struct buf *out)
{
	switch (j->ask.api) {
	case API_MESSAGES:
		end_messages(j, out);
		return;
	case API_CONTENTS:	/* the last token carried the usage */
		return;
	case API_RESPONSES:
		buf_puts(out, "event: response.completed\ndata: {\"type\":\"response.completed\","
			 "\"response\":");
		put_responses(j, "completed", true, out);
		buf_puts(out, "}\n\n");
		return;
	case API_CHAT:
	case API_COMPLETIONS:
		buf_puts(out, "data: ");
		put_head(j, j->ask.api == API_CHAT ? "chat.completion.chunk" : "text_completion", out);
		buf_puts(out, ",\"choices\":[],");
		put_usage(j, out);
		buf_puts(out, "}\n\n");
		break;
	default:
		break;
	}
	buf_puts(out, "data: [DONE]\n\n");
}

void answer_error(int status, const char *text, struct buf *out)
{
	buf_puts(out, "{\"error\":{\"message\":");
	buf_put_json(out, span_str(text));
	buf_putf(out, ",\"type\":\"%s\",\"param\":null,\"code\":%d}}",
		 status < 500 ? "BadRequestError" : "InternalServerError", status);
}
