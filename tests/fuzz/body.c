/* body - pages of a request body.
 *
 * Input: a byte for the API, one for page sizes and limits, two for the cuts, then the body (for
 * the eighth API, a path: its prefix and query must not change the API).
 *   - as a whole, by single bytes, and in pieces: the same result, or invalid JSON each time
 *   - a complete body gives the result of the slow reference of the unit tests, also for names,
 *     adapters and salts if no key is repeated
 *   - a cut body gives a part of the result of the complete one, except if keys are repeated or
 *     share one place, which removes the first value (prompt.h), or if the limit of pages was
 *     reached
 *   - with the memory of its own beginnings, and of one with another byte, the same result
 *   - memory and pages are bounded */
#include "agent/prompt/body_in.h"
#include "agent/prompt/turns.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/unit/prompt/ref.h"

static bool vec_eq(const struct page_vec *a, const struct page_vec *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n * sizeof(*a->p)) == 0);
}

static bool vec_starts(const struct page_vec *whole, const struct page_vec *start)
{
	return start->n <= whole->n &&
	       (start->n == 0 || memcmp(whole->p, start->p, start->n * sizeof(*whole->p)) == 0);
}

static bool name_eq(const struct prompt_name *a, const struct prompt_name *b)
{
	return a->seen == b->seen && a->n == b->n && memcmp(a->s, b->s, a->n + 1u) == 0;
}

static void check_same(const struct prompt *a, const struct prompt *b)
{
	must(a->json == b->json);
	if (a->json == JSON_BAD)	/* the place of the error depends on the pieces; the result is unused */
		return;
	must(a->mode == b->mode && a->found == b->found);
	must(vec_eq(&a->system, &b->system));
	must(vec_eq(&a->tools, &b->tools));
	must(vec_eq(&a->messages, &b->messages));
	must(a->n_leading == b->n_leading && a->n_units == b->n_units && a->n_bytes == b->n_bytes);
	must(a->in_media == b->in_media && a->truncated == b->truncated);
	must(a->system_seen == b->system_seen && a->tools_seen == b->tools_seen &&
	     a->prompt_seen == b->prompt_seen);
	must(name_eq(&a->model, &b->model) && name_eq(&a->lora, &b->lora) &&
	     name_eq(&a->salt, &b->salt) && name_eq(&a->user, &b->user));
	must(memcmp(a->named, b->named, sizeof(a->named)) == 0 && a->previous == b->previous);
}

static void check_bounds(const struct body *b, const struct prompt_opts *o)
{
	const struct prompt *p = body_prompt(b);

	must(p->system.n + p->tools.n + p->messages.n <= o->max_pages);
	must(p->n_leading <= p->messages.n);
	must(p->model.n <= PROMPT_NAME_MAX && p->model.s[p->model.n] == '\0');
	/* a medium counts as a page: {"data":0}, */
	must(p->n_units <= (4 + o->text_page / 10) * p->n_bytes + 64);
	must(body_bytes(b) < 64 * 1024 + 64 * (size_t)o->max_pages);
}

static void check_prefix(const struct prompt *cut, const struct prompt *whole)
{
	must(vec_starts(&whole->system, &cut->system));
	must(vec_starts(&whole->tools, &cut->tools));
	must(vec_starts(&whole->messages, &cut->messages));
	must(cut->n_leading <= whole->n_leading && cut->n_units <= whole->n_units);
	must(!cut->model.seen || name_eq(&cut->model, &whole->model));
	must(!cut->system_seen || vec_eq(&whole->system, &cut->system));
	must(!cut->prompt_seen || vec_eq(&whole->messages, &cut->messages));
}

static void check_ref(
    const struct prompt *p, const struct prompt_opts *o, const char *text, size_t n)
{
	struct prompt_ref r = prompt_ref(fuzz_key(), o, p->api, text, n);

	must(vec_eq(&p->system, &r.system));
	must(vec_eq(&p->tools, &r.tools));
	must(vec_eq(&p->messages, &r.messages));
	must(p->n_units == r.n_units && p->found == r.found && p->n_leading == r.n_leading);
	must((p->mode == PROMPT_TOKENS) == r.tokens);
	prompt_ref_free(&r);
}

/* ---- names, of a whole body where no key comes twice ------------------------------------- */

static const struct node *string_of(const struct node *x)
{
	return x != NULL && x->type == 's' ? x : NULL;
}

