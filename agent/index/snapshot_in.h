/* snapshot_in.h - the bytes of a snapshot, for its writer and its loader.
 *
 *   header    magic[8]  u32 version, text_page, token_page, wall clock in ticks (0: unknown; older
 *             agents ignore it)  u64 key id, tenants, checksum of the 40 bytes
 *   section   as in sections.h
 *   names     u16 server, bytes  name      one after another
 *   space     u8 1, 0  u16 tenant  u32 0  u64 h[2]
 *   node      u8 2, 0  u16 pages  u32 parent  u16 0, owners  u32 room of a page, 1..65535
 *             u64 keys[pages]  owner[owners], by server
 *   owner     u16 server, held  u32 age in ticks  u8 hits, priority  u16 0
 *   end       u64 spaces, nodes, records, pages  u64 total
 *
 * In format 1 the room is 0.
 *
 * Spaces and nodes are numbered from 1 in their order; a parent has a lower number. <total> starts
 * as the checksum of the header and is mixed with the head of each section, so it covers their
 * number and order. */
#ifndef KVROUTE_INDEX_SNAPSHOT_FORMAT_H
#define KVROUTE_INDEX_SNAPSHOT_FORMAT_H

#include "agent/base/sections.h"
#include "agent/index/claim_in.h"
#include "agent/index/snapshot.h"

#define SNAPSHOT_MAGIC	"kvrsnap\n"
#define HEADER_BYTES	SNAPSHOT_HEAD_BYTES
#define END_BYTES	40u
#define SPACE_BYTES	24u
#define NODE_BYTES	16u
#define OWNER_BYTES	12u
#define ENTRY_MAX	(NODE_BYTES + EDGE_MAX * 8u + SERVERS_MAX * OWNER_BYTES)

/* Return the wall clock in ticks, of which 2^32 take two years; 0: unknown. */
static inline uint32_t wall_tick(int64_t wall_ms)
{
	return wall_ms > 0 ? tick_of(wall_ms) | (tick_of(wall_ms) == 0) : 0;
}

enum section_kind { SECTION_NAMES = 1, SECTION_TREE = 2, SECTION_END = 3 };
enum entry_kind { ENTRY_SPACE = 1, ENTRY_NODE = 2 };

#endif
