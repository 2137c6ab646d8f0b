/* snapshot - the index as bytes: as they are, and with correct checksums and counts, so that the
 * contents are read, too. After an accepted snapshot the index passes its own check; written and
 * read again, each server holds as much. */
#include "agent/index/snapshot_in.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/lib/index/index_test.h"

#define BYTES_MAX	65536u

static const struct snapshot_of of = {
	.key_id = 1, .text_page = 64, .token_page = 16, .tenants = 1
};

struct counts {
	uint64_t spaces, nodes, records, pages;
};

/* Entries as far as they can be told apart; what is beyond is for the loader to refuse. All
 * pages get the room <room>: where it differs, what is read again counts as its end does. */
static void count_tree(uint8_t *p, size_t n, uint32_t room, struct counts *c)
{
	size_t bytes;

	for (; n >= NODE_BYTES; p += bytes, n -= bytes) {
		uint32_t pages = get16(p + 2);

		if (p[0] == ENTRY_SPACE) {
			c->spaces++;
			bytes = SPACE_BYTES;
		} else {
			put32(p + 12, room);
			c->nodes++;
			c->pages += pages;
			c->records += get16(p + 10);
			bytes = NODE_BYTES + (size_t)pages * 8 + get16(p + 10) * (size_t)OWNER_BYTES;
		}
		if (bytes > n)
			return;
	}
}

/* Its header, checksums and end; returns how long it is. */
static size_t mend(uint8_t *p, size_t n)
{
	struct counts c = { 0 };
	size_t pos = HEADER_BYTES, bytes;
	uint32_t room;
	uint64_t total;

	if (n < HEADER_BYTES)
		return n;
	room = 1 + get32(p + 20) % 300;		/* unused bytes of the header */
	memcpy(p, SNAPSHOT_MAGIC, 8);
	put32(p + 8, SNAPSHOT_VERSION);
	put32(p + 12, of.text_page);
	put32(p + 16, of.token_page);
	put64(p + 24, of.key_id);
	total = checksum(p, HEADER_BYTES - 8);
	put64(p + HEADER_BYTES - 8, total);
	for (; n - pos >= SECTION_HEAD_BYTES && get32(p + pos) != SECTION_END;
	     pos += SECTION_HEAD_BYTES + bytes) {
		bytes = get32(p + pos + 4) % 4096;
		bytes = bytes < n - pos - SECTION_HEAD_BYTES ? bytes : n - pos - SECTION_HEAD_BYTES;
		if (get32(p + pos) == SECTION_TREE)
			count_tree(p + pos + SECTION_HEAD_BYTES, bytes, room, &c);
		put32(p + pos + 4, (uint32_t)bytes);
		put64(p + pos + 8, checksum(p + pos + SECTION_HEAD_BYTES, bytes));
		total = section_total(total, p + pos);
	}
	put32(p + pos, SECTION_END);
	put32(p + pos + 4, END_BYTES);
	put64(p + pos + 16, c.spaces);
	put64(p + pos + 24, c.nodes);
	put64(p + pos + 32, c.records);
	put64(p + pos + 40, c.pages);
	put64(p + pos + 48, total);
	put64(p + pos + 8, checksum(p + pos + SECTION_HEAD_BYTES, END_BYTES));
	return pos + SECTION_HEAD_BYTES + END_BYTES;
}

static int by_name(void *arg, struct span name)
{
	must(name.n > 0 && name.n <= SNAPSHOT_NAME_MAX);
	return name.p[0] == '?' ? -1 : (uint8_t)name.p[0];
}

static int put(void *arg, const void *p, size_t n)
{
	trace_bytes(arg, p, n);
	return 0;
}

static struct index *load(const uint8_t *p, size_t n, struct snapshot_stats *st)
{
	struct index_opts o = { .max_bytes = 1 << 20, .max_pages = 5000, .shards = 4, .max_spaces = 100 };
	struct index *ix = must_alloc(index_new(&o));
	char *bytes = exact(p, n);
	struct err e = { .text = "" };
	int rc = snapshot_load(ix, &of, (uint8_t *)bytes, n, by_name, NULL, 0, st, &e);

	free(bytes);
	must(index_check(ix) == NULL);
	if (rc == 0)
		return ix;
	must(strlen(e.text) > 10);
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		must(index_server_room(ix, (server_id)i) == 0);
	index_free(ix);
	return NULL;
}

static void again(struct index *ix)
{
	struct snapshot_writer *w;
	struct snapshot_stats st;
	struct trace t = { 0 };
	struct index *other;

	w = must_alloc(snapshot_writer_new(ix, &of, 0, put, &t));
	for (unsigned i = 0; i < 256; i++)
		snapshot_writer_name(w, (server_id)i, span_of(&(char){ (char)i }, i != '?'));
	while (snapshot_write(w, 2) == 0)
		;
	must(snapshot_write(w, 1) == 1);
	snapshot_writer_free(w);
	other = load((uint8_t *)t.p, t.n, &st);
	must(other != NULL);
	if (st.left_out == 0)
		for (unsigned i = 0; i < SERVERS_MAX; i++)
			must(index_server_room(other, (server_id)i) == index_server_room(ix, (server_id)i));
	index_free(other);
	free(t.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[BYTES_MAX + SECTION_HEAD_BYTES + END_BYTES];
	struct snapshot_stats st;
	struct index *ix;

	size = size < BYTES_MAX ? size : BYTES_MAX;
	index_free(load(data, size, &st));
	memcpy(bytes, data, size);
	if ((ix = load(bytes, mend(bytes, size), &st)) != NULL) {
		must(st.held + st.left_out <= st.records);
		again(ix);
		index_free(ix);
	}
	return 0;
}
