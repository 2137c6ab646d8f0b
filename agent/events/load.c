/* load.c - read a saved index. All of it is checked before anything is loaded:
 *
 *   1  sections: their lengths and checksums, the counts of the end
 *   2  runs: parents, blocks; no run may follow itself
 *   3  records: their runs, blocks and copies
 *
 * Then each run is walked from its parent's block as if its blocks were stored, so blocks that the
 * bytes have twice become one, and a record is added as for an event. Nothing that the bytes say
 * becomes an index or a length without a check. */
#include "agent/base/mem.h"
#include "agent/events/save_in.h"

struct saved_run {
	const uint8_t *p;
	uint32_t parent, first;		/* <first>: number of its first place */
	uint8_t off, len;
	uint8_t state;			/* of the search for circles, then of loading */
};

struct loader {
	struct events *ev;
	const uint8_t *p, *end;		/* <end>: payload of the last section */
	size_t n;
	struct saved_run *runs;		/* [n_runs + 1], from 1 */
	uint32_t *path;			/* runs from one to its root */
	struct place *places;		/* of each block; of a root, its own */
	uint32_t n_runs, n_places, max_runs, max_places;
	uint64_t n_blocks, n_records;
	events_server *server;
	void *arg;
	struct events_loaded st;
};

enum { RUN_NEW, RUN_ON_PATH, RUN_CHECKED, RUN_LOADED };

/* ---- 1: sections ---- */

static int check_header(const struct loader *l, struct err *e)
{
	const uint8_t *p = l->p;

	if (l->n < SAVE_HEADER_BYTES || memcmp(p, SAVE_MAGIC, 8) != 0)
		return err_set(e, "these are no saved events, or their beginning is missing");
	if (get32(p + 8) != EVENTS_SAVE_VERSION)
		return err_set(e, "saved events of version %u, not %u", get32(p + 8), EVENTS_SAVE_VERSION);
	if (get64(p + 24) != checksum(p, SAVE_HEADER_BYTES - 8))
		return err_set(e, "the checksum of their header is wrong");
	if (get64(p + 16) != hash_key_id(&l->ev->key))
		return err_set(e, "they were saved under another key");
	return 0;
}

static int check_end(struct loader *l, const uint8_t *head, uint64_t total, struct err *e)
{
	const uint8_t *p = head + SECTION_HEAD_BYTES;

	if (get32(head + 4) != SAVE_END_BYTES || get64(p + 24) != total)
		return err_set(e, "the checksum over all sections is wrong");
	if (p + SAVE_END_BYTES != l->p + l->n)
		return err_set(e, "there are bytes after their end");
	l->end = p;
	return 0;
}

static int check_sections(struct loader *l, struct err *e)
{
	uint64_t total = get64(l->p + SAVE_HEADER_BYTES - 8);
	size_t pos = SAVE_HEADER_BYTES, n;
	const uint8_t *head;

	for (;; pos += SECTION_HEAD_BYTES + n) {
		if (l->n - pos < SECTION_HEAD_BYTES)
			return err_set(e, "they are cut short, after %zu bytes", l->n);
		head = l->p + pos;
		n = get32(head + 4);
		if (n > l->n - pos - SECTION_HEAD_BYTES)
			return err_set(e, "they are cut short, after %zu bytes", l->n);
		if (get64(head + 8) != checksum(head + SECTION_HEAD_BYTES, n))
			return err_set(e, "a checksum is wrong, after byte %zu", pos);
		if (get32(head) == SAVE_END)
			return check_end(l, head, total, e);
		total = section_total(total, head);
	}
}

/* Call <each> for the payload of every section before the end. */
static int for_sections(
    struct loader *l, int (*each)(struct loader *, uint32_t, const uint8_t *, size_t, struct err *),
    struct err *e)
{
	const uint8_t *p = l->p + SAVE_HEADER_BYTES;
	int rc = 0;

	for (; rc == 0 && p + SECTION_HEAD_BYTES < l->end; p += SECTION_HEAD_BYTES + get32(p + 4))
		rc = each(l, get32(p), p + SECTION_HEAD_BYTES, get32(p + 4), e);
	return rc;
}

