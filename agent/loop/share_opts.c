/* What the configuration says about sharing. */
#include "agent/index/snapshot.h"
#include "agent/loop/share_in.h"

#define FDS_THREAD	4	/* of its loop, and the bulk connection */
#define BULK_BYTES	((uint64_t)20 << 20)	/* a chunk in all its forms */
#define STATE_BYTES	((uint64_t)1 << 20)	/* inbox, parts, small answers */

bool share_available(void)
{
#ifdef HAVE_HIREDIS
	return true;
#else
	return false;
#endif
}

bool share_tls_available(void)
{
#ifdef HAVE_HIREDIS_SSL
	return true;
#else
	return false;
#endif
}

uint32_t share_parts(const struct share_opts *o)
{
	return o->parts != 0 ? o->parts : o->cluster ? 8 : 1;
}

uint64_t share_fds(const struct loop_opts *o)
{
	return share_wanted(o) ? FDS_THREAD + STORE_SERVERS_MAX + STORE_PARTS_MAX : 0;
}

/* An answer is in memory twice: as it came, and decoded. So is a batch that is under way: in the
 * outbox, and in the buffer of its connection. */
uint64_t share_budget(const struct loop_opts *o)
{
	uint64_t readers = o->share.cluster ? share_parts(&o->share) : 1, each = READ_REPLY_MAX / readers;

	if (!share_wanted(o))
		return 0;
	if (each < CONN_SMALL_REPLY)
		each = CONN_SMALL_REPLY;
	return 2 * o->share.max_bytes + 2 * readers * each + BULK_BYTES + STATE_BYTES;
}

static uint64_t sessions_bytes(const struct route_opts *ro)
{
	return ro->sessions_max_bytes > 0 ? route_sessions_bytes_most(ro) : 0;
}

/* Sessions are collected for the file, too; for the store and for siblings they are then copied. */
static unsigned sessions_copies(const struct loop_opts *o)
{
	return (o->snapshot_file[0] != '\0' ? 1 : 0) + (share_wanted(o) ? 2 : 0) +
	       (o->share.serve_snapshot ? 2 : 0);
}

uint64_t share_snapshot_budget(const struct loop_opts *o, const struct route_opts *ro)
{
	bool loads = share_wanted(o) || o->share.snapshot_from[0][0] != '\0';
	uint64_t bytes = loads ? snapshot_load_bytes(ro->index.max_bytes) + sessions_bytes(ro) : 0;

	return bytes + sessions_copies(o) * sessions_bytes(ro);
}
