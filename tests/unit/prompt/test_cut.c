/* test_cut.c - bodies in pieces and bodies cut short. Every split gives the pages of the whole
 * body, every cut a prefix of them. The pages of turn N of a conversation are a prefix of those of
 * turn N + 1. The order of keys changes nothing. */
#include "tests/unit/prompt/bodies.h"

#define S10	"0123456789"
#define S64	S10 S10 S10 S10 S10 S10 "0123"

/* ---- every split, every cut ------------------------------------------------------------------ */

static void split_file(const struct file *f)
{
	struct body *a = body_make(), *b = body_make();
	struct prompt whole = prompt_keep(feed_whole(a, f->api, f->p, f->n));
	struct rng rng;
	size_t at, k, round;

	for (at = 0; at <= f->n; at++) {	/* in two pieces */
		body_reset(b, f->api);
		body_feed(b, f->p, at);
		body_feed(b, f->p + at, f->n - at);
		if (!prompt_eq(body_prompt(b), &whole))
			fail_msg("%s split at %zu", f->name, at);
	}
	rng_init(&rng, f->n);
	for (round = 0; round < 50; round++) {	/* in many pieces */
		body_reset(b, f->api);
		for (at = 0; at < f->n; at += k) {
			k = 1 + rng_below(&rng, round % 2 ? 9 : 300);
			k = k < f->n - at ? k : f->n - at;
			body_feed(b, f->p + at, k);
		}
		if (!prompt_eq(body_prompt(b), &whole))
			fail_msg("%s in pieces, round %zu", f->name, round);
	}
	prompt_drop(&whole);
	body_free(a);
	body_free(b);
}

static void test_splits(void **state)
{
	each_body(split_file);
}

/* Cut at every byte. The cut body fed byte by byte gives the same as fed at once, and this is a
 * prefix of the whole. The prefix is not checked for bodies with repeated keys, because a later
 * value replaces pages that came out before. */
static void cut_file(const struct file *f)
{
	bool twice = strstr(f->name, "duplicates") != NULL;
	struct body *a = body_make(), *b = body_make(), *c = body_make();
	const struct prompt *whole = feed_whole(a, f->api, f->p, f->n);
	size_t n;

	body_reset(b, f->api);
	for (n = 0; n <= f->n; n++) {
		uint8_t *cut = edge_copy(f->p, n);

		if (n > 0)
			body_feed(b, f->p + n - 1, 1);
		feed_whole(c, f->api, (const char *)cut, n);
		if (!prompt_eq(body_prompt(b), body_prompt(c)))
			fail_msg("%s: the first %zu bytes at once differ from byte by byte", f->name, n);
		if (!twice)
			check_prefix(body_prompt(c), whole, f->p);
		edge_free(cut, n);
	}
	body_free(a);
	body_free(b);
	body_free(c);
}

static void test_cuts(void **state)
{
	each_body(cut_file);
}

