/* Print KV cache events, one a line, as key=value. Token ids are counted and never printed, because
 * they are the prompts of the engine's users. */
#include <inttypes.h>
#include <stdlib.h>

#include "agent/ctl/events.h"

static const char *const tiers[TIERS] = {
	[TIER_DEVICE] = "device", [TIER_HOST] = "host", [TIER_DISK] = "disk", [TIER_REMOTE] = "remote",
};

/* Names come from the engine: what is not printable ASCII shows as '?'. */
static void put_name(FILE *out, const char *key, struct span s)
{
	fprintf(out, " %s=", key);
	for (size_t i = 0; i < s.n && i < 128; i++)
		fputc(s.p[i] > ' ' && s.p[i] <= '~' ? s.p[i] : '?', out);
}

/* Print the number of blocks, the first hash and the last. */
static void put_hashes(FILE *out, struct kv_list l)
{
	uint64_t h = 0, first = 0;
	uint32_t n = 0;

	for (; kvevent_hash(&l, &h); n++)
		first = n == 0 ? h : first;
	fprintf(out, " blocks=%" PRIu32, n);
	if (n > 0)
		fprintf(out, " first=%016" PRIx64, first);
	if (n > 1)
		fprintf(out, " last=%016" PRIx64, h);
	if (l.left > 0)
		fprintf(out, " damaged_hashes=%" PRIu32, l.left);
}

/* Print how many blocks have a salt, and how many have keys that no text matches. */
static void put_extra(FILE *out, const struct kvevent *e)
{
	struct kv_list l = e->extra;
	struct kv_extra x;
	unsigned salted = e->salt.n > 0, other = 0;
	bool first = !e->has_parent;

	for (; kvevent_extra(&l, e->lora_name, first, &x); first = false) {
		salted += x.salt.n > 0;
		other += x.other;
	}
	if (salted > 0)
		fputs(" salted=1", out);
	if (other > 0)
		fprintf(out, " other_keys=%u", other);
}

static void put_stored(FILE *out, const struct kvevent *e)
{
	fputs(" stored", out);
	put_hashes(out, e->hashes);
	if (e->has_parent)
		fprintf(out, " parent=%016" PRIx64, e->parent);
	fprintf(out, " tokens=%" PRIu32 " block_size=%" PRIu32, e->tokens.left, e->block_size);
	if (!kvevent_dense(e))
		fputs(" dense=0", out);
	if (e->lora_name.n > 0)
		put_name(out, "lora", e->lora_name);
	put_extra(out, e);
	if (e->reused)
		fputs(" reused=1", out);
}

static void put_place(FILE *out, const struct kvevent *e)
{
	fprintf(out, " tier=%s", tiers[e->tier]);
	if (e->remote)
		fputs(" shared=1", out);
	if (e->has_group)
		fprintf(out, " group=%" PRIu32, e->group);
	if (e->attention != ATTENTION_UNSAID)
		fprintf(out, " attention=%s", e->attention == ATTENTION_FULL ? "full" : "other");
	fputc('\n', out);
}

static uint64_t count_hashes(struct kv_list l)
{
	uint64_t h, n = 0;

	while (kvevent_hash(&l, &h))
		n++;
	return n;
}

static void event(struct events_tally *t, const struct kvevent *e)
{
	t->events++;
	switch (e->kind) {
	case KVEVENT_STORED:
		t->stored += count_hashes(e->hashes);
		break;
	case KVEVENT_REMOVED:
		t->removed += count_hashes(e->hashes);
		break;
	case KVEVENT_CLEARED:
		t->cleared++;
		break;
	case KVEVENT_UNKNOWN:
		t->unknown++;
		break;
	case KVEVENT_BAD:
		t->bad++;
		break;
	}
	if (t->out == NULL)
		return;
	if (e->kind == KVEVENT_STORED) {
		put_stored(t->out, e);
		put_place(t->out, e);
	} else if (e->kind == KVEVENT_REMOVED) {
		fputs(" removed", t->out);
		put_hashes(t->out, e->hashes);
		put_place(t->out, e);
	} else {
		fputs(e->kind == KVEVENT_CLEARED ? " cleared\n" :
		      e->kind == KVEVENT_UNKNOWN ? " unknown\n" : " bad\n", t->out);
	}
}

