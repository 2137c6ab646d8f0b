/* bodies.h - shared by the tests of bodies: a key, functions that feed a body and functions that
 * compare prompts. For unit tests. */
#ifndef TESTS_PROMPT_BODIES_H
#define TESTS_PROMPT_BODIES_H

#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "tests/unit/edge.h"
#include "tests/unit/prompt/ref.h"

static struct hash_key key;
static struct prompt_opts opts;

static inline void bodies_init(void)
{
	struct rng rng;
	size_t i;

	rng_init(&rng, 7);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	prompt_defaults(&opts);
}

static inline struct body *body_make(void)
{
	struct body *b = body_new(&opts, &key);

	assert_non_null(b);
	return b;
}

static inline const struct prompt *feed_whole(struct body *b, enum prompt_api api, const char *p,
    size_t n)
{
	body_reset(b, api);
	body_feed(b, p, n);
	return body_prompt(b);
}

static inline const struct prompt *feed_text(struct body *b, enum prompt_api api, const char *text)
{
	return feed_whole(b, api, text, strlen(text));
}

static inline bool vec_eq(const struct page_vec *a, const struct page_vec *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n * sizeof(*a->p)) == 0);
}

static inline bool vec_starts(const struct page_vec *whole, const struct page_vec *start)
{
	return start->n <= whole->n &&
	       (start->n == 0 || memcmp(whole->p, start->p, start->n * sizeof(*whole->p)) == 0);
}

static inline bool pages_eq(const struct prompt *a, const struct prompt *b)
{
	return vec_eq(&a->system, &b->system) && vec_eq(&a->tools, &b->tools) &&
	       vec_eq(&a->messages, &b->messages) && a->n_leading == b->n_leading &&
	       a->n_history == b->n_history && a->mode == b->mode;
}

static inline bool name_eq(const struct prompt_name *a, const struct prompt_name *b)
{
	return a->seen == b->seen && a->n == b->n && memcmp(a->s, b->s, a->n + 1u) == 0;
}

/* Return whether all public members of two prompts are equal. */
static inline bool prompt_eq(const struct prompt *a, const struct prompt *b)
{
	return pages_eq(a, b) && a->json == b->json && a->found == b->found &&
	       a->priority == b->priority && a->priority_hinted == b->priority_hinted &&
	       a->output_limit == b->output_limit && a->output_hint == b->output_hint &&
	       a->in_media == b->in_media && a->truncated == b->truncated &&
	       a->system_seen == b->system_seen && a->tools_seen == b->tools_seen &&
	       a->prompt_seen == b->prompt_seen && a->n_units == b->n_units &&
	       a->n_bytes == b->n_bytes && name_eq(&a->model, &b->model) &&
	       name_eq(&a->lora, &b->lora) && name_eq(&a->salt, &b->salt) && name_eq(&a->user, &b->user) &&
	       memcmp(a->named, b->named, sizeof(a->named)) == 0 && a->previous == b->previous;
}

/* Copy the public members of a prompt and its pages. Free the copy with prompt_drop(). */
static inline struct prompt prompt_keep(const struct prompt *p)
{
	struct prompt k = *p;

	memset(&k.system, 0, sizeof(k.system));
	memset(&k.tools, 0, sizeof(k.tools));
	memset(&k.messages, 0, sizeof(k.messages));
	ref_append(&k.system, &p->system);
	ref_append(&k.tools, &p->tools);
	ref_append(&k.messages, &p->messages);
	return k;
}

static inline void prompt_drop(struct prompt *p)
{
	page_vec_free(&p->system);
	page_vec_free(&p->tools);
	page_vec_free(&p->messages);
}

static inline void print_vec(const char *what, const struct page_vec *v)
{
	uint32_t i;

	print_message("  %s:", what);
	for (i = 0; i < v->n; i++)
		print_message(" %04x", (unsigned)(v->p[i] & 0xffff));
	print_message("\n");
}

/* Fail if <p>, made of <text>, differs from the reference of ref.h. */
static inline void check_ref(const struct prompt *p, const char *text, size_t n)
{
	struct prompt_ref r = prompt_ref(&key, &opts, p->api, text, n);

	if (!vec_eq(&p->system, &r.system) || !vec_eq(&p->tools, &r.tools) ||
	    !vec_eq(&p->messages, &r.messages) || p->n_units != r.n_units || p->found != r.found ||
	    p->n_leading != r.n_leading || (p->mode == PROMPT_TOKENS) != r.tokens) {
		print_message("%s\nunits %" PRIu64 " want %" PRIu64 ", found %d want %d, leading %u want %u\n",
			      text, p->n_units, r.n_units, p->found, r.found, p->n_leading, r.n_leading);
		print_vec("system", &p->system);
		print_vec("  want", &r.system);
		print_vec("tools", &p->tools);
		print_vec(" want", &r.tools);
		print_vec("messages", &p->messages);
		print_vec("    want", &r.messages);
		fail_msg("the pages differ from the reference");
	}
	prompt_ref_free(&r);
}

/* Fail if the pages and names of a cut body are not a prefix of those of the whole body. */
static inline void check_prefix(const struct prompt *cut, const struct prompt *whole,
    const char *text)
{
	if (!vec_starts(&whole->system, &cut->system) || !vec_starts(&whole->tools, &cut->tools) ||
	    !vec_starts(&whole->messages, &cut->messages)) {
		print_message("%s\ncut after %" PRIu64 " bytes\n", text, cut->n_bytes);
		print_vec("messages", &cut->messages);
		print_vec("of whole", &whole->messages);
		fail_msg("the pages of the cut body are not a prefix");
	}
	assert_true(cut->n_leading <= whole->n_leading);
	assert_true(cut->n_units <= whole->n_units);
	if (cut->model.seen)
		assert_true(name_eq(&cut->model, &whole->model));
	assert_true(!cut->tools_seen || vec_starts(&whole->tools, &cut->tools));
	assert_true(!cut->system_seen || vec_eq(&whole->system, &cut->system));
	assert_true(!cut->prompt_seen || vec_eq(&whole->messages, &cut->messages));
}

struct file {
	enum prompt_api api;
	const char *name;
	char *p;
	size_t n;
};

static inline enum prompt_api api_by_name(const char *name)
{
	enum prompt_api api;

	for (api = API_CHAT; api < PROMPT_APIS; api++)
		if (strncmp(name, prompt_api_name(api), strlen(prompt_api_name(api))) == 0)
			return api;
	fail_msg("%s: the name must begin with the name of an API", name);
	return API_NONE;
}

/* Call <each> for every body in tests/data/bodies. Their names are API-WHAT.json. */
static inline void each_body(void (*each)(const struct file *f))
{
	static char room[1 << 20];
	glob_t g;
	size_t i;

	assert_int_equal(glob("tests/data/bodies/*.json", 0, NULL, &g), 0);
	for (i = 0; i < g.gl_pathc; i++) {
		struct file f = { .name = strrchr(g.gl_pathv[i], '/') + 1 };
		FILE *in = fopen(g.gl_pathv[i], "r");

		assert_non_null(in);
		f.n = fread(room, 1, sizeof(room), in);
		fclose(in);
		assert_in_range(f.n, 1, sizeof(room) - 1);
		room[f.n] = '\0';
		f.api = api_by_name(f.name);
		f.p = (char *)edge_copy(room, f.n);
		each(&f);
		edge_free((uint8_t *)f.p, f.n);
	}
	assert_true(g.gl_pathc >= 10);
	globfree(&g);
}

#endif
