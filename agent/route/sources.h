/* sources.h - engines that publish KV cache events, as the core sees them.
 *
 *   loop/kvsub (one thread)             core
 *   open, close                         a source: one server of a pool, with its ranks
 *   batch: a payload, in order     -->  feed/kvevent decodes, events/ stores and removes blocks
 *   clear: restarted, or unsure         the blocks of a rank are forgotten
 *   state: of the rank's cursor         decides if events or the tree speak for this server
 *
 * A source may be opened before a request or a row has named its server. All functions may be
 * called from any thread; those that change blocks wait for each other, never for a request. */
#ifndef KVROUTE_ROUTE_SOURCES_H
#define KVROUTE_ROUTE_SOURCES_H

#include "agent/feed/kvcursor.h"
#include "agent/feed/kvevent.h"
#include "agent/route/route.h"

#define SOURCES_MAX		1024
#define SOURCE_RANKS_MAX	64

typedef uint32_t source_id;
#define SOURCE_NONE	UINT32_MAX

/* Add the server <server> of <pool> as a publisher with <ranks> ranks, numbered from 0. Returns its
 * number, or SOURCE_NONE if there are too many, if <ranks> is 0 or above SOURCE_RANKS_MAX, or if
 * route_opts.events_max_bytes is 0. The same server twice is one source; the later <ranks> hold. */
source_id route_source_open(
    struct route *r, struct span pool, struct span server, unsigned ranks, msec now);

/* Let the blocks of <id> that are not on its device expire <ttl_ms> after they were stored last,
 * because their removals are not reported; 0: they are, which is the default. Called before its
 * first batch. */
void route_source_expire(struct route *r, source_id id, msec ttl_ms);

/* Forget it with all its blocks. Its requests are judged by the tree from now on. */
void route_source_close(struct route *r, source_id id);

struct source_batch {
	uint32_t events, stored, removed;	/* events; blocks */
	uint32_t expiring;			/* of <stored>: their removal will not be reported */
	bool cleared;				/* the engine has emptied its cache */
	bool skipped;				/* some event was unknown or bad */
	double time;				/* of the batch, by the engine's clock */
};

/* A payload that is applied in slices, so that a large one does not delay other publishers. It
 * points into the bytes, which stay where they are until it is over. */
struct source_slices {
	struct kvevent_batch batch;
	struct kvevent event;		/* that is applied now */
	enum { SLICE_NEXT, SLICE_STORE, SLICE_COPY, SLICE_REMOVE } part;
	struct source_batch did;	/* so far */
	uint64_t on_device;		/* blocks stored there so far */
	/* SLICE_STORE: the blocks before, and how the next ones are stored */
	bool first, has_parent;
	uint64_t parent, root[2];
	struct span salt;
	uint32_t page;
	uint16_t apart;
};

/* Begin to apply a payload. Returns 0, or -KVEVENT_E_... O(bytes). */
int route_source_begin(struct source_slices *w, struct span payload);

#define SOURCE_SLICE_OVER	64u	/* blocks by which a slice may exceed its work */

/* Apply the next slice: until <*work> blocks and events are done, which are subtracted. Returns
 * true and sets <out> once all of it is applied. Payloads of one rank come in the order of its
 * publisher, and none begins before the last one is over. */
bool route_source_slice(struct route *r, source_id id, unsigned rank, struct source_slices *w,
    int64_t *work, msec now, struct source_batch *out);

/* Apply one payload of <rank> at once. Returns 0 and sets <out>, or -KVEVENT_E_... and changes
 * nothing. O(bytes). */
int route_source_batch(struct route *r, source_id id, unsigned rank, struct span payload,
    msec now, struct source_batch *out);

/* Forget the blocks of <rank>, because the engine was restarted or too many batches are lost.
 * <from_start>: the next batch is the engine's first, so that nothing older is missing.
 * <restarted>: its cache is empty, so what requests taught is forgotten, too. */
void route_source_clear(struct route *r, source_id id, unsigned rank, bool from_start,
    bool restarted, msec now);

/* The cursor of <rank> is in <state> now. <from_start>: as above, of the first batch applied. */
void route_source_state(struct route *r, source_id id, unsigned rank, enum kvcursor_state state,
    bool from_start, msec now);

/* Note how far the batches of <rank> go that were applied, or with NULL that this is not known, for
 * a snapshot. Called after each batch by the thread that applies them. */
void route_source_place(
    struct route *r, source_id id, unsigned rank, const struct kvcursor_place *p);

/* Set <p> to the place that a snapshot had for <rank>, once after route_source_open(). Returns
 * false if there is none; then no block of the rank is known. */
bool route_source_resume(
    struct route *r, source_id id, unsigned rank, struct kvcursor_place *p);

/* Write all sources with their blocks, after the snapshot of the tree; nothing if there is no
 * source. Returns -1 if <put> failed or there is no memory. No batch is applied meanwhile. */
int route_save_events(struct route *r, snapshot_put *put, void *arg);

/* Return the most bytes that it writes with these options. */
uint64_t route_events_bytes_most(const struct route_opts *o);

/* Load what route_save_events() wrote, into a router without sources. Each source is off until it
 * is opened, and closed if that does not happen within minutes. Returns -1, sets <e> and loads
 * nothing if the bytes are refused. */
int route_restore_events(
    struct route *r, const uint8_t *bytes, size_t n, msec now, struct err *e);

/* Signs that a publisher is not configured as it should be. */
struct source_signs {
	bool silent;		/* a request with new blocks was sent 30 seconds ago, and nothing came since */
	bool misfit;		/* the last prompt sent to it could not be divided into its blocks */
	bool differs;		/* its blocks have another size than the model's options say */
	uint32_t block_size;	/* tokens of its blocks; 0: none was stored */
	uint32_t page;		/* tokens of a page of that prompt; 0: there was none with tokens */
};

/* Set <out>. Takes no lock. */
void route_source_signs(const struct route *r, source_id id, msec now, struct source_signs *out);

struct source_count {
	uint64_t batches, events;
	uint64_t stored, removed, cleared;	/* blocks, blocks, times */
	uint64_t skipped;	/* events that are unknown or bad */
	uint64_t not_dense;	/* stored events whose tokens are not those of their blocks */
	uint64_t other_layers;	/* events of layers without full attention */
	/* stored events whose blocks have another size than those of their rank, or are too large for a
	 * page */
	uint64_t odd_size;
};

struct source_view {
	const char *pool, *server;
	unsigned ranks, good;		/* <good>: ranks whose events can be trusted */
	bool from_start;		/* no older event is missing, and no block had no room */
	uint32_t block_size;		/* tokens; 0: no block was stored yet */
	uint64_t blocks;		/* reported at present, in all tiers */
	struct source_count count;
};

/* Call back once for each source. A lock is held: be quick, and call no route_... function from
 * within. */
void route_each_source(
    struct route *r, void (*fn)(void *arg, const struct source_view *v), void *arg);

/* Set <s> to figures about all reported blocks. Returns false if no source was ever opened. */
struct events_stats;
bool route_events_stats(struct route *r, struct events_stats *s);

#endif