/* A string, or the first one of a list. */
static const struct node *adapter_of(const struct node *x)
{
	size_t i;

	if (x == NULL || x->type != '[')
		return string_of(x);
	for (i = 0; i < x->n; i++)
		if (x->kid[i]->type == 's')
			return x->kid[i];
	return NULL;
}

static void check_name(const struct prompt_name *name, const struct node *want)
{
	must(name->seen == (want != NULL));
	if (want != NULL && want->text.n <= PROMPT_NAME_MAX)	/* longer ones count by their hash */
		must(span_eq(span_of(name->s, name->n), span_of(want->text.p, want->text.n)));
}

static void check_hash(uint64_t h, const struct node *want)
{
	must((h != 0) == (want != NULL && want->text.n > 0));
}

static void check_session_names(
    const struct prompt *p, const struct node *top, const struct node *meta)
{
	const struct node *c = get(top, "conversation"), *id = meta != NULL ? get(meta, "user_id") : NULL;

	check_hash(p->named[NAMED_CACHE_KEY], string_of(get(top, "prompt_cache_key")));
	check_hash(p->named[NAMED_SAFETY], string_of(get(top, "safety_identifier")));
	check_hash(p->named[NAMED_USER], string_of(get(top, "user")));
	check_hash(p->named[NAMED_META_USER], string_of(id));
	check_hash(p->previous, string_of(get(top, "previous_response_id")));
	check_hash(p->named[NAMED_CONVERSATION],
	    c != NULL && c->type == '{' ? string_of(get(c, "id")) : string_of(c));
	must(p->named[NAMED_SESSION] == 0 || p->named[NAMED_META_USER] != 0);
}

static bool salts(const struct node *x)
{
	return x != NULL && x->type != '0';
}

static void check_names(const struct prompt *p, const char *text, size_t n)
{
	static const char *const adapter[] = { "lora_path", "lora_name", "adapter_id" };
	struct ref r = { (const unsigned char *)text, (const unsigned char *)text + n, NULL, 128 };
	const struct node *x = NULL, *meta, *salt, *extra, *image;
	struct node *top;
	size_t i;

	ref_eat(&r, "\xef\xbb\xbf");
	top = tree_read(&r);
	check_name(&p->model, string_of(get(top, "model")));
	for (i = 0; i < 3 && x == NULL; i++)
		x = adapter_of(get(top, adapter[i]));
	check_name(&p->lora, x);
	meta = get(top, "metadata");
	x = string_of(get(top, "user"));
	check_name(&p->user, x || meta == NULL ? x : string_of(get(meta, "user_id")));
	check_session_names(p, top, meta);
	salt = get(top, "cache_salt");
	extra = get(top, "extra_key");
	image = p->api == API_GENERATE ? get(top, "image_data") : NULL;
	if (p->api == API_CONTENTS) {
		must(p->salt.seen || !(salts(salt) && !get(top, "cachedContent") && !get(top, "cached_content")));
		tree_free(top);
		return;
	}
	must(p->salt.seen == (salts(salt) || salts(extra) || salts(image)));
	if (string_of(salt) != NULL && !salts(extra) && !salts(image))
		check_name(&p->salt, salt);
	tree_free(top);
}

/* ---- keys that fill one place ------------------------------------------------------------ */

#define KEYS_MOST	256

/* The keys of the objects that are open, innermost last, each in every meaning it may have. */
struct clash {
	struct json json;
	enum prompt_api api;
	struct {
		uint16_t depth;
		char text[JSON_KEY_MAX];
		size_t n;
		uint32_t place[PLACES];
	} key[KEYS_MOST];
	size_t n;
	bool found;
};

/* Return the place that two rules must not share: run of a message, payload of a part, segment. */
static uint32_t place_of(const struct rule *r)
{
	if (r == NULL)
		return 0;
	switch (r->act) {
	case ACT_CALLS: case ACT_CALL_TEXT:
		return 100;
	case ACT_TEXT: case ACT_JSON: case ACT_PARTS: case ACT_MEDIA:
		return 101;
	case ACT_MESSAGES: case ACT_PROMPT:
		return 102;
	case ACT_FUNCTION: case ACT_ARGUMENTS:
		return 103;
	case ACT_TOOLS: case ACT_NAME:
		return 104u + r->act * 16u + r->arg;
	default:
		return r->act;
	}
}

