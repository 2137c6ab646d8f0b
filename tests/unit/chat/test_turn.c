/* test_turn.c - a conversation that is rendered on from what an earlier body left has the text of a
 * whole rendering, whatever the template reads and whatever was changed: random conversations that
 * grow, shrink and differ, by templates made for each kind of read and by all real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/chat/chat.h"
#include "agent/chat/ends.h"

#define TEMPLATES	"../shared/data/tokenizers/chat/templates"
#define BODY		(1u << 16)
#define MESSAGES	24u
#define KEPT		6u		/* what so many bodies left is tried */
#define ROUNDS		120u

static const struct jinja_time now = { .year = 2026, .month = 11, .day = 21, .hour = 12 };
static struct hash_key key;

/* ---- conversations ---- */

struct talk {
	char message[MESSAGES][512];
	unsigned n;
	bool tools, kwargs, no_start, developer;
	char content[64];
};

static const char *random_text(struct talk *t, struct rng *rng)
{
	static const char *const texts[] = {
		"hello", "  spaces  ", "", "line\\nline", "<think>a</think>b", "caf\\u00e9", "\\ud83d\\ude00",
		"<tool_response>x</tool_response>", "a \\\"quote\\\"", "</think>", "\xef\xbf\xbd",
	};

	snprintf(t->content, sizeof(t->content), "%s%u",
	    texts[rng_below(rng, 60) == 0 ? 10 : rng_below(rng, 10)], (unsigned)rng_below(rng, 5));
	return t->content;
}

static void put_message(struct talk *t, unsigned at, struct rng *rng)
{
	static const char *const roles[] = { "user", "assistant", "user", "assistant", "tool", "system" };
	const char *role = roles[at % 2 == 0 || rng_below(rng, 4) == 0 ? rng_below(rng, 6) : 1];
	char *p = t->message[at];
	size_t room = sizeof(t->message[at]);

	if (at == 0 && rng_below(rng, 2) == 0)
		role = "system";
	if (at <= 1 && rng_below(rng, 3) > 0)
		role = "user";
	if (t->developer && rng_below(rng, 12) == 0)
		role = "developer";
	if (strcmp(role, "assistant") == 0 && rng_below(rng, 3) == 0)
		snprintf(p, room, "{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[{\"id\":\"call12345\","
		    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":%u}\"}}]}",
		    rng_below(rng, 2) == 0 ? "null" : "\"\"", (unsigned)rng_below(rng, 3));
	else if (strcmp(role, "assistant") == 0 && rng_below(rng, 3) == 0)
		snprintf(p, room, "{\"role\":\"assistant\",\"reasoning_content\":\"why %u\",\"content\":\"%s\"}",
		    (unsigned)rng_below(rng, 3), random_text(t, rng));
	else if (strcmp(role, "tool") == 0)
		snprintf(p, room, "{\"role\":\"tool\",\"tool_call_id\":\"call12345\",\"content\":\"%s\"}",
		    random_text(t, rng));
	else if (rng_below(rng, 6) == 0)
		snprintf(p, room, "{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}],\"role\":\"%s\"}",
		    random_text(t, rng), role);
	else
		snprintf(p, room, "{\"role\":\"%s\",\"content\":\"%s\"}", role, random_text(t, rng));
}

static void change(struct talk *t, struct rng *rng)
{
	switch (rng_below(rng, 12)) {
	case 0:
		t->n = 1 + (unsigned)rng_below(rng, t->n);
		break;
	case 1:
		put_message(t, (unsigned)rng_below(rng, t->n), rng);
		break;
	case 2:
		t->tools = !t->tools;
		break;
	case 3:
		t->kwargs = !t->kwargs;
		break;
	case 4:
		t->no_start = !t->no_start;
		break;
	case 5:
		break;
	default:
		for (unsigned i = 1 + (unsigned)rng_below(rng, 3); i > 0 && t->n < MESSAGES; i--)
			put_message(t, t->n++, rng);
		if (t->n == MESSAGES)
			t->n = 2;
	}
}

