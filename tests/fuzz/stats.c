/* stats - an answer of HAProxy's stats socket.
 *
 * Rows, end and error text do not depend on how the answer is cut. A cut answer gives a part of the
 * rows and no end. Every row is within its limits. A slow reader of the whole table finds the same.
 * The addresses, and the whole input as one, are plain if they may be told to a sidecar. */
#include <arpa/inet.h>

#include "agent/feed/hastats.h"
#include "agent/feed/host_port.h"
#include "tests/fuzz/lib/fuzz.h"

static const char *const columns[HASTATS_WANTED] = { "pxname", "svname", "qcur", "scur", "status",
	"weight", "type", "bck", "addr" };

struct run {
	struct hastats *h;
	struct trace said;
};

static void say_row(struct trace *t, struct span pool, struct span server, int state,
    unsigned weight, unsigned sessions, unsigned queue, bool backup, struct span address)
{
	trace_bytes(t, pool.p, pool.n);
	trace_say(t, "/");
	trace_bytes(t, server.p, server.n);
	trace_say(t, " %d w%u s%u q%u%s @", state, weight, sessions, queue, backup ? " backup" : "");
	trace_bytes(t, address.p, address.n);
	trace_say(t, "\n");
}

/* An address that is told to a sidecar is the system's spelling of a host, and a port. */
static void must_be_plain(struct span address)
{
	char text[HOST_PORT_MAX + 1], again[INET6_ADDRSTRLEN], *colon;
	uint8_t host[16];
	bool six;

	if (!host_port_is(address))
		return;
	must(address.n <= HOST_PORT_MAX);
	memcpy(text, address.p, address.n);
	text[address.n] = '\0';
	must(strspn(text, "0123456789abcdefABCDEF.:[]") == address.n);
	colon = strrchr(text, ':');
	six = text[0] == '[';
	must(atoi(colon + 1) > 0 && atoi(colon + 1) < 65536 && colon[1] != '0');
	colon[six ? -1 : 0] = '\0';
	must(inet_pton(six ? AF_INET6 : AF_INET, text + six, host) == 1);
	must(inet_ntop(six ? AF_INET6 : AF_INET, host, again, sizeof(again)) != NULL);
}

static void on_row(void *arg, const struct hastats_row *r)
{
	struct run *run = arg;

	must(r->pool.n > 0 && r->pool.n <= HASTATS_FIELD_MAX && r->server.n > 0 &&
	    r->server.n <= HASTATS_FIELD_MAX);
	must(span_within(r->pool, run->h, sizeof(*run->h)) &&
	    span_within(r->server, run->h, sizeof(*run->h)));
	must(r->address.n <= HASTATS_FIELD_MAX &&
	    (r->address.n == 0 || span_within(r->address, run->h, sizeof(*run->h))));
	must_be_plain(r->address);
	must(r->state <= HASTATS_MAINT);
	must(r->weight <= INT32_MAX && r->sessions <= INT32_MAX && r->queue <= INT32_MAX);
	say_row(&run->said, r->pool, r->server, (int)r->state, r->weight, r->sessions, r->queue,
	    r->backup, r->address);
}

static void say_end(
    struct trace *t, long rc, uint64_t rows, uint64_t bad, const char *missing, const char *said)
{
	trace_say(t, "rc %ld rows %llu bad %llu missing %s said %s\n", rc, (unsigned long long)rows,
		  (unsigned long long)bad, missing ? missing : "-", said);
}

/* Return the result for the <n> bytes, given in pieces; <seed> 256: in one piece. free(p). */
static struct trace read_in(const char *p, size_t n, unsigned seed, ssize_t *rc)
{
	struct run run = { must_alloc(malloc(sizeof(*run.h))), { 0 } };
	struct cutter c;
	size_t used = 0, k;

	cutter_init(&c, seed);
	hastats_init(run.h, on_row, &run);
	*rc = hastats_feed(run.h, NULL, 0);
	while (*rc == 0 && used < n) {
		k = seed == 256 ? n : cutter_next(&c, n - used);
		char *piece = exact(p + used, k);

		*rc = hastats_feed(run.h, piece, k);
		free(piece);
		must(*rc <= (ssize_t)k);
		used += *rc > 0 ? (size_t)*rc : k;
	}
	must(run.h->line_bytes <= HASTATS_LINE_MAX + 1 && run.h->answer_bytes <= used);
	if (*rc < 0)
		must(hastats_feed(run.h, "x", 1) == *rc && hastats_strerror((int)*rc)[0] != '\0');
	else if (*rc > 0)
		*rc = (ssize_t)used;
	must(strlen(run.h->said) <= HASTATS_FIELD_MAX);
	must((*rc == -HASTATS_E_COLUMN) == (run.h->missing != NULL));
	say_end(&run.said, *rc, run.h->rows, run.h->bad_rows, run.h->missing, run.h->said);
	free(run.h);
	return run.said;
}