/* Compare a sequence with the one expected. Engines count from 0 and send each batch once, so a
 * lower one means that the engine restarted. */
static void sequence(struct events_tally *t, uint64_t seq)
{
	if (t->begun && seq < t->next) {
		t->restarts++;
		if (t->out != NULL)
			fprintf(t->out, "restarted: sequence %" PRIu64 " after %" PRIu64 "\n", seq, t->next - 1);
	} else if (t->begun && seq > t->next) {
		t->gaps++;
		t->lost += seq - t->next;
		if (t->out != NULL)
			fprintf(t->out, "lost: %" PRIu64 " batches, sequences %" PRIu64 " to %" PRIu64 "\n",
				seq - t->next, t->next, seq - 1);
	}
	t->begun = true;
	t->next = seq + 1;
}

static int64_t note_lag(struct events_tally *t, double sent, double now)
{
	double ms = (now - sent) * 1000;
	int64_t lag = ms > -1e12 && ms < 1e12 ? (int64_t)ms : 0;

	t->lag_ms[t->lags++ % EVENTS_LAGS] = lag;
	return lag;
}

void events_message(struct events_tally *t, const struct kvframe *f, double now)
{
	struct kvevent_batch b;
	struct kvevent e;
	int64_t lag;
	int rc;

	t->batches++;
	if (f->has_sequence)
		sequence(t, f->sequence);
	if ((rc = kvevent_open(&b, f->payload)) != 0) {
		t->damaged++;
		if (t->out != NULL)
			fprintf(t->out, "damaged: %s\n", kvevent_strerror(-rc));
		return;
	}
	lag = note_lag(t, b.time, now);
	while (kvevent_next(&b, &e)) {
		if (t->out != NULL) {
			if (f->has_sequence)
				fprintf(t->out, "seq=%" PRIu64 " ", f->sequence);
			fprintf(t->out, "lag_ms=%" PRId64, lag);
			if (b.has_rank)
				fprintf(t->out, " rank=%" PRIu32, b.rank);
			if (f->topic.n > 0)
				put_name(t->out, "topic", f->topic);
		}
		event(t, &e);
	}
}

void events_foreign(struct events_tally *t, unsigned n)
{
	t->batches++;
	t->damaged++;
	if (t->out != NULL)
		fprintf(t->out, "damaged: a message of %u parts; events have a topic, a sequence of 8 bytes "
			"and a payload\n", n);
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

void events_sums(struct events_tally *t, FILE *out)
{
	size_t n = t->lags < EVENTS_LAGS ? (size_t)t->lags : EVENTS_LAGS;

	fprintf(out,
	    "batches=%" PRIu64 " events=%" PRIu64 " blocks_stored=%" PRIu64
	    " blocks_removed=%" PRIu64 " clears=%" PRIu64 " unknown=%" PRIu64 " bad=%" PRIu64
	    " damaged=%" PRIu64 " lost=%" PRIu64 " gaps=%" PRIu64 " restarts=%" PRIu64,
	    t->batches, t->events, t->stored, t->removed, t->cleared, t->unknown, t->bad,
	    t->damaged, t->lost, t->gaps, t->restarts);
	if (n > 0) {
		qsort(t->lag_ms, n, sizeof(t->lag_ms[0]), by_size);
		fprintf(out, " lag_ms_p50=%" PRId64 " lag_ms_max=%" PRId64, t->lag_ms[n / 2], t->lag_ms[n - 1]);
	}
	fputc('\n', out);
}
