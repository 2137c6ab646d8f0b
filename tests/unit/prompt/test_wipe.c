/* test_wipe.c - after body_reset() a scanner has the bytes of a new one: nothing of the body before
 * is left, wherever it ended. Only memory of vectors differs. */
#include "agent/prompt/body_in.h"
#include "tests/unit/prompt/bodies.h"

static const uint32_t text_pages[] = { 16, 64, 256 };

static void vec_forget(struct page_vec *v)
{
	assert_int_equal(v->n, 0);
	v->p = NULL;
	v->cap = 0;
}

/* Return the bytes that body_reset() has to set, without addresses of <b>. */
static struct body bytes_of(const struct body *b)
{
	struct body c;

	memcpy(&c, b, sizeof(c));	/* padding, too */
	vec_forget(&c.prompt.system);
	vec_forget(&c.prompt.tools);
	vec_forget(&c.prompt.messages);
	c.r.json.arg = NULL;
	return c;
}

static void same_as_new(const struct body *b, const struct body *new, const char *name, size_t at)
{
	struct body have = bytes_of(b), want = bytes_of(new);

	if (memcmp(&have.r, &want.r, sizeof(want.r)) != 0)
		fail_msg("%s cut at %zu: the request is not wiped", name, at);
	if (memcmp(&have.prompt, &want.prompt, sizeof(want.prompt)) != 0)
		fail_msg("%s cut at %zu: the prompt is not wiped", name, at);
	if (memcmp(&have.trail.model, &want.trail.model, sizeof(want.trail.model)) != 0 ||
	    memcmp(&have.trail.lora, &want.trail.lora, sizeof(want.trail.lora)) != 0)
		fail_msg("%s cut at %zu: the names of the trail are not wiped", name, at);
}

/* Each cut costs a comparison of all bytes, so that long bodies are cut at some places only. */
static void wipe_file(const struct file *f)
{
	struct body *b = body_make(), *new = body_make();
	size_t step = 1 + f->n / 2000;

	body_reset(new, API_NONE);
	for (size_t at = 0; at <= f->n; at += step) {
		body_reset(b, f->api);
		b->trail.on = true;	/* as after body_recall() */
		b->trail.chunk = 64;
		body_feed(b, f->p, at);
		body_reset(b, API_NONE);
		same_as_new(b, new, f->name, at);
	}
	body_free(b);
	body_free(new);
}

static void test_files(void **state)
{
	for (unsigned i = 0; i < sizeof(text_pages) / sizeof(text_pages[0]); i++) {
		opts.text_page = text_pages[i];
		each_body(wipe_file);
	}
	prompt_defaults(&opts);
}

#define LONG	"LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL"
#define LONG_4	LONG LONG LONG LONG

/* Names that are longer, shorter, hashed and void after one another; digests of two chunks. */
static void test_names(void **state)
{
	static const char *const bodies[] = {
		"{\"model\":\"" LONG "\",\"user\":\"u\",\"model\":\"m\"}",
		"{\"model\":\"" LONG "\",\"model\":7,\"user\":\"u\"}",
		"{\"user\":\"" LONG_4 LONG "\",\"model\":\"m\"}",
		"{\"user\":\"" LONG "\",\"user\":null,\"metadata\":{\"user_id\":\"" LONG_4 "\"}}",
		"{\"lora_path\":[\"" LONG "\",\"a\"],\"lora_name\":\"" LONG_4 "\",\"model\":\"m\"}",
		"{\"cache_salt\":\"" LONG_4 "\",\"extra_key\":\"" LONG "\",\"extra_key\":null}",
		"{\"cache_salt\":\"" LONG "\",\"cache_salt\":null}",
		"{\"cache_salt\":{\"a\":\"" LONG "\"},\"extra_key\":\"s\"}",
		"{\"prompt_cache_key\":\"" LONG_4 "\",\"model\":\"m\"}",
		"{\"messages\":[{\"role\":\"" LONG_4 LONG_4 LONG "\"},{\"role\":\"user\"}],\"model\":\"m\"}",
		"{\"messages\":[{\"name\":\"" LONG_4 LONG_4 "\"},{\"role\":\"" LONG "\"}]}",
		"{\"model\":\"" LONG "\",\"lora_path\":\"" LONG "\",\"messages\":[{\"role\":\"user\"}],"
		"\"model\":\"m\"}",
	};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		struct file f = {
			.api = API_CHAT, .name = bodies[i], .p = (char *)(uintptr_t)bodies[i],
			.n = strlen(bodies[i]),
		};

		wipe_file(&f);
	}
}

/* Ids of an earlier value of the key; a page of the most ids. */
static void test_ids(void **state)
{
	static const uint32_t pages[] = { 1, 16, PROMPT_TOKEN_PAGE_MAX };
	static const char *const bodies[] = {
		"{\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],\"prompt\":\"text\"}",
		"{\"prompt\":[[1,2,3],[4,5],[\"text\"]],\"prompt\":null}",
	};

	for (unsigned i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		opts.token_page = pages[i];
		for (size_t k = 0; k < sizeof(bodies) / sizeof(bodies[0]); k++) {
			struct file f = {
				.api = API_COMPLETIONS, .name = bodies[k], .p = (char *)(uintptr_t)bodies[k],
				.n = strlen(bodies[k]),
			};

			wipe_file(&f);
		}
	}
	prompt_defaults(&opts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_ids),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
