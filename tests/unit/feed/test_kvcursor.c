/* One publisher's batches: stories of live frames, replays and connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/feed/kvcursor.h"

/* A story is a line of steps; what the cursor does is written as text and compared.
 *
 *   c d        the connection is made, lost
 *   l5 l5x     a live frame with the sequence 5; another payload of this number
 *   u          a live frame without a sequence
 *   b5         a replay is due, begins, and asks from 5; B: none is due
 *   f5         the same, but the request cannot be sent
 *   r5 r5x     a frame of the replay
 *   e          its end
 *   t500       500 ms pass
 *   p7         the process began at 7, by its metrics
 *   k          another process continues; K: it cannot, and begins anew
 *
 * Result: 5 or 5x: applied; C: all blocks are forgotten; R: because the engine was restarted; C0,
 * R0: and the next batch is the first; a
 * state where it is new: off, synced, gap, replaying, degraded, waiting. */
struct story {
	const char *name, *steps, *want;
	struct kvcursor_counters count;
	bool no_replay, from_start;
};

static const struct story stories[] = {
	{ "batches in order", "c l0 l1 l2", "gap 0 synced 1 2", { .applied = 3 }, .from_start = true },
	{ "the history comes first, then what is held",
	  "c l3 b0 l4 r0 r1 r2 r3 l5 r4 e",
	  "gap replaying 0 1 2 3 4 5 synced",
	  { .applied = 6, .replays = 1, .replayed = 5 }, .from_start = true },
	{ "an engine that has published nothing is asked once, and again after its first batch is lost",
	  "c b0 e B l1 t100 b0 r0 r1 e",
	  "gap replaying synced gap replaying 0 1 synced",
	  { .applied = 2, .replays = 2, .replayed = 2, .gaps = 1 }, .from_start = true },
	{ "a history that is gone is not a loss", "c b0 r7 r8 e l9", "gap replaying 7 8 synced 9",
	  { .applied = 3, .replays = 1, .replayed = 2 } },
	{ "what is held comes before a history that begins later", "c b0 l0 l1 l2 r1 r2 r3 e l4",
	  "gap replaying 0 1 2 3 synced 4",
	  { .applied = 5, .replays = 1, .replayed = 1 }, .from_start = true },
	{ "the same, in the middle", "c l7 b0 l8 r8 r9 e",
	  "gap replaying 7 8 9 synced", { .applied = 3, .replays = 1, .replayed = 1 } },
	{ "a gap is filled", "c l0 l1 l4 b2 r2 r3 r4 e l5",
	  "gap 0 synced 1 gap replaying 2 3 4 synced 5",
	  { .applied = 6, .gaps = 1, .replays = 1, .replayed = 3 }, .from_start = true },
	{ "a replay with a hole goes on from there", "c l0 l6 b1 r1 r2 r5 t50 b3 r3 r4 r5 r6 e",
	  "gap 0 synced gap replaying 1 2 gap replaying 3 4 5 6 synced",
	  { .applied = 7, .gaps = 1, .replays = 2, .replayed = 6 }, .from_start = true },
	{ "a replay that falls silent goes on from there", "c l0 l6 b1 r1 r2 t1000 t50 b3 r3 r4 r5 e",
	  "gap 0 synced gap replaying 1 2 gap replaying 3 4 5 6 synced",
	  { .applied = 7, .gaps = 1, .replays = 2, .replayed = 5 }, .from_start = true },
	{ "a gap behind a gap", "c l0 l2 l4 b1 r1 e t50 b3 r3 e",
	  "gap 0 synced gap replaying 1 2 gap replaying 3 4 synced",
	  { .applied = 5, .gaps = 1, .replays = 2, .replayed = 2 }, .from_start = true },
	{ "batches that are gone are lost", "c l0 l5 b1 r4 r5 e l6",
	  "gap 0 synced gap replaying 4 5 degraded 6",
	  { .applied = 4, .gaps = 1, .replays = 1, .replayed = 2, .lost = 3 } },
	{ "no replay socket", "c l3 l4 l7 l8", "waiting 3 synced 4 7 degraded 8",
	  { .applied = 4, .gaps = 1, .lost = 2 }, .no_replay = true },
	{ "a degraded cursor is synced when as many blocks were removed as it had",
	  "c l0 l1 l3 l1000 l1001 l1002", "waiting 0 synced 1 3 degraded 1000 1001 1002 synced",
	  { .applied = 6, .gaps = 2, .lost = 997 }, .no_replay = true },
	{ "too many losses clear", "c l0 l5000 l5001", "waiting 0 synced C 5000 5001",
	  { .applied = 3, .gaps = 1, .lost = 4999, .clears = 1 }, .no_replay = true },
	{ "three silent replays, then a loss and a rest",
	  "c l0 l3 b1 t1000 B t2000 b1 t1000 t2000 b1 t1000 B l4 l7 t29000 B l9 t20000 l12 b10 r10 r11 e",
	  "gap 0 synced gap replaying gap replaying gap replaying 3 degraded 4 7 9 gap replaying 10 "
	  "11 12 degraded",
	  { .applied = 8, .gaps = 4, .replays = 4, .replayed = 2, .lost = 5, .unanswered = 3 } },
	{ "a lower number is a restart", "c l0 l1 l2 l0x l1x", "gap 0 synced 1 2 R0 0x 1x",
	  { .applied = 5, .restarts = 1 }, .from_start = true },
	{ "a restart, seen late", "c l5 l6 l3x l4x", "waiting 5 synced 6 R 3x 4x",
	  { .applied = 4, .restarts = 1 }, .no_replay = true },
	{ "a restart asks for the history again", "c b0 r5 e l6 l3x b0 r0x r1x r2x r3x e l4x",
	  "gap replaying 5 synced 6 R gap replaying 0x 1x 2x 3x synced 4x",
	  { .applied = 7, .restarts = 1, .replays = 2, .replayed = 5 }, .from_start = true },
	{ "a restart during a replay", "c l0 l5 b1 r1 l0x l1x B",
	  "gap 0 synced gap replaying 1 R0 0x synced 1x",
	  { .applied = 4, .gaps = 1, .restarts = 1, .replays = 1, .replayed = 1 }, .from_start = true },
	{ "an equal number with another payload is a restart", "c l0 l0 l0x", "gap 0 synced R0 0x",
	  { .applied = 2, .repeated = 1, .restarts = 1 }, .from_start = true },
	{ "a batch that a replay had already is not a restart", "c l0 l3 b1 r1 r2 r3 r4 r5 e l4 l5 l6",
	  "gap 0 synced gap replaying 1 2 3 4 5 synced 6",
	  { .applied = 7, .gaps = 1, .replays = 1, .replayed = 5, .repeated = 2 }, .from_start = true },
	{ "connected again: the same engine", "c l0 l1 d c b1 l2 r1 r2 e",
	  "gap 0 synced 1 off gap replaying 2 synced",
	  { .applied = 3, .replays = 1, .replayed = 1 }, .from_start = true },
	{ "connected again: another start, further on", "c l0 l1 d c l7x b1 r1x b0 r0x r1x r2x e l8x",
	  "gap 0 synced 1 off gap replaying R gap replaying 0x 1x 2x synced gap",
	  { .applied = 5, .replays = 2, .replayed = 3, .restarts = 1, .gaps = 1 }, .from_start = true },
	{ "connected again: another start, not as far", "c l0 l1 l2 d c b2 e b0 r0x e",
	  "gap 0 synced 1 2 off gap replaying R gap replaying 0x synced",
	  { .applied = 4, .replays = 2, .replayed = 1, .restarts = 1 }, .from_start = true },
	{ "connected again: what could be compared is gone", "c l0 l1 d c b1 r5 r6 e",
	  "gap 0 synced 1 off gap replaying C 5 6 synced",
	  { .applied = 4, .replays = 1, .replayed = 2, .lost = 3, .clears = 1 } },
	{ "a gap stays one while there is no connection", "c l0 l4 d t60000 c b0 r0 r1 r2 r3 r4 e",
	  "gap 0 synced gap off gap replaying 1 2 3 4 synced",
	  { .applied = 5, .gaps = 1, .replays = 1, .replayed = 4 }, .from_start = true },
	{ "frames that come after the connection was lost", "c l0 d l1 l3 l2 c b2 r2 r3 e",
	  "gap 0 synced off 1 2 gap replaying 3 synced",
	  { .applied = 4, .replays = 1, .replayed = 1 }, .from_start = true },
	{ "connected again without a replay: the next number", "c l0 l1 d c l2",
	  "waiting 0 synced 1 off waiting 2 synced",
	  { .applied = 3 }, .no_replay = true, .from_start = true },
	{ "connected again without a replay: a gap clears", "c l0 l1 d c l5",
	  "waiting 0 synced 1 off waiting C 5 synced",
	  { .applied = 3, .lost = 3, .clears = 1 }, .no_replay = true },
	{ "connected again without a replay: a lower number", "c l3 l4 d c l4x l5x",
	  "waiting 3 synced 4 off waiting R 4x synced 5x",
	  { .applied = 4, .restarts = 1 }, .no_replay = true },
	{ "connected again, and no answer: as without a replay",
	  "c l0 l1 d c l2 b1 t1000 t2000 b1 t1000 t2000 b1 t1000",
	  "gap 0 synced 1 off gap replaying gap replaying gap replaying 2 synced",
	  { .applied = 3, .replays = 3, .unanswered = 3 }, .from_start = true },
	{ "a process that began at another time is a restart",
	  "c l0 l1 p100 l2 p100 p200 b0 r0x e p100 p200",
	  "gap 0 synced 1 2 R gap replaying 0x synced",
	  { .applied = 4, .replays = 1, .replayed = 1, .restarts = 1 }, .from_start = true },
	{ "a restart that was seen already is counted once", "c l0 l1 p100 l0x p100 p200 p100 l1x p200",
	  "gap 0 synced 1 R0 0x 1x", { .applied = 4, .restarts = 1 }, .from_start = true },
	{ "a lost tail is found by a probe", "c l0 l1 t9999 B t1 b2 r2 r3 e t10000 B t2000 t10000 b4 e",
	  "gap 0 synced 1 2 3",
	  { .applied = 4, .replays = 2, .replayed = 2, .gaps = 1 }, .from_start = true },
	{ "frames without a sequence", "c u u B d c u", "gap u synced u off C waiting u synced",
	  { .applied = 3, .clears = 1 } },
	{ "a peer that is no publisher", "c u! u!", "waiting ! !",
	  { .undecoded = 2, .lost = 2 }, .no_replay = true },
	{ "frames without a sequence, and then with one", "c u l5 b0 r4 r5 e u",
	  "gap u synced C gap replaying 4 5 synced",
	  { .applied = 3, .clears = 1, .replays = 1, .replayed = 2, .foreign = 1 } },
	{ "a payload that cannot be decoded is a lost batch", "c l0 l1! l2", "gap 0 synced ! degraded 2",
	  { .applied = 2, .undecoded = 1, .lost = 1 } },
	{ "an engine that clears its cache is known again", "c l0 l5 l6", "waiting 0 synced 5 degraded 6",
	  { .applied = 3, .gaps = 1, .lost = 4 }, .no_replay = true },
	{ "the same, cleared", "c l0 l5 l6*", "waiting 0 synced 5 degraded 6* synced",
	  { .applied = 3, .gaps = 1, .lost = 4 }, .no_replay = true, .from_start = true },
	{ "a request that cannot be sent does not use up the history",
	  "c f0 t1000 t2000 b0 r0 e", "gap replaying gap replaying 0 synced",
	  { .applied = 1, .replays = 2, .replayed = 1, .unanswered = 1 }, .from_start = true },
	{ "0 is asked twice of a silent engine", "c b0 t1000 B l5 l6 t2000 b0 r0 r1 r2 r3 r4 e",
	  "gap replaying gap replaying 0 1 2 3 4 5 6 synced",
	  { .applied = 7, .replays = 2, .replayed = 5, .unanswered = 1 }, .from_start = true },
	{ "and not three times", "c b0 t1000 t2000 b0 l5 t1000 B l6 t2000 l8 b7 r7 e",
	  "gap replaying gap replaying 5 synced 6 gap replaying 7 8 synced",
	  { .applied = 4, .replays = 3, .replayed = 1, .gaps = 1, .unanswered = 2 } },
	{ "a restart whose first request is lost", "c b0 r0 e l5x l1x b0 t1000 l2x t2000 b0 r0x e",
	  "gap replaying 0 synced gap R replaying gap replaying 0x 1x 2x synced",
	  { .applied = 4, .replays = 3, .replayed = 2, .gaps = 1, .restarts = 1, .unanswered = 1 },
	  .from_start = true },
	{ "another process continues", "c l0 l1 k c b1 l3 r1 r2 r3 e l4",
	  "gap 0 synced 1 off gap replaying 2 3 synced 4",
	  { .applied = 3, .replays = 1, .replayed = 2 }, .from_start = true },
	{ "another process continues after a restart of the engine", "c l0 l1 k c b1 r1x b0 r0x r1x e",
	  "gap 0 synced 1 off gap replaying R gap replaying 0x 1x synced",
	  { .applied = 2, .replays = 2, .replayed = 2, .restarts = 1 }, .from_start = true },
	{ "another process continues, too late", "c l0 l1 k c b1 r5 r6 e",
	  "gap 0 synced 1 off gap replaying C 5 6 synced",
	  { .applied = 2, .replays = 1, .replayed = 2, .lost = 3, .clears = 1 } },
	{ "another process continues without a replay", "c l0 l1 k c l2 l3",
	  "waiting 0 synced 1 off waiting 2 synced 3",
	  { .applied = 2 }, .no_replay = true, .from_start = true },
	{ "another process cannot continue before the first batch", "c K", "gap off" },
	{ "nor while batches are lost", "c l0 l5 K c l6",
	  "waiting 0 synced 5 degraded off waiting 6 synced",
	  { .applied = 1 }, .no_replay = true },
	{ "nor while the engine may be another", "c l0 d c K", "gap 0 synced off gap off",
	  { .applied = 0 } },
	{ "the largest sequences", "c l18446744073709551615 l18446744073709551614 l3",
	  "waiting 18446744073709551614 synced R 3",
	  { .applied = 2, .foreign = 1, .restarts = 1 }, .no_replay = true },
};

