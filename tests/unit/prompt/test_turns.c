/* test_turns.c - a body that is read with the memory of earlier ones gives what it gives without,
 * whatever was changed: random conversations that grow, with edits, cuts, keys that come twice. */
#include "agent/prompt/turns.h"
#include "tests/unit/prompt/bodies.h"

#define PORTION	16384u
#define ROUNDS	400
#define ROOM	(1u << 19)

static uint32_t chunk = 8192;
static bool events_vary;	/* a slice may end inside of a value: one event more */

static struct turns *turns_make(size_t max, size_t floor)
{
	const struct turns_opts o = {
		.max_bytes = max, .floor_bytes = floor, .chunk_bytes = chunk, .least_bytes = chunk / 2
	};
	struct turns *t = turns_new(&o, &key);

	assert_non_null(t);
	return t;
}

/* As agent/request/read_body.c does. Returns the bytes recalled. */
static size_t feed(struct body *b, struct turns *t, uint64_t tenant, enum prompt_api api,
    const char *p, size_t n)
{
	size_t at, from, k;

	body_reset(b, api);
	from = at = body_recall(b, t, tenant, p, n);
	for (; at < n; at += k) {
		k = PORTION - at % PORTION;
		if (k > n - at)
			k = n - at;
		body_feed(b, p + at, k);
	}
	body_remember(b, n, true);
	return from;
}

static void same_name(const struct prompt_name *a, const struct prompt_name *b)
{
	assert_int_equal(a->seen, b->seen);
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->s, b->s, a->n);
}

static void same(const struct prompt *a, const struct prompt *b)
{
	assert_int_equal(a->json, b->json);
	if (a->json == JSON_BAD)
		return;
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->found, b->found);
	assert_int_equal(a->in_media, b->in_media);
	assert_int_equal(a->truncated, b->truncated);
	assert_int_equal(a->system_seen, b->system_seen);
	assert_int_equal(a->tools_seen, b->tools_seen);
	assert_int_equal(a->developer, b->developer);
	assert_int_equal(a->prompt_seen, b->prompt_seen);
	assert_int_equal(a->truncates, b->truncates);
	assert_int_equal(a->streams, b->streams);
	assert_int_equal(a->priority, b->priority);
	assert_int_equal(a->priority_hinted, b->priority_hinted);
	assert_int_equal(a->output_limit, b->output_limit);
	assert_int_equal(a->output_hint, b->output_hint);
	same_name(&a->model, &b->model);
	same_name(&a->lora, &b->lora);
	same_name(&a->salt, &b->salt);
	same_name(&a->user, &b->user);
	assert_memory_equal(a->named, b->named, sizeof(a->named));
	assert_int_equal(a->previous, b->previous);
	assert_true(vec_eq(&a->system, &b->system));
	assert_true(vec_eq(&a->tools, &b->tools));
	assert_true(vec_eq(&a->messages, &b->messages));
	assert_int_equal(a->n_leading, b->n_leading);
	assert_int_equal(a->n_answer, b->n_answer);
	assert_int_equal(a->n_first, b->n_first);
	assert_int_equal(a->n_history, b->n_history);
	assert_int_equal(a->shape, b->shape);
	assert_int_equal(a->n_units, b->n_units);
	assert_int_equal(a->n_bytes, b->n_bytes);
	assert_true(events_vary || a->n_events == b->n_events);
}

/* The same in slices of at most <most> bytes; a look at some of the prompts between, which are what
 * <plain> makes of these bytes. Returns the bytes that were not read. */
struct slicing {
	struct rng rng;
	uint32_t most, looks;		/* one of <looks> slices is looked at */
	struct body *plain;
	uint64_t read;			/* bytes that the scanner was fed */
	size_t kept;			/* most bytes that were kept between two slices */
};

static void look(struct slicing *s, struct body *b, struct span held, uint64_t from)
{
	uint64_t at = body_slice_ready(b, held, from), end = from + held.n;
	size_t k;

	assert_true(at >= from && at <= end);
	for (; at < end; at += k) {
		k = PORTION - at % PORTION < end - at ? (size_t)(PORTION - at % PORTION) : (size_t)(end - at);
		body_slice_read(b, held.p + (at - from), k);
		s->read += k;
	}
}

static void feed_slices(struct slicing *s, struct body *b, struct turns *t, uint64_t tenant,
    enum prompt_api api, const char *p, size_t n)
{
	uint64_t from = 0;
	size_t end = 0;
	char *held;