static void clash_key(struct clash *c, uint16_t depth, struct span text)
{
	size_t i, k;

	while (c->n > 0 && c->key[c->n - 1].depth > depth)
		c->n--;
	if (c->n == KEYS_MOST) {
		c->found = true;
		return;
	}
	c->key[c->n].depth = depth;
	c->key[c->n].n = text.n;
	memcpy(c->key[c->n].text, text.p, text.n);
	for (k = 0; k < PLACES; k++)
		c->key[c->n].place[k] = place_of(rule_find(c->api, (enum place)k, text));
	for (i = c->n; i-- > 0 && c->key[i].depth == depth;) {
		if (span_eq(text, span_of(c->key[i].text, c->key[i].n)))
			c->found = true;
		for (k = 0; k < PLACES; k++)
			if (c->key[i].place[k] && c->key[i].place[k] == c->key[c->n].place[k])
				c->found = true;
	}
	c->n++;
}

static void clash_event(void *arg, const struct json *j, enum json_event ev, struct span text)
{
	struct clash *c = arg;

	if (ev == JSON_KEY)
		clash_key(c, j->depth, text);
	else if (ev == JSON_OBJECT)	/* forget the keys of an earlier object at this depth */
		while (c->n > 0 && c->key[c->n - 1].depth > j->depth)
			c->n--;
}

static bool keys_clash(enum prompt_api api, uint16_t max_depth, const char *p, size_t n)
{
	static struct clash c;

	c.api = api;
	c.n = 0;
	c.found = false;
	json_init(&c.json, max_depth, clash_event, &c);
	json_feed(&c.json, p, n);
	return c.found;
}

/* ---- ways to feed ------------------------------------------------------------------------ */

static void feed_at_once(struct body *b, enum prompt_api api, const char *p, size_t n)
{
	char *copy = exact(p, n);

	body_reset(b, api);
	body_feed(b, copy, n);
	free(copy);
}

static void feed_pieces(struct body *b, enum prompt_api api, const char *p, size_t n, uint32_t seed)
{
	struct cutter c;
	size_t at, k;

	cutter_init(&c, seed);
	body_reset(b, api);
	for (at = 0; at < n; at += k) {
		char *piece;

		k = cutter_next(&c, n - at);
		piece = exact(p + at, k);
		body_feed(b, piece, k);
		free(piece);
	}
}

/* Feed the body by single bytes. At some places the state must equal that of the same bytes at
 * once, and be a part of the whole. */
static void feed_cuts(struct body *b, struct body *other, const struct prompt *whole, bool prefix,
		      const char *p, size_t n, uint32_t seed)
{
	size_t at, every = n / 6 + 1, offset = seed % every;

	body_reset(b, whole->api);
	for (at = 0; at <= n; at++) {
		if (at > 0) {
			char *one = exact(p + at - 1, 1);

			body_feed(b, one, 1);
			free(one);
		}
		if (prefix)
			check_prefix(body_prompt(b), whole);
		if (at % every == offset) {
			feed_at_once(other, whole->api, p, at);
			check_same(body_prompt(b), body_prompt(other));
		}
	}
	check_same(body_prompt(b), whole);
}

static void feed_turn(
    struct body *b, struct turns *t, enum prompt_api api, const char *p, size_t n)
{
	char *copy = exact(p, n);
	size_t at;

	body_reset(b, api);
	at = body_recall(b, t, 1, copy, n);
	must(at <= n);
	if (at < n)
		body_feed(b, copy + at, n - at);
	body_remember(b, n, true);
	free(copy);
}

/* The same in slices, a few of which are looked at. */
static void feed_turn_in_slices(struct body *b, struct turns *t, enum prompt_api api,
    const char *p, size_t n, uint32_t seed)
{
	size_t from = 0, end = 0, k = 1 + seed % 200;
	uint64_t at;

	body_reset(b, api);
	body_slices_start(b, t, 1);
	do {
		char *held;
		size_t was = from;

		end = k < n - end ? end + k : n;
		held = exact(p + from, end - from);
		body_slice(b, span_of(held, end - from), from);
		if (end == n || !body_slice_known(b) || (seed >> end % 19 & 3) == 0) {
			at = body_slice_ready(b, span_of(held, end - from), from);
			must(at >= from && at <= end);
			body_slice_read(b, held + (at - from), end - (size_t)at);
		}
		from = (size_t)body_slice_needs(b, span_of(held, end - from), from);
		must(from >= was && from <= end);
		free(held);
	} while (end < n);
	body_slices_remember(b, true);
}

/* Feed beginnings of the body, then one with another byte, and the body twice, whole and in slices.
 */
