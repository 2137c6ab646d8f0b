/* test_kvevent.c - KV cache events in each encoding that engines use, and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/feed/kvevent.h"
#include "agent/feed/kvframe.h"
#include "tests/unit/edge.h"

#define LINES_MAX	65536

/* ---- decoded events as lines ------------------------------------------------------------- */

struct lines {
	char text[LINES_MAX];
	size_t n;
};

__attribute__((format(printf, 2, 3)))
static void say(struct lines *l, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	l->n += (size_t)vsnprintf(l->text + l->n, sizeof(l->text) - l->n, format, ap);
	va_end(ap);
	assert_true(l->n < sizeof(l->text));
}

static void say_hashes(struct lines *l, struct kv_list hashes)
{
	const char *before = " hashes=";
	uint64_t h;

	for (; hashes.left > 0; before = ",") {
		if (!kvevent_hash(&hashes, &h)) {
			say(l, "%s?", before);
			return;
		}
		say(l, "%s%016llx", before, (unsigned long long)h);
	}
}

static void say_tokens(struct lines *l, struct kv_list tokens)
{
	uint32_t n = tokens.left, t, first = 0, last = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!kvevent_tokens(&tokens, &t, 1)) {
			say(l, " tokens=?");
			return;
		}
		first = i == 0 ? t : first;
		last = t;
	}
	say(l, " tokens=%u", n);
	if (n > 0)
		say(l, ":%u..%u", first, last);
}

static void say_extra(struct lines *l, const struct kvevent *e)
{
	struct kv_list extra = e->extra;
	const char *before = " extra=";
	struct kv_extra x;
	bool first = !e->has_parent;

	for (; kvevent_extra(&extra, e->lora_name, first, &x); before = ",", first = false)
		say(l, "%s" SPAN_FMT "%s%s", before, SPAN_ARG(x.salt), x.salt.n ? "" : "-", x.other ? "+" : "");
}

static void say_event(struct lines *l, const struct kvevent *e)
{
	static const char *const kinds[] = { "stored", "removed", "cleared", "unknown", "bad" };
	static const char *const tiers[] = { "device", "host", "disk", "remote" };

	say(l, "= %s", kinds[e->kind]);
	if (e->kind <= KVEVENT_REMOVED) {
		say_hashes(l, e->hashes);
		if (e->has_parent)
			say(l, " parent=%016llx", (unsigned long long)e->parent);
	}
	if (e->kind == KVEVENT_STORED) {
		say_tokens(l, e->tokens);
		say(l, " size=%u", e->block_size);
	}
	if (e->kind <= KVEVENT_REMOVED)
		say(l, " tier=%s%s", tiers[e->tier], e->remote ? " remote" : "");
	if (e->has_group)
		say(l, " group=%u", e->group);
	if (e->attention != ATTENTION_UNSAID)
		say(l, " attention=%s", e->attention == ATTENTION_FULL ? "full" : "other");
	if (e->has_lora_id)
		say(l, " lora_id=%lld", (long long)e->lora_id);
	if (e->lora_name.n > 0)
		say(l, " lora=" SPAN_FMT, SPAN_ARG(e->lora_name));
	if (e->salt.n > 0)
		say(l, " salt=" SPAN_FMT, SPAN_ARG(e->salt));
	say_extra(l, e);
	say(l, "\n");
}

static void decode(struct lines *l, struct span payload)
{
	struct kvevent_batch b;
	struct kvevent e;
	int rc = kvevent_open(&b, payload);

	l->n = 0;
	l->text[0] = '\0';
	if (rc != 0) {
		say(l, "= %s\n", kvevent_strerror(-rc));
		return;
	}
	say(l, "= rank=");
	if (b.has_rank)
		say(l, "%u", b.rank);
	else
		say(l, "-");
	if (b.epoch.n > 0)
		say(l, " epoch=" SPAN_FMT, SPAN_ARG(b.epoch));
	say(l, " events=%u\n", b.n_events);
	while (kvevent_next(&b, &e))
		say_event(l, &e);
}

/* ---- every batch of the file -------------------------------------------------------------------
 */

struct batch {
	char name[64];
	uint8_t payload[8192];
	size_t n;
	char want[8192];
};

static unsigned digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void add_hex(struct batch *b, const char *hex)
{
	for (; hex[0] > ' ' && hex[1] > ' '; hex += 2)
		b->payload[b->n++] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
}

