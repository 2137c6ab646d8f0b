/* save_in.h - the bytes of a saved index, for its writer and its loader. Little endian.
 *
 *   header   magic[8]  u32 version, 0  u64 id of the hash key  u64 checksum of these 24 bytes
 *   frame    u32 kind, bytes  u64 checksum of the payload  payload
 *   runs     u32 parent  u8 block of it, blocks  u16 0  u64 keys[blocks]; a root: parent 0, no
 *            blocks, u64 hash
 *   records  u16 server, rank  u32 block_pages  then u64 slot word  u32 run  u32 copies, each
 *   end      u64 runs, blocks, records, total
 *
 * Runs are numbered from 1 in their order, and a parent may come after its children. <total> mixes
 * the checksum of the header with the head of each frame before the end. */
#ifndef KVROUTE_EVENTS_SAVE_IN_H
#define KVROUTE_EVENTS_SAVE_IN_H

#include <endian.h>

#include "agent/events/events_in.h"

#define SAVE_MAGIC		"kvrevts\n"
#define SAVE_HEADER_BYTES	32u
#define SAVE_HEAD_BYTES		16u
#define SAVE_FRAME_MAX		65536u
#define SAVE_RUN_BYTES		8u
#define SAVE_HOLDER_BYTES	8u
#define SAVE_RECORD_BYTES	16u
#define SAVE_END_BYTES		32u

enum save_kind { SAVE_RUNS = 1, SAVE_RECORDS = 2, SAVE_END = 3 };

static inline void put16(uint8_t *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static inline uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline uint64_t save_checksum(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

/* Return <total> with one more frame, whose head is given. */
static inline uint64_t save_total(uint64_t total, const uint8_t *head)
{
	uint8_t both[8 + SAVE_HEAD_BYTES];

	put64(both, total);
	memcpy(both + 8, head, SAVE_HEAD_BYTES);
	return save_checksum(both, sizeof(both));
}

#endif
