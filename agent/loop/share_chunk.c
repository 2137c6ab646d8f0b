/* Keys of snapshots in the store, and their chunks. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>

#include "agent/loop/share_snapshot_in.h"

/* ---- keys and numbers as texts ---- */

void snapshot_key(const struct share *sh, const char *word, char out[STORE_KEY_MAX])
{
	snprintf(out, STORE_KEY_MAX, "kvroute:{%s:0}:%s", sh->opts.fleet, word);
}

void chunks_key(const struct share *sh, uint64_t gen, char out[STORE_KEY_MAX])
{
	char word[40];

	snprintf(word, sizeof(word), "snapshot:%016llx", (unsigned long long)gen);
	snapshot_key(sh, word, out);
}

struct span number_text(char out[24], uint64_t v)
{
	return span_of(out, (size_t)snprintf(out, 24, "%llu", (unsigned long long)v));
}

struct span hex_text(char out[24], uint64_t v)
{
	return span_of(out, (size_t)snprintf(out, 24, "%016llx", (unsigned long long)v));
}

/* ---- chunks, by both ---- */

uint64_t snapshot_chunk_hash(
    const struct share *sh, uint64_t gen, uint32_t i, const void *bytes, size_t n)
{
	return hash_mix_span(&sh->key, hash_mix(&sh->key, gen, i), span_of(bytes, n));
}

struct span chunk_field(char out[24], uint32_t i)
{
	return span_of(out, (size_t)snprintf(out, 24, "%s%u", i & CHUNK_OF_SESSIONS ? "s" : "",
				i & ~CHUNK_OF_SESSIONS));
}

bool snapshot_get_chunk(struct share *sh, conn_reply_fn *fn, uint64_t gen, uint32_t i)
{
	char key[STORE_KEY_MAX], field[24];
	const struct span words[] = { SPAN("HGET"), (chunks_key(sh, gen, key), span_str(key)),
		chunk_field(field, i) };

	return conn_send(&sh->bulk, fn, sh, i, BULK_WAIT_MS(sh), 3, words);
}

#endif