	body_reset(b, api);
	body_slices_start(b, t, tenant);
	for (bool first = true; end < n || first; first = false) {
		size_t k = 1 + rng_below(&s->rng, s->most);

		end = k < n - end ? end + k : n;
		held = malloc(end - (size_t)from + 1);		/* what was not kept must not be read */
		memcpy(held, p + from, end - (size_t)from);
		body_slice(b, span_of(held, end - (size_t)from), from);
		if (end == n || !body_slice_known(b) || rng_below(&s->rng, s->looks) == 0) {
			look(s, b, span_of(held, end - (size_t)from), from);
			if (s->plain != NULL && rng_below(&s->rng, 4) == 0) {
				feed(s->plain, NULL, 0, api, p, end);
				same(body_prompt(b), body_prompt(s->plain));
			}
		}
		from = body_slice_needs(b, span_of(held, end - (size_t)from), from);
		assert_true(from <= end);
		s->kept = end - (size_t)from > s->kept ? end - (size_t)from : s->kept;
		free(held);
	}
	body_slices_remember(b, true);
}

/* ---- random conversations -------------------------------------------------------------------- */

struct talk {
	struct rng rng;
	char *p;
	size_t n;
};

static uint32_t below(struct talk *t, uint32_t n)
{
	return rng_below(&t->rng, n);
}

static void add(struct talk *t, const char *s)
{
	size_t n = strlen(s);

	assert_true(t->n + n < ROOM);
	memcpy(t->p + t->n, s, n);
	t->n += n;
}

static void add_one(struct talk *t, const char *const *of, uint32_t n)
{
	add(t, of[below(t, n)]);
}

#define ADD_ONE(t, ...) do { \
	static const char *const of_[] = { __VA_ARGS__ }; \
	add_one((t), of_, sizeof(of_) / sizeof(of_[0])); \
} while (0)

static void add_blank(struct talk *t)
{
	if (below(t, 12) == 0)
		ADD_ONE(t, " ", "\n", "\t ", "  \r\n");
}

static void add_text(struct talk *t)
{
	uint32_t n = below(t, 6) == 0 ? below(t, 900) : below(t, 60);

	add(t, "\"");
	while (n-- > 0)
		ADD_ONE(t, "The quick brown fox ", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\\"", "\\\\",
		    "\xc3\xa9", "\xe4\xb8\xad\xe6\x96\x87", "0123456789",
		    "{\\\"a\\\":[1]}", "]},{", "\xff", "\\/");
	add(t, "\"");
}

static void add_member(struct talk *t, const char *name)
{
	add(t, "\"");
	add(t, name);
	add(t, "\"");
	add_blank(t);
	add(t, ":");
	add_blank(t);
}

static void add_parts(struct talk *t)
{
	uint32_t n = below(t, 4);

	add(t, "[");
	for (uint32_t i = 0; i < n; i++) {
		add(t, i > 0 ? "," : "");
		switch (below(t, 4)) {
		case 0:
			add(t, "{\"type\":\"image_url\",\"image_url\":{\"url\":\"u1\"}}");
			break;
		case 1:
			add(t, "{\"type\":\"tool_result\",\"content\":[{\"text\":");
			add_text(t);
			add(t, "}]}");
			break;
		default:
			add(t, "{\"type\":\"text\",\"cache_control\":{\"type\":\"ephemeral\"},\"text\":");
			add_text(t);
			add(t, "}");
		}
	}
	add(t, "]");
}

static void add_message(struct talk *t)
{
	if (below(t, 40) == 0) {
		ADD_ONE(t, "null", "17", "\"text\"", "[]", "{}", "[{\"role\":\"user\"}]");
		return;
	}
	add(t, "{");
	add_member(t, "role");
	ADD_ONE(t, "\"user\"", "\"assistant\"", "\"tool\"", "\"system\"", "\"developer\"",
	    "null", "\"us\\u0065r\"");
	if (below(t, 10) == 0)
		add(t, ",\"reasoning_content\":\"thoughts\"");
	if (below(t, 8) == 0)
		add(t, ",\"tool_calls\":[{\"id\":\"1\",\"function\":"
		       "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]");
	for (uint32_t n = below(t, 10) == 0 ? 2 : 1; n > 0; n--) {
		add(t, ",");
		add_member(t, "content");
		if (below(t, 4) == 0)
			add_parts(t);
		else
			add_text(t);
	}
	if (below(t, 20) == 0)
		add(t, ",\"name\":\"n\"");
	add(t, "}");
}