struct world {
	char log[4096];
	size_t n;
};

__attribute__((format(printf, 2, 3)))
static void note(struct world *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	w->n += (size_t)vsnprintf(w->log + w->n, sizeof(w->log) - w->n, fmt, ap);
	va_end(ap);
	assert_true(w->n < sizeof(w->log));
}

/* A batch stores 10 blocks; one above 999 removes 10. */
static bool apply(void *arg, struct span payload, struct kvcursor_effect *out)
{
	struct world *w = arg;
	char last = payload.p[payload.n - 1];

	if (last == '!') {
		note(w, " !");
		return false;
	}
	note(w, " %.*s", (int)payload.n, payload.p);
	out->stored = 10;
	out->removed = payload.n > 3 ? 10 : 0;
	out->cleared = last == '*';
	return true;
}

static void clear(void *arg, bool from_start, bool restarted)
{
	note(arg, restarted ? " R" : " C");
	if (from_start)
		note(arg, "0");
}

static const struct kvcursor_calls calls = { .apply = apply, .clear = clear };

static struct kvframe frame_of(const char *step)
{
	struct kvframe f = { .payload = span_str(step + 1), .has_sequence = step[0] != 'u' };

	if (step[0] == 'u')
		f.payload = span_str(step);
	else if (step[0] == 'e')
		f = (struct kvframe){ .has_sequence = true, .sequence = UINT64_MAX, .end = true };
	else
		f.sequence = strtoull(step + 1, NULL, 10);
	return f;
}