static size_t write_body(const struct talk *t, char *p)
{
	size_t n = (size_t)sprintf(p, "{\"model\":\"m\",\"messages\":[");

	for (unsigned i = 0; i < t->n; i++)
		n += (size_t)sprintf(p + n, "%s%s", i > 0 ? ", " : "", t->message[i]);
	n += (size_t)sprintf(p + n, "]%s%s%s}",
	    t->tools ? ",\"tools\":[{\"type\":\"function\","
		       "\"function\":{\"name\":\"f\",\"parameters\":{}}}]" : "",
	    t->kwargs ? ",\"chat_template_kwargs\":{\"enable_thinking\":false}" : "",
	    t->no_start ? ",\"add_generation_prompt\":false" : "");
	return n;
}

/* ---- what bodies left ---- */

struct kept {
	char *raw, *memo, *text;
	size_t at, n_memo, n_text;
};

struct memory {
	struct kept kept[KEPT];
	unsigned next;
	unsigned long tried, resumed;
};

static char *copy(const void *p, size_t n)
{
	char *to = malloc(n + 1);

	assert_non_null(to);
	if (n > 0)
		memcpy(to, p, n);
	return to;
}

static void drop(struct kept *k)
{
	free(k->raw);
	free(k->memo);
	free(k->text);
	*k = (struct kept){ .raw = NULL };
}

/* Keep what <turn> left of <raw>, whose whole text begins with <before> bytes that it has not. */
static void keep(struct memory *m, const struct chat_turn *turn, const char *raw, const char *text,
    size_t before)
{
	struct kept *k = &m->kept[m->next++ % KEPT];

	drop(k);
	k->at = (size_t)turn->left_at;
	k->n_memo = turn->left.n;
	k->n_text = before + turn->text_at;
	k->raw = copy(raw, k->at);
	k->memo = copy(turn->left.p, k->n_memo);
	k->text = copy(text, k->n_text);
}

/* ---- the same text ---- */

static enum chat_result render(const struct chat *c, struct chat_scratch *s, struct span raw,
    struct chat_turn *turn, struct chat_text *out)
{
	const struct chat_body b = { .api = CHAT_COMPLETIONS, .raw = raw, .now = now, .turn = turn };

	return chat_render(c, s, &b, out);
}

static void same_text(const char *name, struct span raw, const struct kept *k, const char *whole,
    size_t n, const struct chat_text *got, size_t lead)
{
	if (k->n_text + got->n - lead == n && memcmp(k->text, whole, k->n_text) == 0 &&
	    memcmp(got->p + lead, whole + k->n_text, n - k->n_text) == 0)
		return;
	fail_msg("%s\nbody  " SPAN_FMT "\nbytes %zu are known\nwhole %.*s\nknown %.*s\nnew   %.*s", name,
	    SPAN_ARG(raw), k->at, (int)n, whole, (int)k->n_text, k->text, (int)(got->n - lead),
	    got->p + lead);
}

static void one_body(const char *name, const struct chat *c, struct chat_scratch *s,
    struct memory *m, struct span raw)
{
	struct chat_turn turn = { .key = &key };
	enum chat_result result;
	struct chat_text text;
	size_t n = 0;
	char *whole = NULL;

	result = render(c, s, raw, NULL, &text);
	if (result == CHAT_DONE) {
		n = text.n;
		whole = copy(text.p, n);
	}
	for (unsigned i = 0; i < KEPT; i++) {
		const struct kept *k = &m->kept[i];

		if (k->raw == NULL || k->at > raw.n || memcmp(k->raw, raw.p, k->at) != 0)
			continue;
		turn = (struct chat_turn){ .key = &key, .memo = span_of(k->memo, k->n_memo), .at = k->at,
			.lead = SPAN("lead") };
		assert_int_equal(render(c, s, raw, &turn, &text), result);
		m->tried++;
		if (result != CHAT_DONE)
			continue;
		m->resumed += turn.resumed;
		if (turn.resumed)
			same_text(name, raw, k, whole, n, &text, 4);
		else
			assert_true(text.n == n && memcmp(text.p, whole, n) == 0);
		if (turn.good && turn.resumed) {
			keep(m, &turn, raw.p, whole, k->n_text - 4);
			break;
		}
	}
	turn = (struct chat_turn){ .key = &key };
	assert_int_equal(render(c, s, raw, &turn, &text), result);
	if (result == CHAT_DONE && turn.good)
		keep(m, &turn, raw.p, whole, 0);
	free(whole);
}