static void add_list(struct talk *t, const char *name, uint32_t n)
{
	add_member(t, name);
	add(t, "[");
	for (uint32_t i = 0; i < n; i++) {
		add(t, i > 0 ? "," : "");
		add_blank(t);
		add_message(t);
		add_blank(t);
	}
	add(t, "]");
}

/* One of few lists of tools. */
static void add_tools(struct talk *t)
{
	struct rng rng = t->rng;
	bool object;

	rng_init(&t->rng, below(t, 4));
	add(t, "\"tools\":");
	object = below(t, 3) == 0;
	add(t, object ? "{\"a\":[" : "[");
	for (uint32_t i = 0, n = 1 + below(t, 9); i < n; i++) {
		add(t, i > 0 ? ", " : "");
		add(t, "{\"type\": \"function\",\"cache_control\":{\"type\":1},\"function\":{\"name\":");
		add_text(t);
		add(t, "}}");
	}
	add(t, object ? "]}" : "]");
	add(t, ",");
	t->rng = rng;
	below(t, 2);
}

/* Some members of a body, each followed by a comma. */
static void add_members(struct talk *t, uint32_t n)
{
	while (n-- > 0) {
		switch (below(t, 14)) {
		case 0:
			add(t, "\"system\":\"be good\",");
			break;
		case 1:
			add(t, "\"user\":\"me\",");
			break;
		case 2:
			if (below(t, 3) == 0)
				add(t, "\"cache_salt\":\"s\",");
			break;
		case 3:
			add(t, "\"functions\":[{\"name\":\"g\"}],");
			break;
		case 4:
			add(t, "\"priority\":3,\"max_completion_tokens\":9,\"max_tokens\":7,"
			    "\"nvext\":{\"agent_hints\":{\"priority\":2,\"osl\":5}},");
			break;
		case 5:
			add(t, "\"lora_path\":\"l\",\"adapter_id\":\"k\",");
			break;
		case 6:
			add(t, "\"metadata\":{\"user_id\":\"u\",\"messages\":[{\"role\":\"user\"}]},");
			break;
		case 10:
			ADD_ONE(t, "\"prompt_cache_key\":\"k1\",", "\"prompt_cache_key\":\"k2\",",
			    "\"conversation\":{\"id\":\"c\"},", "\"previous_response_id\":\"r\",",
			    "\"safety_identifier\":\"s\",");
			break;
		case 7:
			add_tools(t);
			break;
		case 8:
			add(t, "\"x\":");
			add_text(t);
			add(t, ",");
			break;
		case 9:
			ADD_ONE(t, "\"messages\":null,", "\"messages\":[],", "\"messages\":\"m\",", "\"tools\":null,");
			break;
		default:
			ADD_ONE(t, "\"model\":\"m1\",", "\"stream\":true,", "\"model\":\"m2\",",
			    "\"tool_choice\":\"auto\",", "\"truncate_prompt_tokens\":5,", "\"user\":null,");
		}
	}
}

/* Start with one of few heads, so that bodies agree. The list stays open. */
static void talk_start(struct talk *t, uint64_t seed)
{
	rng_init(&t->rng, seed % 5);
	t->n = 0;
	add(t, below(t, 4) == 0 ? "\xef\xbb\xbf {" : "{");
	add_members(t, below(t, 4));
	if (below(t, 6) == 0) {
		add_list(t, "messages", below(t, 9));
		add(t, ",");
	}
	add_member(t, "messages");
	add(t, "[");
	add_message(t);
	rng_init(&t->rng, seed);
}

static void talk_more(struct talk *t)
{
	add(t, ",");
	add_blank(t);
	add_message(t);
	add_blank(t);
}

/* Write a body: the conversation so far, closed, with keys after it; then perhaps damaged. */
static size_t body_of(struct talk *t, char *out)
{
	size_t had = t->n, n;

	add(t, "]");
	add_blank(t);
	add(t, ",");
	add_members(t, below(t, 4));
	if (below(t, 12) == 0) {
		add_list(t, "messages", below(t, 5));
		add(t, ",");
	}
	add(t, "\"max_tokens\":5}");
	n = t->n;
	memcpy(out, t->p, n);
	t->n = had;
	switch (below(t, 8)) {
	case 0:
		return below(t, (uint32_t)n + 1);
	case 1:
		out[below(t, (uint32_t)n)] ^= (char)(1 << below(t, 8));
		break;
	case 2:
		memmove(out + n / 2, out + n / 2 + 1, n - n / 2 - 1);
		n--;
		break;
	}
	return n;
}

