/* The streams of the store, read by blocking commands on connections of their own.
 *
 * Without a cluster one command reads all streams; in a cluster a command reads streams of one slot
 * only, so each part has a reader. What was received is applied in slices, and the next command is
 * sent when all of it is.
 *
 * A position is kept for each part, so after a lost connection reading goes on where it ended. Then
 * the stream may have lost entries that were not read: it was trimmed, emptied, or the store began
 * again without it. That is found by the ends of the stream. Holes in the numbers of a sibling's
 * batches are found by the inbox. Either way digests are compared. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/os/clock.h"

#define READ_LATE_MS	500	/* an answer comes so much after its time at the most */
#define FROM_NOW	"$"	/* a position: only entries that are added from now on */

/* ---- applying ---- */

static void apply_entry(void *arg, share_agent from, const struct share_entry *e)
{
	struct share *sh = arg;

	route_share_apply(sh->agent->route, from, e, agent_msec(sh->agent));
}

static void apply_batch(struct share_part *p, struct span batch)
{
	struct share *sh = p->sh;
	enum share_read is;

	count_add(&sh->figures.bytes_in, batch.n);
	is = share_inbox_read(
	    sh->inbox, p->n, batch, clock_msec(), clock_wall_ms(), apply_entry, sh);
	if (is == SHARE_READ_HOLE || is == SHARE_READ_JOINED)
		route_share_resync(sh->agent->route);
}

/* An entry: its id, and a list of fields and values, of which we write one. */
static bool take_entry(struct share_part *p, const struct redisReply *r)
{
	const struct redisReply *fields;
	struct stream_id id, last;
	struct span batch = SPAN("");

	if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 ||
	    !position_parse(reply_text(r->element[0]), &id))
		return false;
	if (position_parse(span_str(p->at), &last) && !position_is_after(id, last))
		return false;
	fields = r->element[1];
	if (fields->type == REDIS_REPLY_ARRAY && fields->elements == 2)
		batch = reply_text(fields->element[1]);
	apply_batch(p, batch);
	position_set(p, id);
	p->at_is_early = false;
	p->resumed[0] = '\0';
	return true;
}

static struct share_part *part_called(struct stream_reader *r, struct span key)
{
	for (uint32_t i = r->first; i < r->first + r->n; i++)
		if (span_eq(key, span_str(r->sh->part[i].key)))
			return &r->sh->part[i];
	return NULL;
}

/* A stream: its key, and a list of entries. Returns NULL if <r> is none. */
static struct share_part *stream_of(
    struct stream_reader *r, const struct redisReply *s, const struct redisReply **entries)
{
	if (s->type != REDIS_REPLY_ARRAY || s->elements != 2 || s->element[1]->type != REDIS_REPLY_ARRAY)
		return NULL;
	*entries = s->element[1];
	return part_called(r, reply_text(s->element[0]));
}

static void drop_reply(struct stream_reader *r)
{
	if (r->reply != NULL)
		freeReplyObject(r->reply);
	r->reply = NULL;
	r->stream = r->entry = 0;
}

static void read_more(struct stream_reader *r);

static bool all_caught_up(const struct stream_reader *r)
{
	bool all = true;

	for (uint32_t i = r->first; i < r->first + r->n; i++)
		all &= r->sh->part[i].caught_up;
	return all;
}

static void reply_done(struct stream_reader *r)
{
	drop_reply(r);
	if (all_caught_up(r))
		r->count = r->count_most;
	read_more(r);
}

/* Apply entries until <until>. Returns true if there are more. */
static bool apply_slice(struct stream_reader *r, usec until)
{
	const struct redisReply *entries;
	struct share_part *p;

	for (; r->stream < r->reply->elements; r->stream++, r->entry = 0) {
		if ((p = stream_of(r, r->reply->element[r->stream], &entries)) == NULL) {
			conn_fail(&r->conn, "its answer to XREAD makes no sense");
			return false;
		}
		while (r->entry < entries->elements) {
			if (!take_entry(p, entries->element[r->entry++])) {
				conn_fail(&r->conn, "its answer to XREAD makes no sense");
				return false;
			}
			if (clock_usec() >= until)
				return true;
		}
		p->caught_up = entries->elements < r->count;
	}
	reply_done(r);
	return false;
}

bool read_apply(struct share *sh)
{
	usec until = clock_usec() + SLICE_US;
	bool more = false;

	for (uint32_t i = 0; i < sh->n_readers; i++)
		if (sh->reader[i].reply != NULL)
			more |= apply_slice(&sh->reader[i], until);
	return more;
}

/* ---- reading ---- */

/* The first answer after a connection. */
static void note_answer(struct stream_reader *r)
{
	r->heard = clock_msec();
	if (!r->fresh)
		return;
	r->fresh = false;
	share_inbox_renew(r->sh->inbox, r->heard);
	route_share_resync(r->sh->agent->route);
}

