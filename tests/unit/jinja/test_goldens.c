/* Real templates against the recorded output of Python's Jinja2: ../shared/data/tokenizers/chat,
 * see ORIGIN.md there. */
#include "tests/unit/jinja/render.h"

#define DATA	"../shared/data/tokenizers/chat/"

static struct jval load(struct jinja_mem *m, const char *name, char **text)
{
	char path[256];
	struct jval v;
	size_t n = 0;

	snprintf(path, sizeof(path), DATA "%s", name);
	*text = whole_file(path, &n);
	if (*text == NULL) {
		printf("skipped: %s: no data\n", name);
		return (struct jval){ .kind = JV_MISSING };
	}
	assert_int_equal(jval_from_json(m, span_of(*text, n), 0, &v, NULL), 0);
	return v;
}

static struct jval with(struct jinja_mem *m, const struct jval *dicts, unsigned n)
{
	struct jval all = jval_dict(m, 8);
	uint32_t i;

	for (; n > 0; n--, dicts++)
		for (i = 0; dicts->kind == JV_DICT && i < dicts->d->n; i++)
			assert_true(jdict_put(m, all.d, dicts->d->entry[i].key, dicts->d->entry[i].value));
	return all;
}

/* Return whether the result equals Python's, and print the difference if not. */
static bool same(const char *name, const char *kase, const struct rendered *r, struct jval output,
    struct jval error)
{
	size_t i;

	if (error.kind == JV_STR) {
		if (r->result == JINJA_RAISED && span_eq(span_str(r->why.text), jval_span(error)))
			return true;
		printf("%s, %s:\n  %s: %s\n  wanted: " SPAN_FMT "\n", name, kase,
		    jinja_result_name(r->result), r->why.text, SPAN_ARG(jval_span(error)));
		return false;
	}
	if (r->result != JINJA_OK) {
		printf("%s, %s: %s: line %u: %s\n", name, kase, jinja_result_name(r->result),
		    r->why.line, r->why.text);
		return false;
	}
	if (span_eq(span_of(r->text.p, r->text.n), jval_span(output)))
		return true;
	for (i = 0; i < r->text.n && i < output.n && r->text.p[i] == output.s[i]; i++)
		;
	printf("%s, %s: other text at %zu of %zu (%u wanted)\n  ...%.*s\n  ...%.*s\n", name, kase,
	    i, r->text.n, output.n, r->text.n - i < 80 ? (int)(r->text.n - i) : 80, r->text.p + i,
	    output.n - i < 80 ? (int)(output.n - i) : 80, output.s + i);
	return false;
}

static struct jinja *compiled(const char *name, struct span text)
{
	struct err e = { 0 };
	struct jinja *t = jinja_compile(text, &e);

	if (t == NULL)
		printf("%s: line %d: %s\n", name, e.line, e.text);
	return t;
}

static void name_of(struct jval key, char out[128])
{
	snprintf(out, 128, SPAN_FMT, SPAN_ARG(jval_span(key)));
}

/* Render all conversations with one template. Returns the number of those that differ. */
static unsigned check_template(const char *name, struct jval g, struct jval expected)
{
	struct jval conversations = member(g, "conversations"), parts[3], one;
	struct jinja_mem *m = jinja_mem_new(64 << 20, &test_key);
	char path[300], kase[128], *text;
	struct rendered r;
	struct jinja *t;
	unsigned bad = 0;
	uint32_t i;
	size_t n = 0;

	snprintf(path, sizeof(path), DATA "templates/%s.jinja", name);
	text = whole_file(path, &n);
	assert_non_null(text);
	t = compiled(name, span_of(text, n));
	free(text);
	for (i = 0; t != NULL && i < expected.d->n; i++) {
		name_of(expected.d->entry[i].key, kase);
		one = expected.d->entry[i].value;
		parts[0] = jval_dict(m, 2);
		jdict_put_str(m, parts[0].d, "tools", jval_none());
		jdict_put_str(m, parts[0].d, "add_generation_prompt", jval_bool(true));
		parts[1] = member(g, "special");
		parts[2] = member(conversations, kase);
		assert_int_equal(parts[2].kind, JV_DICT);
		r = render_dict(t, m, with(m, parts, 3).d);
		bad += !same(name, kase, &r, member(one, "output"), member(one, "error"));
		buf_free(&r.text);
		jinja_mem_reset(m);
	}
	jinja_mem_free(m);
	jinja_free(t);
	return t == NULL ? 1000 : bad;
}

static void test_jinja2(void **state)
{
	struct jinja_mem *m = jinja_mem_new(64 << 20, &test_key);
	char *text, name[128];
	struct jval g = load(m, "jinja2_goldens.json", &text), all = member(g, "expected");
	unsigned bad = 0;
	uint32_t i;

	for (i = 0; all.kind == JV_DICT && i < all.d->n; i++) {
		name_of(all.d->entry[i].key, name);
		bad += check_template(name, g, all.d->entry[i].value);
	}
	if (all.kind == JV_DICT)
		assert_true(all.d->n >= 52);
	assert_int_equal(bad, 0);
	jinja_mem_free(m);
	free(text);
}