static const enum prompt_api apis[] = { API_CHAT, API_MESSAGES, API_CHAT, API_RESPONSES, API_CHAT };

/* Return the share of bytes, in percent, that were recalled. */
static unsigned run(struct turns *t, uint64_t tenants, uint64_t seed)
{
	struct slicing slices = { .plain = body_make() };
	struct body *with = body_make(), *without = body_make();
	struct talk talk[4] = { { .p = NULL } };
	char *out = malloc(ROOM);
	uint64_t saved = 0, all = 0;
	struct turns_stats s;

	rng_init(&slices.rng, seed);
	for (unsigned i = 0; i < 4; i++) {
		talk[i].p = malloc(ROOM);
		talk_start(&talk[i], seed + i);
	}
	for (unsigned r = 0; r < ROUNDS; r++) {
		struct talk *x = &talk[r % 4];
		enum prompt_api api = apis[r / 8 % 5];
		size_t n;

		if (x->n > ROOM / 8)
			talk_start(x, seed + r);
		for (uint32_t k = below(x, 4); k > 0; k--)
			talk_more(x);
		n = body_of(x, out);
		if (events_vary && r % 3 == 0) {
			slices.most = 1 + rng_below(&slices.rng, r % 2 ? 3 * chunk : 20000);
			slices.looks = 1 + rng_below(&slices.rng, 6);
			slices.read = 0;
			feed_slices(&slices, with, t, r % tenants, api, out, n);
			assert_true(slices.read <= n);
			saved += slices.read < n ? n - slices.read : 0;
		} else {
			saved += feed(with, t, r % tenants, api, out, n);
		}
		all += n;
		feed(without, NULL, 0, api, out, n);
		same(body_prompt(with), body_prompt(without));
		turns_stats(t, &s);
		assert_true(s.bytes <= (1u << 24));
	}
	for (unsigned i = 0; i < 4; i++)
		free(talk[i].p);
	free(out);
	body_free(slices.plain);
	body_free(with);
	body_free(without);
	return (unsigned)(100 * saved / all);
}

static void a_body_means_the_same_with_the_memory_of_earlier_turns(void **state)
{
	unsigned share = 0;

	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct turns *t;

		chunk = seed % 2 ? 8192 : 256;
		events_vary = seed > 2;
		t = turns_make(1u << 24, 1u << 20);
		share += run(t, 1 + seed % 3, 100 * seed);
		turns_free(t);
	}
	chunk = 8192;
	events_vary = false;
	assert_true(share / 6 > 25);
}

static void a_small_memory_evicts_and_changes_nothing(void **state)
{
	static const size_t sizes[] = { TURNS_LEAST, TURNS_LEAST, 100000, 200000 };

	for (unsigned i = 0; i < 4; i++) {
		struct turns *t = turns_make(sizes[i], i % 2 ? 20000 : 0);
		struct turns_stats s;

		events_vary = i > 1;
		run(t, 1 + 3 * i, 7000 + 10 * i);
		events_vary = false;
		turns_stats(t, &s);
		assert_true(s.evicted > 0);
		assert_true(s.bytes <= sizes[i]);
		turns_clear(t);
		turns_stats(t, &s);
		assert_int_equal(s.points, 0);
		turns_free(t);
	}
}

/* ---- one conversation ------------------------------------------------------------------------ */

static size_t plain_body(char *out, unsigned messages, const char *tail)
{
	size_t n = (size_t)sprintf(out, "{\"model\":\"m\",\"messages\":[");

	for (unsigned i = 0; i < messages; i++) {
		n += (size_t)sprintf(out + n, "%s{\"role\":\"%s\",\"content\":\"", i > 0 ? "," : "",
		    i % 2 ? "assistant" : "user");
		for (unsigned k = 0; k < 50; k++)
			n += (size_t)sprintf(out + n, "message %u line %u\\n", i, k);
		n += (size_t)sprintf(out + n, "\"}");
	}
	return n + (size_t)sprintf(out + n, "],%s}", tail);
}

