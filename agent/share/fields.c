/* The fields of each kind of entry, written or read: see fields_in.h. Nothing here is allocated.
 * After a failure each visit does nothing, so a caller checks once, at the end; what was read up to
 * then is not to be used. */
#include "agent/share/fields_in.h"

static void field_fail(struct share_fields *f)
{
	f->failed = true;
	f->left = 0;
}

/* Pass <n> bytes. Returns false if there are fewer. */
static bool field_pass(struct share_fields *f, size_t n)
{
	if (n > f->left) {
		field_fail(f);
		return false;
	}
	f->left -= n;
	if (f->in != NULL)
		f->in += n;
	else
		f->out += n;
	return true;
}

/* ---- one field ----------------------------------------------------------------------------- */

static void field_write(struct share_fields *f, uint64_t v)
{
	uint8_t leb[10];
	size_t n = 0;

	for (; v > 0x7f; v >>= 7)
		leb[n++] = (uint8_t)(v | 0x80);
	leb[n++] = (uint8_t)v;
	if (field_pass(f, n))
		memcpy(f->out - n, leb, n);
}

static uint64_t field_read(struct share_fields *f)
{
	unsigned shift = 0;
	uint64_t v = 0;
	uint8_t byte;

	do {
		if (!field_pass(f, 1))
			return 0;
		byte = f->in[-1];
		if (shift == 63 && byte > 1) {
			field_fail(f);
			return 0;
		}
		v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return v;
}

static void field_number(struct share_fields *f, uint64_t *v, uint64_t max)
{
	if (f->in == NULL) {
		field_write(f, *v < max ? *v : max);
		return;
	}
	*v = field_read(f);
	if (*v > max)
		field_fail(f);
}

static void field_number32(struct share_fields *f, uint32_t *v, uint32_t max)
{
	uint64_t wide = *v;

	field_number(f, &wide, max);
	*v = (uint32_t)wide;
}

static void field_number8(struct share_fields *f, uint8_t *v, uint8_t max)
{
	uint64_t wide = *v;

	field_number(f, &wide, max);
	*v = (uint8_t)wide;
}

static void field_number16(struct share_fields *f, uint16_t *v)
{
	uint64_t wide = *v;

	field_number(f, &wide, UINT16_MAX);
	*v = (uint16_t)wide;
}

/* One bit each, the first is the lowest. Others are ignored when read. */
static void field_flags(struct share_fields *f, bool *const *flags, unsigned n)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < n; i++)
		bits |= (uint32_t)*flags[i] << i;
	field_number32(f, &bits, UINT32_MAX);
	for (unsigned i = 0; f->in != NULL && i < n; i++)
		*flags[i] = bits >> i & 1;
}

#define FLAGS(f, n, ...)	field_flags(f, (bool *const[n]){ __VA_ARGS__ }, n)

/* A number that is -1 if it is unknown. */
static void field_maybe(struct share_fields *f, int64_t *v, uint64_t max)
{
	uint64_t wide = *v < 0 ? 0 : (uint64_t)*v + 1;

	field_number(f, &wide, max + 1);
	*v = (int64_t)wide - 1;
}

/* One that older agents do not write; -1 then. */
static void field_added(struct share_fields *f, int64_t *v, uint64_t max)
{
	if (f->in != NULL && f->left == 0)
		*v = -1;
	else
		field_maybe(f, v, max);
}

static void field_maybe32(struct share_fields *f, int32_t *v, uint32_t max)
{
	int64_t wide = *v;

	field_maybe(f, &wide, max);
	*v = (int32_t)wide;
}

/* A time that has passed; a negative one counts as 0. */
static void field_passed(struct share_fields *f, msec *v)
{
	uint64_t wide = *v < 0 ? 0 : (uint64_t)*v;

	field_number(f, &wide, SHARE_NUMBER_MAX);
	*v = (msec)wide;
}

