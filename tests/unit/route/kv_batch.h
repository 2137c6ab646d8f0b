/* kv_batch.h - batches of KV cache events as vLLM publishes them: maps in a positional batch. */
#ifndef TESTS_ROUTE_KV_BATCH_H
#define TESTS_ROUTE_KV_BATCH_H

#include "agent/base/buf.h"
#include "tests/unit/route/world.h"

struct kv_batch {
	struct buf b, events;
	unsigned n;
};

static inline void kv_byte(struct buf *b, unsigned v)
{
	uint8_t c = (uint8_t)v;

	buf_add(b, &c, 1);
}

static inline void kv_str(struct buf *b, const char *s)
{
	assert_true(strlen(s) < 32);
	kv_byte(b, 0xa0 + (unsigned)strlen(s));
	buf_add(b, s, strlen(s));
}

static inline void kv_u64(struct buf *b, uint64_t v)
{
	kv_byte(b, 0xcf);
	for (int i = 56; i >= 0; i -= 8)
		kv_byte(b, (unsigned)(v >> i & 0xff));
}

static inline void kv_array(struct buf *b, unsigned n)
{
	kv_byte(b, 0xdd);
	for (int i = 24; i >= 0; i -= 8)
		kv_byte(b, n >> i & 0xff);
}

struct kv_stored {
	uint64_t first_handle;		/* of consecutive handles */
	unsigned blocks, block_size;
	uint64_t parent;		/* 0: none */
	unsigned first_token;		/* tokens count up from here */
	const char *medium, *lora, *salt, *image;
};

static inline void kv_stored(struct kv_batch *k, const struct kv_stored *s)
{
	struct buf *b = &k->events;
	unsigned members = 5 + (s->parent != 0) + (s->medium != NULL) + (s->lora != NULL) +
	    (s->salt != NULL || s->image != NULL);

	k->n++;
	kv_byte(b, 0x80 + members - 1);
	kv_str(b, "type");
	kv_str(b, "BlockStored");
	kv_str(b, "block_hashes");
	kv_array(b, s->blocks);
	for (unsigned i = 0; i < s->blocks; i++)
		kv_u64(b, s->first_handle + i);
	kv_str(b, "token_ids");
	kv_array(b, s->blocks * s->block_size);
	for (unsigned i = 0; i < s->blocks * s->block_size; i++)
		kv_u64(b, s->first_token + i);
	kv_str(b, "block_size");
	kv_u64(b, s->block_size);
	if (s->parent != 0) {
		kv_str(b, "parent_block_hash");
		kv_u64(b, s->parent);
	}
	if (s->medium != NULL) {
		kv_str(b, "medium");
		kv_str(b, s->medium);
	}
	if (s->lora != NULL) {
		kv_str(b, "lora_name");
		kv_str(b, s->lora);
	}
	if (s->salt == NULL && s->image == NULL)
		return;
	kv_str(b, "extra_keys");
	kv_array(b, s->blocks);
	for (unsigned i = 0; i < s->blocks; i++) {
		const char *x = i == 0 && s->salt != NULL ? s->salt : i > 0 ? s->image : NULL;

		if (x == NULL) {
			kv_byte(b, 0xc0);
			continue;
		}
		kv_array(b, 1);
		kv_str(b, x);
	}
}

static inline void kv_removed(
    struct kv_batch *k, uint64_t first_handle, unsigned blocks, const char *medium)
{
	struct buf *b = &k->events;

	k->n++;
	kv_byte(b, medium != NULL ? 0x83 : 0x82);
	kv_str(b, "type");
	kv_str(b, "BlockRemoved");
	kv_str(b, "block_hashes");
	kv_array(b, blocks);
	for (unsigned i = 0; i < blocks; i++)
		kv_u64(b, first_handle + i);
	if (medium != NULL) {
		kv_str(b, "medium");
		kv_str(b, medium);
	}
}

static inline void kv_cleared(struct kv_batch *k)
{
	k->n++;
	kv_byte(&k->events, 0x81);
	kv_str(&k->events, "type");
	kv_str(&k->events, "AllBlocksCleared");
}

/* Apply the batch and empty it. */
static inline struct source_batch kv_publish(
    struct world *w, struct kv_batch *k, source_id id, unsigned rank)
{
	struct source_batch out;

	k->b.n = 0;
	kv_byte(&k->b, 0x93);
	kv_u64(&k->b, 1);
	kv_array(&k->b, k->n);
	buf_add(&k->b, k->events.p, k->events.n);
	kv_byte(&k->b, 0xc0);
	assert_int_equal(route_source_batch(w->r, id, rank, span_of(k->b.p, k->b.n), w->now, &out), 0);
	assert_int_equal(out.events, k->n);
	k->events.n = 0;
	k->n = 0;
	return out;
}

static inline void kv_free(struct kv_batch *k)
{
	buf_free(&k->b);
	buf_free(&k->events);
}

#endif
