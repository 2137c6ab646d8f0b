/* spop_typed - numbers, typed data, kv-lists and messages, read anywhere in arbitrary bytes.
 *
 * Every reader is bounded and does not move on failure. A result written and read again is the
 * same. A number has only one encoding, so its bytes are the same, too. */
#include "spoe/wire.h"
#include "tests/fuzz/lib/fuzz.h"

static bool str_within(struct spop_str s, struct spop_rd r)
{
	return span_within(span_of(s.p, s.n), r.p, r.left);
}

static bool str_eq(struct spop_str a, struct spop_str b)
{
	return span_eq(span_of(a.p, a.n), span_of(b.p, b.n));
}

static bool data_eq(const struct spop_data *a, const struct spop_data *b)
{
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case SPOP_T_NULL: return true;
	case SPOP_T_BOOL: return a->b == b->b;
	case SPOP_T_INT32: case SPOP_T_UINT32: case SPOP_T_INT64: return a->i == b->i;
	case SPOP_T_UINT64: return a->u == b->u;
	case SPOP_T_IPV4: return memcmp(a->ip, b->ip, 4) == 0;
	case SPOP_T_IPV6: return memcmp(a->ip, b->ip, 16) == 0;
	case SPOP_T_STR: case SPOP_T_BIN: return str_eq(a->s, b->s);
	}
	return false;
}

static void check_range(const struct spop_data *d)
{
	if (d->type == SPOP_T_INT32)
		must(d->i >= INT32_MIN && d->i <= INT32_MAX);
	if (d->type == SPOP_T_UINT32)
		must(d->i >= 0 && d->i <= UINT32_MAX);
}

/* The kinds a value can be asked for as. */
static void check_views(const struct spop_data *d)
{
	struct spop_str s;
	int64_t v;

	must(spop_data_str(d, &s) == (d->type == SPOP_T_STR || d->type == SPOP_T_BIN));
	must(spop_data_int(d, &v) == (d->type >= SPOP_T_BOOL && d->type <= SPOP_T_UINT64));
	if (d->type == SPOP_T_UINT64 && spop_data_int(d, &v))
		must(v == (d->u > INT64_MAX ? INT64_MAX : (int64_t)d->u));
}

static void check_again(const struct spop_data *d)
{
	size_t n = d->type == SPOP_T_STR || d->type == SPOP_T_BIN ? d->s.n : 0;
	struct spop_wr w = { .p = must_alloc(malloc(n + 32)), .cap = n + 32 };
	struct spop_rd r;
	struct spop_data e;

	spop_put_data(&w, d);
	must(!w.full);
	r = (struct spop_rd){ w.p, w.n };
	must(spop_get_data(&r, &e) == 0 && r.left == 0 && data_eq(d, &e));
	w.cap = w.n - 1;	/* one byte too few: full, and no byte after the end */
	w.n = 0;
	spop_put_data(&w, d);
	must(w.full && w.n <= w.cap);
	free(w.p);
}

static void read_varint(struct spop_rd *r)
{
	struct spop_rd before = *r;
	uint8_t room[16];
	struct spop_wr w = { .p = room, .cap = sizeof(room) };
	uint64_t v;

	if (spop_get_varint(r, &v) < 0) {
		must(r->p == before.p && r->left == before.left);
		return;
	}
	must(r->left < before.left && before.left - r->left <= 10);
	spop_put_varint(&w, v);
	must(!w.full && w.n == before.left - r->left && memcmp(room, before.p, w.n) == 0);
}

static void read_str(struct spop_rd *r)
{
	struct spop_rd before = *r;
	struct spop_str s;

	if (spop_get_str(r, &s) < 0)
		must(r->p == before.p && r->left == before.left);
	else
		must(str_within(s, before) && r->left < before.left &&
		     r->p == before.p + (before.left - r->left));
}

static void read_data(struct spop_rd *r)
{
	struct spop_rd before = *r;
	struct spop_data d;

	if (spop_get_data(r, &d) < 0) {
		must(r->p == before.p && r->left == before.left);
		return;
	}
	must(r->left < before.left && r->p == before.p + (before.left - r->left));
	if (d.type == SPOP_T_STR || d.type == SPOP_T_BIN)
		must(str_within(d.s, before));
	check_range(&d);
	check_views(&d);
	check_again(&d);
}

static void read_kvs(struct spop_rd *r)
{
	struct spop_rd before = *r;
	struct spop_str name;
	struct spop_data d;

	while (spop_get_kv(r, &name, &d) == 0) {
		must(str_within(name, before) && r->left < before.left);
		check_range(&d);
		before = *r;
	}
	must(r->p == before.p && r->left == before.left);
}

static void read_messages(struct spop_rd *r)
{
	struct spop_rd before = *r;
	struct spop_message m;
	struct spop_str name;
	struct spop_data d;
	unsigned n;
	int rc;

	while ((rc = spop_message_next(r, &m)) > 0) {
		must(str_within(m.name, before) && r->left < before.left);
		must(m.args.left <= before.left && m.args.p + m.args.left == r->p);
		for (n = 0; spop_arg_next(&m, &name, &d) > 0; n++)
			must(str_within(name, before));
		must(n == m.n_args && m.args.left == 0);
		before = *r;
	}
	must(r->p == before.p && r->left == before.left);
	must(rc == 0 ? r->left == 0 : rc < 0);
}

static void read_hello(struct spop_rd *r)
{
	struct spop_hello h;
	const char *text;
	uint64_t limit;
	int status;

	if (spop_hello_get(*r, &h) < 0)
		return;
	must(str_within(h.engine_id, *r));
	status = spop_hello_judge(&h, 16384, &text, &limit);
	must(text != NULL);
	if (status == SPOP_STATUS_NORMAL)
		must(h.speaks_2 && h.has_capabilities && h.size >= SPOP_FRAME_MIN && h.size <= 16384);
}

/* As text, in room of any size: cut there and always ended. */
static void print_frame(struct spop_rd r, size_t cap)
{
	char *small = must_alloc(malloc(cap + 1)), *all;
	int n = spop_frame_print(r.p, r.left, small, cap), m;

	must(n >= 0);
	all = must_alloc(malloc((size_t)n + 1));
	m = spop_frame_print(r.p, r.left, all, (size_t)n + 1);
	must(m == n && strlen(all) == (size_t)n);
	if (cap > 0)
		must(strlen(small) < cap && strncmp(all, small, strlen(small)) == 0);
	free(small);
	free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spop_rd r;
	struct spop_frame f;
	size_t left;

	if (size < 1)
		return 0;
	r = (struct spop_rd){ data + 1, size - 1 };
	do {
		left = r.left;
		switch (data[0] % 8) {
		case 0: read_varint(&r); break;
		case 1: read_str(&r); break;
		case 2: read_data(&r); break;
		case 3: read_kvs(&r); return 0;
		case 4: read_messages(&r); return 0;
		case 5: read_hello(&r); return 0;
		case 6:
			must(spop_error_text(-(int)(r.left % 8)) != NULL);
			must(spop_status_text(spop_disconnect_status(r)) != NULL);
			return 0;
		default:
			print_frame(r, data[0] * 2u);
			if (spop_frame_get(r.p, r.left, &f) == 0)
				must(f.payload.p + f.payload.left == r.p + r.left);
			return 0;
		}
	} while (r.left < left && r.left > 0);
	return 0;
}