static void field_seconds(struct share_fields *f, double *v)
{
	uint64_t us = !(*v > 0) ? 0 : *v < SHARE_SECONDS_MAX ? (uint64_t)(*v * 1e6 + 0.5) : UINT64_MAX;

	field_number(f, &us, (uint64_t)(SHARE_SECONDS_MAX * 1e6));
	*v = (double)us / 1e6;
}

static void field_hash(struct share_fields *f, uint64_t *v)
{
	if (!field_pass(f, 8))
		return;
	if (f->in != NULL)
		*v = wire_get(f->in - 8, 8);
	else
		wire_put(f->out - 8, *v, 8);
}

/* Bytes that are borrowed from the batch when read. */
static void field_bytes(struct share_fields *f, struct span *s, size_t max)
{
	uint64_t n = s->n;

	field_number(f, &n, max);
	if (!field_pass(f, n))
		return;
	if (f->in != NULL)
		*s = span_of(f->in - n, n);
	else if (n > 0)
		memcpy(f->out - n, s->p, n);
}

/* ---- fields of several kinds ----------------------------------------------------------------- */

static void field_server(struct share_fields *f, struct share_server *at)
{
	field_number32(f, &f->server, SHARE_SERVERS_MAX - 1);
	if (f->in == NULL)
		return;
	if (f->server >= f->reader->n_names)
		field_fail(f);
	else
		*at = f->reader->names[f->server];
}

static void field_space(struct share_fields *f, struct share_space *s)
{
	field_hash(f, &s->h[0]);
	field_hash(f, &s->h[1]);
	field_number(f, &s->tenant, UINT64_MAX);		/* seldom there, so not as a hash */
	field_number32(f, &s->part_room, SHARE_ROOM_MAX);
	field_number32(f, &s->page_room, SHARE_ROOM_MAX);
}

/* The root needs no hash. */
static void field_anchor(struct share_fields *f, struct share_anchor *a)
{
	field_number32(f, &a->depth, SHARE_DEPTH_MAX);
	if (a->depth > 0)
		field_hash(f, &a->hash);
}

/* <n> hashes, which are copied to <to> when read. */
static void field_hashes(
    struct share_fields *f, const uint64_t **list, uint32_t *n, uint64_t *to, uint32_t max)
{
	size_t i, size;

	field_number32(f, n, max);
	if (f->in == NULL && *n > max)
		*n = max;
	size = (size_t)*n * 8;
	if (!field_pass(f, size))
		return;
	if (f->in == NULL) {
		for (i = 0; i < *n; i++)
			wire_put(f->out - size + 8 * i, (*list)[i], 8);
		return;
	}
	for (i = 0; i < *n; i++)
		to[i] = wire_get(f->in - size + 8 * i, 8);
	*list = to;
}

static void field_pages(struct share_fields *f, const page_key **list, uint32_t *n)
{
	field_hashes(f, list, n, f->in != NULL ? f->reader->list.pages : NULL, SHARE_PAGES_MAX);
}

static void field_ends(struct share_fields *f, const struct share_anchor **list, uint32_t *n)
{
	struct share_anchor one;
	uint32_t i;

	field_number32(f, n, SHARE_ENDS_MAX);
	if (f->in == NULL && *n > SHARE_ENDS_MAX)
		*n = SHARE_ENDS_MAX;
	for (i = 0; i < *n && !f->failed; i++) {
		one = f->in == NULL ? (*list)[i] : (struct share_anchor){ 0 };
		field_hash(f, &one.hash);
		field_number32(f, &one.depth, SHARE_DEPTH_MAX);
		if (f->in != NULL)
			f->reader->list.ends[i] = one;
	}
	if (f->in != NULL)
		*list = f->reader->list.ends;
}

/* ---- kinds --------------------------------------------------------------------------------- */

