/* kvevent - a batch of KV cache events, and the parts of the message that carries it.
 *
 * A valid payload is complete: each shorter one is rejected. Lists stay inside the payload, give
 * the announced number of elements or stop, and give the same again. Skipping a value ends at the
 * same byte as reading all of it. */
#include "agent/feed/kvevent.h"
#include "agent/feed/kvframe.h"
#include "tests/fuzz/lib/fuzz.h"

static void inside(struct span payload, struct span s)
{
	must(s.n == 0 || (s.p >= payload.p && s.p + s.n <= payload.p + payload.n));
}

/* Read a value by its heads, without msgpack_skip(). */
static bool read_all(struct msgpack *r)
{
	struct msgpack_value v;
	uint64_t left = 1;

	for (; left > 0; left--) {
		if (!msgpack_next(r, &v))
			return false;
		must(r->p <= r->end);
		left += v.type == MSGPACK_ARRAY ? v.n : v.type == MSGPACK_MAP ? 2ull * v.n : 0;
	}
	return true;
}

static void check_skip(struct span payload)
{
	struct msgpack a = msgpack_of(payload), b = a;
	bool whole = read_all(&a);

	must(msgpack_skip(&b) == whole);
	must(!whole || a.p == b.p);
	must(whole || (const char *)b.p == payload.p);
}

static uint64_t sum_hashes(struct kv_list l)
{
	uint64_t h, sum = 0;
	uint32_t most = l.left, n = 0;

	for (; kvevent_hash(&l, &h); n++)
		sum = sum * 31 + h;
	must(n + l.left == most);
	return sum * 31 + n;
}

/* Reading one by one gives the same as one call. */
static void check_tokens(struct kv_list l)
{
	uint32_t all[64], one;
	uint32_t n = l.left < 64 ? l.left : 64;
	struct kv_list again = l;
	bool good = kvevent_tokens(&l, all, n);

	for (uint32_t i = 0; i < n; i++) {
		if (!kvevent_tokens(&again, &one, 1)) {
			must(!good);
			return;
		}
		must(!good || one == all[i]);
	}
	must(good && l.at.p == again.at.p && l.left == again.left);
	must(!kvevent_tokens(&l, all, UINT32_MAX));
}

static void check_extra(struct span payload, const struct kvevent *e)
{
	struct kv_list l = e->extra;
	uint32_t most = l.left, n = 0;
	struct kv_extra x;
	bool first = !e->has_parent;

	for (; kvevent_extra(&l, e->lora_name, first, &x); first = false, n++) {
		inside(payload, x.salt);
		must(x.salt.n == 0 || first);
	}
	must(n == most);
}

static void check_event(struct span payload, const struct kvevent *e)
{
	must(e->kind <= KVEVENT_BAD && e->tier < TIERS);
	inside(payload, e->lora_name);
	inside(payload, e->salt);
	if (e->kind == KVEVENT_BAD)
		must(e->hashes.left == 0 && e->tokens.left == 0 && e->extra.left == 0 && e->lora_name.n == 0);
	must(sum_hashes(e->hashes) == sum_hashes(e->hashes));
	check_tokens(e->tokens);
	check_extra(payload, e);
}

static void run_payload(struct span payload)
{
	struct kvevent_batch b;
	struct kvevent e;
	uint32_t n = 0;
	int rc = kvevent_open(&b, payload);

	check_skip(payload);
	must(rc == 0 || rc == -KVEVENT_E_FORM || rc == -KVEVENT_E_BATCH);
	must((rc == 0) == (kvevent_strerror(-rc)[0] == '\0'));
	if (rc != 0)
		return;
	inside(payload, b.epoch);
	for (; kvevent_next(&b, &e); n++)
		check_event(payload, &e);
	must(n == b.n_events);
	for (size_t k = 0; k < payload.n; k += 1 + payload.n / 16)
		must(kvevent_open(&b, span_of(payload.p, k)) == -KVEVENT_E_FORM);
}

static void run_frames(struct input *in)
{
	struct span parts[6] = { 0 };
	unsigned n = in_u8(in) % 7;
	struct kvframe f;

	for (unsigned i = 0; i < n; i++) {
		size_t size = in_u8(in) % 16;

		size = size < in->left ? size : in->left;
		parts[i] = span_of(in->p, size);
		in->p += size;
		in->left -= size;
	}
	if (kvframe_live(parts, n, &f))
		must(n >= 1 && n <= 3 && f.payload.p == parts[n - 1].p && f.has_sequence == (n == 3) && !f.end);
	if (kvframe_replay(parts, n, &f))
		must(n >= 3 && n <= 4 && f.has_sequence && f.payload.p == parts[n - 1].p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (size > 0 && data[0] == 0xc1) {	/* no MessagePack begins so */
		in_u8(&in);
		run_frames(&in);
	} else {
		run_payload(span_of(data, size));
	}
	return 0;
}
