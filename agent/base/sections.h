/* sections.h - what files in sections share: little endian numbers and checksums.
 *
 *   section  u32 kind, bytes  u64 checksum of the payload  payload
 *
 * A file keeps a total over the heads of its sections, so that a missing, repeated or moved section
 * is found, too. The checksums find damage; they are no signature. */
#ifndef KVROUTE_BASE_SECTIONS_H
#define KVROUTE_BASE_SECTIONS_H

#include <endian.h>

#include "agent/base/buf.h"
#include "agent/base/hash.h"

#define SECTION_HEAD_BYTES	16u

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

/* Append to <b>. */
static inline void add16(struct buf *b, uint16_t v)
{
	uint8_t le[2];

	put16(le, v);
	buf_add(b, le, sizeof(le));
}

static inline void add32(struct buf *b, uint32_t v)
{
	uint8_t le[4];

	put32(le, v);
	buf_add(b, le, sizeof(le));
}

static inline void add64(struct buf *b, uint64_t v)
{
	uint8_t le[8];

	put64(le, v);
	buf_add(b, le, sizeof(le));
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

static inline uint64_t checksum(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

/* Write the head of a section with <n> bytes at <payload>. */
static inline void section_put_head(uint8_t *head, uint32_t kind, const void *payload, size_t n)
{
	put32(head, kind);
	put32(head + 4, (uint32_t)n);
	put64(head + 8, checksum(payload, n));
}

/* Return <total> with one more section, whose head is given. */
static inline uint64_t section_total(uint64_t total, const uint8_t *head)
{
	uint8_t both[8 + SECTION_HEAD_BYTES];

	put64(both, total);
	memcpy(both + 8, head, SECTION_HEAD_BYTES);
	return checksum(both, sizeof(both));
}

#endif
