/* events_saved - an index of events as bytes: as they are, and with correct checksums and counts,
 * so that the contents are read, too. Refused bytes change nothing. After accepted ones the index
 * passes its own check, and what it saves is accepted with as many records. */
#include "agent/events/save_in.h"
#include "tests/fuzz/lib/fuzz.h"

#define BYTES_MAX	65536u

static struct hash_key key;

struct counts {
	uint64_t runs, blocks, records;
};

/* Count runs as far as they can be told apart; what is beyond is for the loader to refuse. */
static void count_runs(const uint8_t *p, size_t n, struct counts *c)
{
	size_t bytes;

	for (; n >= SAVE_RUN_BYTES; p += bytes, n -= bytes) {
		bytes = SAVE_RUN_BYTES + (p[5] > 0 ? p[5] : 1u) * (size_t)8;
		c->runs++;
		c->blocks += p[5];
		if (bytes > n)
			return;
	}
}

/* Mend header, checksums and end; return how long it is. */
static size_t mend(uint8_t *p, size_t n)
{
	struct counts c = { 0 };
	size_t pos = SAVE_HEADER_BYTES, bytes;
	uint64_t total;

	if (n < SAVE_HEADER_BYTES)
		return n;
	memcpy(p, SAVE_MAGIC, 8);
	put32(p + 8, EVENTS_SAVE_VERSION);
	put64(p + 16, hash_key_id(&key));
	total = checksum(p, SAVE_HEADER_BYTES - 8);
	put64(p + SAVE_HEADER_BYTES - 8, total);
	for (; n - pos >= SECTION_HEAD_BYTES && get32(p + pos) != SAVE_END;
	     pos += SECTION_HEAD_BYTES + bytes) {
		bytes = get32(p + pos + 4) % 4096;
		bytes = bytes < n - pos - SECTION_HEAD_BYTES ? bytes : n - pos - SECTION_HEAD_BYTES;
		if (get32(p + pos) == SAVE_RUNS)
			count_runs(p + pos + SECTION_HEAD_BYTES, bytes, &c);
		else if (bytes >= SAVE_HOLDER_BYTES)
			c.records += (bytes - SAVE_HOLDER_BYTES) / SAVE_RECORD_BYTES;
		section_put_head(p + pos, get32(p + pos), p + pos + SECTION_HEAD_BYTES, bytes);
		total = section_total(total, p + pos);
	}
	put64(p + pos + 16, c.runs);
	put64(p + pos + 24, c.blocks);
	put64(p + pos + 32, c.records);
	put64(p + pos + 40, total);
	section_put_head(p + pos, SAVE_END, p + pos + SECTION_HEAD_BYTES, SAVE_END_BYTES);
	return pos + SECTION_HEAD_BYTES + SAVE_END_BYTES;
}

static int same_server(void *arg, server_id number)
{
	return number == 1000 ? -1 : number;
}

static int put(void *arg, const void *p, size_t n)
{
	trace_bytes(arg, p, n);
	return 0;
}

static struct events *load(const uint8_t *p, size_t n, struct events_loaded *l)
{
	struct events_opts o = { .max_bytes = 2 << 20, .max_holders = 64, .max_parked = 8, .key = &key };
	struct events *ev = must_alloc(events_new(&o));
	char *bytes = exact(p, n);
	struct err e = { .text = "" };
	struct events_stats st;
	int rc = events_load(ev, (uint8_t *)bytes, n, same_server, NULL, l, &e);

	free(bytes);
	must(events_check(ev) == NULL);
	events_stats(ev, &st);
	if (rc == 0) {
		must(st.records == l->records);
		return ev;
	}
	must(strlen(e.text) > 10);
	must(st.records + st.runs + st.holders == 0);
	events_free(ev);
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[BYTES_MAX + SECTION_HEAD_BYTES + SAVE_END_BYTES];
	struct events_loaded l, again;
	struct events *ev, *other;
	struct trace t = { 0 };

	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(i * 167 + 13);
	size = size < BYTES_MAX ? size : BYTES_MAX;
	events_free(load(data, size, &l));
	memcpy(bytes, data, size);
	if ((ev = load(bytes, mend(bytes, size), &l)) == NULL)
		return 0;
	must(events_save(ev, put, &t) == 0);
	other = load((uint8_t *)t.p, t.n, &again);
	must(other != NULL && again.records == l.records && again.left_out == 0);
	events_free(ev);
	events_free(other);
	free(t.p);
	return 0;
}