static void replay_from(struct kvcursor *c, const char *step, msec now)
{
	assert_true(kvcursor_replay_due(c, now));
	assert_int_equal(kvcursor_replay_begin(c, now), strtoull(step + 1, NULL, 10));
	if (step[0] == 'b')
		kvcursor_replay_sent(c, now);
}

/* Put a new cursor in the place of <c>. */
static void resume(struct kvcursor *c, bool can)
{
	struct kvcursor_place p;
	struct kvcursor old = *c;

	assert_int_equal(kvcursor_place(&old, &p), can);
	kvcursor_fini(c);
	kvcursor_init(c, old.o, old.calls, old.arg, old.key, old.store, old.rng);
	if (can)
		kvcursor_resume(c, &p);
}

static void take_step(struct kvcursor *c, const char *step, msec *now)
{
	struct kvframe f = frame_of(step);

	switch (step[0]) {
	case 'c': kvcursor_connected(c, *now); break;
	case 'd': kvcursor_disconnected(c, *now); break;
	case 'l':
	case 'u': kvcursor_live(c, &f, *now); break;
	case 'b':
	case 'f': replay_from(c, step, *now); break;
	case 'k':
	case 'K': resume(c, step[0] == 'k'); break;
	case 'B': assert_false(kvcursor_replay_due(c, *now)); break;
	case 'r':
	case 'e': kvcursor_replay_frame(c, &f, *now); break;
	case 'p': kvcursor_process_start(c, strtod(step + 1, NULL), *now); break;
	case 't':
		*now += strtol(step + 1, NULL, 10);
		kvcursor_tick(c, *now);
		break;
	default: fail_msg("step %s", step);
	}
}

