/* loadstr - the argument <load>: the entries equal those of a slow reader and lie within the input;
 * written and read again they are the same. */
#include "agent/fleet/loadstr.h"
#include "tests/fuzz/lib/fuzz.h"

#define ENTRIES	256

struct reading {
	struct span process;
	struct load_entry e[ENTRIES];
	size_t n;
	uint32_t n_bad;
};

static void read_load(struct span text, struct reading *r)
{
	struct loadstr l;
	struct load_entry e;

	memset(r, 0, sizeof(*r));
	loadstr_start(&l, text);
	r->process = l.process;
	must(span_within(l.process, text.p, text.n));
	while (loadstr_next(&l, &e)) {
		must(e.name.n > 0 && span_within(e.name, text.p, text.n));
		if (r->n < ENTRIES)
			r->e[r->n++] = e;
	}
	r->n_bad = l.n_bad;
}

/* ---- the slow reader ------------------------------------------------------------------------ */

static uint32_t slow_number(const char *p, size_t n, bool *good)
{
	uint64_t v = 0;

	*good = *good && n > 0;
	for (size_t i = 0; i < n; i++) {
		*good = *good && p[i] >= '0' && p[i] <= '9';
		v = v * 10 + (uint64_t)(p[i] - '0');
		v = v > UINT32_MAX ? UINT32_MAX : v;
	}
	return (uint32_t)v;
}

/* One piece between semicolons; the count of numbers in it, 0: no entry. */
static unsigned slow_entry(struct span s, struct load_entry *e)
{
	const char *eq = memchr(s.p, '=', s.n), *p, *end = s.p + s.n, *comma;
	uint32_t v[4] = { 0, 0, 0, 1 };
	unsigned n = 0;
	bool good = true;
	char mark;

	if (eq == NULL || eq == s.p)
		return 0;
	mark = eq + 1 < end && (eq[1] == 'b' || eq[1] == 'B') ? eq[1] : '\0';
	for (p = eq + (mark ? 2 : 1); p <= end; p = comma + 1, n++) {
		comma = memchr(p, ',', (size_t)(end - p));
		if (comma == NULL)
			comma = end;
		if (n < 4)
			v[n] = slow_number(p, (size_t)(comma - p), &good);
	}
	*e = (struct load_entry){
		span_of(s.p, (size_t)(eq - s.p)),
		mark == 'b' ? BACKUP_FIRST : mark == 'B' ? BACKUP_ALL : BACKUP_NO,
		v[0] != 0, v[1], v[2], v[3]
	};
	return good && n <= 4 ? n : 0;
}

static void slow_load(struct span text, struct reading *r)
{
	const char *p = text.p, *end = p + text.n, *stop;
	unsigned width = 0, n, piece;
	struct load_entry e;

	memset(r, 0, sizeof(*r));
	for (piece = 0; p < end; p = stop + 1, piece++) {
		stop = memchr(p, ';', (size_t)(end - p));
		if (stop == NULL)
			stop = end;
		if (piece == 0 && memchr(p, '=', (size_t)(stop - p)) == NULL) {
			r->process = span_of(p, (size_t)(stop - p));
			continue;
		}
		n = slow_entry(span_of(p, (size_t)(stop - p)), &e);
		if (width == 0 && n >= 3)
			width = n;
		if (n >= 3 && n == width) {
			if (r->n < ENTRIES)
				r->e[r->n++] = e;
		} else if (stop > p) {
			r->n_bad++;
		}
	}
}

static bool entry_eq(const struct load_entry *a, const struct load_entry *b)
{
	return span_eq(a->name, b->name) && a->backup == b->backup && a->up == b->up &&
	    a->conn == b->conn && a->queue == b->queue && a->weight == b->weight;
}

static void check_same(const struct reading *a, const struct reading *b)
{
	must(a->n == b->n && span_eq(a->process, b->process));
	for (size_t i = 0; i < a->n; i++)
		must(entry_eq(&a->e[i], &b->e[i]));
}

static void write_again(const struct reading *r, struct trace *t)
{
	static const char *const marks[] = { [BACKUP_NO] = "", [BACKUP_FIRST] = "b", [BACKUP_ALL] = "B" };

	trace_bytes(t, r->process.p, r->process.n);
	trace_bytes(t, ";", 1);
	for (size_t i = 0; i < r->n; i++) {
		trace_bytes(t, r->e[i].name.p, r->e[i].name.n);
		trace_say(t, "=%s%d,%u,%u,%u;", marks[r->e[i].backup], r->e[i].up, r->e[i].conn,
		    r->e[i].queue, r->e[i].weight);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct reading a, b;
	struct span text = span_of(data, size);
	struct trace t = { 0 };

	read_load(text, &a);
	slow_load(text, &b);
	check_same(&a, &b);
	must(a.n_bad == b.n_bad);
	write_again(&a, &t);
	read_load(span_of(t.p, t.n), &b);
	check_same(&a, &b);
	must(b.n_bad == 0);
	free(t.p);
	return 0;
}
