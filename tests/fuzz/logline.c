/* logline - one line of HAProxy's log.
 *
 * Strings lie in the scratch buffer. A header before the object and any text after it change
 * nothing. The fields equal those that a slow reader finds. */
#include "agent/feed/logline.h"
#include "agent/feed/response_id.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/unit/prompt/ref.h"

static struct logline room[2];

static bool fact_eq(const struct fact *a, const struct fact *b)
{
	return a->kind == b->kind && span_eq(a->uid, b->uid) && span_eq(a->pool, b->pool) &&
	       span_eq(a->server, b->server) && span_eq(a->wanted, b->wanted) &&
	       a->status == b->status && a->end == b->end && a->queue_ms == b->queue_ms &&
	       a->connect_ms == b->connect_ms && a->response_ms == b->response_ms &&
	       a->total_ms == b->total_ms && a->bytes_out == b->bytes_out && a->bytes_in == b->bytes_in &&
	       a->retries == b->retries && a->redispatched == b->redispatched &&
	       a->prompt_tokens == b->prompt_tokens && a->output_tokens == b->output_tokens &&
	       a->cached_tokens == b->cached_tokens && a->error == b->error && a->lacks == b->lacks;
}

static void check_spans(const struct logline *l, const struct fact *f)
{
	must(l->n <= sizeof(l->text) && f->uid.n > 0 && f->kind == FACT_DONE);
	must(span_within(f->uid, l->text, l->n) && span_within(f->pool, l->text, l->n));
	must(span_within(f->server, l->text, l->n) && span_within(f->wanted, l->text, l->n) &&
	    span_within(f->why, l->text, l->n) && span_within(f->orca, l->text, l->n));
	must(fact_verdict(f) < VERDICT_COUNT);
	must(f->retries >= -1);
}

/* The same object between other bytes, and with white space, which recipes do not write. */
static void check_around(const char *p, size_t n, const struct fact *want)
{
	static const char before[] = "<134>Nov 12 10:00:00 lb1 haproxy[77]: ";
	static const char after[] = " 10.0.0.1 \"GET /{\" x";
	struct trace t = { 0 };
	struct fact f;

	trace_bytes(&t, before, sizeof(before) - 1);
	trace_bytes(&t, p, 1);
	trace_bytes(&t, " ", 1);
	trace_bytes(&t, p + 1, n - 1);
	trace_bytes(&t, after, sizeof(after) - 1);
	must(logline_parse(&room[1], t.p, t.n, &f) == 0);
	must(fact_eq(&f, want));
	free(t.p);
}

/* ---- the slow reader ------------------------------------------------------------------------- */

/* The last string under <key>; NULL: none. */
static const struct node *last_string(const struct node *x, const char *key)
{
	const struct node *found = NULL;

	for (size_t i = 0; i < x->n; i++)
		if (x->kid[i]->type == 's' && is(x->kid[i], key))
			found = x->kid[i];
	return found;
}

static bool slow_is(const struct node *x, const char *key, struct span s)
{
	const struct node *found = last_string(x, key);

	return found ? span_eq(s, span_of(found->text.p, found->text.n)) : s.n == 0;
}

static void check_slow(const char *p, size_t n, int rc, const struct fact *f)
{
	struct ref r = { (const unsigned char *)p, (const unsigned char *)p + n, NULL, 8 };
	const struct node *uid;
	struct log events = { 0 };
	struct node *x;

	if (n * 3 > LOGLINE_MAX || !ref_read(p, n, 8, &events)) {	/* bad bytes may triple */
		free(events.p);
		return;
	}
	free(events.p);
	x = tree_read(&r);
	uid = last_string(x, "uid");
	must(rc == (x->type != '{' ? -1 : uid != NULL && uid->text.n > 0 ? 0 : LOGLINE_NAMELESS));
	if (rc == 0)
		must(slow_is(x, "uid", f->uid) && slow_is(x, "be", f->pool) &&
		     slow_is(x, "srv", f->server) && slow_is(x, "want", f->wanted) && slow_is(x, "why", f->why));
	tree_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *brace = size ? memchr(data, '{', size) : NULL;
	struct fact f;
	int rc = logline_parse(&room[0], (const char *)data, size, &f);
	struct span id = response_id(span_of(data, size));

	must(id.n == 0 || (span_within(id, (const char *)data, size) && id.n <= RESPONSE_ID_MAX));

	if (brace == NULL) {
		must(rc == -1);
		return 0;
	}
	if (rc == 0) {
		check_spans(&room[0], &f);
		check_around(brace, size - (size_t)(brace - (const char *)data), &f);
	}
	check_slow(brace, size - (size_t)(brace - (const char *)data), rc, &f);
	return 0;
}