static unsigned long conversations(const char *name, const struct chat *c, uint64_t seed,
    unsigned rounds, unsigned long *tried)
{
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct memory m = { .next = 0 };
	struct talk t = { .n = 1, .developer = seed % 2 };
	char *body = malloc(BODY);
	struct rng rng;

	assert_non_null(s);
	rng_init(&rng, seed);
	put_message(&t, 0, &rng);
	for (unsigned i = 0; i < rounds; i++) {
		change(&t, &rng);
		one_body(name, c, s, &m, span_of(body, write_body(&t, body)));
	}
	for (unsigned i = 0; i < KEPT; i++)
		drop(&m.kept[i]);
	free(body);
	chat_scratch_free(s);
	*tried += m.tried;
	return m.resumed;
}

static struct chat *load(struct span template, const char *name)
{
	struct chat_source src = { .template = template, .template_name = name,
		.config = SPAN("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}"), .config_name = "" };
	struct err e;

	return chat_load(&src, &key, &e);
}

/* ---- templates ---- */

#define SAYS	"<{{ m.role }}>{{ m.content }}" \
		"{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}"
#define EACH(...)	"{{ bos_token }}{% for m in messages %}" __VA_ARGS__ "{% endfor %}" \
			"{% if add_generation_prompt %}A{% endif %}"