static void feed_turns(
    struct body *b, const struct prompt *whole, const char *p, size_t n, uint32_t seed)
{
	const struct turns_opts o = { .max_bytes = 1 << 20, .least_bytes = 1, .chunk_bytes = 64 };
	struct turns *t = must_alloc(turns_new(&o, fuzz_key()));
	char *other = exact(p, n);
	struct turns_stats s;
	size_t i;

	for (i = 1; i < 4; i++)
		feed_turn(b, t, whole->api, p, n * i / 4);
	if (n > 0)
		other[seed % n] ^= (char)(1 << seed / 7 % 8);
	feed_turn(b, t, whole->api, other, n);
	for (i = 0; i < 2; i++) {
		feed_turn_in_slices(b, t, whole->api, p, n, seed >> i);
		check_same(body_prompt(b), whole);
		feed_turn(b, t, whole->api, p, n);
		check_same(body_prompt(b), whole);
	}
	turns_stats(t, &s);
	must(s.bytes <= o.max_bytes);
	free(other);
	turns_free(t);
}

static void options(struct prompt_opts *o, uint8_t byte)
{
	static const uint32_t text[] = { 64, 16, 17, 256 }, token[] = { 16, 1, 3, 512 };
	static const uint32_t most[] = { 65536, 8, 65536, 65536 };

	prompt_defaults(o);
	o->text_page = text[byte & 3];
	o->token_page = token[byte >> 2 & 3];
	o->max_pages = most[byte >> 4 & 3];
	if (byte & 0x40)
		o->max_depth = 9;
}

static void run(
    const struct prompt_opts *o, enum prompt_api api, uint32_t seed, const char *p, size_t n)
{
	struct body *whole = must_alloc(body_new(o, fuzz_key()));
	struct body *b = must_alloc(body_new(o, fuzz_key())), *c = must_alloc(body_new(o, fuzz_key()));
	const struct prompt *w = body_prompt(whole);
	struct page_vec order = { 0 };
	bool prefix;

	feed_at_once(whole, api, p, n);
	check_bounds(whole, o);
	prefix = w->json != JSON_BAD && !w->truncated && !keys_clash(api, o->max_depth, p, n);
	feed_cuts(b, c, w, prefix, p, n, seed);
	feed_pieces(b, api, p, n, seed);
	check_same(body_prompt(b), w);
	feed_turns(b, w, p, n, seed);
	if (w->json == JSON_DONE && !w->truncated)
		check_ref(w, o, p, n);
	if (w->json == JSON_DONE && prefix)
		check_names(w, p, n);
	must(prompt_pages(w, NULL, NULL, &order) == 0);
	must(order.n <= w->system.n + w->tools.n + w->messages.n);
	must(order.n == w->system.n + w->tools.n + w->messages.n || w->json != JSON_DONE);
	page_vec_free(&order);
	body_free(whole);
	body_free(b);
	body_free(c);
}

/* The end of the path selects the API; its prefix and the query do not. */
static void run_path(const char *p, size_t n)
{
	enum prompt_api api = prompt_api_of_path(span_of(p, n));
	struct span model = prompt_model_of_path(span_of(p, n));
	struct span id = prompt_response_of_path(span_of(p, n));
	const char *query = n ? memchr(p, '?', n) : NULL;
	struct trace t = { 0 };

	must(api < PROMPT_APIS && prompt_api_name(api) != NULL);
	must(model.n == 0 || (model.p >= p && model.p + model.n < p + n));
	must(id.n == 0 || (id.p > p && id.p + id.n <= p + n && memchr(id.p, '/', id.n) == NULL));
	if (query != NULL)
		n = (size_t)(query - p);
	trace_bytes(&t, "/prefix", 7);
	trace_bytes(&t, p, n);
	trace_bytes(&t, "?a=/v1/messages", 15);
	if (n > 0 && p[0] == '/')
		must(prompt_api_of_path(span_of(t.p, t.n)) == api);
	must(prompt_api_of_path(span_of(p, n)) == api);
	free(t.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct prompt_opts o;

	if (size < 4)
		return 0;
	if (data[0] % 8 == 7 && data[0] < 128) {
		run_path((const char *)data + 4, size - 4);
		return 0;
	}
	options(&o, data[1]);
	run(&o, (enum prompt_api)(data[0] % 8), (uint32_t)data[2] << 8 | data[3],
	    (const char *)data + 4, size - 4);
	return 0;
}