static void end_fields(struct share_fields *f, struct share_end *e)
{
	field_hash(f, &e->key);
	field_number(f, &e->tokens, SHARE_TOKENS_MAX);
	field_number32(f, &e->tail, UINT32_MAX);
	field_number16(f, &e->n_tail);
}

/* Older agents write none of it, or nothing after the flags. An agent that reads a session reads
 * all of it, so without one an empty one comes before what follows. */
static void session_fields(struct share_fields *f, struct share_placed *p)
{
	if (f->in == NULL ? p->session.key == 0 && p->stores == 0 : f->left == 0)
		return;
	field_hash(f, &p->session.key);
	field_hash(f, &p->session.tenant);
	field_hash(f, &p->session.kind);
	field_number(f, &p->session.tokens, SHARE_TOKENS_MAX);
	field_number32(f, &p->session.hidden, UINT32_MAX);
	FLAGS(f, 3, &p->session.cut, &p->session.again, &p->session.rough);
	if (p->session.key == 0)
		memset(&p->session, 0, sizeof(p->session));
	if (f->in == NULL ? p->stores != 0 : f->left >= 8)
		field_hash(f, &p->stores);
}

static void placed_fields(struct share_fields *f, struct share_placed *p)
{
	bool has_end = p->end.key != 0;

	field_hash(f, &p->uid);
	field_hash(f, &p->process);
	field_server(f, &p->at);
	field_space(f, &p->space);
	field_anchor(f, &p->anchor);
	field_number8(f, &p->priority, SHARE_PRIORITIES - 1);
	FLAGS(f, 5, &p->uncertain, &p->streams, &p->whole, &p->generates, &has_end);
	field_seconds(f, &p->nominal_s);
	field_seconds(f, &p->unseen_s);
	field_number(f, &p->work_tokens, SHARE_TOKENS_MAX);
	field_number(f, &p->prompt_tokens, SHARE_TOKENS_MAX);
	field_number(f, &p->common_tokens, SHARE_TOKENS_MAX);
	field_number32(f, &p->branched, SHARE_DEPTH_MAX);
	field_number32(f, &p->grown, SHARE_DEPTH_MAX);
	if (p->grown > 0)
		field_passed(f, &p->grown_ago_ms);
	field_number32(f, &p->block, SHARE_DEPTH_MAX);
	if (has_end)
		end_fields(f, &p->end);
	field_pages(f, &p->pages, &p->n);
	session_fields(f, p);
}

static void fact_fields(struct share_fields *f, struct share_fact *s)
{
	struct fact *t = &s->fact;
	bool done = t->kind == FACT_DONE, streams = fact_streams(t), moved = t->redispatched;
	struct share_server at = { t->pool, t->server };
	uint32_t end = t->end;

	field_hash(f, &s->uid);
	field_hash(f, &s->process);
	FLAGS(f, 3, &done, &streams, &moved);
	if (f->in != NULL)
		fact_init(t, done ? FACT_DONE : FACT_FIRST);
	field_server(f, &at);
	field_maybe32(f, &t->status, 0xffff);
	field_number32(f, &end, END_PROXY);
	field_maybe(f, &t->queue_ms, SHARE_NUMBER_MAX);
	field_maybe(f, &t->connect_ms, SHARE_NUMBER_MAX);
	field_maybe(f, &t->response_ms, SHARE_NUMBER_MAX);
	field_maybe(f, &t->total_ms, SHARE_NUMBER_MAX);
	field_maybe(f, &t->bytes_out, SHARE_NUMBER_MAX);
	field_maybe(f, &t->bytes_in, SHARE_NUMBER_MAX);
	field_maybe32(f, &t->retries, 0xffff);
	field_maybe(f, &t->prompt_tokens, SHARE_TOKENS_MAX);
	field_maybe(f, &t->output_tokens, SHARE_TOKENS_MAX);
	if (f->in == NULL ? t->stored != 0 : f->left >= 8)	/* older agents do not write it */
		field_hash(f, &t->stored);
	if (f->in == NULL)
		return;
	t->pool = at.pool;
	t->server = at.server;
	t->end = end;
	t->redispatched = moved;
	t->type = streams ? SPAN("text/event-stream") : SPAN("");
}