static const struct {
	const char *template;
	bool resumes;		/* if the options stay and the conversation grows */
} made[] = {
	{ EACH(SAYS), true },
	{ EACH(SAYS "{% if not loop.last %},{% endif %}"), true },
	{ EACH(SAYS "{{ loop.index }}{{ loop.first }}"), true },
	{ EACH(SAYS "{% if loop.nextitem is defined %}{{ loop.nextitem.role }}{% endif %}"), false },
	{ EACH(SAYS "{% if loop.previtem is defined %}{{ loop.previtem.role }}{% endif %}"), false },
	{ EACH(SAYS "{{ loop.length }}"), false },
	{ EACH(SAYS "{{ loop.revindex }}"), false },
	{ EACH(SAYS "{{ messages | length }}"), false },
	{ EACH("{{ messages[-1].role }}" SAYS), false },
	{ EACH(SAYS "{{ (messages[loop.index0 + 1] | default({'role': 'none'})).role }}"), false },
	{ EACH("{% if loop.index0 > 0 %}{{ messages[loop.index0 - 1].role }}{% endif %}" SAYS), false },
	{ EACH("{{ messages[0].role }}" SAYS), true },
	{ EACH("{% if m.role == 'system' %}{% continue %}{% endif %}" SAYS), true },
	{ EACH("{% if m.role == 'tool' %}{% break %}{% endif %}" SAYS), false },
	{ EACH(SAYS "{% if messages %}!{% endif %}"), false },
	{ EACH(SAYS "{% for o in messages %}{{ o.role[0] }}{% endfor %}"), false },
	{ EACH(SAYS "{{ messages | map(attribute='role') | join }}"), false },
	{ EACH(SAYS "{{ messages == messages }}{{ m in messages }}"), false },
	{ EACH(SAYS "{{ messages[1:] | tojson }}"), false },
	{ EACH(SAYS "{{ strftime_now('%Y') }}"), false },
	{ "{% set ns = namespace(n=0, last='', seen=false, f=0.5) %}"
	  EACH("{{ ns.n }}{{ ns.last }}{{ ns.seen }}{{ ns.f }}" SAYS "{% set ns.n = ns.n + 1 %}"
	       "{% set ns.last = m.role %}{% set ns.f = ns.f * 2 %}{% set ns.new = 'const' %}"
	       "{% if m.role == 'tool' %}{% set ns.seen = true %}{% endif %}")
	  "{{ ns.n }}{{ ns.new }}", true },
	{ "{% set ns = namespace(text='') %}"
	  EACH(SAYS "{% set ns.text = m.content %}") "{{ ns.text }}", false },
	{ "{% set ns = namespace(all=[]) %}"
	  EACH(SAYS "{% set ns.all = ns.all + [m] %}") "{{ ns.all | length }}", false },
	{ "{% set ns = namespace(m=messages) %}" EACH(SAYS "{{ ns.m[0].role }}"), false },
	{ "{% set ns = namespace(m=messages) %}" EACH(SAYS "{{ ns | string | length }}"), false },
	{ "{% set x = [messages] %}" EACH(SAYS "{{ x | tojson }}"), false },
	{ "{% set x = {'m': messages} %}" EACH(SAYS "{{ x | tojson }}"), false },
	{ "{% set ns = namespace(m=messages) %}"
	  EACH(SAYS "{{ [ns] | map(attribute='m') | map('length') | list }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}" EACH(SAYS "{{ ns | string }}"), false },
	{ "{% set ns = namespace(m=messages) %}" EACH(SAYS "{{ ns.m | length }}"), false },
	{ "{% set a = namespace(x=1) %}{% set b = a %}"
	  EACH(SAYS "{% set b.x = b.x + 1 %}{{ a.x }}"), true },
	{ "{% macro say(m) %}[{{ m.role }}{{ m.content }}]{% endmacro %}" EACH("{{ say(m) }}"), true },
	{ "{% macro all() %}{{ messages | length }}{% endmacro %}" EACH(SAYS "{{ all() }}"), false },
	{ "{% macro say(m) %}[{{ m.content }}{{ x }}]{% endmacro %}{% set x = messages | length %}"
	  EACH("{{ say(m) }}"), false },
	{ "{% if messages[0].role == 'system' %}S{{ messages[0].content }}{% set rest = messages[1:] %}"
	  "{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}" SAYS "{% endfor %}", true },
	{ "{% for m in messages %}{% if m.role == 'system' %}S{% endif %}{% endfor %}" EACH(SAYS), false },
	{ "{% for m in messages %}" SAYS "{% else %}none{% endfor %}", true },
	{ "{% for m in messages %}{% continue %}{% else %}none{% endfor %}", true },
	{ "{% for m in messages if m.role != 'system' %}" SAYS "{% endfor %}", false },
	{ "{% for m in messages[:-1] %}" SAYS "{% endfor %}!", false },
	{ "{% for m in messages[::-1] %}" SAYS "{% endfor %}", false },
	{ "{% for m in messages | reverse %}" SAYS "{% endfor %}", false },
	{ "{% set x = messages | selectattr('role', 'equalto', 'user') | list %}"
	  EACH(SAYS "{{ x | length }}"), false },
	{ "{% set ns = namespace(q=messages | length - 1, on=true) %}{% for m in messages[::-1] %}"
	  "{% set i = messages | length - 1 - loop.index0 %}{% if ns.on and m.role == 'user' %}"
	  "{% set ns.on = false %}{% set ns.q = i %}{% endif %}{% endfor %}"
	  EACH(SAYS "{% if loop.index0 > ns.q %}late{% endif %}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if ns.q < 5 %}a{% elif 9 <= ns.q %}b{% elif ns.q == 7 %}c{% endif %}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if 3 < ns.q < 6 %}a{% endif %}{% if ns.q > 4.5 %}f{% endif %}"
	       "{% if ns.q >= ns.q %}s{% endif %}{% if ns['q'] > 6 %}g{% endif %}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if ns.q > 5 %}{% set ns.q = 3 %}{% endif %}{{ ns.q > 4 }}") "{{ ns.q }}", false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if loop.index0 == 1 %}{% set ns.q = 4 %}{% endif %}") "{{ ns.q }}", false },
	{ "{% set ns = namespace(q=messages | length, n=0) %}{% set o = ns %}"
	  EACH(SAYS "{% set ns.n = ns.n + 1 %}{% if o.q > 4 %}x{% endif %}{% if ns.n > 3 %}y{% endif %}"),
	  true },
	{ "{% set ns = namespace(q=messages | length, on=true) %}{% macro late(i) %}{{ i > ns.q }}"
	  "{% endmacro %}" EACH(SAYS "{{ late(loop.index0 + 3) }}"), false },
	/* the other side of a comparison sets the number */
	{ "{% set ns = namespace(q=messages | length) %}{% macro three() %}{% set ns.q = 3 %}3"
	  "{% endmacro %}" EACH(SAYS "{{ three() | int >= ns.q }}{{ ns.q }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}{% macro three() %}{% set ns.q = 3 %}3"
	  "{% endmacro %}" EACH(SAYS "{{ ns.q < three() | int }}{{ ns.q }}"), false },
	/* a list that a filter takes from a namespace */
	{ "{% set ns = namespace(m=none) %}{% set ns.m = messages %}" EACH(SAYS)
	  "{{ [ns] | map(attribute='m') | map('last') | select('mapping') | list | length }}", false },
	{ "{% with y = messages %}{% for m in y %}" SAYS "{% endfor %}{% endwith %}", false },
	{ "{% filter upper %}{% for m in messages %}" SAYS "{% endfor %}{% endfilter %}", false },
	{ EACH(SAYS) "{{ messages[-1].role }}", false },
	{ EACH(SAYS) "{{ messages | length }}", true },
	{ EACH(SAYS) "{% for m in messages %}{{ m.role }}{% endfor %}", false },
	{ "{% if tools %}{{ tools | tojson }}{% endif %}" EACH(SAYS "{% if tools %}T{% endif %}"), true },
	{ EACH(SAYS "{% if enable_thinking is defined %}E{% endif %}"), true },
	{ EACH("{% set x = loop.last %}" SAYS "{{ x }}"), true },
	{ EACH("{% set l = loop %}{% if true %}" SAYS "{{ l.length }}{% endif %}"), false },
	{ EACH("{% if m is mapping and m.content is string %}" SAYS "{% endif %}"), true },
	{ "{% macro f(x=messages) %}{{ x | length }}{% endmacro %}" EACH(SAYS "{{ f() }}"), false },
	{ "{% macro f(x=messages[-1]) %}{{ x.role }}{% endmacro %}" EACH(SAYS "{{ f() }}"), false },
	{ "{% macro f(n, x=ns.q) %}{{ n > x }}{% endmacro %}{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{{ f(loop.index) }}"), false },
	{ "{% macro f(m) %}{{ caller(m.role) }}{% endmacro %}"
	  EACH("{% call(r) f(m) %}{{ r }}{{ m.content }}{% endcall %}"), true },
	{ EACH(SAYS "{{ messages[::2] | length }}{{ m in messages[::-1] }}"), false },
	{ EACH(SAYS) "{{ messages[0] in messages[:0:-1] }}{{ messages[::-1] == messages }}", false },
	{ EACH(SAYS "{{ messages.0.role }}{{ messages[0]['role'] }}"), false },
	{ EACH(SAYS "{{ m is sameas messages[0] }}"), false },
	{ EACH(SAYS "{{ m == messages[0] }}"), true },
	{ EACH(SAYS "{{ (messages | last).role }}{{ (messages | first).role }}"), false },
	{ EACH(SAYS) "{{ messages[-2:] | map(attribute='role') | join }}", false },
	{ EACH(SAYS "{{ messages is sequence }}{{ not messages }}{{ messages is defined }}"), false },
	{ EACH(SAYS "{{ [messages][0][0].role }}"
	       "{{ (messages if tools else messages[0:])[0].role }}"), false },
	{ EACH(SAYS "{{ dict(a=messages).a | length }}{{ namespace(a=messages).a | length }}"), false },
	{ "{% set x = messages if tools else messages[0:] %}" EACH(SAYS "{{ x[0].role }}"), true },
	{ "{% set x = messages[1:] if messages[0].role == 'system' else messages %}"
	  "{% for m in x %}" SAYS "{% endfor %}", true },
	{ EACH(SAYS) "{{ messages if tools else 1 }}{{ 1 if tools else messages[1:] }}", false },
	{ EACH("{% for c in m.content %}{{ loop.last }}{{ loop.length }}{{ loop.nextitem }}{% endfor %}"),
	  true },
	{ EACH("{% for k, v in m.items() %}{{ k }}{{ v | string }}{% endfor %}"), true },
	{ EACH("{% for a in messages %}{% if loop.last %}{{ a.role }}{% endif %}"
	       "{% endfor %}" SAYS), false },
	{ "{% for i in range(messages | length) %}{{ messages[i].role }}{% endfor %}", false },
	{ "{% for role, content in messages %}{{ role }}{% endfor %}", false },
	{ EACH(SAYS "{% if loop.previtem and loop.previtem.role == m.role %}same{% endif %}"), false },
	{ EACH("{% if not loop.first and loop.previtem.role == 'tool' %}t{% endif %}" SAYS
	       "{% if loop.last or loop.nextitem.role != 'tool' %}e{% endif %}"), false },
	{ "{% set ns = namespace(l=0) %}" EACH(SAYS "{{ ns.l.index }}{% set ns.l = loop %}"), false },
	{ "{% set ns = namespace(i=0) %}" EACH(SAYS "{{ ns.i.n }}{% set ns.i = namespace(n=m.role) %}"),
	  false },
	{ "{% set ns = namespace(i=namespace(n=0, q=messages | length)) %}"
	  EACH("{% set i = ns.i %}" SAYS "{% set i.n = i.n + 1 %}{{ ns.i.n }}{{ i.q > 4 }}")
	  "{{ ns.i.q }}", true },
	{ "{% set ns = namespace(n=1) %}" EACH(SAYS "{% set ns.n = ns.n * 65536 %}{{ ns.n }}"), false },
	{ "{% set ns = namespace(d={'a': 1}) %}" EACH(SAYS "{% set ns.d = dict(ns.d, b=m.role) %}"
	       "{{ ns.d }}"), false },
	{ "{% set x = ['a'] %}" EACH(SAYS "{% set y = x.append(m.role) %}{{ x }}"), false },
	{ EACH("{% set y = m.pop('content') %}" SAYS), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{{ [ns] | map(attribute='q') | first }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{{ ns.q in [3, 5] }}{{ 4 <= ns.q }}{{ ns.q != 6 }}{{ ns.q is odd }}"), false },
	{ "{% set ns = namespace(q=messages | length) %}"
	  EACH(SAYS "{% if (4 if loop.first else ns.q) < ns.q %}x{% endif %}"), false },
	{ "{% set ns = namespace(a=messages | length, b=4) %}"
	  EACH(SAYS "{{ ns.a > ns.b }}{{ ns.b < loop.index }}{% set ns.b = ns.b + 1 %}")
	  "{{ ns.b }}", false },
	{ EACH("{% generation %}" SAYS "{% endgeneration %}"), true },
};

static void made_templates(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		struct chat *c = load(span_str(made[i].template), "made");
		unsigned long tried = 0, resumed = 0;

		assert_non_null(c);
		for (uint64_t seed = 0; seed < 6; seed++)
			resumed += conversations(made[i].template, c, 100 * i + seed, ROUNDS, &tried);
		if (getenv("VERBOSE") != NULL)
			printf("%lu of %lu %s\n", resumed, tried, made[i].template);
		if (made[i].resumes && (tried <= 50 || resumed * 12 < tried))
			fail_msg("%s: %lu of %lu went on", made[i].template, resumed, tried);
		chat_unref(c);
	}
}

static void real_templates(void **state)
{
	unsigned long tried = 0, resumed = 0, n = 0, some = 0;
	DIR *d = opendir(TEMPLATES);
	struct dirent *e;

	(void)state;
	if (d == NULL) {
		printf("skipped: real templates: no data\n");
		return;
	}
	while ((e = readdir(d)) != NULL) {
		static char text[1 << 18];
		unsigned long of = 0, went;
		char path[600];
		struct chat *c;
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), TEMPLATES "/%s", e->d_name);
		f = fopen(path, "r");
		assert_non_null(f);
		c = load(span_of(text, fread(text, 1, sizeof(text), f)), e->d_name);
		fclose(f);
		if (c == NULL)
			continue;
		went = conversations(e->d_name, c, n, 60, &of) + conversations(e->d_name, c, n + 1000, 60, &of);
		if (getenv("VERBOSE") != NULL)
			printf("%lu of %lu %s\n", went, of, e->d_name);
		tried += of;
		resumed += went;
		some += went > 0;
		n++;
		chat_unref(c);
	}
	closedir(d);
	printf("%lu of %lu templates, %lu of %lu turns went on\n", some, n, resumed, tried);
	assert_true(resumed > 0);
}

