/* test_opening.c - the beginning of a message that is taken at once gives the state that its single
 * events give. Those come if a body is fed byte by byte. */
#include "agent/prompt/body_in.h"
#include "tests/unit/prompt/bodies.h"

#define BILLING	"x-anthropic-billing-header: cc_version=2; cch=1;"

static struct prompt without_vectors(const struct prompt *p)
{
	struct prompt q;

	memcpy(&q, p, sizeof(q));	/* padding, too */
	q.system = q.tools = q.messages = (struct page_vec){ .p = NULL };
	return q;
}

static struct body *opened(enum prompt_api api)
{
	struct body *b = body_make();

	body_reset(b, api);
	b->trail.on = true;		/* as after body_recall() */
	b->trail.chunk = 64;
	return b;
}

/* Compare all that is shown of both, and what comes of the borders. */
static void same(const struct body *a, const struct body *b, const char *text, size_t at)
{
	struct prompt p = without_vectors(&a->prompt), q = without_vectors(&b->prompt);

	if (!pages_eq(&a->prompt, &b->prompt) || memcmp(&p, &q, sizeof(p)) != 0)
		fail_msg("%s cut at %zu: another prompt", text, at);
	if (a->r.json.edge != b->r.json.edge || a->r.json.depth != b->r.json.depth ||
	    a->r.json.offset != b->r.json.offset || a->r.take != b->r.take ||
	    a->r.take_depth != b->r.take_depth || a->r.rule != b->r.rule ||
	    a->r.msg.role != b->r.msg.role || a->r.msg.role_seen != b->r.msg.role_seen ||
	    a->r.msg.done != b->r.msg.done ||
	    memcmp(a->r.msg.last, b->r.msg.last, sizeof(a->r.msg.last)) != 0)
		fail_msg("%s cut at %zu: another state", text, at);
	if (a->trail.on != b->trail.on || a->trail.marks.n != b->trail.marks.n ||
	    (a->trail.marks.n > 0 && memcmp(a->trail.marks.p, b->trail.marks.p,
		a->trail.marks.n * sizeof(*a->trail.marks.p)) != 0))
		fail_msg("%s cut at %zu: other borders", text, at);
}

static void at_once_and_slowly(enum prompt_api api, const char *text)
{
	size_t n = strlen(text);

	for (size_t cut = 0; cut <= n; cut++) {
		struct body *a = opened(api), *b = opened(api);

		body_feed(a, text, cut);
		for (size_t i = 0; i < cut; i++)
			body_feed(b, text + i, 1);
		same(a, b, text, cut);
		body_feed(a, text + cut, n - cut);
		for (size_t i = cut; i < n; i++)
			body_feed(b, text + i, 1);
		same(a, b, text, n);
		body_free(a);
		body_free(b);
	}
}

static void test_messages(void **state)
{
	static const char *const forms[] = {
		"{\"role\":\"%s\",\"content\":\"%s\"}", "{\"role\": \"%s\", \"content\": \"%s\"}",
		"{\"role\": \"%s\",\"content\":\"%s\"}", "{\"role\":\"%s\",\"content\" :\"%s\"}",
		"{ \"role\":\"%s\",\"content\":\"%s\"}",
		"{\"role\":\"%s\",\"content\":\"%s\",\"content\":\"twice\",\"role\":\"user\"}",
		"{\"role\":\"%s\",\"content\":\"%s\",\"content\":null,\"name\":\"n\"}",
		"{\"role\":\"%s\",\"content\":\"%s\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}",
	};
	static const char *const roles[] = {
		"user", "assistant", "system", "developer", "tool", "usex", "model",
	};
	static const char *const texts[] = {
		"", "x", "\\n", "a \\\"quoted\\\" text \\ud83d\\ude00", BILLING, BILLING "\\nand more",
		"\xe4\xb8\xad\xe6\x96\x87", "bad \xff", "bad \\q",
		"more than a page 0123456789012345678901234567890123456789012345678901234567890123",
	};
	static const struct { enum prompt_api api; const char *key; } apis[] = {
		{ API_CHAT, "messages" }, { API_MESSAGES, "messages" }, { API_RESPONSES, "input" },
		{ API_CONTENTS, "contents" },
	};
	char message[512], body[2048];

	for (size_t i = 0; i < sizeof(apis) / sizeof(*apis); i++)
		for (size_t f = 0; f < sizeof(forms) / sizeof(*forms); f++)
			for (size_t r = 0; r < sizeof(roles) / sizeof(*roles); r++)
				for (size_t t = r % 2; t < sizeof(texts) / sizeof(*texts); t += 2) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
					snprintf(message, sizeof(message), forms[f], roles[r], texts[t]);
#pragma GCC diagnostic pop
					snprintf(body, sizeof(body), "{\"%s\":[%s,%s],\"model\":\"m\"}", apis[i].key,
					    message, message);
					at_once_and_slowly(apis[i].api, body);
				}
}

/* No role was hashed. */
static void test_taken(void **state)
{
	static const char *const begun[] = {
		"{\"messages\":[{\"role\":\"user\",\"content\":\"",
		"{\"messages\":[{\"role\": \"user\", \"content\": \"",
		"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x",
		"{\"messages\":[{\"role\":\"system\",\"content\":\"x",
	};

	for (size_t i = 0; i < sizeof(begun) / sizeof(*begun); i++) {
		struct body *b = opened(API_CHAT);

		body_feed(b, begun[i], strlen(begun[i]));
		assert_true(b->r.msg.role_seen);
		assert_int_equal(b->r.digest.used, 0);
		body_free(b);
	}
}

/* As deep as may be, and deeper. */
static void test_depth(void **state)
{
	for (uint16_t most = 1; most < 5; most++) {
		opts.max_depth = most;
		at_once_and_slowly(API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}");
	}
	prompt_defaults(&opts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_depth),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