/* The pages and flags of cut bodies, computed by hand. */
static void test_cut_seen(void **state)
{
	static const struct {
		enum prompt_api api;
		unsigned system, tools, messages, lead, units;
		bool found, media, sys_seen, tools_seen, prompt_seen;
		const char *body;
	} cases[] = {
		{ API_CHAT, 0, 0, 0, 0, 0, false, false, false, false, false, "{\"messages\":[" },
		{ API_CHAT, 0, 0, 0, 0, 0, true, false, false, false, false, "{\"messages\":[{" },
		{ API_CHAT, 0, 0, 0, 0, 3, true, false, false, false, false,
		    "{\"messages\":[{\"content\":\"abc" },
		{ API_CHAT, 0, 0, 1, 0, 67, true, false, false, false, false,
		    "{\"messages\":[{\"content\":\"" S64 "abc" },
		{ API_CHAT, 0, 0, 1, 1, 67, true, false, false, false, false,
		    "{\"messages\":[{\"content\":\"" S64 "abc\",\"role\":\"system\"" },
		{ API_CHAT, 0, 0, 1, 1, 67, true, false, false, false, false,
		    "{\"messages\":[{\"role\":\"system\",\"content\":\"" S64 "abc" },
		{ API_CHAT, 0, 0, 2, 2, 67, true, false, false, false, false,
		    "{\"messages\":[{\"role\":\"system\",\"content\":\"" S64 "abc\"}" },
		{ API_CHAT, 0, 0, 2, 2, 67, true, false, false, false, true,
		    "{\"messages\":[{\"role\":\"system\",\"content\":\"" S64 "abc\"}]" },
		/* pages of calls and reasoning come out only after the whole content */
		{ API_CHAT, 0, 0, 0, 0, 64, true, false, false, false, false,
		    "{\"messages\":[{\"tool_calls\":[{\"function\":{\"arguments\":\"" S64 },
		{ API_CHAT, 0, 0, 1, 0, 64, true, false, false, false, false,
		    "{\"messages\":[{\"content\":null,\"tool_calls\":[{\"function\":{\"arguments\":\"" S64 },
		{ API_CHAT, 0, 0, 0, 0, 129, true, false, false, false, false,
		    "{\"messages\":[{\"tool_calls\":[{\"function\":{\"arguments\":\"" S64
		    "\"}}],\"content\":\"" S10 S10 S10 S10 S10 "012345" },
		{ API_CHAT, 0, 0, 2, 0, 137, true, false, false, false, false,
		    "{\"messages\":[{\"reasoning\":\"" S64 "\",\"tool_calls\":[],\"content\":\"" S64
		    "abcdefghi\"" },
		{ API_CHAT, 0, 0, 0, 0, 65, true, false, false, false, false,
		    "{\"messages\":[{\"content\":\"x\",\"reasoning\":\"" S64 },
		{ API_CHAT, 0, 0, 1, 0, 65, true, false, false, false, false,
		    "{\"messages\":[{\"content\":\"x\",\"tool_calls\":[],\"reasoning\":\"" S64 },
		/* inside an image */
		{ API_CHAT, 0, 0, 1, 0, 1, true, true, false, false, false,
		    "{\"messages\":[{\"content\":[{\"text\":\"a\"},{\"image_url\":{\"url\":\"data:" },
		{ API_CHAT, 0, 0, 2, 0, 65, true, false, false, false, false,
		    "{\"messages\":[{\"content\":[{\"text\":\"a\"},{\"image_url\":{\"url\":\"data:\"}" },
		{ API_CHAT, 0, 1, 0, 0, 66, false, false, false, false, false,
		    "{\"tools\":[\"" S64 },
		{ API_CHAT, 0, 2, 0, 0, 68, false, false, false, true, false,
		    "{\"tools\":[\"" S64 "\"]" },
		{ API_CHAT, 0, 0, 0, 0, 0, false, false, false, true, false, "{\"tools\":[]" },
		{ API_MESSAGES, 1, 0, 0, 0, 64, false, false, false, false, false,
		    "{\"system\":\"" S64 },
		{ API_MESSAGES, 2, 0, 0, 0, 64, false, false, true, false, false,
		    "{\"system\":\"" S64 "\"" },
		{ API_MESSAGES, 1, 0, 0, 0, 64, false, false, false, false, false,
		    "{\"system\":[{\"text\":\"" S64 "\"}" },
		{ API_COMPLETIONS, 0, 0, 1, 0, 65, true, false, false, false, false,
		    "{\"prompt\":\"" S64 "x" },
		{ API_COMPLETIONS, 0, 0, 0, 0, 1, true, false, false, false, false,
		    "{\"prompt\":[\"x" },
		{ API_COMPLETIONS, 0, 0, 1, 0, 1, true, false, false, false, false,
		    "{\"prompt\":[\"x\"" },
		{ API_COMPLETIONS, 0, 0, 1, 0, 1, true, false, false, false, true,
		    "{\"prompt\":[\"x\"]" },
		{ API_COMPLETIONS, 0, 0, 0, 0, 2, true, false, false, false, false,
		    "{\"prompt\":[1,2,3" },
		{ API_COMPLETIONS, 0, 0, 0, 0, 3, true, false, false, false, false,
		    "{\"prompt\":[1,2,3," },
		{ API_RESPONSES, 0, 0, 0, 0, 1, true, false, false, false, false,
		    "{\"input\":\"x" },
	};
	struct body *b = body_make();
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct prompt *p = feed_text(b, cases[i].api, cases[i].body);

		assert_int_equal(p->json, JSON_MORE);
		if (p->system.n != cases[i].system || p->tools.n != cases[i].tools ||
		    p->messages.n != cases[i].messages || p->n_leading != cases[i].lead ||
		    p->n_units != cases[i].units || p->found != cases[i].found ||
		    p->in_media != cases[i].media || p->system_seen != cases[i].sys_seen ||
		    p->tools_seen != cases[i].tools_seen || p->prompt_seen != cases[i].prompt_seen)
			fail_msg("%s\n%zu/%zu/%zu lead %u units %u found %d media %d seen %d %d %d",
				 cases[i].body, p->system.n, p->tools.n, p->messages.n, p->n_leading,
				 (unsigned)p->n_units, p->found, p->in_media, p->system_seen,
				 p->tools_seen, p->prompt_seen);
	}
	body_free(b);
}

