/* json - compare the push scanner with the slow reader of the unit tests.
 *
 * Input: a seed of two bytes for the cuts, then a text. Every variant of the inner loop, for the
 * text as a whole, by single bytes and in pieces, gives the same events and ends in the same state
 * at the same place. A text is accepted if and only if the slow reader accepts it, with the same
 * events (except for a number at the very end, which may continue). A value taken as text is the
 * compact JSON that the slow reader writes, with or without some members. */
#include "tests/fuzz/lib/fuzz.h"
#include "tests/unit/prompt/ref.h"

#define DEPTH	16

static void feed(struct json *j, const char *p, size_t n, uint32_t seed)
{
	struct cutter c;
	size_t at, k;

	cutter_init(&c, seed);
	for (at = 0; at < n; at += k) {
		char *piece;

		k = seed ? cutter_next(&c, n - at) : n;
		piece = exact(p + at, k);
		json_feed(j, piece, k);
		free(piece);
	}
}

static void record(
    struct recorder *r, const struct json_scan *scan, const char *p, size_t n, uint32_t seed)
{
	record_start(r, DEPTH, scan);
	feed(&r->j, p, n, seed);
}

static void check_form(const struct recorder *want, const struct json_scan *scan, const char *p,
		       size_t n, uint32_t seed)
{
	struct recorder r = { 0 };

	record(&r, scan, p, n, seed);
	must(r.j.state == want->j.state && r.j.depth == want->j.depth);
	/* a bad number is bad where it ends or where it begins, by how it came */
	must(r.j.offset == want->j.offset || (r.j.state == JSON_BAD && r.j.offset <= n));
	must(r.log.n == want->log.n && memcmp(r.log.p, want->log.p, r.log.n) == 0);
	record_free(&r);
}

/* ---- as text --------------------------------------------------------------------------------- */

struct as_text {
	struct json j;
	struct log log;
	uint16_t levels;
	bool asked;
};

static void text_event(void *arg, const struct json *j, enum json_event ev, struct span t)
{
	struct as_text *x = arg;

	if (ev == JSON_TEXT) {
		must(t.n > 0);
		log_bytes(&x->log, t.p, t.n);
	} else if (!x->asked && (ev == JSON_OBJECT || ev == JSON_ARRAY)) {
		x->asked = true;
		json_as_text(&x->j, x->levels, "id");
	} else {
		must(j->depth == 0);	/* inside there is text only */
	}
}

static enum json_state take_text(struct as_text *x, const struct json_scan *scan, const char *p,
				 size_t n, uint32_t seed, uint16_t levels)
{
	memset(x, 0, sizeof(*x));
	log_bytes(&x->log, "", 0);
	x->levels = levels;
	json_init(&x->j, DEPTH, text_event, x);
	x->j.scan = scan;
	feed(&x->j, p, n, seed);
	return (enum json_state)x->j.state;
}

static void check_text(const char *p, size_t n, uint32_t seed, const struct json_scan *scan)
{
	struct ref r = { (const unsigned char *)p, (const unsigned char *)p + n, NULL, DEPTH };
	uint16_t levels = seed % 4;
	struct log want = { 0 };
	struct as_text x;
	struct node *tree;

	must(take_text(&x, scan, p, n, seed, levels) == JSON_DONE);
	ref_eat(&r, "\xef\xbb\xbf");
	tree = tree_read(&r);
	log_bytes(&want, "", 0);
	if (tree->type == '{' || tree->type == '[')
		ref_canon(&want, tree, "id", levels);
	must(want.n == x.log.n && memcmp(want.p, x.log.p, want.n) == 0);
	tree_free(tree);
	free(want.p);
	free(x.log.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct json_scan *best = json_scan_best();
	const char *p = (const char *)data + 2;
	struct recorder r = { 0 };
	struct log want = { 0 };
	uint32_t seed;
	bool good;

	if (size < 2)
		return 0;
	seed = (uint32_t)data[0] << 8 | data[1];
	size -= 2;
	record(&r, &json_scan_plain, p, size, 0);
	good = ref_read(p, size, DEPTH, &want);
	if (r.j.state == JSON_DONE) {
		must(good && r.log.n == want.n && memcmp(r.log.p, want.p, want.n) == 0);
		check_text(p, size, seed, &json_scan_plain);
		check_text(p, size, seed + 1, best);
	} else if (good) {	/* a number at the very end may go on */
		must(r.j.state == JSON_MORE && r.j.depth == 0 && want.n > 1 && want.p[1] == 'n');
	}
	check_form(&r, &json_scan_plain, p, size, 8 + (seed & ~7u));	/* by the byte */
	check_form(&r, &json_scan_plain, p, size, seed);
#ifdef __x86_64__
	check_form(&r, &json_scan_sse2, p, size, 0);
	check_form(&r, &json_scan_sse2, p, size, seed);
#endif
	check_form(&r, best, p, size, 0);
	check_form(&r, best, p, size, seed);
	record_free(&r);
	free(want.p);
	return 0;
}
