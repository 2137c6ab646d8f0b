/* share - batches of other agents. The first byte selects:
 *
 *   0  a batch as it is
 *   1  entries, whose lengths are made to fit, in a batch with a correct header and checksum: what
 *      is read is within its limits, the same when read again and when written and read again; a
 *      batch that is cut after any entry gives the same entries up to there
 *   2  a script of puts, takes, lost connections and batches from other agents: entries of a part
 *      arrive in their order, each once; memory is bounded; numbers tell what was dropped */
#include "agent/share/fields_in.h"
#include "agent/share/inbox.h"
#include "agent/share/outbox.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/lib/share/entries.h"

#define BYTES_MAX	32768u
#define PARTS		2u
#define ENTRIES_MAX	4096u

static struct share_reader reader, second;
static struct share_writer writer;
static uint8_t room[SHARE_BATCH_MAX];

/* ---- 0 and 1 ------------------------------------------------------------------------------- */

static bool is_maybe(int64_t v, uint64_t max)
{
	return v >= -1 && v <= (int64_t)max;
}

static void check_server(const struct share_server *at, struct span batch)
{
	must(at->pool.n <= SHARE_NAME_MAX && at->server.n <= SHARE_NAME_MAX);
	must(span_within(at->pool, batch.p, batch.n) && span_within(at->server, batch.p, batch.n));
}

static void check_space(const struct share_space *s, const struct share_anchor *a)
{
	must(s->part_room <= SHARE_ROOM_MAX);
	must(s->page_room <= SHARE_ROOM_MAX && a->depth <= SHARE_DEPTH_MAX);
}

static void check_placed(const struct share_placed *p, struct span batch)
{
	check_server(&p->at, batch);
	check_space(&p->space, &p->anchor);
	must(p->n <= SHARE_PAGES_MAX && p->n <= batch.n / 8 && p->pages == reader.list.pages);
	must(p->priority < SHARE_PRIORITIES && p->branched <= SHARE_DEPTH_MAX);
	must(p->nominal_s >= 0 && p->nominal_s <= SHARE_SECONDS_MAX);
	must(p->unseen_s >= 0 && p->unseen_s <= SHARE_SECONDS_MAX);
	must(p->work_tokens <= SHARE_TOKENS_MAX && p->prompt_tokens <= SHARE_TOKENS_MAX);
	must(p->common_tokens <= SHARE_TOKENS_MAX && p->end.tokens <= SHARE_TOKENS_MAX);
	must(p->grown <= SHARE_DEPTH_MAX && p->block <= SHARE_DEPTH_MAX);
	must(p->grown_ago_ms >= 0 && p->grown_ago_ms <= (msec)SHARE_NUMBER_MAX);
}

static void check_fact(const struct fact *f, struct span batch)
{
	check_server(&(struct share_server){ f->pool, f->server }, batch);
	must(f->kind == FACT_FIRST || f->kind == FACT_DONE);
	must(is_maybe(f->status, 0xffff) && is_maybe(f->retries, 0xffff) && f->end <= END_PROXY);
	must(is_maybe(f->queue_ms, SHARE_NUMBER_MAX) && is_maybe(f->connect_ms, SHARE_NUMBER_MAX));
	must(is_maybe(f->response_ms, SHARE_NUMBER_MAX) && is_maybe(f->total_ms, SHARE_NUMBER_MAX));
	must(is_maybe(f->bytes_out, SHARE_NUMBER_MAX) && is_maybe(f->bytes_in, SHARE_NUMBER_MAX));
	must(is_maybe(f->prompt_tokens, SHARE_TOKENS_MAX));
	must(is_maybe(f->output_tokens, SHARE_TOKENS_MAX));
	must(f->uid.n == 0 && f->token.n == 0 && !f->line && f->error == -1);
}

static void check_ends(const struct share_anchor *ends, uint32_t n, struct span batch)
{
	must(n <= SHARE_ENDS_MAX && n <= batch.n / 9 && ends == reader.list.ends);
	for (uint32_t i = 0; i < n; i++)
		must(ends[i].depth <= SHARE_DEPTH_MAX);
}

static void check_entry(const struct share_entry *e, struct span batch)
{
	switch (e->kind) {
	case SHARE_PLACED:
		check_placed(&e->u.placed, batch);
		break;
	case SHARE_FACT:
		check_fact(&e->u.fact.fact, batch);
		break;
	case SHARE_HELD:
		check_server(&e->u.held.at, batch);
		check_space(&e->u.held.space, &e->u.held.anchor);
		must(e->u.held.n <= SHARE_PAGES_MAX && e->u.held.unused_ms >= 0);
		break;
	case SHARE_HEAD:
		must(e->u.head.bytes.n <= SHARE_HEAD_MAX && span_within(e->u.head.bytes, batch.p, batch.n));
		break;
	case SHARE_DIGEST:
		check_server(&e->u.digest.at, batch);
		must(e->u.digest.n <= SHARE_SUMS_MAX && e->u.digest.first_part <= SHARE_DEPTH_MAX);
		must(e->u.digest.quiet_ms >= 0 && is_maybe(e->u.digest.cleared_ago_ms, SHARE_NUMBER_MAX));
		break;
	case SHARE_ENDS:
		check_server(&e->u.ends.at, batch);
		check_ends(e->u.ends.ends, e->u.ends.n, batch);
		break;
	case SHARE_WANT:
		check_server(&e->u.want.at, batch);
		check_ends(e->u.want.ends, e->u.want.n, batch);
		break;
	default:
		must(e->kind > 0 && e->kind < SHARE_KINDS);
	}
}