static bool on_entries(struct conn *c, void *arg, uint64_t tag, struct redisReply *reply)
{
	struct stream_reader *r = arg;

	if (reply_is_any_error(reply)) {
		char why[STORE_TEXT_MAX];

		snprintf(why, sizeof(why), SPAN_FMT, SPAN_ARG(reply_text(reply)));
		if (reply_is_error(reply, "MOVED"))
			store_ask_again(r->sh);
		conn_fail(c, why);
		return false;
	}
	note_answer(r);
	for (uint32_t i = r->first; i < r->first + r->n; i++)
		r->sh->part[i].caught_up = true;
	if (reply->type != REDIS_REPLY_ARRAY) {
		read_more(r);
		return false;
	}
	r->reply = reply;
	ev_idle_start(r->sh->loop, &r->sh->idle);
	return true;
}

/* If there may be more, the command does not wait: its answer without entries shows that there are
 * none. If only one entry of each stream is asked for, nothing else shows it. */
static void read_more(struct stream_reader *r)
{
	struct span words[6 + 2 * STORE_PARTS_MAX] = { SPAN("XREAD"), SPAN("COUNT"), span_of("", 0) };
	char count[16], block[16];
	unsigned n = 3;

	words[2] = span_of(count, (size_t)snprintf(count, sizeof(count), "%u", r->count));
	if (all_caught_up(r)) {
		words[n++] = SPAN("BLOCK");
		words[n++] = span_of(block, (size_t)snprintf(block, sizeof(block), "%d", READ_BLOCK_MS));
	}
	words[n++] = SPAN("STREAMS");
	for (uint32_t i = r->first; i < r->first + r->n; i++)
		words[n++] = span_str(r->sh->part[i].key);
	for (uint32_t i = r->first; i < r->first + r->n; i++)
		words[n++] = span_str(r->sh->part[i].at);
	conn_send(
	    &r->conn, on_entries, r, 0, READ_BLOCK_MS + r->sh->opts.timeout_ms, n, words);
}

/* ---- what a stream has lost ---- */

static const struct redisReply *value_of(const struct redisReply *r, const char *name)
{
	for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && i + 1 < r->elements; i += 2)
		if (span_eq(reply_text(r->element[i]), span_str(name)))
			return r->element[i + 1];
	return NULL;
}

static struct stream_id id_in(const struct redisReply *r)
{
	struct stream_id id;

	if (r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 0)
		r = r->element[0];
	return r != NULL && position_parse(reply_text(r), &id) ? id : (struct stream_id){ 0, 0 };
}

static void log_lost_entries(struct share_part *p, const char *how)
{
	struct log_line ln;

	if (!log_begin(&ln, &p->sh->agent->log, LOG_INFO, LOG_SHARE,
		"entries of siblings were lost in the store"))
		return;
	log_int(&ln, "part", p->n);
	log_text(&ln, "why", how);
	log_text(&ln, "effect", "the agents compare digests and send what is missing");
	log_end(&ln);
}

static struct stream_reader *reader_of(const struct share_part *p)
{
	return &p->sh->reader[p->n / (p->sh->n_parts / p->sh->n_readers)];
}

static void note_lost(struct share_part *p, const char *how)
{
	count_add(&p->sh->figures.trimmed, 1);
	route_share_resync(p->sh->agent->route);
	warm_lost(p->sh);
	log_lost_entries(p, how);
}

/* Whether nothing was ever removed; a position of a snapshot may lie before the first entry then.
 * Redis and Valkey 7 and later count the entries that were ever added. */
static bool is_whole(const struct redisReply *r)
{
	const struct redisReply *added = value_of(r, "entries-added"), *length = value_of(r, "length");

	return added != NULL && length != NULL && added->type == REDIS_REPLY_INTEGER &&
	       length->type == REDIS_REPLY_INTEGER && added->integer == length->integer;
}

/* <r>: the stream's first and last entry. */
static void compare_ends(struct share_part *p, const struct redisReply *r)
{
	struct stream_id at, seen, first = id_in(value_of(r, "first-entry")),
			     last = id_in(value_of(r, "last-generated-id"));
	bool resumed = position_parse(span_str(p->resumed), &seen);

	if (!position_parse(span_str(p->at), &at) || (at.ms == 0 && at.seq == 0))
		return;
	if (!resumed)
		seen = at;
	if (reply_is_any_error(r) || position_is_after(seen, last) ||
	    (position_is_after(first, seen) && is_whole(r) && (resumed || !p->at_is_early))) {
		note_lost(p, "the store was emptied, or began again with older data");
		snprintf(p->at, sizeof(p->at), "0-0");
	} else if (position_is_after(first, at) && !is_whole(r)) {
		note_lost(p, "the stream was trimmed; share.stream_entries is too low for this");
	}
}

/* XREAD waits for entries after a position, so it says nothing if the store was emptied while its
 * clock was set back: the connection stays, and new entries have lower ids. XADD tells. */
