/* answer.c - a ratio of bytes to tokens, learned from the latest whole answers. */
#include "agent/route/answer_in.h"

#define AROUND_BYTES	600	/* headers of an answer and the JSON around its text */
/* one token of a stream with its fields: engines send 200 to 300 bytes; until learned */
#define EVENT_BYTES	256
#define EVENT_BYTES_LEAST	64	/* because an event may have several tokens */
#define EVENT_BYTES_MOST	1024
/* that the first guess counts as: busy engines put several tokens into one event now and then */
#define GUESSED_TOKENS	128
#define TEXT_BYTES	4	/* one token of text, until learned */
#define TEXT_BYTES_MAX	32	/* more is not text only: log probabilities, a batch of embeddings */
#define LEARNED_TOKENS	(1u << 16)	/* at this sum both are halved */

/* No engine decodes one answer faster, several choices and speculation included. Short answers are
 * not bounded, because their times are coarse. */
#define TOKENS_PER_MS	1
#define TOKENS_UNTIMED	1024

static uint64_t text_bytes(const struct fact *f)
{
	return f->bytes_out > AROUND_BYTES ? (uint64_t)f->bytes_out - AROUND_BYTES : 0;
}

void answer_learn(struct answer_size *a, const struct fact *f, bool whole)
{
	uint64_t bytes = text_bytes(f), tokens = f->output_tokens > 0 ? (uint64_t)f->output_tokens : 0;

	if (!whole || tokens == 0 || bytes < tokens || bytes > tokens * TEXT_BYTES_MAX)
		return;
	a->bytes += bytes;
	a->tokens += tokens;
	if (a->tokens > LEARNED_TOKENS) {
		a->bytes /= 2;
		a->tokens /= 2;
	}
}

uint32_t answer_stream_bytes(const struct fact *f)
{
	uint64_t bytes = text_bytes(f);

	return bytes < UINT32_MAX ? (uint32_t)bytes : 0;
}

void answer_learn_stream(struct answer_size *a, uint32_t bytes, uint32_t tokens)
{
	if (tokens == 0 || bytes / EVENT_BYTES_LEAST < tokens || bytes / EVENT_BYTES_MOST >= tokens)
		return;
	a->stream_bytes += bytes;
	a->stream_tokens += tokens;
	if (a->stream_tokens > LEARNED_TOKENS) {
		a->stream_bytes /= 2;
		a->stream_tokens /= 2;
	}
}

static uint64_t of_stream(const struct answer_size *a, uint64_t bytes)
{
	double seen_bytes = (double)a->stream_bytes + EVENT_BYTES * GUESSED_TOKENS;

	if (a->stream_tokens == 0)
		return bytes / EVENT_BYTES;
	return (uint64_t)((double)bytes * (double)(a->stream_tokens + GUESSED_TOKENS) / seen_bytes + 0.5);
}

static uint64_t by_bytes(const struct answer_size *a, uint64_t bytes, bool whole)
{
	if (!whole)
		return of_stream(a, bytes);
	if (a->tokens == 0)
		return bytes / TEXT_BYTES;
	return (uint64_t)((double)bytes * (double)a->tokens / (double)a->bytes + 0.5);
}

/* Bytes alone are no evidence of tokens: log probabilities have many, and vectors are no text. */
static uint64_t estimate(const struct answer_size *a, const struct fact *f, bool whole)
{
	uint64_t most = f->total_ms < 0 || f->total_ms > ANSWER_TOKENS_MAX ? ANSWER_TOKENS_MAX :
	    (uint64_t)f->total_ms * TOKENS_PER_MS + TOKENS_UNTIMED;
	uint64_t n = by_bytes(a, text_bytes(f), whole);

	if (whole && text_bytes(f) > most * TEXT_BYTES_MAX)
		return 0;
	return n < most ? n : most;
}

bool answer_empty(const struct fact *f)
{
	return f->output_tokens <= 0 && f->bytes_out >= 0 && f->bytes_out < AROUND_BYTES + EVENT_BYTES;
}

uint32_t answer_tokens(const struct answer_size *a, const struct fact *f, bool whole)
{
	uint64_t n = f->output_tokens >= 0 ? (uint64_t)f->output_tokens : estimate(a, f, whole);

	return n < ANSWER_TOKENS_MAX ? (uint32_t)n : ANSWER_TOKENS_MAX;
}