/* A name counts as seen only once its closing quote is read. */
static void test_cut_names(void **state)
{
	static const char text[] = "{\"model\":\"gpt\",\"user\":\"u\",\"cache_salt\":\"salt\","
		"\"lora_path\":\"l\"}";
	struct body *b = body_make();
	size_t n;

	for (n = 0; n < sizeof(text); n++) {
		const struct prompt *p = feed_whole(b, API_CHAT, text, n);

		assert_int_equal(p->model.seen, n >= strlen("{\"model\":\"gpt\""));
		assert_int_equal(p->user.seen, n >= strlen("{\"model\":\"gpt\",\"user\":\"u\""));
		assert_int_equal(p->salt.seen, n >= strlen("{\"model\":\"gpt\",\"user\":\"u\","
			"\"cache_salt\":\"salt\""));
		assert_int_equal(p->lora.seen, n >= sizeof(text) - 2);
	}
	body_free(b);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* A message of a conversation in two forms: when it is new, and when later turns send it again. */
struct turn {
	const char *fresh, *later;
};

static const struct turn chat[] = {
	{ "{\"role\":\"system\",\"content\":\"" S64 S10 "\"}",
	    "{\"content\":\"" S64 S10 "\",\"role\":\"system\"}" },
	{ "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" S64
	  "\",\"cache_control\":{\"type\":\"ephemeral\"}}]}",
	    "{\"role\":\"user\",\"content\":\"" S64 "\"}" },
	{ "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\","
	  "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]}",
	    "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
	    "\"function\":{\"arguments\":\"{\\\"x\\\":1}\",\"name\":\"f\"}}],\"refusal\":null}" },
	{ "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"ok\"}",
	    "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"ok\"}],"
	    "\"tool_call_id\":\"a\"}" },
	{ "{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}},"
	  "{\"type\":\"text\",\"text\":\"what?\"}]}",
	    "{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":\"u\"},"
	    "{\"text\":\"what?\"}]}" },
	{ "{\"role\":\"assistant\",\"content\":\"a cat\",\"reasoning_content\":\"hm\"}",
	    "{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"a cat\",\"audio\":null}" },
	{ "{\"role\":\"user\",\"content\":\"\"}", "{\"role\":\"user\",\"content\":\"\"}" },
};

static const struct turn messages[] = {
	{ "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" S64
	  "\",\"cache_control\":{\"type\":\"ephemeral\"}}]}",
	    "{\"role\":\"user\",\"content\":\"" S64 "\"}" },
	{ "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\","
	  "\"signature\":\"s\"},{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"x\":1}}]}",
	    "{\"content\":[{\"thinking\":\"t\",\"type\":\"thinking\",\"signature\":\"s\"},"
	    "{\"type\":\"tool_use\",\"name\":\"f\",\"input\":{ \"x\" : 1 },"
	    "\"cache_control\":{\"type\":\"ephemeral\"}}],\"role\":\"assistant\"}" },
	{ "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\","
	  "\"content\":\"12\"}]}",
	    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\","
	    "\"content\":[{\"type\":\"text\",\"text\":\"12\",\"cache_control\":{\"type\":\"ephemeral\"}}]}"
	    "]}" },
	{ "{\"role\":\"assistant\",\"content\":\"done\"}",
	    "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"done\",\"citations\":null}"
	    "]}" },
	{ "{\"role\":\"user\",\"content\":\"more\"}", "{\"role\":\"user\",\"content\":\"more\"}" },
};

static const struct turn responses[] = {
	{ "{\"role\":\"developer\",\"content\":\"brief\"}",
	    "{\"type\":\"message\",\"role\":\"developer\",\"content\":[{\"type\":\"input_text\","
	    "\"text\":\"brief\"}]}" },
	{ "{\"role\":\"user\",\"content\":\"" S64 "\"}",
	    "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"" S64
	    "\"}]}" },
	{ "{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":[]}",
	    "{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":[{\"text\":\"s\"}],"
	    "\"encrypted_content\":\"e\"}" },
	{ "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}",
	    "{\"type\":\"function_call\",\"arguments\":\"{}\",\"name\":\"f\",\"call_id\":\"c\","
	    "\"status\":\"completed\"}" },
	{ "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"" S64 "1\"}",
	    "{\"output\":[{\"type\":\"input_text\",\"text\":\"" S64
	    "1\"}],\"type\":\"function_call_output\",\"call_id\":\"c\"}" },
	{ "{\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"it is\","
	  "\"annotations\":[]}]}",
	    "{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\","
	    "\"content\":[{\"type\":\"output_text\",\"text\":\"it is\",\"logprobs\":[]}]}" },
	{ "{\"role\":\"user\",\"content\":\"thanks\"}",
	    "{\"role\":\"user\",\"content\":\"thanks\"}" },
};

/* Write the first <n> messages: the last in its fresh form, those before it in their later form. */
static void write_turn(char *to, const char *prefix, const struct turn *t, size_t n,
    const char *suffix)
{
	size_t i;

	strcpy(to, prefix);
	for (i = 0; i < n; i++) {
		if (i > 0)
			strcat(to, ",");
		strcat(to, i + 1 < n ? t[i].later : t[i].fresh);
	}
	strcat(to, suffix);
}

static void turns(enum prompt_api api, const char *prefix, const struct turn *t, size_t n,
		  const char *suffix)
{
	struct body *a = body_make(), *b = body_make();
	struct page_vec x = { 0 }, y = { 0 };
	const struct prompt *p, *q;
	char text[8192];
	size_t i;

	for (i = 1; i < n; i++) {
		write_turn(text, prefix, t, i, suffix);
		p = feed_text(a, api, text);
		check_ref(p, text, strlen(text));
		write_turn(text, prefix, t, i + 1, suffix);
		q = feed_text(b, api, text);
		assert_int_equal(p->json, JSON_DONE);
		assert_int_equal(q->json, JSON_DONE);
		if (!vec_starts(&q->messages, &p->messages) || p->messages.n == q->messages.n)
			fail_msg("the pages of turn %zu are not a prefix of the next: %s", i, text);
		assert_true(vec_eq(&p->system, &q->system));
		assert_true(vec_eq(&p->tools, &q->tools));
		assert_int_equal(prompt_pages(p, NULL, NULL, &x), 0);	/* the ordered pages, too */
		assert_int_equal(prompt_pages(q, NULL, NULL, &y), 0);
		if (i > 1)
			assert_true(vec_starts(&y, &x));
	}
	page_vec_free(&x);
	page_vec_free(&y);
	body_free(a);
	body_free(b);
}

#define N(a)	(sizeof(a) / sizeof(a[0]))

static void test_turns(void **state)
{
	turns(API_CHAT, "{\"messages\":[", chat, N(chat), "],\"model\":\"m\"}");
	turns(API_CHAT, "{\"model\":\"m\",\"tools\":[{\"name\":\"f\"}],\"messages\":[", chat,
	    N(chat), "]}");
	turns(API_MESSAGES, "{\"system\":\"" S64 "\",\"messages\":[", messages, N(messages),
	    "],\"tools\":[1]}");
	turns(API_RESPONSES, "{\"instructions\":\"x\",\"input\":[", responses, N(responses), "]}");
}

/* A longer completion prompt shares the whole pages of the shorter one, but not its padded page. */
static void test_turns_text(void **state)
{
	struct body *a = body_make(), *b = body_make();
	const struct prompt *p, *q;

	p = feed_text(a, API_COMPLETIONS, "{\"prompt\":\"" S64 S10 "\"}");
	q = feed_text(b, API_COMPLETIONS, "{\"prompt\":\"" S64 S10 S64 "\"}");
	assert_int_equal(p->messages.n, 2);
	assert_int_equal(p->messages.p[0], q->messages.p[0]);
	assert_int_not_equal(p->messages.p[1], q->messages.p[1]);
	body_free(a);
	body_free(b);
}

/* ---- order of keys --------------------------------------------------------------------------- */

/* Feed the <n> members in every order between <prefix> and <suffix>. */
static void orders(enum prompt_api api, const char *prefix, const char *const *member, size_t n,
		   const char *suffix)
{
	struct body *a = body_make(), *b = body_make();
	const struct prompt *first = NULL, *p;
	size_t order[8], i, k, code, rest, all = 1;
	char text[8192];

	for (i = 2; i <= n; i++)
		all *= i;
	for (code = 0; code < all; code++) {
		for (i = 0; i < n; i++)
			order[i] = i;
		for (i = 0, rest = code; i < n; rest /= n - i, i++) {
			size_t swap = order[k = i + rest % (n - i)];

			order[k] = order[i];
			order[i] = swap;
		}
		strcpy(text, prefix);
		for (i = 0; i < n; i++) {
			strcat(text, i > 0 ? "," : "");
			strcat(text, member[order[i]]);
		}
		strcat(text, suffix);
		p = feed_text(code == 0 ? a : b, api, text);
		assert_int_equal(p->json, JSON_DONE);
		if (code == 0)
			first = p;
		if (!pages_eq(p, first) || p->n_units != first->n_units || !name_eq(&p->model, &first->model) ||
		    !name_eq(&p->lora, &first->lora) || !name_eq(&p->salt, &first->salt) ||
		    !name_eq(&p->user, &first->user))
			fail_msg("another order of keys gives other pages: %s", text);
	}
	body_free(a);
	body_free(b);
}

static void test_orders(void **state)
{
	static const char *const message[] = {
		"\"role\":\"assistant\"",
		"\"content\":[{\"text\":\"" S64 "ab\"},{\"image_url\":\"u\"},"
		"{\"text\":\"c\"}]",
		"\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"" S64 S10
		"\"}},{\"function\":{\"name\":\"g\"}}]",
		"\"name\":\"n\"",
		"\"reasoning_content\":\"" S64 S64 "x\"",
		"\"refusal\":null",
	};
	static const char *const top[] = {
		"\"model\":\"m\"",
		"\"messages\":[{\"role\":\"system\",\"content\":\"" S64 "\"},{\"role\":\"user\"}]",
		"\"tools\":[{\"a\":\"" S64 "\"}]",
		"\"documents\":[{\"b\":\"" S64 "\"}]",
		"\"functions\":[3]",
		"\"lora_path\":\"l\",\"adapter_id\":\"no\"",
	};
	static const char *const names[] = {
		"\"adapter_id\":\"a\"", "\"lora_name\":\"b\"", "\"lora_path\":\"c\"", "\"cache_salt\":\"s\"",
		"\"extra_key\":\"e\"", "\"user\":\"u\"", "\"metadata\":{\"user_id\":\"v\"}",
	};
	static const char *const claude[] = {
		"\"system\":[{\"text\":\"" S64 "a\"}]", "\"tools\":[{\"a\":1}]", "\"model\":\"m\"",
		"\"messages\":[{\"role\":\"user\",\"content\":\"" S64 "\"}]",
	};
	static const char *const call[] = {
		"\"id\":\"i\"",
		"\"type\":\"function\"",
		"\"function\":{\"name\":\"f\",\"arguments\":\"" S64 "\"}",
	};
	static const char *const use[] = {
		"\"type\":\"tool_use\"", "\"id\":\"i\"", "\"name\":\"f\"", "\"input\":{\"a\":\"" S64 "\"}",
		"\"cache_control\":{\"text\":\"no\",\"image_url\":\"no\"}",
	};
	static const char *const item[] = {
		"\"type\":\"function_call\"", "\"name\":\"f\"", "\"arguments\":\"" S64 "\"", "\"call_id\":\"c\"",
		"\"status\":\"completed\"",
	};
	static const char *const image[] = {
		"\"type\":\"base64\"", "\"media_type\":\"image/png\"", "\"data\":\"" S64 "\"",
	};

	orders(API_CHAT, "{\"messages\":[{", message, N(message), "},{\"role\":\"user\"}]}");
	orders(API_CHAT, "{", top, N(top), "}");
	orders(API_CHAT, "{", names, N(names), "}");
	orders(API_MESSAGES, "{", claude, N(claude), "}");
	orders(API_CHAT, "{\"messages\":[{\"tool_calls\":[{", call, N(call), "}]}]}");
	orders(API_MESSAGES, "{\"messages\":[{\"content\":[{", use, N(use), "}]}]}");
	orders(API_RESPONSES, "{\"input\":[{", item, N(item), "}]}");
	orders(API_MESSAGES, "{\"messages\":[{\"content\":[{\"source\":{", image, N(image), "}}]}]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_splits),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_cut_seen),
		cmocka_unit_test(test_cut_names),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_turns_text),
		cmocka_unit_test(test_orders),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
