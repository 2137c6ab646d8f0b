/* The sessions of a snapshot in the store. They are read after the index, and a snapshot of an
 * older agent has none. What is wrong with them does not change what else is loaded. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <endian.h>

#include "agent/base/mem.h"
#include "agent/loop/share_snapshot_in.h"
#include "agent/os/clock.h"

void sessions_drop(struct share_warm *w)
{
	route_sessions_end(w->sessions.restoring);
	mem_free(w->sessions.bytes);
	w->sessions.restoring = NULL;
	w->sessions.bytes = NULL;
	w->sessions.n = w->sessions.length = 0;
	w->sessions.chunk = 0;
}

static void refuse(struct share *sh, const char *why)
{
	struct log_line ln;

	if (log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_SHARE,
		"the sessions of a snapshot in the store are not loaded")) {
		log_text(&ln, "error", why);
		log_end(&ln);
	}
	sessions_drop(&sh->warm);
}

/* The first chunk says how many bytes there are. */
static const char *begin(struct share_warm *w, struct span bytes)
{
	w->sessions.length = route_sessions_length((const uint8_t *)bytes.p, bytes.n);
	if (w->sessions.length == 0)
		return "they make no sense";
	if (w->sessions.length > w->sessions.most)
		return "they are more than this agent could write; is sessions.max_bytes the same?";
	if ((w->sessions.bytes = mem_alloc(w->sessions.length)) == NULL)
		return "not enough memory";
	return NULL;
}

static const char *take(struct share *sh, struct span chunk)
{
	struct share_warm *w = &sh->warm;
	struct span bytes = span_of(chunk.p, chunk.n - 8);
	const char *why;
	uint64_t hash;

	memcpy(&hash, chunk.p + bytes.n, 8);
	if (le64toh(hash) != snapshot_chunk_hash(sh, w->meta.gen,
		CHUNK_OF_SESSIONS | w->sessions.chunk, bytes.p, bytes.n))
		return "a chunk is damaged, or was written under another key";
	if (w->sessions.chunk == 0 && (why = begin(w, bytes)) != NULL)
		return why;
	if (bytes.n == 0 || bytes.n > w->sessions.length - w->sessions.n)
		return "they have another size than they say";
	memcpy(w->sessions.bytes + w->sessions.n, bytes.p, bytes.n);
	w->sessions.n += bytes.n;
	w->sessions.chunk++;
	return NULL;
}

bool sessions_take_chunk(struct share *sh, struct span chunk)
{
	struct share_warm *w = &sh->warm;
	const char *why;

	if (chunk.n < 8 && w->sessions.chunk == 0)	/* there are none */
		return false;
	if ((why = chunk.n < 8 ? "a chunk is missing" : take(sh, chunk)) != NULL) {
		refuse(sh, why);
		return false;
	}
	return w->sessions.n < w->sessions.length;
}

bool sessions_step(struct share *sh)
{
	struct share_warm *w = &sh->warm;
	struct err e = { 0 };

	if (w->sessions.bytes == NULL)
		return false;
	if (w->sessions.restoring == NULL) {
		w->sessions.restoring = route_sessions_begin(sh->agent->route, &(struct route_saved){
			.bytes = w->sessions.bytes, .n = w->sessions.n, .theirs = true,
			.now = agent_msec(sh->agent), .wall_ms = clock_wall_ms() }, &e);
		if (w->sessions.restoring == NULL)
			refuse(sh, e.text);
		return w->sessions.restoring != NULL;
	}
	return route_sessions_step(w->sessions.restoring);
}

#endif