/* Allocate arrays as large as the end says, if the bytes can hold so many. */
static int take_arrays(struct loader *l, struct err *e)
{
	uint64_t runs = get64(l->end), blocks = get64(l->end + 8);

	if (runs > l->n / SAVE_RUN_BYTES || blocks > l->n / 8 || runs + blocks >= UINT32_MAX)
		return err_set(e, "their end counts more runs than their bytes can hold");
	l->max_runs = (uint32_t)runs;
	l->max_places = (uint32_t)(runs + blocks);
	l->runs = mem_calloc((size_t)l->max_runs + 1, sizeof(*l->runs));
	l->path = mem_calloc((size_t)l->max_runs + 1, sizeof(*l->path));
	l->places = mem_calloc((size_t)l->max_places + 1, sizeof(*l->places));
	if (l->runs == NULL || l->path == NULL || l->places == NULL)
		return err_set(e, "not enough memory to load them");
	return 0;
}

static int no_sense(struct err *e, const char *what)
{
	return err_set(e, "their checksums are right, but %s", what);
}

/* ---- 2: runs ---- */

static int check_run(struct loader *l, const uint8_t *p, size_t n, size_t *bytes, struct err *e)
{
	struct saved_run *r;
	uint32_t places;

	if (n < SAVE_RUN_BYTES || get16(p + 6) != 0 || p[4] >= RUN_BLOCKS || p[5] > RUN_BLOCKS ||
	    (get32(p) == 0) != (p[5] == 0) || get32(p) > l->max_runs)
		return no_sense(e, "a run is incomplete");
	places = p[5] > 0 ? p[5] : 1;
	*bytes = SAVE_RUN_BYTES + (size_t)places * 8;
	if (*bytes > n)
		return no_sense(e, "a run is incomplete");
	if (l->n_runs == l->max_runs || places > l->max_places - l->n_places)
		return no_sense(e, "they have more runs or blocks than their end counts");
	r = &l->runs[++l->n_runs];
	*r = (struct saved_run){ .p = p + SAVE_RUN_BYTES, .parent = get32(p), .first = l->n_places,
				 .off = p[4], .len = p[5] };
	l->n_places += places;
	l->n_blocks += p[5];
	return 0;
}

static int check_record(struct loader *l, const uint8_t *p, struct err *e)
{
	uint32_t run = get32(p + 8), off = WORD_OFF(get64(p));

	if (run == 0 || run > l->n_runs || off >= l->runs[run].len)
		return no_sense(e, "a record is of a block that is not there");
	if (get32(p + 12) == 0 || get32(p + 12) > 0xffff || (get64(p) & WORD_HASH) == 0 ||
	    WORD_TIERS(get64(p)) != 0)
		return no_sense(e, "a record has no copy, or too many");
	l->n_records++;
	return 0;
}

/* Runs come before records. */
static int check_section(struct loader *l, uint32_t kind, const uint8_t *p, size_t n, struct err *e)
{
	size_t bytes = 0;

	if (kind == SAVE_RUNS && l->n_records == 0) {
		for (; n > 0; p += bytes, n -= bytes)
			if (check_run(l, p, n, &bytes, e) != 0)
				return -1;
		return 0;
	}
	if (kind != SAVE_RECORDS || n < SAVE_HOLDER_BYTES ||
	    (n - SAVE_HOLDER_BYTES) % SAVE_RECORD_BYTES != 0 || get32(p + 4) == 0)
		return no_sense(e, "a section is of an unknown kind or incomplete");
	if (get16(p) >= SERVERS_MAX)
		return no_sense(e, "the number of a server is out of range");
	for (p += SAVE_HOLDER_BYTES, n -= SAVE_HOLDER_BYTES; n > 0;
	     p += SAVE_RECORD_BYTES, n -= SAVE_RECORD_BYTES)
		if (check_record(l, p, e) != 0)
			return -1;
	return 0;
}

/* Check that run <i> ends at a root, and mark all runs on the way. */
static int check_path(struct loader *l, uint32_t i, struct err *e)
{
	const struct saved_run *up;
	uint32_t n = 0;

	for (; l->runs[i].state == RUN_NEW; i = l->runs[i].parent) {
		l->runs[i].state = RUN_ON_PATH;
		l->path[n++] = i;
		if (l->runs[i].parent == 0)
			break;
		if (l->runs[i].parent > l->n_runs)
			return no_sense(e, "a run has no parent");
		up = &l->runs[l->runs[i].parent];
		if (up->state == RUN_ON_PATH)
			return no_sense(e, "a run follows itself");
		if (up->len > 0 ? l->runs[i].off >= up->len : l->runs[i].off > 0)
			return no_sense(e, "a run follows a block that is not there");
	}
	while (n > 0)
		l->runs[l->path[--n]].state = RUN_CHECKED;
	return 0;
}

