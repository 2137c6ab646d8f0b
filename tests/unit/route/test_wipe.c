/* test_wipe.c - no text and no run of ids of a prompt is left in memory that a router and its
 * threads free, for any body, in text mode and in token mode. This file replaces the functions
 * of mem.h and looks before they free. After route_scratch_wipe() none is left at all. */
#include <malloc.h>

#include "agent/base/mem.h"
#include "agent/feed/kvcursor.h"
#include "tests/unit/route/tokens.h"

#define SECRET	"Zebra7719Quagga"
#define RUN	6		/* ids in a row */
#define BLOCKS	65536

static token_id run[RUN];
static bool looking;
static size_t left_text, left_ids, freed;
static void *live[BLOCKS];
static size_t n_live;

static bool holds(const void *p, const void *what, size_t n)
{
	return memmem(p, malloc_usable_size((void *)(uintptr_t)p), what, n) != NULL;
}

static void look(const void *p)
{
	left_text += holds(p, SECRET, sizeof(SECRET) - 1);
	left_ids += run[0] != 0 && holds(p, run, sizeof(run));
}

static void *remember(void *p)
{
	if (p != NULL) {
		assert_true(n_live < BLOCKS);
		live[n_live++] = p;
	}
	return p;
}

static void forget(const void *p)
{
	size_t i = n_live;

	while (i > 0 && live[i - 1] != p)
		i--;
	assert_true(i > 0);
	live[i - 1] = live[--n_live];
}

void *mem_alloc(size_t n)
{
	return remember(calloc(1, n ? n : 1));
}

void *mem_calloc(size_t count, size_t size)
{
	return remember(calloc(count ? count : 1, size ? size : 1));
}

/* Allocate at a new address each time, so that leftovers are seen. */
void *mem_resize(void *p, size_t count, size_t size)
{
	size_t old = p != NULL ? malloc_usable_size(p) : 0, n = count * size;
	void *q = mem_alloc(n);

	if (p != NULL) {
		memcpy(q, p, old < n ? old : n);
		mem_free(p);
	}
	return q;
}

void *mem_copy(const void *p, size_t n)
{
	void *q = mem_alloc(n);

	if (n > 0)
		memcpy(q, p, n);
	return q;
}

char *mem_strndup(const char *p, size_t n)
{
	char *s = mem_alloc(n + 1);

	memcpy(s, p, n);
	return s;
}

void mem_free(void *p)
{
	if (p == NULL)
		return;
	freed++;
	if (looking)
		look(p);
	forget(p);
	free(p);
}

void mem_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}

void mem_wipe_stack(void)
{
}

/* ---- bodies -------------------------------------------------------------------------------- */

static void say_secrets(struct text *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		say(t, " the server has %s and %u pages,", SECRET, i);
}

static void a_conversation(struct text *t, unsigned n, unsigned each)
{
	t->n = 0;
	say(t, "{\"messages\":[");
	for (unsigned i = 0; i < n; i++) {
		say(t, "%s{\"role\":\"%s\",\"content\":\"\\u0041", i > 0 ? "," : "",
		    i % 2 == 0 ? "user" : "assistant");
		say_secrets(t, each);
		say(t, "\"}");
	}
	say(t,
	    "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"%s\","
	    "\"x\":[1,2,3,4,5,6,7,8]}}]}",
	    SECRET);
}

static void a_prompt(struct text *t, unsigned n)
{
	t->n = 0;
	say(t, "{\"prompt\":\"");
	say_secrets(t, n);
	say(t, "\"}");
}

/* One piece, of letters only. */
static void a_long_word(struct text *t)
{
	t->n = 0;
	say(t, "{\"prompt\":\"");
	for (unsigned i = 0; i < 2500; i++)
		say(t, "%s", SECRET);
	say(t, "\"}");
}

static void ids_themselves(struct text *t)
{
	t->n = 0;
	say(t, "{\"prompt\":[1");
	for (unsigned i = 0; i < 2000; i++)
		say(t, ",%u", run[i % RUN]);
	say(t, "]}");
}

static void ask_both(struct world *w, const char *path)
{
	static unsigned n;
	char uid[20];

	w->q.path = span_str(path);
	snprintf(uid, sizeof(uid), "%u", n++);
	send(w, uid);
	send_body(w, uid, span_of(w->body.p, w->body.n * 2 / 3));
}