/* Written and read again it is the same. */
static void check_again(const struct share_entry *e)
{
	const struct share_batch b = { .agent = 1, .number = 1 };
	struct share_entry again;
	size_t most = share_write_most(e);

	must(most <= SHARE_BATCH_MAX / 2 + 8192);
	share_write_start(&writer, fuzz_key(), room, SHARE_EMPTY_BYTES + most);
	must(share_write(&writer, e) == 0);
	must(share_read_start(&second, fuzz_key(),
	    span_of(room, share_write_end(fuzz_key(), room, writer.n, &b))) == 0);
	must(share_read_next(&second, &again) == 1 && same_entry(e, &again));
	must(share_read_next(&second, &again) == 0);
}

/* What a reading found: results of the calls, and where each entry ends. */
struct reading {
	uint32_t n, good, unknown, bad;
	int rc[ENTRIES_MAX];
	size_t left[ENTRIES_MAX];
};

static int read_batch(struct span batch, struct reading *r)
{
	struct share_entry e;
	int rc = share_read_start(&reader, fuzz_key(), batch);

	r->n = r->good = r->unknown = r->bad = 0;
	must(rc <= 0 && rc >= -SHARE_E_NEWER);
	if (rc != 0)
		return rc;
	while (r->n < ENTRIES_MAX && (r->rc[r->n] = share_read_next(&reader, &e)) != 0) {
		rc = r->rc[r->n];
		must(rc == 1 || rc == -SHARE_E_KIND || rc == -SHARE_E_ENTRY);
		r->good += rc == 1;
		r->unknown += rc == -SHARE_E_KIND;
		r->bad += rc == -SHARE_E_ENTRY;
		r->left[r->n++] = reader.left;
		if (rc == 1) {
			check_entry(&e, batch);
			check_again(&e);
		}
	}
	return 0;
}

static void count_entry(void *arg, share_agent from, const struct share_entry *e)
{
	must(from == 5);
	++*(uint32_t *)arg;
}

/* An inbox counts what a reader finds. */
static void through_inbox(struct span batch, const struct reading *r)
{
	struct share_inbox *i = must_alloc(share_inbox_new(fuzz_key(), 9, 1));
	struct share_inbox_stats st;
	uint32_t n = 0;

	must(share_inbox_read(i, 0, batch, 0, 0, count_entry, &n) == SHARE_READ_JOINED);
	must(share_inbox_read(i, 0, batch, 0, 0, count_entry, &n) == SHARE_READ_REPEATED);
	share_inbox_stats(i, &st);
	must(n == r->good && st.unknown_kinds == r->unknown && st.bad_entries == r->bad);
	must(st.siblings == 1 && st.bytes == batch.n && st.missing == 0);
	share_inbox_free(i);
}

static struct span sign(uint8_t *p, size_t n)
{
	const struct share_batch b = { .agent = 5, .number = 3, .made_ms = 77 };

	return span_of(p, share_write_end(fuzz_key(), p, n, &b));
}

/* Let each entry end where there are bytes. */
static void mend(uint8_t *p, size_t n)
{
	size_t bytes;

	for (; n >= WIRE_HEAD; p += WIRE_HEAD + bytes, n -= WIRE_HEAD + bytes) {
		bytes = wire_get(p, WIRE_HEAD) >> 8;
		bytes = bytes < n - WIRE_HEAD ? bytes : n - WIRE_HEAD;
		wire_put(p + 1, bytes, WIRE_HEAD - 1);
	}
}

static void run_entries(struct input *in)
{
	static struct reading all, part;
	size_t n = SHARE_HEADER_BYTES + in->left, end;
	uint8_t *p = must_alloc(malloc(n + 8));

	if (in->left > 0)
		memcpy(p + SHARE_HEADER_BYTES, in->p, in->left);
	mend(p + SHARE_HEADER_BYTES, in->left);
	must(read_batch(sign(p, n), &all) == 0);
	if (all.n < ENTRIES_MAX)
		through_inbox(span_of(p, n + 8), &all);
	for (uint32_t i = 0; i < all.n; i += 1 + all.n / 8) {
		end = n - all.left[i];
		if (all.left[i] == 0)
			break;
		uint8_t *cut = (uint8_t *)exact(p, end + 8);

		must(read_batch(sign(cut, end), &part) == 0);
		must(part.n == i + 1 && memcmp(part.rc, all.rc, (i + 1) * sizeof(all.rc[0])) == 0);
		free(cut);
	}
	free(p);
}

