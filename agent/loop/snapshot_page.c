/* The page /snapshot: the index as bytes, written in steps as the peer reads it; and the page
 * /snapshot/sessions, which is written at once. An older sibling does not ask for the latter. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/loop/snapshot_page_in.h"
#include "agent/os/clock.h"

#define STEP_NODES	64u
#define STEP_BYTES	(256u << 10)	/* about as many are sent before the next step */

struct snapshot_page {
	struct route *sessions;		/* whose sessions it has; NULL: it has the index */
	struct snapshot_writer *w;
	struct buf *out;
	msec now;			/* when it was asked for, by the clock of the router */
	bool whole;
};

static int put_bytes(void *arg, const void *bytes, size_t n)
{
	struct snapshot_page *p = arg;

	buf_add(p->out, bytes, n);
	return p->out->failed ? -1 : 0;
}

/* Compare 16 hexadecimal digits with <proof>; the time does not depend on how many are right. */
static bool is_proof(struct span query, uint64_t proof)
{
	char want[32];
	size_t n = (size_t)snprintf(want, sizeof(want), "proof=%016llx", (unsigned long long)proof);
	volatile unsigned char differ = 0;

	if (query.n != n)
		return false;
	for (size_t i = 0; i < n; i++)
		differ |= (unsigned char)(query.p[i] ^ want[i]);
	return differ == 0;
}

int snapshot_page_begin(struct snapshot_page **page, const struct sibling_reader *s,
    struct route *r, bool sessions, struct span query, msec now, struct buf *out)
{
	struct snapshot_page *p;

	if (!s->serves)
		return 404;
	if (!is_proof(query, s->proof))
		return 403;
	if ((p = mem_alloc(sizeof(*p))) == NULL)
		return 503;
	p->out = out;
	p->now = now;
	p->sessions = sessions ? r : NULL;
	if (!sessions && (p->w = route_snapshot(r, now, clock_wall_ms(), put_bytes, p)) == NULL) {
		mem_free(p);
		return 503;
	}
	*page = p;
	return 200;
}

int snapshot_page_step(struct snapshot_page *p)
{
	int rc = 0;

	buf_start(p->out, 0);
	if (p->sessions != NULL && !p->whole) {
		p->whole = true;
		if (route_save_sessions(p->sessions, p->now, clock_wall_ms(), put_bytes, p) != 0)
			return -1;
	}
	while (!p->whole && p->out->n < STEP_BYTES) {
		if ((rc = snapshot_write(p->w, STEP_NODES)) < 0)
			return -1;
		p->whole = rc > 0;
	}
	return p->out->n > 0 ? 1 : 0;
}

void snapshot_page_free(struct snapshot_page *p)
{
	if (p == NULL)
		return;
	snapshot_writer_free(p->w);
	mem_free(p);
}
