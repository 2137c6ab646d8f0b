/* text.c - write bodies at the speed of a copy, because a trace has 100 million tokens. A number is
 * two digits and a comma, written as one word of four bytes; sixteen of them are a page, of which
 * there are 90^16. */
#include <stdio.h>

#include "agent/sim/text.h"

#define CHARS_A_TOKEN	4u
#define FRAME_BYTES	256u	/* around the prompt, at most */
#define SEED_SHIFT	20	/* above the numbers of a block's tokens */

struct words { char w[128][4]; };

/* The 90 numbers of two digits, some of them twice. */
static unsigned word_id(unsigned i)
{
	return 10 + i % 90;
}

/* Two digits and a comma. */
static void words_ids(struct words *w)
{
	for (unsigned i = 0; i < 128; i++) {
		unsigned v = word_id(i);

		w->w[i][0] = (char)('0' + v / 10);
		w->w[i][1] = (char)('0' + v % 10);
		w->w[i][2] = w->w[i][3] = ',';
	}
}

static void words_chat(struct words *w)
{
	for (unsigned i = 0; i < 128; i++) {
		w->w[i][0] = (char)('a' + i % 26);
		w->w[i][1] = (char)('a' + (i / 5) % 26);
		w->w[i][2] = (char)('a' + (i * 7) % 26);
		w->w[i][3] = ' ';
	}
}

/* Return seven bits for each of the tokens <i> to <i> + 7. */
static uint64_t eight_tokens(uint64_t seed, uint32_t i)
{
	uint64_t x = (seed + i + 1) * 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 29;
}

/* Write <n> tokens of <seed>, <step> bytes each. */
static char *put_tokens(char *p, const struct words *w, uint64_t seed, uint32_t n, unsigned step)
{
	uint64_t x = 0;

	for (uint32_t i = 0; i < n; i++, x >>= 7, p += step) {
		if (i % 8 == 0)
			x = eight_tokens(seed, i);
		memcpy(p, w->w[x & 127], 4);
	}
	return p;
}

/* A part block has the text of its id; without an id it equals no other. */
static char *put_prompt(char *p, const struct sim_trace *t, const struct sim_request *q,
    const struct words *w, unsigned step)
{
	uint32_t left = q->n_in, n;
	uint64_t seed;

	for (uint32_t i = 0; left > 0; i++, left -= n) {
		n = left < t->block ? left : t->block;
		seed = i < q->n_ids ? t->ids[q->first + i] : SIM_IDS_MAX + ((uint64_t)q->number << 24) + i;
		p = put_tokens(p, w, seed << SEED_SHIFT, n, step);
	}
	return p;
}

int text_body(
    struct buf *b, const struct sim_trace *t, const struct sim_request *q, enum sim_text form)
{
	unsigned step = form == SIM_TEXT_IDS ? 3 : CHARS_A_TOKEN;
	struct words w;
	char *p;

	buf_start(b, 0);
	if (!buf_room(b, (size_t)q->n_in * step + FRAME_BYTES))
		return -1;
	p = b->p;
	if (form == SIM_TEXT_IDS) {
		words_ids(&w);
		p += sprintf(p, "{\"model\":\"m\",\"prompt\":[");
		p = put_prompt(p, t, q, &w, step) - 1;
		p += sprintf(p, "],\"max_tokens\":%u,\"stream\":true}", q->n_out);
	} else {
		words_chat(&w);
		p += sprintf(p, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
		p = put_prompt(p, t, q, &w, step);
		p += sprintf(p, "\"}],\"model\":\"m\",\"max_tokens\":%u,\"stream\":true}", q->n_out);
	}
	buf_wrote(b, (size_t)(p - b->p));
	return 0;
}

const char *text_path(enum sim_text form)
{
	return form == SIM_TEXT_IDS ? "/v1/completions" : "/v1/chat/completions";
}

void text_ids(uint8_t *out, uint64_t block, uint32_t tokens)
{
	uint64_t x = 0;

	for (uint32_t i = 0; i < tokens; i++, x >>= 7) {
		if (i % 8 == 0)
			x = eight_tokens(block << SEED_SHIFT, i);
		out[i] = (uint8_t)word_id(x & 127);
	}
}