static void the_next_turn_is_read_from_the_end_of_the_last(void **state)
{
	struct turns *t = turns_make(1u << 22, 0);
	struct body *b = body_make();
	char *out = malloc(ROOM);

	for (unsigned m = 5; m < 60; m++) {
		size_t n = plain_body(out, m, "\"stream\":true"), from = feed(b, t, 1, API_CHAT, out, n);

		if (m > 5)
			assert_true(from == plain_body(out, m - 1, "\"stream\":true") - strlen("],\"stream\":true}"));
	}
	free(out);
	body_free(b);
	turns_free(t);
}

/* Of a known turn in slices only what is new is read, if nobody looks before the end; with looks, a
 * chunk for each at most. What slices leave serves whole bodies. */
static void a_turn_in_slices_is_read_from_the_end_of_the_last(void **state)
{
	struct turns *t = turns_make(1u << 22, 0);
	struct slicing s = { .most = 16384, .looks = 1u << 30 };
	struct body *b = body_make(), *c = body_make();
	char *out = malloc(ROOM);
	size_t n = 0, had = 0;

	rng_init(&s.rng, 7);
	for (unsigned m = 5; m < 200; m += 2) {
		had = n;
		n = plain_body(out, m, "\"stream\":true");
		s.read = s.kept = 0;
		s.looks = m % 4 == 1 ? 1u << 30 : 1;
		feed_slices(&s, b, t, 1, API_CHAT, out, n);
		feed(c, NULL, 1, API_CHAT, out, n);
		same(body_prompt(b), body_prompt(c));
		if (m == 5)
			assert_int_equal(s.read, n);
		else if (s.looks > 1)
			assert_int_equal(s.read, n - had + strlen("],\"stream\":true}"));
		else
			assert_true(s.read <= n - had + 100 + (n / 8192 + 1) * 8192);
		assert_true(s.kept < 2 * 8192);
	}
	assert_int_equal(feed(b, t, 1, API_CHAT, out, n), n - strlen("],\"stream\":true}"));
	s.read = s.kept = 0;
	feed_slices(&s, b, NULL, 1, API_CHAT, out, n);		/* nothing is remembered */
	same(body_prompt(b), body_prompt(c));
	assert_true(s.read == n && s.kept == 0);
	free(out);
	body_free(b);
	body_free(c);
	turns_free(t);
}

static void a_byte_that_differs_ends_what_is_recalled(void **state)
{
	struct turns *t = turns_make(1u << 22, 0);
	struct body *b = body_make(), *c = body_make();
	char *out = malloc(ROOM);
	size_t n = plain_body(out, 30, "\"stream\":true"), least = n;

	feed(b, t, 1, API_CHAT, out, n);
	for (size_t at = 1; at < n; at += 37) {
		size_t from;

		out[at] ^= 1;
		body_reset(c, API_CHAT);
		from = body_recall(c, t, 1, out, n);
		assert_true(from <= at);
		feed(b, NULL, 1, API_CHAT, out, n);
		for (size_t k, i = from; i < n; i += k)
			body_feed(c, out + i, k = PORTION - i % PORTION < n - i ? PORTION - i % PORTION : n - i);
		same(body_prompt(b), body_prompt(c));
		least = from < least ? from : least;
		out[at] ^= 1;
	}
	assert_int_equal(least, 0);
	free(out);
	body_free(b);
	body_free(c);
	turns_free(t);
}

static void tools_after_the_messages_are_not_read_again(void **state)
{
	struct turns *t = turns_make(1u << 22, 0);
	struct body *b = body_make(), *c = body_make();
	char *out = malloc(ROOM), *tail = malloc(ROOM);
	size_t n = (size_t)sprintf(tail, "\"tools\":[");

	for (unsigned i = 0; i < 40; i++)
		n += (size_t)sprintf(tail + n, "%s{\"name\": \"tool %u\", \"text\": \"%0900u\"}",
		    i > 0 ? ", " : "", i, i);
	sprintf(tail + n, "],\"stream\":true");
	for (unsigned m = 5; m < 9; m++) {
		n = plain_body(out, m, tail);
		feed(b, t, 1, API_CHAT, out, n);
		assert_true(m == 5 || n - body_prompt(b)->known.bytes < 2000);
		assert_int_equal(body_prompt(b)->json, JSON_DONE);
		feed(c, NULL, 1, API_CHAT, out, n);
		same(body_prompt(b), body_prompt(c));
	}
	out[n - 5000] ^= 1;		/* in the tools */
	feed(b, t, 1, API_CHAT, out, n);
	assert_true(n - body_prompt(b)->known.bytes > 30000);
	feed(c, NULL, 1, API_CHAT, out, n);
	same(body_prompt(b), body_prompt(c));
	free(out);
	free(tail);
	body_free(b);
	body_free(c);
	turns_free(t);
}

