/* save_in.h - the bytes of a saved index, for its writer and its loader. Little endian.
 *
 *   header   magic[8]  u32 version, 0  u64 id of the hash key  u64 checksum of these 24 bytes
 *   section  as in sections.h
 *   runs     u32 parent  u8 block of it, blocks  u16 0  u64 keys[blocks]; a root: parent 0, no
 *            blocks, u64 hash
 *   records  u16 server, rank  u32 block_pages  then u64 slot word  u32 run  u32 copies, each
 *   end      u64 runs, blocks, records, total
 *
 * Runs are numbered from 1 in their order, and a parent may come after its children. <total> mixes
 * the checksum of the header with the head of each section before the end. */
#ifndef KVROUTE_EVENTS_SAVE_IN_H
#define KVROUTE_EVENTS_SAVE_IN_H

#include "agent/base/sections.h"
#include "agent/events/events_in.h"

#define SAVE_MAGIC		"kvrevts\n"
#define SAVE_HEADER_BYTES	32u
#define SAVE_SECTION_MAX		65536u
#define SAVE_RUN_BYTES		8u
#define SAVE_HOLDER_BYTES	8u
#define SAVE_RECORD_BYTES	16u
#define SAVE_END_BYTES		32u

enum save_kind { SAVE_RUNS = 1, SAVE_RECORDS = 2, SAVE_END = 3 };

#endif