static void run_bytes(struct input *in)
{
	static struct reading r;
	char *copy = exact(in->p, in->left);

	read_batch(span_of(copy, in->left), &r);
	free(copy);
}

/* ---- 2: a script --------------------------------------------------------------------------- */

struct world {
	struct share_outbox *out;
	struct share_inbox *in;
	msec now;
	uint64_t put, seen, next[PARTS];
	bool earlier;		/* an entry came after a later one of its part */
	uint8_t applied[BYTES_MAX + 1];		/* by number of the entry; a step puts one at most */
	uint32_t under_way[PARTS];
	bool lost;		/* a batch that was taken, maybe for good */
};

static void apply(void *arg, share_agent from, const struct share_entry *e)
{
	struct world *w = arg;
	uint64_t uid = e->u.taken_back.uid, *next;

	if (e->kind == SHARE_HEAD)
		memcpy(&uid, e->u.head.bytes.p, sizeof(uid));
	next = &w->next[uid & 1];
	must(from == 7 && uid >> 1 > 0 && uid >> 1 <= w->put);
	must(w->applied[uid >> 1]++ == 0);
	if (uid < *next)
		w->earlier = true;
	else
		*next = uid;
	w->seen++;
}

static void gone(void *arg, share_agent agent)
{
	must(agent == 7);
}

/* Put an entry that has <bytes> after its uid. */
static void put_one(struct world *w, uint32_t part, uint32_t bytes)
{
	static char head[8 + 255 * 256];
	uint64_t uid = ++w->put << 1 | part;
	struct share_entry e = { .kind = SHARE_TAKEN_BACK, .u.taken_back.uid = uid };
	struct share_outbox_stats st;
	msec at;

	if (bytes > 0) {
		memcpy(head, &uid, sizeof(uid));
		e.kind = SHARE_HEAD;
		e.u.head.bytes = span_of(head, 8 + bytes);
	}
	share_outbox_put(w->out, part, &e, w->now);
	must(share_outbox_due(w->out, part, w->now, &at) == (at <= w->now));
	share_outbox_stats(w->out, &st);
	must(st.waiting_bytes <= SHARE_OUTBOX_MIN && st.dropped_entries <= w->put);
}

static void take_one(struct world *w, uint32_t part, bool lost)
{
	struct span b = share_outbox_take(w->out, part, w->now, w->now + 1000);
	enum share_read was;

	if (b.n == 0)
		return;
	w->under_way[part]++;
	w->lost |= lost;
	if (lost)
		return;
	w->earlier = false;
	was = share_inbox_read(w->in, part, b, w->now, w->now + 1000, apply, w);
	must(was <= SHARE_READ_REPEATED && (!w->earlier || was == SHARE_READ_LATE));
}

static void run_step(struct world *w, struct input *in)
{
	uint8_t op = in_u8(in);
	uint32_t part = op >> 7;

	switch (op & 7) {
	case 0: case 1:
		put_one(w, part, 0);
		break;
	case 2:
		put_one(w, part, in_u8(in) * 256u);
		break;
	case 3:
		if (w->under_way[part] < 8)
			take_one(w, part, op & 64);
		break;
	case 4:
		share_outbox_sent(w->out, part);
		w->under_way[part] -= w->under_way[part] > 0;
		break;
	case 5:
		share_outbox_take_again(w->out, part);
		w->under_way[part] = 0;
		break;
	case 6:
		w->now += op >> 3 & 15;
		break;
	default:
		w->now += 500 * (op >> 3 & 15);
		share_inbox_age(w->in, w->now, gone, w);
	}
}

static void run_script(struct input *in)
{
	struct share_outbox_stats st;
	struct share_inbox_stats got;
	struct world w = {
		.out = must_alloc(share_outbox_new(fuzz_key(), 7, PARTS, 0)),
		.in = must_alloc(share_inbox_new(fuzz_key(), 8, PARTS)),
	};

	while (in->left > 0)
		run_step(&w, in);
	for (uint32_t part = 0; part < PARTS; part++) {
		share_outbox_take_again(w.out, part);
		w.under_way[part] = 0;
		do {
			take_one(&w, part, false);
			share_outbox_sent(w.out, part);
		} while (w.under_way[part]-- > 0);
	}
	share_outbox_stats(w.out, &st);
	share_inbox_stats(w.in, &got);
	must(st.waiting_bytes == 0 && st.waiting_batches == 0 && st.refused == 0);
	must(w.seen <= w.put);
	must(w.lost || w.seen + st.dropped_entries >= w.put);
	if (!w.lost && st.dropped_entries == 0)
		must(got.missing == 0 && got.batches[SHARE_READ_JOINED] == 0);
	must(got.bad_entries == 0 && got.unknown_kinds == 0);
	share_outbox_free(w.out);
	share_inbox_free(w.in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size < BYTES_MAX ? size : BYTES_MAX };

	switch (in_u8(&in) % 3) {
	case 0:
		run_bytes(&in);
		break;
	case 1:
		run_entries(&in);
		break;
	default:
		run_script(&in);
	}
	return 0;
}
