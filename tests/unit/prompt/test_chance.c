/* test_chance.c - random bodies of valid and invalid members, from a fixed seed:
 *   - the pages of a body are those of the reference (ref.h)
 *   - a body in random pieces gives the same as whole
 *   - a body cut at a random place gives a prefix of the whole
 *   - other white space, escapes or order of keys change nothing */
#include "tests/unit/prompt/bodies.h"

#define ROUNDS	3000

struct maker {
	struct rng rng;
	bool twice;		/* keys may come twice */
	unsigned depth;		/* while writing */
};

static uint32_t below(struct maker *m, uint32_t n)
{
	return rng_below(&m->rng, n);
}

/* ---- making a tree --------------------------------------------------------------------------- */

static struct node *text_node(const char *s)
{
	struct node *x = tree_new('s');

	log_bytes(&x->text, s, strlen(s));
	return x;
}

static struct node *make_text(struct maker *m)
{
	static const char *const bits[] = {
		"a", "The quick brown fox ", "\n", "\"", "\\", "\t", "\xc3\xa9", "\xe4\xb8\xad\xe6\x96\x87",
		"\xf0\x9f\x98\x80", "0123456789012345678901234567890123456789012345678901234567890123",
		"{\"a\":1}",
		"\x01", " ", "https://example.com/", "\xef\xbf\xbd",
	};
	struct node *x = tree_new('s');
	uint32_t n = below(m, below(m, 4) ? 5 : 30);

	if (m->twice && below(m, 4) == 0)	/* the order of keys matters for it, so not if it changes */
		log_bytes(&x->text, "x-anthropic-billing-header", 20 + below(m, 7));
	while (n-- > 0) {
		const char *bit = bits[below(m, sizeof(bits) / sizeof(bits[0]))];

		log_bytes(&x->text, bit, strlen(bit));
	}
	return x;
}

static struct node *put(struct node *o, const char *name, struct node *x)
{
	x->key.n = 0;
	log_bytes(&x->key, name, strlen(name));
	tree_add(o, x);
	return x;
}

static struct node *make_any(struct maker *m, unsigned depth)
{
	static const char *const keys[] = {
		"a", "type", "text", "cache_control", "role", "messages", "url", "name",
		"a longer key of some property", "\xc3\xa9\"",
		"content", "input", "image_url",	/* two payloads in one part: their order matters */
	};
	static const char *const numbers[] = { "0", "-1", "1.50", "2e9", "123456789012" };
	uint32_t what = below(m, depth > 3 ? 5 : 7), n_keys = m->twice ? 13 : 10, n, i;
	struct node *x;

	if (what < 2)
		return make_text(m);
	if (what == 2) {
		x = tree_new('n');
		n = below(m, 5);
		log_bytes(&x->text, numbers[n], strlen(numbers[n]));
		return x;
	}
	if (what < 5)
		return tree_new("tf0"[below(m, 3)]);
	x = tree_new(what == 5 ? '{' : '[');
	n = below(m, 5);
	for (i = below(m, n_keys), n += i; i < n; i++) {
		if (what == 5)
			put(x, keys[i % n_keys], make_any(m, depth + 1));
		else
			tree_add(x, make_any(m, depth + 1));
	}
	return x;
}

/* Return true once in 40 calls: write a value of a wrong type. */
static bool wrong(struct maker *m)
{
	return below(m, 40) == 0;
}

static struct node *make_string(struct maker *m)
{
	return wrong(m) ? make_any(m, 0) : make_text(m);
}

static struct node *make_parts(struct maker *m, int level);

static struct node *make_media(struct maker *m)
{
	struct node *x;

	if (below(m, 3) == 0)
		return make_string(m);
	x = tree_new('{');
	put(x, below(m, 2) ? "url" : "data", make_string(m));
	if (below(m, 2))
		put(x, "detail", make_text(m));
	if (below(m, 4) == 0)
		put(x, "more", make_any(m, 1));
	if (below(m, 4) == 0)
		put(x, "cache_control", make_any(m, 1));
	return x;
}

static struct node *make_part(struct maker *m, int level)
{
	static const char *const media[] = {
		"image_url", "source", "input_audio", "file", "data", "video_url", "inlineData", "fileData",
	};
	static const char *const calls[] = {
		"functionCall", "functionResponse", "executable_code", "codeExecutionResult",
	};
	struct node *x = tree_new('{');

