/* save.c - write an index as bytes: first all runs, then the records of each holder.
 *
 * Runs are found through the chunks they are in, so no list of them is needed. Their number is that
 * of the runs before them there. */
#include "agent/base/mem.h"
#include "agent/events/save_in.h"

struct saver {
	const struct events *ev;
	events_put *put;
	void *arg;
	uint32_t *before;	/* [chunk]: runs in the chunks before it */
	uint32_t kind;
	size_t n;		/* bytes of the section */
	uint64_t total, runs, blocks, records;
	bool failed;
	uint8_t head[SECTION_HEAD_BYTES], section[SAVE_SECTION_MAX];
};

static void put_bytes(struct saver *s, const void *p, size_t n)
{
	s->failed = s->failed || s->put(s->arg, p, n) != 0;
}

static void end_section(struct saver *s)
{
	if (s->n == 0)
		return;
	section_put_head(s->head, s->kind, s->section, s->n);
	put_bytes(s, s->head, SECTION_HEAD_BYTES);
	put_bytes(s, s->section, s->n);
	s->total = section_total(s->total, s->head);
	s->n = 0;
}

/* Return room for <n> bytes in a section of <kind>. */
static uint8_t *more_bytes(struct saver *s, uint32_t kind, size_t n)
{
	if (s->kind != kind || s->n + n > SAVE_SECTION_MAX)
		end_section(s);
	s->kind = kind;
	s->n += n;
	return s->section + s->n - n;
}

static void save_header(struct saver *s)
{
	uint8_t h[SAVE_HEADER_BYTES] = { 0 };

	memcpy(h, SAVE_MAGIC, 8);
	put32(h + 8, EVENTS_SAVE_VERSION);
	put64(h + 16, hash_key_id(&s->ev->key));
	s->total = checksum(h, SAVE_HEADER_BYTES - 8);
	put64(h + SAVE_HEADER_BYTES - 8, s->total);
	put_bytes(s, h, sizeof(h));
}

static bool is_used(const struct chunk *c, uint32_t i)
{
	return c->class == CLASS_RUN && (c->free >> i & 1) == 0;
}

static uint32_t number_of(const struct saver *s, line_ref ref)
{
	uint32_t c = ref / CHUNK_LINES - 1, i = ref % CHUNK_LINES;
	uint64_t used = ~s->ev->slab.chunks[c].free;

	return s->before[c] + (uint32_t)__builtin_popcountll(used & (bit_of(i) - 1)) + 1;
}

static void save_run(struct saver *s, const struct run *r)
{
	uint32_t len = shape_len(OWN(&r->shape)), i;
	bool root = run_is_root(r);
	uint8_t *p = more_bytes(s, SAVE_RUNS, SAVE_RUN_BYTES + 8 * (root ? 1 : len));

	put32(p, root ? 0 : number_of(s, OWN(&r->parent)));
	p[4] = (uint8_t)(root ? 0 : shape_off(OWN(&r->shape)));
	p[5] = (uint8_t)(root ? 0 : len);
	put16(p + 6, 0);
	if (root)
		put64(p + 8, OWN(&r->member.mask));
	for (i = 0; !root && i < len; i++)
		put64(p + 8 + 8 * i, OWN(key_at(s->ev, r, i)));
	s->runs++;
	s->blocks += root ? 0 : len;
}

static void save_runs(struct saver *s)
{
	uint32_t c, i;

	for (c = 0; c < s->ev->slab.cut_chunks; c++)
		for (i = 0; i < CHUNK_LINES; i++)
			if (is_used(&s->ev->slab.chunks[c], i))
				save_run(s, run_at(s->ev, (c + 1) * CHUNK_LINES + i));
}

static void save_record(struct saver *s, uint32_t holder, struct slot slot)
{
	const struct holder *h = &s->ev->holders[holder];
	uint8_t *p;

	if (s->kind != SAVE_RECORDS || s->n == 0 || s->n + SAVE_RECORD_BYTES > SAVE_SECTION_MAX) {
		p = more_bytes(s, SAVE_RECORDS, SAVE_HOLDER_BYTES + SAVE_RECORD_BYTES);
		put16(p, h->server);
		put16(p + 2, h->rank);
		put32(p + 4, OWN(&s->ev->sizes[h->size - 1]));
		p += SAVE_HOLDER_BYTES;
	} else {
		p = more_bytes(s, SAVE_RECORDS, SAVE_RECORD_BYTES);
	}
	put64(p, OWN(&slot.line->word[slot.i]) & WORD_PLACED);
	put32(p + 8, number_of(s, slot_place(slot).run));
	put32(p + 12, record_copies(s->ev, holder, slot));
	s->records++;
}

static void save_holders(struct saver *s)
{
	const struct handles *map;
	uint32_t h, line;
	struct slot slot;

	for (h = 0; h < s->ev->max_holders; h++) {
		map = &s->ev->holders[h].map;
		for (line = 0; s->ev->holders[h].used && line < map->n_lines && !s->failed; line++) {
			slot.line = handles_line(s->ev, map, line);
			for (slot.i = 0; slot.i < LINE_SLOTS; slot.i++)
				if (OWN(&slot.line->run[slot.i]) != 0)
					save_record(s, h, slot);
		}
		end_section(s);
	}
}

static void save_end(struct saver *s)
{
	uint8_t *p;

	end_section(s);
	p = more_bytes(s, SAVE_END, SAVE_END_BYTES);
	put64(p, s->runs);
	put64(p + 8, s->blocks);
	put64(p + 16, s->records);
	put64(p + 24, s->total);
	end_section(s);
}

int events_save(const struct events *ev, events_put *put, void *arg)
{
	struct saver *s = mem_alloc(sizeof(*s));
	uint32_t c, n = 0;
	int rc;

	if (s == NULL)
		return -1;
	*s = (struct saver){ .ev = ev, .put = put, .arg = arg };
	if ((s->before = mem_calloc(ev->slab.cut_chunks + 1, sizeof(*s->before))) == NULL) {
		mem_free(s);
		return -1;
	}
	for (c = 0; c < ev->slab.cut_chunks; c++) {
		s->before[c] = n;
		if (ev->slab.chunks[c].class == CLASS_RUN)
			n += (uint32_t)__builtin_popcountll(~ev->slab.chunks[c].free);
	}
	save_header(s);
	save_runs(s);
	save_holders(s);
	save_end(s);
	rc = s->failed ? -1 : 0;
	mem_free(s->before);
	mem_free(s);
	return rc;
}