static unsigned each_batch(void (*each)(struct batch *b))
{
	FILE *f = fopen("tests/data/kvevents/events.txt", "r");
	struct batch b = { .n = 0 };
	unsigned n = 0;
	char line[1024];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (line[0] == '\t')
			add_hex(&b, line + 1);
		else if (line[0] == '=')
			strcat(b.want, line);
		else if (sscanf(line, "batch %63s", b.name) == 1)
			b.n = 0, b.want[0] = '\0';
		else if (line[0] == '\n' && b.n > 0)
			each(&b), n++;
	}
	each(&b);
	fclose(f);
	return n + 1;
}

static void check(struct batch *b)
{
	static struct lines l;
	uint8_t *p = edge_copy(b->payload, b->n);

	decode(&l, span_of(p, b->n));
	if (strcmp(l.text, b->want) != 0)
		fail_msg("%s:\n%swanted:\n%s", b->name, l.text, b->want);
	edge_free(p, b->n);
}

static void every_encoding(void **state)
{
	(void)state;
	assert_int_equal(each_batch(check), 34);
}

/* A payload that ends early is rejected at once; no byte beyond its end is read. */
static void check_cuts(struct batch *b)
{
	struct kvevent_batch out;

	if (strncmp(b->want, "= rank", 6) != 0)
		return;
	for (size_t n = 0; n < b->n; n++) {
		uint8_t *p = edge_copy(b->payload, n);

		assert_int_equal(kvevent_open(&out, span_of(p, n)), -KVEVENT_E_FORM);
		edge_free(p, n);
	}
}

static void every_cut(void **state)
{
	(void)state;
	each_batch(check_cuts);
}

/* With any byte changed, the decoder ends and reads no byte outside; its result is not checked. */
static void check_damage(struct batch *b)
{
	static struct lines l;
	uint8_t *p = malloc(b->n);	/* of this size, for ASan: the page of edge_copy() is read-only */

	memcpy(p, b->payload, b->n);
	for (size_t i = 0; i < b->n; i++) {
		uint8_t was = p[i];

		for (unsigned v = 0; v < 256; v += 5) {
			p[i] = (uint8_t)v;
			decode(&l, span_of(p, b->n));
		}
		p[i] = was;
	}
	free(p);
}

static void every_byte_damaged(void **state)
{
	(void)state;
	each_batch(check_damage);
}

/* ---- forms that no engine of the file uses --------------------------------------------------- */

#define B(lit)	{ lit, sizeof(lit) - 1 }

static const struct { const char *name; struct span payload; const char *want;
} forms[] = {
	{ "a map throughout",
	    B("\x83\xa2ts\xcb\0\0\0\0\0\0\0\0\xa6"
	      "events\x91\x81\xa4type\xb0"
	      "AllBlocksCleared\xa7"
	      "dp_rank\x05"),
	    "= rank=5 events=1\n= cleared\n" },
	{ "no events", B("\x93\xcb\0\0\0\0\0\0\0\0\x90\xc0"), "= rank=- events=0\n" },
	{ "not a batch", B("\x2a"), "= the payload is not a batch of KV cache events\n" },
	{ "events that are no list", B("\x92\x01\x02"),
	    "= the payload is not a batch of KV cache events\n" },
	{ "no events at all", B("\x91\x01"), "= the payload is not a batch of KV cache events\n" },
	{ "bytes after the batch", B("\x92\x01\x90\xc0"), "= the payload is not MessagePack\n" },
	{ "an event that is no event",
	    B("\x92\x01\x92\x05\x91\xb0"
	      "AllBlocksCleared"),
	    "= rank=- events=2\n= bad\n= cleared\n" },
	{ "a stored event without hashes",
	    B("\x92\x01\x91\x91\xab"
	      "BlockStored"),
	    "= rank=- events=1\n= bad\n" },
	{ "hashes that are text",
	    B("\x92\x01\x91\x92\xac"
	      "BlockRemoved\xa1h"),
	    "= rank=- events=1\n= bad\n" },
	{ "a map16 of one pair, an int64 of one",
	    B("\x92\x01\x91\x92\xac"
	      "BlockRemoved\x91\xd3\0\0\0\0\0\0\0\x01"),
	    "= rank=- events=1\n= removed hashes=0000000000000001 tier=device\n" },
	{ "a parent of 0",
	    B("\x92\x01\x91\x95\xab"
	      "BlockStored\x91\x01\x00\x91\x07\x01"),
	    "= rank=- events=1\n= stored hashes=0000000000000001 parent=0000000000000000 tokens=1:7..7 "
	    "size=1 tier=device\n" },
	{ "tokens of another type",
	    B("\x92\x01\x91\x95\xab"
	      "BlockStored\x91\x01\xc0\x91\xa1x\x01"),
	    "= rank=- events=1\n= stored hashes=0000000000000001 tokens=? size=1 tier=device\n" },
};