	if (wrong(m)) {
		tree_free(x);
		return make_any(m, 1);
	}
	if (below(m, 2))
		put(x, "type", make_text(m));
	switch (below(m, 10)) {
	case 0: case 1: case 2: case 3:
		put(x, "text", make_string(m));
		break;
	case 4:
		put(x, below(m, 2) ? "thinking" : "refusal", make_string(m));
		break;
	case 5:
		put(x, "name", make_string(m));
		put(x, "input", make_any(m, 1));
		break;
	case 6:
		put(x, "content", below(m, 3) ? make_parts(m, level + 1) : make_string(m));
		break;
	case 7:
		put(x, calls[below(m, 4)], make_any(m, 1));
		break;
	default:
		put(x, media[below(m, 8)], wrong(m) ? make_any(m, 0) : make_media(m));
	}
	if (below(m, 3) == 0)
		put(x, "cache_control", make_any(m, 2));
	if (m->twice && below(m, 5) == 0 && x->n > 0)
		put(x, x->kid[below(m, (uint32_t)x->n)]->key.p, make_string(m));
	return x;
}

static struct node *make_parts(struct maker *m, int level)
{
	struct node *x = tree_new('[');
	uint32_t n = level > 3 ? 0 : below(m, 5);

	while (n-- > 0)
		tree_add(x, wrong(m) ? make_any(m, 1) : make_part(m, level));
	return x;
}

static struct node *make_call(struct maker *m)
{
	struct node *x = tree_new('{'), *f = tree_new('{');

	put(f, "name", make_string(m));
	if (below(m, 8))
		put(f, below(m, 8) ? "arguments" : "input", below(m, 6) ? make_string(m) : make_any(m, 1));
	if (m->twice && below(m, 6) == 0)
		put(f, "arguments", make_string(m));
	put(x, "id", make_text(m));
	if (below(m, 10))
		put(x, below(m, 8) ? "function" : "custom", f);
	else
		tree_free(f);
	return x;
}

static struct node *make_calls(struct maker *m)
{
	struct node *x = tree_new('[');
	uint32_t n = below(m, 4);

	while (n-- > 0)
		tree_add(x, wrong(m) ? make_any(m, 1) : make_call(m));
	return x;
}

static struct node *make_role(struct maker *m)
{
	static const char *const roles[] = { "user", "assistant", "tool", "system", "developer" };

	return wrong(m) ? make_any(m, 1) : text_node(roles[below(m, 5)]);
}

static struct node *make_content(struct maker *m)
{
	return wrong(m) ? make_any(m, 0) : below(m, 2) ? make_text(m) : make_parts(m, 0);
}

/* Make a content of the contents API, or its system instruction. */
static struct node *make_google(struct maker *m)
{
	struct node *x = tree_new('{');

	if (below(m, 8))
		put(x, "role", below(m, 2) ? text_node("model") : make_role(m));
	if (below(m, 12))
		put(x, "parts", make_content(m));
	if (m->twice && below(m, 3) == 0 && x->n > 0)
		put(x, x->kid[below(m, (uint32_t)x->n)]->key.p, make_content(m));
	return x;
}

static struct node *make_message(struct maker *m, enum prompt_api api)
{
	static const char *const asides[] = { "reasoning_content", "reasoning", "refusal" };
	static const char *const texts[] = { "arguments", "input", "action", "code", "queries" };
	struct node *x = tree_new('{');

	if (below(m, 12))
		put(x, "role", make_role(m));
	if (below(m, 4) == 0)
		put(x, "name", make_string(m));
	if (api == API_RESPONSES) {
		if (below(m, 2))
			put(x, "type", below(m, 2) ? text_node("message") : make_string(m));
		if (below(m, 4))
			put(x, below(m, 4) ? "content" : "output", make_content(m));
		if (below(m, 3) == 0)
			put(x, texts[below(m, 5)], below(m, 2) ? make_string(m) : make_any(m, 1));
	} else {
		if (below(m, 12))
			put(x, "content", make_content(m));
		if (below(m, 3) == 0)
			put(x, below(m, 5) ? "tool_calls" : "function_call", below(m, 5) ? make_calls(m) : make_call(m));
		if (below(m, 3) == 0)
			put(x, asides[below(m, 3)], make_string(m));
	}
	if (below(m, 6) == 0)
		put(x, "id", make_any(m, 2));
	if (m->twice && below(m, 3) == 0 && x->n > 0)
		put(x, x->kid[below(m, (uint32_t)x->n)]->key.p, make_content(m));
	return x;
}

static struct node *make_messages(struct maker *m, enum prompt_api api)
{
	struct node *x = tree_new('[');
	uint32_t n = below(m, 6);

	while (n-- > 0)
		tree_add(x, wrong(m) ? make_any(m, 1) :
			 api == API_CONTENTS ? make_google(m) : make_message(m, api));
	return x;
}

static struct node *make_ids(struct maker *m)
{
	struct node *x = tree_new('['), *id;
	uint32_t n = below(m, 60);
	char s[16];

	while (n-- > 0) {
		id = tree_new('n');
		log_bytes(&id->text, s, (size_t)snprintf(s, sizeof(s), "%u", below(m, 0xffffffff)));
		tree_add(x, id);
	}
	return x;
}

