/* gpt_oss_turn.c - hashes of the front and of ids, and what is left of them:
 *
 *   | head | id | id | ...  */
#include "agent/chat/gpt_oss_turn.h"
#include "agent/chat/jval_get.h"

#define PAIRS_MOST	(1u << 20)	/* of a call and an answer; beyond that, the whole is rendered */
#define STEP_PAIRS	4u		/* that are compared, per step of work.h */
#define STEP_FRONT	10u		/* bytes of the front per step, as in write.c */

struct head {
	uint64_t front;
	uint32_t messages, thinks;
};

static uint32_t hash_id(const struct gpt_oss_turn *t, struct span id)
{
	return (uint32_t)hash_mix_span(t->key, 0, id);
}

bool gpt_oss_turn_read(struct gpt_oss_turn *t, struct jval messages)
{
	struct head h;

	t->messages = messages;
	t->known = 0;
	t->thinks = false;
	t->front = 0;
	t->answered = (struct span){ .n = 0 };
	if (t->from.n == 0)
		return true;
	if (t->from.n < sizeof(h))
		return false;
	memcpy(&h, t->from.p, sizeof(h));
	t->known = h.messages;
	t->thinks = h.thinks != 0;
	t->front = h.front;
	t->answered = span_of(t->from.p + sizeof(h), t->from.n - sizeof(h));
	return t->known > 0 && t->known <= messages.n;
}

static bool answered(const struct gpt_oss_turn *t, uint32_t id)
{
	for (size_t i = 0; i + sizeof(id) <= t->answered.n; i += sizeof(id)) {
		if (memcmp(t->answered.p + i, &id, sizeof(id)) == 0)
			return true;
	}
	return false;
}

bool gpt_oss_turn_renames(const struct gpt_oss_turn *t, const struct jdict *calls)
{
	uint64_t pairs = (uint64_t)calls->n * (t->answered.n / sizeof(uint32_t));

	work_spend(t->work, pairs < PAIRS_MOST ? pairs / STEP_PAIRS : 0);
	if (pairs >= PAIRS_MOST)
		return true;
	for (uint32_t i = 0; pairs > 0 && i < calls->n; i++) {
		if (answered(t, hash_id(t, jval_span(calls->entry[i].key))))
			return true;
	}
	return false;
}

/* ---- the front ---- */

struct front {
	const struct hash_key *key;
	uint64_t hash;
	size_t bytes;
	harmony_put *put;	/* NULL: it is only hashed */
	void *arg;
};

static int put_front(void *arg, enum harmony_piece what, struct span text)
{
	struct front *f = arg;

	f->hash = hash_mix_span(f->key, hash_mix(f->key, f->hash, what), text);
	f->bytes += text.n;
	return f->put != NULL ? f->put(f->arg, what, text) : 0;
}

/* Write the front if nothing is known, and hash it. */
static enum harmony_result write_front(struct gpt_oss_turn *t, const struct harmony_message *m,
    size_t n, struct harmony_opts o, harmony_put *put, void *arg)
{
	struct front f = {
		.key = t->key, .hash = t->taken, .put = t->known > 0 ? NULL : put, .arg = arg
	};
	enum harmony_result r;

	o.completion = false;
	r = harmony_render(m, n, o, put_front, &f);
	if (f.put == NULL)
		work_spend(t->work, f.bytes / STEP_FRONT);
	if (r == HARMONY_DONE && t->known > 0 && f.hash != t->front)
		return HARMONY_MISSED;
	t->front = f.hash;
	return r;
}

/* ---- leave ---- */

static void leave(struct gpt_oss_turn *t)
{
	struct jval messages = t->messages;
	struct head h = { .front = t->front, .messages = messages.n, .thinks = t->thinks };

	buf_start(t->left, 0);
	buf_add(t->left, &h, sizeof(h));
	buf_span(t->left, t->answered);
	for (uint32_t i = t->known; i < messages.n; i++) {
		uint32_t id;

		if (!is_word(get_text(messages.v[i], "role"), "tool"))
			continue;
		id = hash_id(t, get_text(messages.v[i], "tool_call_id"));
		buf_add(t->left, &id, sizeof(id));
	}
}

enum harmony_result gpt_oss_turn_write(struct gpt_oss_turn *t, const struct harmony_message *m,
    size_t front, size_t n, struct harmony_opts o, harmony_put *put, void *arg)
{
	enum harmony_result r = write_front(t, m, front, o, put, arg);

	if (r == HARMONY_DONE)
		r = harmony_render(m + front, n - front, o, put, arg);
	if (r == HARMONY_DONE)
		leave(t);
	return r;
}