static void tell(const struct story *s)
{
	static const char *const words[] = { "off", "synced", "gap", "replaying", "degraded",
		"waiting" };
	enum kvcursor_state state = KVCURSOR_OFF;
	struct kvcursor_store store = { .max = 1 << 20 };
	struct hash_key key = { .secret = "a story" };
	struct world w = { .n = 0 };
	struct kvcursor_opts o;
	struct kvcursor c;
	struct rng rng;
	char steps[512], *step, *at;
	msec now = 1000000;

	kvcursor_defaults(&o);
	o.replay = !s->no_replay;
	rng_init(&rng, 1);
	kvcursor_init(&c, &o, &calls, &w, &key, &store, &rng);
	snprintf(steps, sizeof(steps), "%s", s->steps);
	for (step = strtok_r(steps, " ", &at); step != NULL; step = strtok_r(NULL, " ", &at)) {
		take_step(&c, step, &now);
		if (kvcursor_state(&c) != state)
			note(&w, " %s", words[kvcursor_state(&c)]);
		state = kvcursor_state(&c);
	}
	assert_string_equal(w.log + 1, s->want);
	assert_int_equal(c.from_start, s->from_start);
	for (size_t i = 0; i < sizeof(s->count) / sizeof(uint64_t); i++)
		if (((const uint64_t *)&c.count)[i] != ((const uint64_t *)&s->count)[i])
			fail_msg("counter %zu is %llu, not %llu", i,
			    (unsigned long long)((const uint64_t *)&c.count)[i],
			    (unsigned long long)((const uint64_t *)&s->count)[i]);
	kvcursor_fini(&c);
	assert_int_equal(store.used, 0);
}