static int check_all(struct loader *l, struct err *e)
{
	uint32_t i;

	if (check_header(l, e) != 0 || check_sections(l, e) != 0 || take_arrays(l, e) != 0 ||
	    for_sections(l, check_section, e) != 0)
		return -1;
	if (l->n_runs != l->max_runs || l->n_blocks != get64(l->end + 8) ||
	    l->n_records != get64(l->end + 16))
		return no_sense(e, "their end counts other numbers of runs or records");
	for (i = 1; i <= l->n_runs; i++)
		if (check_path(l, i, e) != 0)
			return -1;
	return 0;
}

/* ---- loading ---- */

static struct place place_of(const struct loader *l, uint32_t run, uint32_t off)
{
	return l->places[l->runs[run].first + off];
}

/* Make the blocks of a run whose parent is loaded. Those without room stay without a place. */
static void load_run(struct loader *l, uint32_t i)
{
	struct saved_run *r = &l->runs[i];
	struct place at = { 0 };
	uint32_t k;

	r->state = RUN_LOADED;
	if (r->len == 0) {
		at.run = root_find(l->ev, get64(r->p), true);
		l->places[r->first] = at;
		return;
	}
	at = place_of(l, r->parent, l->runs[r->parent].len > 0 ? r->off : 0);
	for (k = 0; k < r->len && at.run != 0; k++) {
		if (!run_step(l->ev, &at, get64(r->p + 8 * (size_t)k), true))
			return;
		l->places[r->first + k] = at;
	}
}

static void load_runs(struct loader *l)
{
	uint32_t i, k, n;

	for (i = 1; i <= l->n_runs; i++) {
		for (n = 0, k = i; k != 0 && l->runs[k].state != RUN_LOADED; k = l->runs[k].parent)
			l->path[n++] = k;
		while (n > 0)
			load_run(l, l->path[--n]);
	}
}

static int load_records(struct loader *l, uint32_t kind, const uint8_t *p, size_t n, struct err *e)
{
	uint64_t records = (n - SAVE_HOLDER_BYTES) / SAVE_RECORD_BYTES, i, word;
	struct pen pen = { 0 };
	struct place at;
	int server;

	if (kind != SAVE_RECORDS)
		return 0;
	server = l->server(l->arg, get16(p));
	if (server < 0 || server >= SERVERS_MAX) {
		l->st.skipped += records;
		return 0;
	}
	pen.holder = holder_get(l->ev, (server_id)server, get16(p + 2));
	if (pen.holder == NO_HOLDER || !holder_size(l->ev, pen.holder, get32(p + 4))) {
		l->st.left_out += records;
		return 0;
	}
	for (p += SAVE_HOLDER_BYTES, i = 0; i < records; i++, p += SAVE_RECORD_BYTES) {
		word = get64(p) & WORD_HASH;
		at = place_of(l, get32(p + 8), WORD_OFF(get64(p)));
		if (at.run == 0 || handles_find(l->ev, &l->ev->holders[pen.holder].map, word).line != NULL ||
		    !record_add(l->ev, &pen, word, at, get32(p + 12)))
			l->st.left_out++;
		else
			l->st.records++;
		pen.shrunk = false;	/* nothing is freed while places are in use */
	}
	pen_close(l->ev, &pen);
	return 0;
}

/* Free the runs that got no record. A place may refer to a run that is freed already, together with
 * its last child: such a run has no parent, and a freed root has no kind. */
static void trim_all(struct loader *l)
{
	uint32_t i;

	for (i = 0; i < l->n_places; i++) {
		const line_ref ref = l->places[i].run;

		if (ref != 0 && (OWN(&run_at(l->ev, ref)->parent) != 0 || run_is_root(run_at(l->ev, ref))))
			run_trim(l->ev, ref);
	}
}

int events_load(struct events *ev, const uint8_t *bytes, size_t n, events_server *server, void *arg,
    struct events_loaded *st, struct err *e)
{
	uint64_t holders = OWN(&ev->st.holders);
	struct loader l = { .ev = ev, .p = bytes, .n = n, .server = server, .arg = arg };
	int rc = check_all(&l, e);

	if (rc == 0) {
		ev->stamp++;
		load_runs(&l);
		for_sections(&l, load_records, e);
		trim_all(&l);
		l.st.holders = OWN(&ev->st.holders) - holders;
		*st = l.st;
	}
	mem_free(l.runs);
	mem_free(l.path);
	mem_free(l.places);
	return rc;
}
