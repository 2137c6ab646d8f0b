/* kvwire.c - write a batch. Consecutive blocks of one prompt are one event, as in vLLM; each
 * evicted block is an event of its own. */
#include "agent/sim/kvwire.h"
#include "agent/sim/text.h"

#define MAP_BYTES	128u	/* of an event without its hashes and tokens, at most */
#define HASH_BYTES	9u

/* MessagePack, at the end of a buffer that has room. */
static void put(struct buf *b, const void *p, size_t n)
{
	memcpy(b->p + b->n, p, n);
	buf_wrote(b, n);
}

static void put_big_endian(struct buf *b, uint8_t kind, uint64_t v, unsigned bytes)
{
	uint8_t out[9] = { kind };

	for (unsigned i = 0; i < bytes; i++)
		out[1 + i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
	put(b, out, 1 + bytes);
}

static void put_u32(struct buf *b, uint32_t v)
{
	put_big_endian(b, 0xce, v, 4);
}

static void put_array(struct buf *b, uint32_t n)
{
	put_big_endian(b, 0xdd, n, 4);
}

static void put_text(struct buf *b, const char *s)
{
	size_t n = strlen(s);

	put(b, &(uint8_t){ (uint8_t)(0xa0 | n) }, 1);		/* up to 31 bytes */
	put(b, s, n);
}

static void put_nil(struct buf *b)
{
	put(b, &(uint8_t){ 0xc0 }, 1);
}

static void put_map(struct buf *b, uint8_t pairs)
{
	put(b, &(uint8_t){ (uint8_t)(0x80 | pairs) }, 1);
}

/* ---- events ---- */

static uint64_t handle_of(unsigned engine, uint64_t block)
{
	uint64_t x = (block + ((uint64_t)(engine + 1) << 40)) * 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static void put_hash(struct buf *b, unsigned engine, uint64_t block)
{
	put_big_endian(b, 0xcf, handle_of(engine, block), 8);
}

static void put_removed(struct buf *b, unsigned engine, uint64_t block)
{
	put_map(b, 3);
	put_text(b, "type");
	put_text(b, "BlockRemoved");
	put_text(b, "block_hashes");
	put_array(b, 1);
	put_hash(b, engine, block);
	put_text(b, "medium");
	put_text(b, "GPU");
}

/* An id below 128 is its own MessagePack. */
_Static_assert(TEXT_ID_MAX <= 128, "ids are one byte each");

static void put_tokens(struct buf *b, const struct kvlog_event *e, uint32_t n, uint32_t block)
{
	put_text(b, "token_ids");
	put_array(b, n * block);
	for (uint32_t i = 0; i < n; i++) {
		text_ids((uint8_t *)b->p + b->n, e[i].block, block);
		buf_wrote(b, block);
	}
}

static void put_stored(
    struct buf *b, const struct kvlog_event *e, uint32_t n, unsigned engine, uint32_t block)
{
	put_map(b, 6);
	put_text(b, "type");
	put_text(b, "BlockStored");
	put_text(b, "block_hashes");
	put_array(b, n);
	for (uint32_t i = 0; i < n; i++)
		put_hash(b, engine, e[i].block);
	put_text(b, "parent_block_hash");
	if (e->parent != KVLOG_NO_PARENT)
		put_hash(b, engine, e->parent);
	else
		put_nil(b);
	put_tokens(b, e, n, block);
	put_text(b, "block_size");
	put_u32(b, block);
	put_text(b, "medium");
	put_text(b, "GPU");
}

/* Return how many of the <n> events are one: a removed block, or stored ones in a row. */
static uint32_t run_of(const struct kvlog_event *e, size_t n)
{
	uint32_t k = 1;

	while (e[0].stored && k < n && e[k].stored && e[k].parent == e[k - 1].block)
		k++;
	return k;
}

static uint32_t count_runs(const struct kvlog_batch *b)
{
	uint32_t runs = 0;

	for (size_t i = 0; i < b->n; i += run_of(&b->events[i], b->n - i))
		runs++;
	return runs;
}

int kvwire_put(struct buf *to, const struct kvlog_batch *b, unsigned engine, uint32_t block)
{
	uint64_t at;

	buf_start(to, 0);
	if (!buf_room(to, MAP_BYTES + b->n * (MAP_BYTES + HASH_BYTES + block)))
		return -1;
	put(to, &(uint8_t){ 0x93 }, 1);
	memcpy(&at, &b->at, sizeof(at));
	put_big_endian(to, 0xcb, at, 8);
	put_array(to, count_runs(b));
	for (size_t i = 0, n; i < b->n; i += n) {
		n = run_of(&b->events[i], b->n - i);
		if (b->events[i].stored)
			put_stored(to, &b->events[i], (uint32_t)n, engine, block);
		else
			put_removed(to, engine, b->events[i].block);
	}
	put(to, &(uint8_t){ 0 }, 1);
	return 0;
}
