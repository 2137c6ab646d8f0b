/* chat - render the body of a conversation, of each API, with some templates and harmony, complete
 * and cut.
 *
 * The first byte selects template and API, the second if the body is cut. Rendering twice gives the
 * same text; runs add up to the text, in order. For a complete body that is one object with nothing
 * after its messages, the cut form gives a beginning of the complete text. What a body leaves for
 * the next turn is used for the same body, and for one with a message more there: both give the
 * text of a complete rendering. */
#include "agent/chat/chat.h"
#include "agent/chat/close_body.h"
#include "tests/fuzz/lib/fuzz.h"

static const char *const templates[] = {
	"{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if "
	"add_generation_prompt %}A{% endif %}",
	"{% for m in messages %}{% for p in m.content %}{{ p.text | default('-') }}{% endfor %}{{ "
	"m.tool_calls | tojson }}{% endfor %}",
	"{% if tools %}{{ tools | tojson(indent=1) }}{% endif %}{% for m in messages %}{% if loop.first "
	"%}-{% endif %}{{ m | tojson }}{% endfor %}",
};
#define TEMPLATES	(sizeof(templates) / sizeof(templates[0]))

static struct hash_key key;

static void make_key(void)
{
	struct rng rng;

	rng_init(&rng, 456);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
}

static struct chat *load(unsigned which)
{
	struct chat_source src = { .config = SPAN("{\"bos_token\":\"<s>\"}") };

	if (which == TEMPLATES)
		src.format = CHAT_HARMONY;
	else
		src.template = span_str(templates[which]);
	return must_alloc(chat_load(&src, &key, NULL));
}

static void judge(enum chat_result r, const struct chat_text *t)
{
	size_t at = 0;

	if (r != CHAT_DONE) {
		must(t->why[0] != '\0' && t->n == 0);
		return;
	}
	for (size_t i = 0; i < t->n_runs; i++) {
		must(t->runs[i].at == at && t->runs[i].n > 0);
		at += t->runs[i].n;
	}
	must(at == t->n);
}

/* Render <raw> as a whole, and on from what <left> has of it; <before>: the text up to there. */
static void go_on(const struct chat *c, const struct chat_body *of, struct span raw,
    const struct chat_turn *left, const char *before)
{
	struct chat_scratch *s = must_alloc(chat_scratch_new(1 << 20, &key)),
			    *s2 = must_alloc(chat_scratch_new(1 << 20, &key));
	struct chat_turn turn = { .key = &key, .memo = left->left, .at = left->left_at };
	struct chat_body b = *of;
	struct chat_text whole, on;
	enum chat_result r;

	b.raw = raw;
	b.turn = NULL;
	r = chat_render(c, s, &b, &whole);
	b.turn = &turn;
	must(chat_render(c, s2, &b, &on) == r);
	if (r == CHAT_DONE) {
		size_t n = turn.resumed ? left->text_at : 0;

		must(on.n + n == whole.n && (n == 0 || memcmp(before, whole.p, n) == 0) &&
		    (on.n == 0 || memcmp(on.p, whole.p + n, on.n) == 0));
	}
	chat_scratch_free(s);
	chat_scratch_free(s2);
}

static void turns(const struct chat *c, const struct chat_body *of)
{
	static const char more[] = ",{\"role\":\"user\",\"content\":\"more\"}";
	struct chat_scratch *s = must_alloc(chat_scratch_new(1 << 20, &key));
	struct chat_turn turn = { .key = &key };
	struct chat_body b = *of;
	struct chat_text t;
	size_t at, n;
	char *longer;

	b.turn = &turn;
	if (chat_render(c, s, &b, &t) == CHAT_DONE && turn.good) {
		at = (size_t)turn.left_at;
		must(at <= b.raw.n && turn.text_at <= t.n);
		n = b.raw.n + sizeof(more) - 1;
		longer = must_alloc(malloc(n));
		memcpy(longer, b.raw.p, at);
		memcpy(longer + at, more, sizeof(more) - 1);
		memcpy(longer + at + sizeof(more) - 1, b.raw.p + at, b.raw.n - at);
		go_on(c, &b, b.raw, &turn, t.p);
		go_on(c, &b, span_of(longer, n), &turn, t.p);
		free(longer);
	}
	chat_scratch_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = in_u8(&in), cut = in_u8(&in);
	struct chat_scratch *s, *s2;
	struct chat *c;
	size_t n = in.left;
	char *raw = exact(in.p, n);
	struct chat_body b = {
		.api = (enum chat_api)(how / 8 % 3),
		.raw = span_of(raw, n),
		.cut = cut & 1,
		.now = { .year = 2026, .month = 2, .day = 3 },
	};
	struct chat_text t, again;
	enum chat_result r;

	make_key();
	c = load(how % (TEMPLATES + 1));
	s = must_alloc(chat_scratch_new(1 << 20, &key));
	s2 = must_alloc(chat_scratch_new(1 << 20, &key));
	r = chat_render(c, s, &b, &t);
	judge(r, &t);
	must(chat_render(c, s2, &b, &again) == r && again.n == t.n &&
	    (t.n == 0 || memcmp(again.p, t.p, t.n) == 0));
	if (r == CHAT_DONE && !b.cut)
		turns(c, &b);
	if (r == CHAT_DONE && !b.cut) {
		struct chat_text part;
		struct cut where;

		b.cut = true;
		b.raw = span_of(raw, n > 2 && raw[n - 1] == '}' && raw[n - 2] == ']' ? n - 2 : 0);
		/* after its list a member may be repeated, and the second one counts */
		if (cut_find(b.raw, b.api == CHAT_RESPONSES ? "input" : "messages", &where) && where.in_list &&
		    chat_render(c, s2, &b, &part) == CHAT_DONE && !part.tools_unseen)
			must(part.n <= t.n && memcmp(part.p, t.p, part.n) == 0);
	}
	chat_scratch_free(s);
	chat_scratch_free(s2);
	chat_unref(c);
	free(raw);
	return 0;
}
