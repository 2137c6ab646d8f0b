/* kvcursor - frames of a publisher, connections and times in any order.
 *
 * An input is a list of steps: a byte that says which, and its operands. Between two clears,
 * batches are applied in ascending order, each once, and none with the number of a frame that never
 * came. What is held stays within its limits. 0 is asked for again only after a restart, an empty
 * answer or a lost connection. The same steps give the same calls. */
#include "agent/feed/kvcursor.h"
#include "tests/fuzz/lib/fuzz.h"

#define HOLD_BATCHES	8
#define HOLD_BYTES	100
#define STORE_BYTES	150

struct world {
	struct kvcursor c;
	struct kvcursor_store store;
	uint64_t last, calls;		/* sequence applied; a hash of all calls */
	bool any;
	bool asked_zero, answered;	/* by batches */
	msec now;
	uint64_t highest;		/* of all frames */
};

static bool apply(void *arg, struct span payload, struct kvcursor_effect *out)
{
	struct world *w = arg;
	uint64_t sequence;

	must(payload.n >= 9);
	memcpy(&sequence, payload.p, 8);
	w->calls = w->calls * 31 + sequence + (uint8_t)payload.p[8];
	if (payload.p[8] & 0x80)	/* of a frame without a sequence */
		return true;
	must(sequence <= w->highest);
	must(!w->any || sequence > w->last);
	w->any = true;
	w->last = sequence;
	out->stored = (uint8_t)payload.p[8] & 7;
	out->removed = (uint8_t)payload.p[8] >> 3 & 7;
	out->cleared = (payload.p[8] & 0x47) == 0x47;
	return (payload.p[8] & 0x43) != 0x43;
}

static void clear(void *arg, bool from_start, bool restarted)
{
	struct world *w = arg;

	w->any = false;
	w->calls = w->calls * 31 + 1 + from_start;
}

/* Near numbers are likely, far ones possible. */
static uint64_t sequence_of(struct input *in, const struct kvcursor *c)
{
	uint8_t how = in_u8(in);

	if (how < 200)
		return c->next + how % 16 - (c->next >= 4 ? 4 : c->next);
	if (how < 250)
		return how - 200;
	return UINT64_MAX - (how - 250);
}

static void send_frame(struct world *w, struct input *in, bool live)
{
	uint8_t body[64] = { 0 }, number[8], form = in_u8(in);
	uint64_t sequence = sequence_of(in, &w->c);
	bool end = !live && form % 8 == 0, bare = live && form % 16 == 0;
	struct span part[4], payload;
	unsigned n = 0;
	struct kvframe f;

	if (end)
		sequence = UINT64_MAX;
	memcpy(body, &sequence, 8);
	body[8] = (uint8_t)(form & 0x7f) | (bare ? 0x80 : 0);
	payload = span_of((const char *)body, end ? 0 : 9 + form % 32);
	for (int i = 0; i < 8; i++)
		number[i] = (uint8_t)(sequence >> (56 - 8 * i));
	part[n++] = SPAN("");
	if (!live && form & 1)
		part[n++] = SPAN("topic");
	if (!bare)
		part[n++] = span_of((const char *)number, 8);
	part[n++] = payload;
	must(live ? kvframe_live(part, n, &f) : kvframe_replay(part, n, &f));
	if (!bare && !end && sequence > w->highest)
		w->highest = sequence;
	if (live) {
		kvcursor_live(&w->c, &f, w->now);
		return;
	}
	w->answered |= !end && kvcursor_replaying(&w->c);
	kvcursor_replay_frame(&w->c, &f, w->now);
}

static void ask(struct world *w, bool sent)
{
	uint64_t from;

	if (!kvcursor_replay_due(&w->c, w->now))
		return;
	must(w->c.connected && !kvcursor_replaying(&w->c));
	from = kvcursor_replay_begin(&w->c, w->now);
	must(kvcursor_replaying(&w->c) && from <= w->c.next);
	w->calls = w->calls * 31 + from;
	if (from == 0 && w->c.replay == KVCURSOR_FULL) {
		must(!(w->asked_zero && w->answered));
		w->asked_zero = sent;
		w->answered = false;
	}
	if (sent)
		kvcursor_replay_sent(&w->c, w->now);
}

static void take_step(struct world *w, struct input *in)
{
	uint64_t restarts = w->c.count.restarts;
	uint8_t what = in_u8(in);

	switch (what % 12) {
	case 0: kvcursor_connected(&w->c, w->now); w->asked_zero = false; break;
	case 1: kvcursor_disconnected(&w->c, w->now); break;
	case 2: case 3: case 4: case 5: send_frame(w, in, true); break;
	case 6: case 7: send_frame(w, in, false); break;
	case 8: ask(w, what < 200); break;
	case 9: kvcursor_replay_broken(&w->c, w->now); break;
	case 10: kvcursor_process_start(&w->c, in_u8(in) % 4, w->now); break;
	case 11: w->now += in_u8(in) * 20; break;
	}
	kvcursor_tick(&w->c, w->now);
	if (w->c.count.restarts != restarts)
		w->asked_zero = false;
}

static void check(const struct world *w)
{
	const struct kvcursor *c = &w->c;

	must(c->n_held <= HOLD_BATCHES && c->held_bytes <= HOLD_BYTES && w->store.used <= STORE_BYTES);
	must(c->held_bytes == w->store.used);
	must(kvcursor_state(c) < KVCURSOR_STATES);
	must(c->connected || (kvcursor_state(c) == KVCURSOR_OFF && !kvcursor_replaying(c)));
	must(!c->begun || !w->any || !c->numbered || w->last < c->next);
	must(kvcursor_state(c) != KVCURSOR_SYNCED || c->n_held == 0 || c->replay == KVCURSOR_PROBE);
}

static uint64_t run(struct input in)
{
	const struct kvcursor_calls calls = { .apply = apply, .clear = clear };
	struct hash_key key = { .secret = "fuzz" };
	struct world w = { .store.max = STORE_BYTES };
	struct kvcursor_opts o;
	struct rng rng;

	kvcursor_defaults(&o);
	o.replay = in_u8(&in) % 4 > 0;
	o.hold_batches = HOLD_BATCHES;
	o.hold_bytes = HOLD_BYTES;
	o.lost_max = 20;
	rng_init(&rng, 1);
	kvcursor_init(&w.c, &o, &calls, &w, &key, &w.store, &rng);
	while (in.left > 0) {
		take_step(&w, &in);
		check(&w);
	}
	kvcursor_fini(&w.c);
	must(w.store.used == 0);
	return w.calls;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size < 4096 ? size : 4096 };

	must(run(in) == run(in));
	return 0;
}
