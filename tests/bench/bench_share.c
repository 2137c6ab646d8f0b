/* bench_share.c - what it costs to tell siblings of a decision: time and bytes of a PLACED, put
 * into an outbox, ended (checksum) and read by an inbox, beside a copy of the same bytes. pages:
 * new pages of the prompt. batch: one for each entry, as with little load, or full ones of 64 KiB.
 * The fastest of 30 passes counts, because the machine may be shared. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/share/inbox.h"
#include "agent/share/outbox.h"
#include "tests/lib/bench.h"
#include "tests/lib/share/entries.h"

#define PASSES	30
#define BYTES	(4u << 20)	/* of a pass, about */

static struct hash_key key;

static double less(double a, double b)
{
	return a < b ? a : b;
}

/* The next turn of a conversation of 34000 tokens. */
static void make_entry(struct share_entry *e, uint32_t i, uint32_t pages)
{
	static const char *const servers[] = { "gpu-01", "gpu-02", "gpu-03", "gpu-04" };

	*e = (struct share_entry){ .kind = SHARE_PLACED, .u.placed = {
		.uid = i * 0x9e3779b97f4a7c15ull, .process = 0x1234567812345678,
		.at = { SPAN("llm"), span_str(servers[i % 4]) },
		.space = { .h = { 1ull << 60, 1ull << 61 }, .part_room = 16, .page_room = 16 },
		.anchor = { i * 0x2545f4914f6cdd1dull, 2048 },
		.pages = entry_pages + i % 64, .n = pages, .nominal_s = 0.07 + i % 100 * 1e-3,
		.work_tokens = 16 * pages, .prompt_tokens = 34000 + i, .common_tokens = 32768,
		.block = 16, .streams = true, .whole = true, .generates = true,
	} };
}

struct took {
	double put, end, read, copy;	/* ns of a pass */
	uint64_t entries, bytes;
};

static void count_pages(void *arg, share_agent from, const struct share_entry *e)
{
	*(uint64_t *)arg += e->u.placed.n;
}

/* Put <entries> in batches of <each> (0: as they are due). */
static void one_pass(uint32_t pages, uint32_t entries, uint32_t each, struct took *best)
{
	struct share_outbox *o = must(share_outbox_new(&key, 1, 1, 64u << 20));
	struct share_inbox *in = must(share_inbox_new(&key, 2, 1));
	uint8_t *copy = must(malloc(SHARE_BATCH_MAX));
	struct took t = { 0 };
	struct share_entry e;
	struct span b;
	uint64_t read = 0;
	double a, z;

	for (uint32_t i = 0; i < entries; ) {
		msec at;

		a = now_ns();
		do {
			make_entry(&e, i, pages);
			share_outbox_put(o, 0, &e, 0);
			i++;
		} while (i < entries && (each == 0 ? !share_outbox_due(o, 0, 0, &at) : i % each != 0));
		z = now_ns();
		t.put += z - a;
		b = share_outbox_take(o, 0, 0, 0);
		a = now_ns();
		t.end += a - z;
		share_inbox_read(in, 0, b, 0, 0, count_pages, &read);
		z = now_ns();
		t.read += z - a;
		memcpy(copy, b.p, b.n);
		__asm__ volatile("" : : "r"(copy) : "memory");
		t.copy += now_ns() - z;
		t.bytes += b.n;
		share_outbox_sent(o, 0);
	}
	if (read != (uint64_t)pages * entries)
		exit(1);
	*best = (struct took){ less(best->put, t.put), less(best->end, t.end), less(best->read, t.read),
		less(best->copy, t.copy), entries, t.bytes };
	share_inbox_free(in);
	share_outbox_free(o);
	free(copy);
}

static void run(uint32_t pages, uint32_t each)
{
	uint32_t entries = BYTES / (8 * pages + 80);
	struct took best = { 1e18, 1e18, 1e18, 1e18, 0, 0 };
	double n;

	for (unsigned i = 0; i < PASSES; i++)
		one_pass(pages, entries, each, &best);
	n = (double)best.entries;
	printf("bench share pages=%u batch=%s bytes=%.0f put_ns=%.0f end_ns=%.0f read_ns=%.0f "
	       "memcpy_ns=%.0f\n", pages, each == 1 ? "one" : "full", (double)best.bytes / n,
	    best.put / n, best.end / n, best.read / n, best.copy / n);
}

int main(void)
{
	static const uint32_t pages[] = { 10, 100, 1000, 8000 };
	struct rng rng;

	rng_init(&rng, 1);
	entry_lists(&rng);
	key = entry_key(1);
	for (unsigned i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		run(pages[i], 0);
		run(pages[i], 1);
	}
	return 0;
}