static void other_forms(void **state)
{
	static struct lines l;

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		decode(&l, forms[i].payload);
		if (strcmp(l.text, forms[i].want) != 0)
			fail_msg("%s:\n%swanted:\n%s", forms[i].name, l.text, forms[i].want);
	}
}

/* 100,000 lists in one another: the depth costs nothing. */
static void depth(void **state)
{
	size_t n = 100000;
	char *p = malloc(n + 1);
	struct kvevent_batch b;

	(void)state;
	memset(p, '\x91', n);
	p[n] = '\xc0';
	assert_int_equal(kvevent_open(&b, span_of(p, n + 1)), -KVEVENT_E_BATCH);
	assert_int_equal(kvevent_open(&b, span_of(p, n)), -KVEVENT_E_FORM);
	free(p);
}

static void density(void **state)
{
	struct kvevent e = { .block_size = 16, .hashes = { .left = 2 }, .tokens = { .left = 32 } };

	(void)state;
	assert_true(kvevent_dense(&e));
	e.tokens.left = 33;
	assert_false(kvevent_dense(&e));
	e.block_size = 0;
	e.tokens.left = 0;
	assert_false(kvevent_dense(&e));
	e = (struct kvevent){ .block_size = 0x10000, .hashes = { .left = 0x10000 } };
	assert_false(kvevent_dense(&e));	/* the product is above 32 bits */
}

/* ---- frames ------------------------------------------------------------------------------------
 */

#define SEQ	SPAN("\0\0\0\0\0\0\0\x29")

static void live_frames(void **state)
{
	struct span parts[5] = { SPAN("kv@a@m"), SEQ, SPAN("p"), SPAN(""), SPAN("") };
	struct span two[2] = { SPAN("t"), SPAN("p") };
	struct kvframe f;

	(void)state;
	assert_true(kvframe_live(parts, 3, &f));
	assert_true(f.has_sequence && f.sequence == 41 && span_eq(f.topic, SPAN("kv@a@m")));
	assert_true(span_eq(f.payload, SPAN("p")));
	assert_true(kvframe_live(two, 2, &f));
	assert_true(!f.has_sequence && span_eq(f.topic, SPAN("t")) && span_eq(f.payload, SPAN("p")));
	assert_true(kvframe_live(two + 1, 1, &f));
	assert_true(!f.has_sequence && f.topic.n == 0 && span_eq(f.payload, SPAN("p")));
	assert_false(kvframe_live(parts, 0, &f));
	assert_false(kvframe_live(parts, 4, &f));
	parts[1].n = 4;
	assert_false(kvframe_live(parts, 3, &f));
}

static void replay_frames(void **state)
{
	struct span old[3] = { SPAN(""), SEQ, SPAN("p") };
	struct span new[4] = { SPAN(""), SPAN("topic"), SEQ, SPAN("p") };
	struct span end[3] = { SPAN(""), SPAN("\xff\xff\xff\xff\xff\xff\xff\xff"), SPAN("") };
	struct kvframe f;

	(void)state;
	assert_true(kvframe_replay(old, 3, &f) && f.sequence == 41 && !f.end && f.topic.n == 0);
	assert_true(kvframe_replay(new, 4, &f) && f.sequence == 41 && !f.end);
	assert_true(span_eq(f.topic, SPAN("topic")) && span_eq(f.payload, SPAN("p")));
	assert_true(kvframe_replay(end, 3, &f) && f.end);
	assert_false(kvframe_replay(old + 1, 2, &f));
	old[0] = SPAN("x");
	assert_false(kvframe_replay(old, 3, &f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_encoding), cmocka_unit_test(every_cut),
		cmocka_unit_test(every_byte_damaged), cmocka_unit_test(other_forms), cmocka_unit_test(depth),
		cmocka_unit_test(density), cmocka_unit_test(live_frames), cmocka_unit_test(replay_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