static void all_stories(void **state)
{
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		print_message("%s: %s\n", stories[i].name, stories[i].steps);
		tell(&stories[i]);
	}
}

/* ---- limits ------------------------------------------------------------------------------ */

/* What cannot be held comes with the next replay. */
static void held_batches_are_bounded(void **state)
{
	struct kvcursor_store store = { .max = 64 };
	struct hash_key key = { .secret = "limits" };
	struct world w = { .n = 0 };
	struct kvcursor_opts o;
	struct kvcursor c;
	struct rng rng;
	char step[32];
	msec now = 0;

	kvcursor_defaults(&o);
	o.replay = true;
	o.hold_batches = 8;
	rng_init(&rng, 1);
	kvcursor_init(&c, &o, &calls, &w, &key, &store, &rng);
	take_step(&c, "c", &now);
	take_step(&c, "l0", &now);
	for (int i = 2; i < 50; i++) {
		snprintf(step, sizeof(step), "l%d", i);
		take_step(&c, step, &now);
		assert_true(c.n_held <= 8 && store.used <= 64);
	}
	assert_int_equal(c.count.unheld, 40);
	take_step(&c, "b1", &now);
	take_step(&c, "r1", &now);
	take_step(&c, "e", &now);
	assert_int_equal(kvcursor_state(&c), KVCURSOR_GAP);
	take_step(&c, "t50", &now);
	take_step(&c, "b10", &now);
	for (int i = 10; i < 50; i++) {
		snprintf(step, sizeof(step), "r%d", i);
		take_step(&c, step, &now);
	}
	take_step(&c, "e", &now);
	assert_int_equal(kvcursor_state(&c), KVCURSOR_SYNCED);
	assert_int_equal(c.count.applied, 50);
	assert_true(c.from_start && c.count.lost == 0);
	kvcursor_fini(&c);
	assert_int_equal(store.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_stories),
		cmocka_unit_test(held_batches_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