/* ---- the slow reader ------------------------------------------------------------------------- */

/* Later fields share the last place, which is not compared. */
#define FIELDS_MOST	(HASTATS_COLUMNS_MAX + 1)

struct table {
	const char *p;
	size_t n, at;
	struct trace field[FIELDS_MOST];
	size_t n_fields;
};

/* From the first byte of a field to its comma or line end, unquoted; false: the input ends before.
 */
static bool slow_field(struct table *t, struct trace *f)
{
	size_t i = t->at, end;

	f->n = 0;
	trace_bytes(f, "", 0);
	if (i < t->n && t->p[i] == '"') {
		for (i++; i < t->n; i++) {
			if (t->p[i] == '"' && i + 1 < t->n && t->p[i + 1] != '"')
				break;
			if (t->p[i] == '"')
				i++;
			if (i < t->n)
				trace_bytes(f, t->p + i, 1);
		}
		i++;
	}
	for (end = i; end < t->n && t->p[end] != ',' && t->p[end] != '\n'; end++)
		;
	if (end >= t->n)
		return false;
	trace_bytes(f, t->p + i, end - i);
	t->at = end;
	return true;
}

/* All fields of a line; false: its end is not here. */
static bool slow_line(struct table *t)
{
	size_t k;

	for (k = 0; k < FIELDS_MOST; k++)
		t->field[k].n = 0;
	for (t->n_fields = 0;; t->n_fields++) {
		k = t->n_fields < FIELDS_MOST ? t->n_fields : FIELDS_MOST - 1;
		if (!slow_field(t, &t->field[k]))
			return false;
		if (t->p[t->at++] == '\n')
			return ++t->n_fields;
	}
}

static bool slow_is(const struct trace *f, const char *word)
{
	return f->n == strlen(word) && memcmp(f->p, word, f->n) == 0;
}