void read_check_added(struct share_part *p, const char *at, struct span id)
{
	struct stream_id had, got;

	if (p->sh->warm.state < WARM_READ || !position_parse(span_str(at), &had) ||
	    !position_parse(id, &got) || position_is_after(got, had))
		return;
	note_lost(p, "the stream began again with lower positions");
	snprintf(p->at, sizeof(p->at), "0-0");
	conn_close(&reader_of(p)->conn);	/* it waits for an entry after the old position */
}

/* A stream that does not exist gives an error, too. */
static bool on_ends(struct conn *c, void *arg, uint64_t tag, struct redisReply *reply)
{
	struct share_part *p = arg;
	struct stream_reader *r = c->owner;

	if (reply_is_any_error(reply) && !reply_is_error(reply, "ERR no such key")) {
		char why[STORE_TEXT_MAX];

		snprintf(why, sizeof(why), SPAN_FMT, SPAN_ARG(reply_text(reply)));
		conn_fail(c, why);
		return false;
	}
	compare_ends(p, reply);
	if (--r->checks == 0)
		read_more(r);
	return false;
}

static void on_opened(struct conn *c)
{
	struct stream_reader *r = c->owner;

	r->fresh = true;
	r->checks = r->n;
	for (uint32_t i = r->first; i < r->first + r->n; i++) {
		const struct span words[] = { SPAN("XINFO"), SPAN("STREAM"), span_str(r->sh->part[i].key) };

		if (!conn_send(c, on_ends, &r->sh->part[i], 0, r->sh->opts.timeout_ms, 3, words))
			return;
	}
}

/* An entry may be longer than any of ours, or many too long for a slow network. So fewer are asked
 * for, at last none of those that are in the stream now. */
static void on_lost(struct conn *c)
{
	struct stream_reader *r = c->owner;

	drop_reply(r);
	if (!c->too_long)
		return;
	c->too_long = false;
	if (r->count > 1) {
		r->count = 1;
		return;
	}
	for (uint32_t i = r->first; i < r->first + r->n; i++) {
		snprintf(r->sh->part[i].at, sizeof(r->sh->part[i].at), FROM_NOW);
		note_lost(&r->sh->part[i], "an entry is too long to be ours, or to come in time");
	}
}

static const struct conn_use reader_use = { on_opened, on_lost };

/* ---- readers ---- */

void read_init(struct share *sh)
{
	size_t most = READ_REPLY_MAX / sh->n_readers;
	uint32_t parts = sh->n_parts / sh->n_readers;

	if (most < CONN_SMALL_REPLY)
		most = CONN_SMALL_REPLY;
	for (uint32_t i = 0; i < sh->n_readers; i++) {
		struct stream_reader *r = &sh->reader[i];

		r->sh = sh;
		r->first = i * parts;
		r->n = parts;
		r->count_most = (uint32_t)(most / 2 / SHARE_BATCH_MAX / parts);
		if (r->count_most == 0)
			r->count_most = 1;
		r->count = r->count_most;
		conn_init(&r->conn, sh, &reader_use, r, most);
	}
}

void read_aim(struct share *sh)
{
	for (uint32_t i = 0; i < sh->n_readers; i++)
		conn_aim(&sh->reader[i].conn,
		    sh->warm.state >= WARM_READ ? sh->part[sh->reader[i].first].owner : NULL);
}

static bool readers_heard(const struct share *sh, msec now, msec within)
{
	for (uint32_t i = 0; i < sh->n_readers; i++) {
		const struct stream_reader *r = &sh->reader[i];

		if (r->conn.ctx == NULL || r->fresh || now - r->heard > within)
			return false;
	}
	return true;
}

/* A store that answers does so each READ_BLOCK_MS, whatever siblings write. The silence of one that
 * does not says nothing about them, even if share.timeout is longer than their lease. */
static bool store_answers(const struct share *sh, msec now)
{
	return readers_heard(sh, now, READ_BLOCK_MS + READ_LATE_MS);
}

void read_tick(struct share *sh, msec now)
{
	for (uint32_t i = 0; i < sh->n_readers; i++)
		conn_tick(&sh->reader[i].conn, now);
	if (!store_answers(sh, now))
		share_inbox_renew(sh->inbox, now);
}

bool read_is_current(const struct share *sh, msec now)
{
	return readers_heard(sh, now, READ_BLOCK_MS + sh->opts.timeout_ms);
}

bool read_caught_up(const struct share *sh)
{
	for (uint32_t i = 0; i < sh->n_parts; i++)
		if (!sh->part[i].caught_up)
			return false;
	for (uint32_t i = 0; i < sh->n_readers; i++)
		if (sh->reader[i].reply != NULL || sh->reader[i].fresh)
			return false;
	return true;
}

void read_free(struct share *sh)
{
	for (uint32_t i = 0; i < sh->n_readers; i++) {
		conn_close(&sh->reader[i].conn);
		drop_reply(&sh->reader[i]);
	}
}

#endif