/* Each turn goes on from what the one before left, which did so itself. */
static void chain(const char *template)
{
	struct chat *c = load(span_str(template), "made");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct kept k = { .raw = NULL };
	struct talk t = { .n = 0 };
	char *body = malloc(BODY);

	while (t.n < MESSAGES) {
		struct chat_turn turn = { .key = &key, .memo = span_of(k.memo, k.n_memo), .at = k.at };
		struct chat_text text;

		snprintf(t.message[t.n], sizeof(t.message[0]), "{\"role\":\"%s\",\"content\":\"text %u\"}",
		    t.n % 2 == 0 ? "user" : "assistant", t.n);
		t.n++;
		assert_int_equal(render(c, s, span_of(body, write_body(&t, body)), &turn, &text), CHAT_DONE);
		if (t.n > 3 && !(turn.resumed && turn.good))
			fail_msg("%s: %u messages: did not go on", template, t.n);
		if (!turn.good)
			continue;
		drop(&k);
		k = (struct kept){ .at = (size_t)turn.left_at, .n_memo = turn.left.n };
		k.memo = copy(turn.left.p, k.n_memo);
	}
	drop(&k);
	free(body);
	chat_scratch_free(s);
	chat_unref(c);
}

static void each_turn(void **state)
{
	(void)state;
	chain(EACH(SAYS));
	chain("{% set ns = namespace(was='none') %}"
	      EACH("{{ ns.was }}" SAYS "{% set ns.was = m.role %}"));
	chain("{% set ns = namespace(at='a') %}" EACH("{{ ns.at }}" SAYS "{% set ns.at = 'b<c>' %}"));
	chain("{% set ns = namespace() %}" EACH("{{ ns.at }}" SAYS "{% set ns.at = 'b' %}") "{{ ns.at }}");
	chain("{% set ns = namespace(at='a') %}" EACH("{{ ns.at }}" SAYS
	    "{% if loop.index0 == 1 %}{% set ns.at = 'b' %}{% endif %}"));
}

