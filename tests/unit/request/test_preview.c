/* test_preview.c - bodies read without a router: their pages, space and mode, and why some have
 * none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/request/request.h"

#define BODY	"{\"messages\":[{\"role\":\"user\",\"content\":\"" \
		"0123456789012345678901234567890123456789012345678901234567890123456789" \
		"\"}],\"model\":\"m\"}"

struct reader {
	struct hash_key key;
	struct model_opts model;
	struct request_env env;
	struct request_scratch scratch;
};

static int start(void **state)
{
	static struct reader r;
	struct request_opts o = { .slices_max_bytes = 1 << 20 };
	struct rng rng;

	rng_init(&rng, 42);
	for (size_t i = 0; i < sizeof(r.key.secret); i++)
		r.key.secret[i] = (uint8_t)rng_next(&rng);
	model_defaults(&r.model);
	prompt_defaults(&o.prompt);
	heads_defaults(&o.heads);
	o.models.fallback = &r.model;
	assert_int_equal(request_env_init(&r.env, &o, &r.key), 0);
	assert_int_equal(request_scratch_init(&r.scratch, &o.prompt, &r.key), 0);
	*state = &r;
	return 0;
}

static int end(void **state)
{
	struct reader *r = *state;

	request_scratch_fini(&r->scratch);
	request_env_fini(&r->env);
	return 0;
}

/* <tenant>: one whose pool isolates tenants; NULL: of a pool that does not. */
static struct request_preview read_body(struct reader *r, const char *tenant, struct span body)
{
	const struct request_pool in = { .isolate_tenants = tenant != NULL, .model = "" };
	const struct request_message m = {
		.pool = SPAN("pool"), .tenant = span_str(tenant != NULL ? tenant : "any"),
		.body = body, .seq = -1, .visible = -1, .whole = -1,
	};
	struct request_preview v;

	request_preview(&r->env, &r->scratch, &m, &in, &v);
	return v;
}

static void bodies_and_their_pages(void **state)
{
	static const struct {
		const char *body;
		enum request_found found;
		uint32_t pages;
		bool cut, headless, salted;
	} cases[] = {
		{ BODY, REQUEST_PROMPT, 2, false, false, false },
		{ "{\"messages\":[{\"role\":\"user\",\"content\":\"01234567890123456789012345678901234"
		  "5678901234567890123456789012345678901234567890123456789", REQUEST_PROMPT, 1, true, true,
		  false },
		{ "{\"cache_salt\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
		  REQUEST_PROMPT, 1, false, false, true },
		{ "{\"model\":\"m\"}", REQUEST_NO_PROMPT, 0, false, false, false },
		{ "{]", REQUEST_BAD_BODY, 0, false, false, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request_preview v = read_body(*state, NULL, span_str(cases[i].body));

		if (v.found != cases[i].found || v.pages != cases[i].pages || v.cut != cases[i].cut ||
		    v.headless != cases[i].headless || v.salted != cases[i].salted)
			fail_msg("%s: %d, %u pages, cut %d, headless %d, salted %d", cases[i].body,
				 v.found, v.pages, v.cut, v.headless, v.salted);
	}
}

static void tenants_are_apart_where_the_pool_says_so(void **state)
{
	struct request_preview a = read_body(*state, "a", SPAN(BODY));
	struct request_preview b = read_body(*state, "b", SPAN(BODY));
	struct request_preview again = read_body(*state, "a", SPAN(BODY));
	struct request_preview shared = read_body(*state, NULL, SPAN(BODY));

	assert_true(a.space.h[0] == again.space.h[0] && a.space.h[1] == again.space.h[1]);
	assert_true(a.space.h[0] != b.space.h[0]);
	assert_true(shared.space.h[0] != a.space.h[0] && shared.tenant.n == 0);
	assert_true(span_eq(a.tenant, SPAN("a")) && span_eq(a.model, SPAN("m")));
	assert_int_equal(a.page, 64);
}

/* No head is stored for later bodies, and nothing waits. */
static void nothing_is_stored(void **state)
{
	struct reader *r = *state;
	struct heads_stats s;

	read_body(r, NULL, SPAN(BODY));
	heads_stats(r->env.heads, &s);
	assert_int_equal(s.heads, 0);
	assert_int_equal(r->env.slices.n, 0);
	assert_int_equal(r->env.scanned.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bodies_and_their_pages, start, end),
		cmocka_unit_test_setup_teardown(tenants_are_apart_where_the_pool_says_so, start, end),
		cmocka_unit_test_setup_teardown(nothing_is_stored, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