static void held_fields(struct share_fields *f, struct share_held *h)
{
	field_server(f, &h->at);
	field_space(f, &h->space);
	field_anchor(f, &h->anchor);
	field_number8(f, &h->hits, UINT8_MAX);
	field_number8(f, &h->priority, SHARE_PRIORITIES - 1);
	field_passed(f, &h->unused_ms);
	field_pages(f, &h->pages, &h->n);
}

static void learned_fields(struct share_fields *f, struct share_learned *s)
{
	field_server(f, &s->at);
	field_number32(f, &s->slowness_first, UINT32_MAX);
	field_number32(f, &s->slowness_headers, UINT32_MAX);
	field_number(f, &s->capacity_tokens, SHARE_TOKENS_MAX);
	field_added(f, &s->named_ago_ms, SHARE_NUMBER_MAX);
}

static void digest_fields(struct share_fields *f, struct share_digest *d)
{
	field_server(f, &d->at);
	field_number32(f, &d->first_part, SHARE_DEPTH_MAX);
	field_passed(f, &d->quiet_ms);
	field_maybe(f, &d->cleared_ago_ms, SHARE_NUMBER_MAX);
	field_hashes(f, &d->sums, &d->n, f->in != NULL ? f->reader->list.sums : NULL, SHARE_SUMS_MAX);
	field_added(f, &d->oldest_ms, SHARE_NUMBER_MAX);
	field_added(f, &d->evicted_ago_ms, SHARE_NUMBER_MAX);
	field_added(f, &d->named_ago_ms, SHARE_NUMBER_MAX);
}

void share_fields(struct share_fields *f, struct share_entry *e)
{
	switch (e->kind) {
	case SHARE_PLACED:
		placed_fields(f, &e->u.placed);
		break;
	case SHARE_FACT:
		fact_fields(f, &e->u.fact);
		break;
	case SHARE_TAKEN_BACK:
		field_hash(f, &e->u.taken_back.uid);
		FLAGS(f, 1, &e->u.taken_back.served);
		break;
	case SHARE_HELD:
		held_fields(f, &e->u.held);
		break;
	case SHARE_CLEARED:
		field_server(f, &e->u.cleared.at);
		FLAGS(f, 1, &e->u.cleared.gone);
		field_passed(f, &e->u.cleared.ago_ms);
		break;
	case SHARE_SERVER:
		learned_fields(f, &e->u.server);
		break;
	case SHARE_HEAD:
		field_bytes(f, &e->u.head.bytes, SHARE_HEAD_MAX);
		break;
	case SHARE_ALIVE:
		FLAGS(f, 1, &e->u.alive.warm);
		field_number32(f, &e->u.alive.open, UINT32_MAX);
		break;
	case SHARE_DIGEST:
		digest_fields(f, &e->u.digest);
		break;
	case SHARE_ENDS:
		field_server(f, &e->u.ends.at);
		field_number32(f, &e->u.ends.part, SHARE_DEPTH_MAX);
		field_hash(f, &e->u.ends.to);
		field_ends(f, &e->u.ends.ends, &e->u.ends.n);
		field_added(f, &e->u.ends.evicted_ago_ms, SHARE_NUMBER_MAX);
		break;
	case SHARE_WANT:
		field_server(f, &e->u.want.at);
		field_hash(f, &e->u.want.from);
		field_ends(f, &e->u.want.ends, &e->u.want.n);
		break;
	case SHARE_KINDS:
		field_fail(f);
		break;
	}
}

void share_fields_name(struct share_fields *f, struct share_server *at)
{
	field_bytes(f, &at->pool, SHARE_NAME_MAX);
	field_bytes(f, &at->server, SHARE_NAME_MAX);
}