/* ---- where messages end ---- */

static void ends_of_messages(void **state)
{
	static const struct {
		const char *body;
		bool good;
		uint32_t n;
		uint64_t first, last;
	} cases[] = {
		{ "{\"messages\":[{},{\"a\":\"]\"}]}", true, 2, 15, 25 },
		{ "{\"x\":{\"messages\":[{}]},\"messages\" : [ {\"a\":\"\\\\\"} ]}", true, 1, 48, 48 },
		{ "{\"messages\":[{\"a\":\"\\\"}\"}]}", true, 1, 24, 24 },
		{ "{\"messages\":[{}],\"messages\":[{}]}", false, 0, 0, 0 },
		{ "{\"messages\":[{}],\"m\\u0065ssages\":[{}]}", false, 0, 0, 0 },
		{ "{\"messages\":\"x\"}", true, 0, 0, 0 },
		{ "{}", true, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ends e = { .n = 9 }, on;

		assert_int_equal(ends_find(span_str(cases[i].body), &e), cases[i].good);
		if (!cases[i].good)
			continue;
		assert_int_equal(e.n, cases[i].n);
		if (e.n == 0)
			continue;
		assert_int_equal(e.first, cases[i].first);
		assert_int_equal(e.last[(e.n - 1) % ENDS_KEPT], cases[i].last);
		on = (struct ends){ .n = 1, .first = e.first };
		assert_true(ends_go_on(span_str(cases[i].body), e.first, &on));
		assert_int_equal(on.n, e.n);
	}
}

/* A list that comes twice, or a message the list of which is another, is not gone on from. */
static void other_lists(void **state)
{
	static const char first[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
				    "{\"role\":\"assistant\",\"content\":\"b\"}";
	static const char *const rests[] = {
		"],\"messages\":[{\"role\":\"user\",\"content\":\"z\"}]}",
		("],\"mess\\u0061ges\":[{\"role\":\"user\",\"content\":\"z\"},"
		 "{\"role\":\"user\",\"content\":\"y\"}]}"),
		",\"-\"]}", "],\"tools\":[]}", "],\"continue_final_message\":true}",
		"],\"continue_final_message\":true,\"add_generation_prompt\":false}",
		"],\"truncate_prompt_tokens\":3}", "],\"chat_template\":\"x\"}",
		",{\"role\":\"developer\",\"content\":\"d\"}]}",
	};
	struct chat *c = load(span_str(made[0].template), "made");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct memory m = { .next = 0 };
	char body[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
		unsigned long before;

		one_body("first", c, s, &m, span_of(body, (size_t)sprintf(body, "%s]}", first)));
		before = m.resumed;
		one_body(rests[i], c, s, &m, span_of(body, (size_t)sprintf(body, "%s%s", first, rests[i])));
		assert_int_equal(m.resumed, before);
	}
	for (unsigned i = 0; i < KEPT; i++)
		drop(&m.kept[i]);
	chat_scratch_free(s);
	chat_unref(c);
}

static int start(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 7);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_templates),
		cmocka_unit_test(real_templates),
		cmocka_unit_test(each_turn),
		cmocka_unit_test(ends_of_messages),
		cmocka_unit_test(other_lists),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