static struct node *make_prompt(struct maker *m)
{
	struct node *x;
	uint32_t what = below(m, 5), n = below(m, 5);

	if (wrong(m))
		return make_any(m, 0);
	if (what == 0)
		return make_text(m);
	if (what == 1)
		return make_ids(m);
	x = tree_new('[');
	while (n-- > 0)
		tree_add(x, wrong(m) ? make_any(m, 2) : what == 2 ? make_text(m) : make_ids(m));
	return x;
}

static struct node *make_body(struct maker *m, enum prompt_api api)
{
	static const char *const prompts[] = {
		"", "messages", "prompt", "input", "messages", "input", "text", "contents",
	};
	static const char *const names[] = { "model", "user", "cache_salt", "lora_path", "stream", "x" };
	struct node *x = tree_new('{');
	const char *prompt = prompts[api];
	uint32_t i, n = below(m, 4);

	if (api == API_GENERATE && below(m, 2))
		prompt = "input_ids";
	put(x, prompt,
	    api == API_CHAT || api == API_RESPONSES || api == API_MESSAGES || api == API_CONTENTS
		? make_messages(m, api)
		: make_prompt(m));
	if (below(m, 2))
		put(x, "tools", make_any(m, 0));
	if (below(m, 4) == 0)
		put(x, "functions", make_any(m, 0));
	if (below(m, 4) == 0)
		put(x, "documents", make_any(m, 0));
	if (below(m, 2))
		put(x, "system", make_content(m));
	if (below(m, 2))
		put(x, "instructions", make_content(m));
	if (below(m, 2))
		put(x, below(m, 2) ? "systemInstruction" : "system_instruction",
		    below(m, 3) ? make_google(m) : make_content(m));
	for (i = 0; i < n; i++)
		put(x, names[(i + n) % 6], make_string(m));
	if (m->twice && below(m, 2))
		put(x, x->kid[below(m, (uint32_t)x->n)]->key.p, make_messages(m, api));
	return x;
}

/* ---- writing it ------------------------------------------------------------------------------ */

enum style { COMPACT, SPACED };

static void write_space(struct maker *m, struct log *out, enum style style)
{
	static const char *const spaces[] = { "", "", " ", "\n  ", "\t", "\r\n" };
	const char *s = spaces[below(m, 6)];

	if (style == SPACED)
		log_bytes(out, s, strlen(s));
}

static void write_string(struct maker *m, struct log *out, const struct log *text, enum style style)
{
	char u[8];
	size_t i;

	log_bytes(out, "\"", 1);
	for (i = 0; i < text->n; i++) {
		unsigned char c = (unsigned char)text->p[i];

		if (c == '"' || c == '\\' || (c < 0x80 && style == SPACED && below(m, 9) == 0))
			log_bytes(out, u, (size_t)snprintf(u, sizeof(u), "\\u%04x", c));
		else if (c == '\n')
			log_bytes(out, "\\n", 2);
		else
			log_bytes(out, &c, 1);
	}
	log_bytes(out, "\"", 1);
}

enum shuffle { NONE, OWN_KEYS, ALL };

static bool among(const char *s, const char *const *words, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strcmp(s, words[i]) == 0)
			return true;
	return false;
}

/* Return which keys in <x> may be written in any order: none in a value that counts as JSON text,
 * only its own keys in media. */
static enum shuffle shuffle_in(const struct maker *m, const struct node *x, enum shuffle around)
{
	static const char *const fixed[] = {
		"tools", "functions", "documents", "arguments", "action", "code", "queries", "cache_salt",
		"functionCall", "functionResponse", "executable_code", "codeExecutionResult",
	};
	static const char *const media[] = {
		"image_url", "source", "input_audio", "file", "data", "video_url", "inlineData", "fileData",
	};

	if (around != ALL || among(x->key.p, fixed, sizeof(fixed) / sizeof(fixed[0])))
		return NONE;
	if (is(x, "input") && m->depth > 1)	/* of a call */
		return NONE;
	return among(x->key.p, media, sizeof(media) / sizeof(media[0])) ? OWN_KEYS : ALL;
}

static void write_node(struct maker *m, struct log *out, const struct node *x, enum style style,
		       enum shuffle shuffle);

static void write_kids(struct maker *m, struct log *out, const struct node *x, enum style style,
		       enum shuffle shuffle)
{
	size_t order[64], i, k, n = x->n < 64 ? x->n : 64;

	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = n; shuffle != NONE && x->type == '{' && i > 1; i--) {
		size_t swap = order[k = below(m, (uint32_t)i)];

		order[k] = order[i - 1];
		order[i - 1] = swap;
	}
	m->depth++;
	for (i = 0; i < n; i++) {
		const struct node *kid = x->kid[order[i]];

		if (i > 0)
			log_bytes(out, ",", 1);
		write_space(m, out, style);
		if (x->type == '{') {
			write_string(m, out, &kid->key, style);
			write_space(m, out, style);
			log_bytes(out, ":", 1);
			write_space(m, out, style);
		}
		write_node(m, out, kid, style, shuffle_in(m, kid, shuffle));
		write_space(m, out, style);
	}
	m->depth--;
}