static void in_slices(struct world *w, const char *path)
{
	size_t a = w->body.n / 3, b = 2 * a;

	w->q.path = span_str(path);
	slice_at(w, w->s, path, 0, 0, a);
	slice_at(w, w->s, path, 1, a, b);
	slice_at(w, w->s, path, 2, b, w->body.n);
}

static void all_kinds(struct world *w)
{
	static const char completions[] = "/v1/completions", conversation[] = "/v1/chat/completions";

	for (unsigned size = 1; size < 400; size *= 7) {
		a_prompt(&w->body, size);
		ask_both(w, completions);
		in_slices(w, completions);
		a_conversation(&w->body, 3, size / 4 + 1);
		ask_both(w, conversation);
		in_slices(w, conversation);
	}
	a_long_word(&w->body);
	ask_both(w, completions);
	in_slices(w, completions);
	ids_themselves(&w->body);
	ask_both(w, completions);
	in_slices(w, completions);
	w->body.n = 0;
	say(&w->body, "{\"messages\":[{\"role\":\"nobody\",\"content\":\"%s\"}]}", SECRET);
	ask_both(w, conversation);
}

/* ---- stories ------------------------------------------------------------------------------- */

static void nothing_is_left(struct world *w)
{
	left_text = left_ids = freed = 0;
	looking = true;
	all_kinds(w);
	all_kinds(w);
	route_scratch_wipe(w->s);
	assert_true(freed > 50);
	assert_int_equal(left_text, 0);
	assert_int_equal(left_ids, 0);
	for (size_t i = 0; i < n_live; i++)
		look(live[i]);
	assert_int_equal(left_text, 0);
	assert_int_equal(left_ids, 0);
	a_prompt(&w->body, 20);
	ask_both(w, "/v1/completions");
	world_end(w);
	assert_int_equal(left_text, 0);
	assert_int_equal(left_ids, 0);
	looking = false;
}

static void in_text_mode(void **state)
{
	struct world w;

	token_world(&w, NULL, 16);
	world_open(&w);
	nothing_is_left(&w);
}

static const char template[] =
    "<|begin|>{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.role "
    "== 'nobody' %}"
    "{{ raise_exception(m.content) }}{% endif %}{{ m.role ~ ' ' ~ m.content | trim | "
    "replace('pages', 'leaves') }}<|end|>{% endfor %}";

static void in_token_mode(void **state)
{
	static const struct hash_key key = { { 1 } };
	struct chat_source src = { .template = span_str(template) };
	struct tok *t = tok_with(NULL, NULL);
	struct tok_scratch *c = tok_scratch_new();
	struct route_stats st;
	struct ids out = { 0 };
	struct world w;

	assert_int_equal(tok_encode(t, c, SPAN(" " SECRET), 0, &out), 0);
	assert_true(out.n >= RUN + 2);
	memcpy(run, out.p + out.n - RUN, sizeof(run));
	ids_free(&out);
	tok_scratch_free(c);
	token_world(&w, t, 16);
	assert_non_null(token_models[0].chat = chat_load(&src, &key, NULL));
	world_open(&w);
	all_kinds(&w);
	route_stats(w.r, &st);
	assert_true(st.segments.entries > 5 && st.tokens > 10000);
	nothing_is_left(&w);
	chat_unref(token_models[0].chat);
	token_models[0].chat = NULL;
	tok_unref(t);
	assert_int_equal(n_live, 0);
}

static bool applies(void *arg, struct span payload, struct kvcursor_effect *out)
{
	return true;
}

static void in_batches_that_wait_for_a_replay(void **state)
{
	static const struct kvcursor_calls calls = { .apply = applies };
	static const struct hash_key key = { { 1 } };
	struct kvcursor_store store = { .max = 1 << 20 };
	struct kvframe f = { .has_sequence = true, .payload = SPAN("  " SECRET) };
	struct kvcursor_opts o;
	struct kvcursor c;
	struct rng rng;

	rng_init(&rng, 1);
	kvcursor_defaults(&o);
	o.replay = true;
	kvcursor_init(&c, &o, &calls, NULL, &key, &store, &rng);
	kvcursor_connected(&c, 1);
	f.sequence = 5;
	kvcursor_live(&c, &f, 1);
	assert_int_equal(c.n_held, 1);
	left_text = freed = 0;
	looking = true;
	kvcursor_fini(&c);
	looking = false;
	assert_true(freed > 0);
	assert_int_equal(left_text, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(in_text_mode),
		cmocka_unit_test(in_token_mode), cmocka_unit_test(in_batches_that_wait_for_a_replay) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