/* Templates without recorded output; they must compile. */
static const char *const others[] = {
	"Bielik-11B-v3.0-Instruct", "CohereForAI-c4ai-command-r-plus-tool_use", "GLM-4.7-Flash",
	"GigaChat3.1-10B-A1.8B",
	"Kimi-K2-Thinking", "LFM2.5-8B-A1B", "MiniMax-M1", "MiroThinker", "NVIDIA-Nemotron-Nano-v2",
	"Qwen-QwQ-32B",
	     "Qwen3-Coder",
	"StepFun3.5-Flash", "deepseek-ai-DeepSeek-V3.1", "deepseek-ai-DeepSeek-V4-Flash-0731",
	"google-gemma-4-31B-it",
	"ibm-granite-granite-4.0", "llama-cpp-rwkv-world", "meta-llama-Llama-3.1-8B-Instruct",
	"microsoft-Phi-3.5-mini-instruct",
	"mistral-common-v15_think", "mistralai-Ministral-3-14B-Reasoning-2512", "muse-glimmer",
	"ort-gpt-oss",
	     "poolside-Laguna-XS.2",
	"tencent-Hy3", "upstage-Solar-Open-100B",
};

static void test_compile(void **state)
{
	char path[300], *text;
	unsigned bad = 0, seen = 0;
	struct jinja *t;
	size_t i, n = 0;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(path, sizeof(path), DATA "templates/%s.jinja", others[i]);
		text = whole_file(path, &n);
		if (text == NULL)
			continue;
		seen++;
		t = compiled(others[i], span_of(text, n));
		bad += t == NULL;
		jinja_free(t);
		free(text);
	}
	if (seen == 0)
		printf("skipped: templates: no data\n");
	assert_int_equal(bad, 0);
}

/* Two cases of huggingface.js whose expected text differs from Python's output. */
static const char *const python_differs[] = {
	"HuggingFaceTB/SmolLM3-3B",	/* expects the date on which the case was written */
	"MadeAgents/Hammer2.1",		/* list|string: repr() in Python, JSON in huggingface.js */
};

static bool is_excused(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(python_differs) / sizeof(python_differs[0]); i++)
		if (strcmp(name, python_differs[i]) == 0)
			return true;
	return false;
}

static unsigned check_hf(const char *name, struct jval one)
{
	struct jinja_mem *m = jinja_mem_new(64 << 20, &test_key);
	struct jinja *t = compiled(name, jval_span(member(one, "chat_template")));
	struct rendered r = { 0 };
	bool ok = false;

	if (t != NULL) {
		r = render_dict(t, m, member(one, "data").d);
		ok = same(name, "", &r, member(one, "target"), (struct jval){ .kind = JV_MISSING });
	}
	buf_free(&r.text);
	jinja_mem_free(m);
	jinja_free(t);
	return !ok;
}

static void test_huggingface_js(void **state)
{
	struct jinja_mem *m = jinja_mem_new(64 << 20, &test_key);
	char *text, name[128];
	struct jval groups = load(m, "hfjs_e2e.json", &text), group;
	unsigned bad = 0, seen = 0;
	uint32_t i, k;

	for (i = 0; groups.kind == JV_DICT && i < groups.d->n; i++) {
		group = groups.d->entry[i].value;
		for (k = 0; k < group.d->n; k++, seen++) {
			name_of(group.d->entry[k].key, name);
			if (!is_excused(name))
				bad += check_hf(name, group.d->entry[k].value);
		}
	}
	if (groups.kind == JV_DICT)
		assert_int_equal(seen, 53);
	assert_int_equal(bad, 0);
	jinja_mem_free(m);
	free(text);
}

static void test_llama_cpp(void **state)
{
	struct jinja_mem *m = jinja_mem_new(64 << 20, &test_key);
	char *text, name[128];
	struct jval g = load(m, "llamacpp_verified.json", &text), all = member(g, "cases"), parts[3], one;
	struct rendered r;
	unsigned bad = 0;
	struct jinja *t;
	uint32_t i;

	for (i = 0; all.kind == JV_LIST && i < all.n; i++) {
		one = all.v[i];
		name_of(member(one, "name"), name);
		parts[0] = g;
		parts[1] = one;
		t = compiled(name, jval_span(member(one, "template")));
		if (t == NULL) {
			bad++;
			continue;
		}
		r = render_dict(t, m, with(m, parts, 2).d);
		bad += !same(name, "", &r, member(one, "expected"), (struct jval){ .kind = JV_MISSING });
		buf_free(&r.text);
		jinja_free(t);
	}
	if (all.kind == JV_LIST)
		assert_int_equal(all.n, 22);
	assert_int_equal(bad, 0);
	jinja_mem_free(m);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jinja2),
		cmocka_unit_test(test_compile),
		cmocka_unit_test(test_huggingface_js),
		cmocka_unit_test(test_llama_cpp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