/* HAProxy's buffer may end with a message. Nothing is left to read then. */
static void a_body_that_ends_with_a_known_message_has_its_prompt(void **state)
{
	struct turns *t = turns_make(1u << 22, 0);
	struct body *b = body_make(), *c = body_make();
	char *out = malloc(ROOM);
	size_t n = plain_body(out, 30, "") - strlen("],}");

	feed(c, NULL, 1, API_CHAT, out, n);
	assert_true(body_prompt(c)->found);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(feed(b, t, 1, API_CHAT, out, n), i > 0 ? n : 0);
		same(body_prompt(b), body_prompt(c));
	}
	assert_int_equal(body_prompt(b)->known.bytes, n);
	free(out);
	body_free(b);
	body_free(c);
	turns_free(t);
}

static size_t tools_of(char *out, const char *name)
{
	size_t n = (size_t)sprintf(out, "\"%s\":[", name);

	for (unsigned i = 0; i < 9; i++)
		n += (size_t)sprintf(out + n, "%s{\"name\":\"%s %u\",\"text\":\"%0900u\"}",
		    i > 0 ? "," : "", name, i, i);
	return n + (size_t)sprintf(out + n, "],");
}

/* Tools that another value replaces are remembered with their own pages, or not at all. */
static void tools_that_were_replaced_are_not_those_that_follow(void **state)
{
	static const char *const by[] = { "\"tools\":null,", "\"tools\":\"x\",", "\"tools\":[]," };
	struct body *b = body_make(), *c = body_make();
	char *out = malloc(ROOM);

	for (unsigned i = 0; i < 3; i++) {
		struct turns *t = turns_make(1u << 22, 0);
		size_t n = (size_t)sprintf(out, "{");

		n += tools_of(out + n, "tools");
		n += (size_t)sprintf(out + n, "%s", by[i]);
		n += tools_of(out + n, "functions");
		n += (size_t)sprintf(out + n, "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
		feed(b, t, 1, API_CHAT, out, n);
		n = 1 + tools_of(out + 1, "tools");
		n += (size_t)sprintf(out + n, "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
		feed(b, t, 1, API_CHAT, out, n);
		feed(c, NULL, 1, API_CHAT, out, n);
		same(body_prompt(b), body_prompt(c));
		turns_free(t);
	}
	free(out);
	body_free(b);
	body_free(c);
}

/* To look for tools may hash the rest of the body, so it is done once, however often they come. */
static void tools_are_looked_for_once(void **state)
{
	struct turns *t = turns_make(1u << 22, 0);
	struct body *b = body_make(), *c = body_make();
	char *out = malloc(ROOM);
	size_t n = 1, one = 0;

	out[0] = '{';
	for (unsigned i = 0; i < 9; i++)
		n += one = tools_of(out + n, "tools");
	n += (size_t)sprintf(out + n, "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
	feed(c, NULL, 1, API_CHAT, out, n);
	for (unsigned i = 0; i < 2; i++) {
		out[n - 5] = (char)('a' + i);		/* no message is known */
		feed(b, t, 1, API_CHAT, out, n);
		assert_int_equal(body_prompt(b)->known.bytes, i > 0 ? one - strlen("\"tools\":,") : 0);
		feed(c, NULL, 1, API_CHAT, out, n);
		same(body_prompt(b), body_prompt(c));
	}
	free(out);
	body_free(b);
	body_free(c);
	turns_free(t);
}

static void tenants_apis_and_salts_share_nothing(void **state)
{
	struct turns *t = turns_make(1u << 22, 0);
	struct body *b = body_make();
	char *out = malloc(ROOM);
	size_t n = plain_body(out, 30, "\"cache_salt\":\"secret\"");

	assert_int_equal(feed(b, t, 1, API_CHAT, out, n), 0);
	assert_int_equal(feed(b, t, 1, API_CHAT, out, n), 0);
	n = plain_body(out, 30, "\"stream\":true");
	assert_int_equal(feed(b, t, 1, API_CHAT, out, n), 0);
	assert_int_equal(feed(b, t, 2, API_CHAT, out, n), 0);
	assert_int_equal(feed(b, t, 1, API_MESSAGES, out, n), 0);
	assert_true(feed(b, t, 1, API_CHAT, out, n) > 0);
	free(out);
	body_free(b);
	turns_free(t);
}

static void a_tenant_with_little_is_not_evicted_by_one_with_much(void **state)
{
	struct turns *t = turns_make(300000, 60000);
	struct body *b = body_make();
	char *out = malloc(ROOM);
	size_t n = plain_body(out, 30, "\"stream\":true");

	feed(b, t, 1, API_CHAT, out, n);
	for (unsigned i = 0; i < 100; i++) {
		n = plain_body(out, 100, "\"stream\":true");
		out[30] = (char)('a' + i % 26);
		out[40] = (char)('a' + i / 26);
		feed(b, t, 2, API_CHAT, out, n);
	}
	n = plain_body(out, 30, "\"stream\":true");
	assert_true(feed(b, t, 1, API_CHAT, out, n) > n - 100);
	free(out);
	body_free(b);
	turns_free(t);
}

/* ---- a text that differs in each turn and counts for nothing --------------------------------- */

enum around { IN_SYSTEM, IN_CHAT, IN_USER, IN_MESSAGES };	/* where that text is */

static size_t claude_body(char *p, enum around where, const char *differs, unsigned n_messages)
{
	size_t n = (size_t)sprintf(p, "{\"model\":\"m\",%s",
		   where == IN_SYSTEM ? "\"system\":" : "\"messages\":[{\"role\":");
	char *c;

	if (where != IN_SYSTEM)
		n += (size_t)sprintf(p + n, "\"%s\",\"content\":", where == IN_USER ? "user" : "system");
	n += (size_t)sprintf(
	    p + n, "[{\"text\":\"x-anthropic-billing-header: %s\"},{\"text\":\"be", differs);
	memset(p + n, 'e', 300);
	n += 300;
	n += (size_t)sprintf(p + n, "\"}]%s", where == IN_SYSTEM ? ",\"messages\":[" : "},");
	for (unsigned i = 0; i < n_messages; i++) {
		n += (size_t)sprintf(p + n, "%s{\"role\":\"user\",\"content\":\"%u ", i > 0 ? "," : "", i);
		for (c = p + n; c < p + n + 700; c++)
			*c = (char)('a' + (i * 7 + (unsigned)(c - p) / 9) % 26);
		n += 700 + (size_t)sprintf(p + n + 700, "\"}");
	}
	return n + (size_t)sprintf(p + n, "],\"stream\":true}");
}

static enum prompt_api api_around(enum around where)
{
	return where == IN_SYSTEM || where == IN_MESSAGES ? API_MESSAGES : API_CHAT;
}

static void what_counts_for_nothing_may_differ(void **state)
{
	static const enum around places[] = { IN_SYSTEM, IN_CHAT };
	char *p = malloc(ROOM), differs[16];
	struct body *b = body_make(), *plain = body_make();

	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		enum around where = places[k % 2];
		struct turns *t = turns_make(1 << 22, 0);
		struct slicing s = { .most = 20000, .looks = 4 };

		rng_init(&s.rng, k);
		for (unsigned turn = 0; turn < 6; turn++) {
			size_t n, got;

			snprintf(differs, sizeof(differs), "cch=%05x;", turn * 77777);
			n = claude_body(p, where, differs, 40 + 2 * turn);
			feed(plain, NULL, 0, api_around(where), p, n);
			s.read = 0;
			if (k < 2) {
				got = feed(b, t, 1, api_around(where), p, n);
			} else {
				s.most = (uint32_t)n;		/* the first chunk comes at once */
				do
					got = 1 + rng_below(&s.rng, (uint32_t)n);
				while (got < chunk);
				body_reset(b, api_around(where));
				body_slices_start(b, t, 1);
				body_slice(b, span_of(p, got), 0);
				body_slice(b, span_of(p, n), 0);
				look(&s, b, span_of(p, n), 0);
				(void)body_slice_needs(b, span_of(p, n), 0);
				body_slices_remember(b, true);
				got = n - (size_t)s.read;
			}
			same(body_prompt(b), body_prompt(plain));
			assert_true(turn == 0 ? got == 0 : got > n - 2000 - 2 * chunk);
		}
		turns_free(t);
	}
	free(p);
	body_free(b);
	body_free(plain);
}

/* It is found anywhere in the first long chunk, here after tools of more than half a chunk. */
static void what_counts_for_nothing_may_come_late(void **state)
{
	char *p = malloc(ROOM), *system, differs[16];
	struct turns *t = turns_make(1 << 22, 0);
	struct body *b = body_make();

	(void)state;
	for (unsigned turn = 0; turn < 3; turn++) {
		size_t n = (size_t)sprintf(p, "{\"tools\":[{\"name\":\""), got;

		memset(p + n, 't', 5 * chunk / 8);
		n += 5 * chunk / 8;
		n += (size_t)sprintf(p + n, "\"}],");
		snprintf(differs, sizeof(differs), "cch=%05x;", turn * 77777);
		system = malloc(ROOM);
		got = claude_body(system, IN_SYSTEM, differs, 40 + 2 * turn);
		memcpy(p + n, system + 1, got - 1);	/* without its "{" */
		free(system);
		n += got - 1;
		got = feed(b, t, 1, API_MESSAGES, p, n);
		assert_true(turn == 0 ? got == 0 : got > n - 2000 - 2 * chunk);
	}
	turns_free(t);
	body_free(b);
	free(p);
}

/* Another length, an escape, or a text that counts: nothing is shared. */
static void what_counts_may_not(void **state)
{
	static const struct { enum around where; const char *a, *b; } cases[] = {
		{ IN_SYSTEM, "cch=1;", "cch=12;" }, { IN_SYSTEM, "cch=\\u0031", "cch=\\u0032" },
		{ IN_USER, "cch=1;", "cch=2;" }, { IN_MESSAGES, "cch=1;", "cch=2;" },
		{ IN_CHAT, "a\\nb", "a\\nc" },
	};
	char *p = malloc(ROOM);
	struct body *b = body_make(), *plain = body_make();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct turns *t = turns_make(1 << 22, 0);
		enum prompt_api api = api_around(cases[i].where);
		size_t n = claude_body(p, cases[i].where, cases[i].a, 40);

		feed(b, t, 1, api, p, n);
		n = claude_body(p, cases[i].where, cases[i].b, 42);
		assert_int_equal(feed(b, t, 1, api, p, n), 0);
		feed(plain, NULL, 0, api, p, n);
		same(body_prompt(b), body_prompt(plain));
		turns_free(t);
	}
	free(p);
	body_free(b);
	body_free(plain);
}

/* The text may also be in a later message: what is read to look for it leaves no memory behind. */
static void a_text_after_a_message_leaves_nothing(void **state)
{
	char *p = malloc(ROOM);
	size_t n = (size_t)sprintf(p, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
	    "{\"role\":\"system\",\"content\":\"x-anthropic-billing-header: 1\\n");
	struct body *b = body_make(), *plain = body_make();	/* new ones have no room for borders */
	struct turns *t = turns_make(1 << 22, 0);
	struct slicing s = { .most = 1 << 20, .looks = 4 };

	(void)state;
	memset(p + n, 'b', 4 * chunk);
	n += 4 * chunk;
	n += (size_t)sprintf(p + n, "\"},{\"role\":\"user\",\"content\":\"c\"}]}");
	feed(plain, NULL, 0, API_CHAT, p, n);
	body_reset(b, API_CHAT);
	body_slices_start(b, t, 1);
	body_slice(b, span_of(p, n), 0);
	look(&s, b, span_of(p, n), 0);
	same(body_prompt(b), body_prompt(plain));
	turns_free(t);
	body_free(b);
	body_free(plain);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_means_the_same_with_the_memory_of_earlier_turns),
		cmocka_unit_test(a_small_memory_evicts_and_changes_nothing),
		cmocka_unit_test(the_next_turn_is_read_from_the_end_of_the_last),
		cmocka_unit_test(a_turn_in_slices_is_read_from_the_end_of_the_last),
		cmocka_unit_test(a_byte_that_differs_ends_what_is_recalled),
		cmocka_unit_test(tools_after_the_messages_are_not_read_again),
		cmocka_unit_test(a_body_that_ends_with_a_known_message_has_its_prompt),
		cmocka_unit_test(tools_that_were_replaced_are_not_those_that_follow),
		cmocka_unit_test(tools_are_looked_for_once),
		cmocka_unit_test(what_counts_for_nothing_may_differ),
		cmocka_unit_test(what_counts_for_nothing_may_come_late),
		cmocka_unit_test(what_counts_may_not),
		cmocka_unit_test(a_text_after_a_message_leaves_nothing),
		cmocka_unit_test(tenants_apis_and_salts_share_nothing),
		cmocka_unit_test(a_tenant_with_little_is_not_evicted_by_one_with_much),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
