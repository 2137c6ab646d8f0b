/* share_snapshot_in.h - what writing and reading a snapshot in the store have in common. */
#ifndef KVROUTE_LOOP_SHARE_SNAPSHOT_IN_H
#define KVROUTE_LOOP_SHARE_SNAPSHOT_IN_H

#include "agent/loop/share_in.h"

#define SNAPSHOT_CHUNK		((size_t)512 << 10)	/* bytes, about */
#define SAFETY_MS		10000
#define BULK_WAIT_MS(sh)	((sh)->opts.timeout_ms * 5)	/* a chunk takes longer than a word */

/* ---- share_chunk.c ---- */

#define CHUNK_OF_SESSIONS	0x80000000u	/* in the number of a chunk: of the sessions */

/* Write the name of the key of <word>, or of the chunks of snapshot <gen>. */
void snapshot_key(const struct share *sh, const char *word, char out[STORE_KEY_MAX]);
void chunks_key(const struct share *sh, uint64_t gen, char out[STORE_KEY_MAX]);
struct span number_text(char out[24], uint64_t v), hex_text(char out[24], uint64_t v);
struct span chunk_field(char out[24], uint32_t i);

uint64_t snapshot_chunk_hash(
    const struct share *sh, uint64_t gen, uint32_t i, const void *bytes, size_t n);

/* Ask for chunk <i>, on the bulk connection. <fn> gets the share, and <i> as its tag. */
bool snapshot_get_chunk(struct share *sh, conn_reply_fn *fn, uint64_t gen, uint32_t i);

/* ---- share_snapshot_meta.c ---- */

/* Write a description. Returns its length. */
size_t snapshot_write_meta(
    const struct share *sh, const struct snapshot_meta *m, char *out, size_t cap);

/* Cut the first word off <s>. Returns false if there is none, or it is too long. */
bool word_take(struct span *s, char *out, size_t cap);

/* The same for a number. */
bool meta_take_value(struct span *s, int base, uint64_t max, uint64_t *v);

/* Read a description. Returns false if it makes no sense or has another number of parts. */
bool snapshot_read_meta(struct share *sh, struct span text, struct snapshot_meta *m);

/* ---- share_lease.c ---- */

#define LEASE_MS	30000

/* Ask for the lease. <fn> gets the share, <wanted> as its tag, and "OK" if the agent has it now. */
void lease_ask(struct share *sh, struct conn *c, conn_reply_fn *fn, uint64_t wanted);

/* Extend it, on the bulk connection. <fn> gets the share, and 0 if this agent does not have it. */
void lease_extend(struct share *sh, conn_reply_fn *fn);

/* Log once that the store refuses scripts. */
void lease_refused(struct share *sh, struct span why);

/* Give it back, if this agent has it. If the thread ends, its loop is left after the answer. */
void lease_end(struct share *sh);

/* ---- share_warm.c ---- */

/* The bulk connection, while it does not write. */
void warm_bulk_opened(struct share *sh);
void warm_bulk_lost(struct share *sh);

/* ---- share_warm_sessions.c ---- */

/* Take a chunk with its hash. Returns true if another one is to be asked for. */
bool sessions_take_chunk(struct share *sh, struct span chunk);

/* Add a few of them. Returns true if there are more. */
bool sessions_step(struct share *sh);
void sessions_drop(struct share_warm *w);

#endif