static bool slow_name(const struct trace *f)
{
	return f->n > 0 && f->n <= HASTATS_FIELD_MAX &&
	       strspn(f->p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") == f->n;
}

static bool slow_number(const struct trace *f, unsigned *v)
{
	if (f->n == 0 || f->n > 10 || strspn(f->p, "0123456789") != f->n ||
	    strtoull(f->p, NULL, 10) > INT32_MAX)
		return false;
	*v = (unsigned)strtoull(f->p, NULL, 10);
	return true;
}

static int slow_state(const struct trace *f)
{
	static const char *const words[] = { "UP", "DOWN", "DRAIN", "MAINT", "no", "NOLB" };
	static const int states[] = { HASTATS_UP, HASTATS_DOWN, HASTATS_DRAIN, HASTATS_MAINT,
		HASTATS_UP, HASTATS_DRAIN };
	size_t n = f->n > 0 && memchr(f->p, ' ', f->n)
	    ? (size_t)((char *)memchr(f->p, ' ', f->n) - f->p)
	    : f->n;

	for (size_t i = 0; f->n <= HASTATS_FIELD_MAX && i < sizeof(words) / sizeof(words[0]); i++)
		if (n == strlen(words[i]) && memcmp(f->p, words[i], n) == 0)
			return states[i];
	return -1;
}

static void slow_row(struct trace *said, struct trace *const *f, uint64_t *rows, uint64_t *bad)
{
	const struct trace *a = f[HASTATS_ADDRESS];
	unsigned weight, sessions, queue;
	int state = slow_state(f[HASTATS_STATUS]);

	if (slow_is(f[HASTATS_TYPE], "0") || slow_is(f[HASTATS_TYPE], "1") ||
	    slow_is(f[HASTATS_TYPE], "3"))
		return;
	if (!slow_is(f[HASTATS_TYPE], "2") || !slow_name(f[HASTATS_POOL]) ||
	    !slow_name(f[HASTATS_SERVER]) || state < 0 ||
	    !slow_number(f[HASTATS_WEIGHT], &weight) ||
	    !slow_number(f[HASTATS_SESSIONS], &sessions) ||
	    !slow_number(f[HASTATS_QUEUE], &queue)) {
		++*bad;
		return;
	}
	++*rows;
	say_row(said, span_of(f[HASTATS_POOL]->p, f[HASTATS_POOL]->n),
	    span_of(f[HASTATS_SERVER]->p, f[HASTATS_SERVER]->n), state, weight, sessions, queue,
	    slow_is(f[HASTATS_BACKUP], "1"),
	    a->n > HASTATS_FIELD_MAX ? SPAN("") : span_of(a->p, a->n));
}

/* The first line, if it is no table's; -HASTATS_E_FOREIGN once it is known in full. */
static long slow_foreign(const char *p, size_t n, char *text)
{
	size_t k;

	for (k = 0; k < n && p[k] != '\n' && k < HASTATS_FIELD_MAX; k++)
		text[k] = p[k] >= ' ' && p[k] <= '~' ? p[k] : '?';
	text[k < n ? k : 0] = '\0';
	return k < n ? -HASTATS_E_FOREIGN : 0;
}

/* -1 in <where>: there is no such column. */
static const char *slow_columns(struct table *t, int *where)
{
	for (int w = HASTATS_WANTED - 1; w >= 0; w--) {
		where[w] = -1;
		for (int k = 0; where[w] < 0 && k < (int)t->n_fields && k < HASTATS_COLUMNS_MAX; k++)
			if (slow_is(&t->field[k], columns[w]))
				where[w] = k;
	}
	for (int w = 0; w < HASTATS_BACKUP; w++)
		if (where[w] < 0)
			return columns[w];
	return NULL;
}

static struct trace slow_read(const char *p, size_t n)
{
	struct table *t = must_alloc(calloc(1, sizeof(*t)));
	struct trace said = { 0 }, *f[HASTATS_WANTED], none = { 0 };
	char text[HASTATS_FIELD_MAX + 1] = "";
	uint64_t rows = 0, bad = 0;
	int where[HASTATS_WANTED];
	const char *missing = NULL;
	long rc = 0;

	t->p = p;
	t->n = n;
	t->at = 2;
	if (memcmp(p, "# ", n < 2 ? n : 2) != 0) {
		rc = slow_foreign(p, n, text);
	} else if (n > 2 && slow_line(t)) {
		missing = slow_columns(t, where);
		rc = missing ? -HASTATS_E_COLUMN : 0;
		while (rc == 0 && t->at < n) {
			if (p[t->at] == '\n') {
				rc = (long)t->at + 1;
				break;
			}
			if (!slow_line(t))
				break;
			for (int w = 0; w < HASTATS_WANTED; w++)
				f[w] = where[w] < 0 ? &none : &t->field[where[w]];
			slow_row(&said, f, &rows, &bad);
		}
	}
	say_end(&said, rc, rows, bad, missing, text);
	for (size_t k = 0; k < FIELDS_MOST; k++)
		free(t->field[k].p);
	free(t);
	return said;
}

/* Without the last line, which tells the end. */
static size_t rows_only(const struct trace *t)
{
	size_t n = t->n - 1;

	while (n > 0 && t->p[n - 1] != '\n')
		n--;
	return n;
}

/* The first byte selects the cuts. If the second is 255, the last byte is repeated until a line is
 * too long. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace text = { 0 }, whole, other;
	ssize_t rc, rc_other;
	size_t part;

	char *address = exact((const char *)data, size);

	must_be_plain(span_of(address, size));
	free(address);
	if (size < 3)
		return 0;
	trace_bytes(&text, data + 2, size - 2);
	while (data[1] == 255 && text.n <= HASTATS_LINE_MAX + size)
		trace_bytes(&text, data + size - 1, 1);
	whole = read_in(text.p, text.n, 256, &rc);
	for (unsigned k = 0; k < 3; k++) {
		other = read_in(text.p, text.n, k == 0 ? 0 : data[0] + k, &rc_other);
		must(trace_eq(&whole, &other));
		free(other.p);
	}
	if (text.n < HASTATS_LINE_MAX) {
		other = slow_read(text.p, text.n);
		must(trace_eq(&whole, &other));
		free(other.p);
	}
	part = text.n * data[0] / 256;
	other = read_in(text.p, part, 256, &rc_other);
	must(rc_other == rc || (rc_other == 0 && rows_only(&other) <= rows_only(&whole)));
	must(memcmp(other.p, whole.p, rows_only(&other)) == 0);
	free(other.p);
	free(whole.p);
	free(text.p);
	return 0;
}