static void write_node(struct maker *m, struct log *out, const struct node *x, enum style style,
		       enum shuffle shuffle)
{
	switch (x->type) {
	case 's':
		write_string(m, out, &x->text, style);
		break;
	case 'n':
		log_bytes(out, x->text.p, x->text.n);
		break;
	case 't':
		log_bytes(out, "true", 4);
		break;
	case 'f':
		log_bytes(out, "false", 5);
		break;
	case '0':
		log_bytes(out, "null", 4);
		break;
	default:
		log_bytes(out, &x->type, 1);
		write_kids(m, out, x, style, shuffle);
		log_bytes(out, x->type == '{' ? "}" : "]", 1);
	}
}

/* ---- the properties -------------------------------------------------------------------------- */

static void check_pieces(struct maker *m, struct body *b, const struct prompt *whole,
    const struct log *text)
{
	size_t at, k;

	body_reset(b, whole->api);
	for (at = 0; at < text->n; at += k) {
		k = 1 + below(m, below(m, 3) ? 12 : 500);
		k = k < text->n - at ? k : text->n - at;
		body_feed(b, text->p + at, k);
	}
	if (!prompt_eq(body_prompt(b), whole))
		fail_msg("in pieces it differs: %s", text->p);
}

static void check_cuts(struct maker *m, struct body *b, const struct prompt *whole,
    const struct log *text)
{
	unsigned i;

	for (i = 0; i < 12; i++)
		check_prefix(feed_whole(b, whole->api, text->p, below(m, (uint32_t)text->n)), whole, text->p);
}

static void round_of(struct maker *m, struct body *a, struct body *b, enum prompt_api api)
{
	struct node *tree = make_body(m, api);
	struct log text = { 0 }, other = { 0 };
	const struct prompt *whole, *q;

	write_node(m, &text, tree, COMPACT, NONE);
	whole = feed_whole(a, api, text.p, text.n);
	if (whole->json != JSON_DONE)
		fail_msg("not JSON: %s", text.p);
	check_ref(whole, text.p, text.n);
	check_pieces(m, b, whole, &text);
	if (!m->twice)
		check_cuts(m, b, whole, &text);
	write_node(m, &other, tree, SPACED, m->twice ? NONE : ALL);
	q = feed_whole(b, api, other.p, other.n);
	if (!pages_eq(whole, q) || whole->n_units != q->n_units)
		fail_msg("these forms of one body differ:\n%s\n%s", text.p, other.p);
	free(text.p);
	free(other.p);
	tree_free(tree);
}

static void rounds(uint64_t seed, bool twice)
{
	struct body *a = body_make(), *b = body_make();
	struct maker m = { .twice = twice };
	unsigned i;

	rng_init(&m.rng, seed);
	for (i = 0; i < ROUNDS; i++)
		round_of(&m, a, b, (enum prompt_api)(API_CHAT + i % (PROMPT_APIS - API_CHAT)));
	body_free(a);
	body_free(b);
}

static void test_once(void **state)
{
	rounds(1, false);
}

static void test_twice(void **state)
{
	rounds(2, true);
}

/* Bodies with changed bytes: the scanner must not crash, and must give the same in pieces. If the
 * body is still JSON, it must give the pages of the reference. */
static void mutate_file(const struct file *f)
{
	struct body *a = body_make(), *b = body_make();
	char *text = malloc(f->n + 1);
	const struct prompt *whole;
	struct maker m = { 0 };
	struct log l;
	unsigned i, k;

	assert_non_null(text);
	rng_init(&m.rng, f->n);
	for (i = 0; i < 200; i++) {
		memcpy(text, f->p, f->n);
		text[f->n] = '\0';
		for (k = 0; k < 1 + below(&m, 3); k++)
			text[below(&m, (uint32_t)f->n)] = "\"{}[]:,\\u0 \xff\xe4nt1"[below(&m, 17)];
		whole = feed_whole(a, f->api, text, f->n);
		l = (struct log){ text, f->n, 0 };
		if (whole->json == JSON_DONE)
			check_ref(whole, text, f->n);
		if (whole->json != JSON_BAD)
			check_pieces(&m, b, whole, &l);
	}
	free(text);
	body_free(a);
	body_free(b);
}

static void test_mutated(void **state)
{
	each_body(mutate_file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_mutated),
	};

	bodies_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
