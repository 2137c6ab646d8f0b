/* ref.h - a reference for agent/prompt/: it makes pages from a tree of the whole body, in the
 * simplest way. It cannot read a body in parts or a cut body, and it allocates freely. For unit
 * tests. */
#ifndef TESTS_PROMPT_REF_H
#define TESTS_PROMPT_REF_H

#include "agent/prompt/prompt.h"
#include "tests/unit/base/json_ref.h"

/* ---- a tree ---------------------------------------------------------------------------------- */

struct node {
	char type;		/* { [ s n t(rue) f(alse) 0 */
	struct log text;	/* a string decoded, a number as written */
	struct log name, key;	/* in an object; the key is the name, cut as the scanner cuts it */
	struct node **kid;
	size_t n;
};

static inline struct node *tree_new(char type)
{
	struct node *x = calloc(1, sizeof(*x));

	if (x == NULL)
		abort();
	x->type = type;
	log_bytes(&x->text, "", 0);
	log_bytes(&x->key, "", 0);
	log_bytes(&x->name, "", 0);
	return x;
}

static inline void tree_free(struct node *x)
{
	size_t i;

	for (i = 0; x != NULL && i < x->n; i++)
		tree_free(x->kid[i]);
	if (x != NULL) {
		free(x->kid);
		free(x->text.p);
		free(x->key.p);
		free(x->name.p);
	}
	free(x);
}

static inline void tree_add(struct node *x, struct node *kid)
{
	x->kid = realloc(x->kid, (x->n + 1) * sizeof(kid));
	if (x->kid == NULL)
		abort();
	x->kid[x->n++] = kid;
}

/* Read a value into a tree. The text must be valid JSON. */
static inline struct node *tree_read(struct ref *r)
{
	struct log key = { 0 };
	struct node *x, *kid;
	char c, scratch;

	ref_space(r);
	c = (char)*r->p;
	if (c == '{' || c == '[') {
		x = tree_new(c);
		r->p++;
		for (ref_space(r); *r->p != (c == '{' ? '}' : ']'); ref_space(r)) {
			key.n = 0;
			log_bytes(&key, "", 0);
			if (c == '{') {
				ref_eat(r, "\"");
				ref_string(r, &key);
				ref_space(r);
				ref_eat(r, ":");
			}
			kid = tree_read(r);
			log_bytes(&kid->key, key.p, key.n > JSON_KEY_MAX ? JSON_KEY_MAX : key.n);
			log_bytes(&kid->name, key.p, key.n);
			tree_add(x, kid);
			ref_space(r);
			ref_eat(r, ",");
		}
		r->p++;
	} else if (c == '"') {
		x = tree_new('s');
		r->p++;
		ref_string(r, &x->text);
	} else if (c == 't' || c == 'f' || c == 'n') {
		x = tree_new(c == 'n' ? '0' : c);
		r->p += c == 'f' ? 5 : 4;
	} else {
		x = tree_new('n');
		while (r->p < r->end && *r->p != '\0' && strchr("+-.eE0123456789", *r->p) != NULL) {
			scratch = (char)*r->p++;
			log_bytes(&x->text, &scratch, 1);
		}
	}
	free(key.p);
	return x;
}

static inline bool is(const struct node *x, const char *key)
{
	return strlen(key) == x->key.n && memcmp(x->key.p, key, x->key.n) == 0;
}

static inline bool text_is(const struct node *x, const char *s)
{
	return x != NULL && x->type == 's' && strlen(s) == x->text.n &&
	    memcmp(x->text.p, s, x->text.n) == 0;
}

/* Return the last member of an object with that key; NULL if there is none. */
static inline const struct node *get(const struct node *x, const char *key)
{
	const struct node *found = NULL;
	size_t i;

	for (i = 0; x->type == '{' && i < x->n; i++)
		if (is(x->kid[i], key))
			found = x->kid[i];
	return found;
}

/* Return the last value of several keys that fill the same field. A null only replaces a value of
 * its own key. */
static inline const struct node *last_of(const struct node *x, const char *const *keys)
{
	const struct node *found = NULL;
	size_t i, k;

	for (i = 0; i < x->n; i++)
		for (k = 0; keys[k] != NULL; k++)
			if (is(x->kid[i], keys[k]) &&
			    (x->kid[i]->type != '0' || (found != NULL && is(found, keys[k]))))
				found = x->kid[i];
	return found;
}

/* ---- pages ----------------------------------------------------------------------------------- */

struct run_ref {
	const struct hash_key *key;
	uint32_t page;
	struct log text;	/* text after the last page of a medium */
	struct page_vec v;
	uint64_t n_units;
	uint64_t mark;
	bool any;
};

static inline void ref_push(struct run_ref *r, page_key k)
{
	if (r->mark != 0)
		k = hash_mix(r->key, k, r->mark);
	r->mark = 0;
	if (page_vec_push(&r->v, k) != 0)
		abort();
}

static inline void ref_add(struct run_ref *r, const void *p, size_t n)
{
	log_bytes(&r->text, p, n);
	r->n_units += n;
}

/* Push all whole pages of <text>, and keep the rest in it. */
static inline void ref_cut(struct run_ref *r)
{
	size_t i;

	for (i = 0; i + r->page <= r->text.n; i += r->page)
		ref_push(r, hash64(r->key, r->text.p + i, r->page));
	if (i > 0)
		memmove(r->text.p, r->text.p + i, r->text.n - i);
	r->text.n -= i;
}

static inline void ref_pad(struct run_ref *r)
{
	ref_cut(r);
	if (r->text.n > 0)
		ref_push(r, hash_mix(r->key, hash64(r->key, r->text.p, r->text.n),
				     (uint64_t)0x50414444 << 32 | r->text.n));
	r->text.n = 0;
}

static inline uint64_t ref_rest(const struct run_ref *r)
{
	return r->text.n ? hash64(r->key, r->text.p, r->text.n) : 0;
}

static inline uint64_t ref_digest(const struct hash_key *key, const char *p, size_t n)
{
	uint64_t h = 0;
	size_t i;

	for (i = 0; i + 512 <= n; i += 512)
		h = hash_mix(key, h, hash64(key, p + i, 512));
	if (n < 512)
		return hash64(key, p, n);
	return hash_mix(key, hash_mix(key, h, hash64(key, p + i, n - i)), n);
}

static inline uint64_t ref_name(const struct hash_key *key, const struct node *x)
{
	return x != NULL && x->type == 's' ? ref_digest(key, x->text.p, x->text.n) : 0;
}

static inline void ref_quoted(struct log *out, const struct log *text)
{
	size_t i;

	log_bytes(out, "\"", 1);
	for (i = 0; i < text->n; i++) {
		if (text->p[i] == '"' || text->p[i] == '\\')
			log_bytes(out, "\\", 1);
		log_bytes(out, text->p + i, 1);
	}
	log_bytes(out, "\"", 1);
}

/* Append <x> as compact JSON with '"' and '\\' escaped, without members named <skip> at <levels>
 * levels down. */
static inline void ref_canon(struct log *out, const struct node *x, const char *skip, int levels)
{
	bool first = true;
	size_t i;

	switch (x->type) {
	case 's':
		ref_quoted(out, &x->text);
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
		for (i = 0; i < x->n; i++) {
			if (x->type == '{' && skip != NULL && levels == 1 && is(x->kid[i], skip))
				continue;
			if (!first)
				log_bytes(out, ",", 1);
			first = false;
			if (x->type == '{') {
				/* names are cut only at the level where they are compared with <skip> */
				ref_quoted(out, skip != NULL && levels == 1 ? &x->kid[i]->key : &x->kid[i]->name);
				log_bytes(out, ":", 1);
			}
			ref_canon(out, x->kid[i], skip, levels - 1);
		}
		log_bytes(out, x->type == '{' ? "}" : "]", 1);
	}
}

static inline uint64_t ref_media(const struct hash_key *key, const struct node *x)
{
	struct log text = { 0 };
	uint64_t sum = 0, h;
	size_t i;

	if (x->type == 's')
		return ref_digest(key, x->text.p, x->text.n);
	if (x->type != '{') {
		ref_canon(&text, x, NULL, 0);
		h = ref_digest(key, text.p, text.n);
		free(text.p);
		return h;
	}
	for (i = 0; i < x->n; i++) {
		const struct node *m = x->kid[i];

		if (m->type == '0' || is(m, "cache_control"))
			continue;
		text.n = 0;
		log_bytes(&text, "", 0);
		if (m->type == 's')
			log_bytes(&text, m->text.p, m->text.n);
		else
			ref_canon(&text, m, NULL, 0);
		h = ref_digest(key, text.p, text.n);
		sum += is(m, "url") || is(m, "data") || is(m, "file_data") ? h :
		       hash_mix(key, hash64(key, m->key.p, m->key.n), h);
	}
	free(text.p);
	return sum;
}

/* ---- messages -------------------------------------------------------------------------------- */

static inline void ref_mark(struct run_ref *r, unsigned char mark)
{
	if (mark != 0xff || r->any)
		ref_add(r, &mark, 1);
	r->any = true;
}

static inline void ref_call_name(struct run_ref *r, const struct node *name)
{
	uint64_t h = ref_name(r->key, name);

	ref_add(r, "\xfe", 1);
	ref_add(r, &h, 8);
}

/* Add a string as it is, null as nothing, and any other value as JSON text. */
static inline void ref_value_text(struct run_ref *r, const struct node *x)
{
	if (x->type == 's') {
		ref_add(r, x->text.p, x->text.n);
	} else if (x->type != '0') {
		struct log text = { 0 };

		ref_canon(&text, x, NULL, 0);
		ref_add(r, "\xfa", 1);
		ref_add(r, text.p, text.n);
		free(text.p);
	}
}

/* What is done with a text that begins as that of Claude Code which differs with each request. */
enum ref_billing { BILLING_STAYS, BILLING_LINE, BILLING_ALL };

/* Add a text, or what is left of it. <part>: with a mark before it. */
static inline void ref_words(
    struct run_ref *r, const struct log *text, enum ref_billing how, bool part)
{
	static const char begin[] = "x-anthropic-billing-header";
	const char *p = text->p, *end = p + text->n;

	if (how != BILLING_STAYS && text->n >= strlen(begin) && memcmp(p, begin, strlen(begin)) == 0) {
		p = how == BILLING_LINE ? memchr(p, '\n', text->n) : NULL;
		if (p == NULL || ++p == end)
			return;
	}
	if (part)
		ref_mark(r, 0xff);
	ref_add(r, p, (size_t)(end - p));
}

static inline void ref_parts(
    struct run_ref *r, const struct node *list, int level, enum ref_billing how);

static inline bool ref_is_media(const struct node *x)
{
	static const char *const keys[] = {
		"image_url", "source", "input_audio", "audio_url", "audio", "video_url", "input_video",
		"video", "image", "input_image", "image_embeds", "audio_embeds", "file", "file_data",
		"file_url", "file_id", "data", "inlineData", "inline_data", "fileData",
	};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (is(x, keys[i]))
			return true;
	return false;
}

/* Return the mark before a value that is added as JSON text; 0 if <x> is no such member. */
static inline char ref_json_mark(const struct node *x)
{
	static const char *const calls[] = {
		"input", "functionCall", "function_call", "executableCode", "executable_code",
	};
	static const char *const results[] = {
		"functionResponse", "function_response", "codeExecutionResult", "code_execution_result",
	};
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (is(x, calls[i]))
			return '\xfa';
	for (i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (is(x, results[i]))
			return '\xfb';
	return 0;
}

static inline bool ref_is_text(const struct node *x)
{
	return is(x, "text") || is(x, "thinking") || is(x, "refusal");
}

/* Return whether this member adds text or media. The level of a part is 0, of a part in a tool
 * result 1. */
static inline bool ref_brings(const struct node *x, int level)
{
	if (ref_is_text(x))
		return x->type == 's';
	if (is(x, "content"))
		return x->type == 's' || (x->type == '[' && level == 0);
	return (ref_json_mark(x) != 0 || ref_is_media(x)) && x->type != '0';
}

static inline void ref_payload(
    struct run_ref *r, const struct node *x, int level, enum ref_billing how)
{
	if (is(x, "text")) {
		ref_words(r, &x->text, level == 0 ? how : BILLING_STAYS, true);
	} else if (ref_is_text(x)) {
		ref_mark(r, is(x, "thinking") ? 0xfd : 0xfc);
		ref_add(r, x->text.p, x->text.n);
	} else if (is(x, "content")) {
		ref_mark(r, 0xfb);
		if (x->type == 's') {
			ref_add(r, x->text.p, x->text.n);
		} else {
			r->any = false;
			ref_parts(r, x, level + 1, how);
		}
		ref_add(r, "\xf9", 1);
		r->any = true;
	} else if (ref_json_mark(x) != 0) {
		ref_mark(r, (uint8_t)ref_json_mark(x));
		ref_value_text(r, x);
	} else {
		ref_pad(r);
		ref_push(r, hash_mix(r->key, ref_media(r->key, x), 0x56414c55));
		r->n_units += r->page;
		r->any = false;
	}
}

static inline void ref_part(
    struct run_ref *r, const struct node *part, int level, enum ref_billing how)
{
	const struct node *use[64];
	bool call = false;
	size_t n = 0, i, k;

	for (i = 0; i < part->n; i++) {
		const struct node *x = part->kid[i];

		for (k = 0; k < n; k++)
			if (is(use[k], x->key.p))
				n = 0;		/* a repeated key drops all that the part had before */
		if (ref_brings(x, level) && n < 64)
			use[n++] = x;
	}
	for (k = 0; k < n; k++) {
		ref_payload(r, use[k], level, how);
		call = call || ref_json_mark(use[k]) != 0;
	}
	if (call)
		ref_call_name(r, get(part, "name"));
}

static inline void ref_parts(
    struct run_ref *r, const struct node *list, int level, enum ref_billing how)
{
	size_t i;

	for (i = 0; i < list->n; i++) {
		const struct node *x = list->kid[i];

		if (x->type == 's')
			ref_words(r, &x->text, level == 0 ? how : BILLING_STAYS, true);
		else if (x->type == '{' && level < 2)
			ref_part(r, x, level, how);
	}
}

static inline void ref_content(
    struct run_ref *r, const struct node *x, enum ref_billing text, enum ref_billing parts)
{
	if (x == NULL)
		return;
	if (x->type == 's')
		ref_words(r, &x->text, text, false);
	else if (x->type == '[')
		ref_parts(r, x, 0, parts);
}

/* Find the arguments and the name of a call: the last of its own members and of those in its
 * "function" or "custom". */
static inline void ref_call_members(const struct node *call, bool inner, const struct node **args,
				    const struct node **name)
{
	size_t i;

	for (i = 0; i < call->n; i++) {
		const struct node *x = call->kid[i];

		if (is(x, "arguments") || is(x, "input"))
			*args = x;
		else if (is(x, "name"))
			*name = x;
		else if ((is(x, "function") || is(x, "custom")) && x->type == '{' && !inner)
			ref_call_members(x, true, args, name);
	}
}

static inline void ref_call(struct run_ref *r, const struct node *call)
{
	const struct node *args = NULL, *name = NULL;

	ref_call_members(call, false, &args, &name);
	if (args != NULL)
		ref_value_text(r, args);
	ref_call_name(r, name);
}

static inline void ref_calls(struct run_ref *r, const struct node *x)
{
	size_t i;

	if (x == NULL)
		return;
	if (x->type == '{')
		ref_call(r, x);
	for (i = 0; x->type == '[' && i < x->n; i++)
		if (x->kid[i]->type == '{')
			ref_call(r, x->kid[i]);
}

struct prompt_ref {
	const struct hash_key *key;
	struct prompt_opts opts;
	enum prompt_api api;
	struct page_vec system, tools, messages;
	uint32_t n_leading;
	uint64_t n_units;
	bool found, tokens;
	struct node *tree;
};

static inline struct run_ref ref_run(const struct prompt_ref *p)
{
	struct run_ref r = { .key = p->key, .page = p->opts.text_page };

	log_bytes(&r.text, "", 0);
	return r;
}

static inline void ref_run_free(struct run_ref *r)
{
	free(r->text.p);
	page_vec_free(&r->v);
}

static inline void ref_append(struct page_vec *to, const struct page_vec *v)
{
	uint32_t i;

	for (i = 0; i < v->n; i++)
		if (page_vec_push(to, v->p[i]) != 0)
			abort();
}

/* Append the pages of the three runs and the final page to <to>. */
static inline void ref_final(struct prompt_ref *p, struct page_vec *to, struct run_ref run[3],
			     uint64_t role, uint64_t name, uint64_t type, bool keep_empty)
{
	uint64_t word[10] = { 0x46494e41, role, name, type };
	size_t n = 4;
	int i;

	for (i = 0; i < 3; i++) {
		ref_cut(&run[i]);
		p->n_units += run[i].n_units;
	}
	if (keep_empty || run[0].v.n > 0 || run[0].text.n > 0) {
		for (i = 0; i < 3; i++) {
			ref_append(to, &run[i].v);
			word[n++] = run[i].n_units;
			word[n++] = ref_rest(&run[i]);
		}
		if (page_vec_push(to, hash64(p->key, word, sizeof(word))) != 0)
			abort();
	}
	for (i = 0; i < 3; i++)
		ref_run_free(&run[i]);
}

/* Return what is done with texts of <content>, a member of <m>: they are the system's, unless
 * another role comes before them. */
static inline enum ref_billing ref_billing_of(
    const struct prompt_ref *p, const struct node *m, const struct node *content)
{
	const struct node *role = NULL;
	size_t i;

	for (i = 0; i < m->n && m->kid[i] != content; i++)
		if (is(m->kid[i], "role"))
			role = m->kid[i];
	if (role != NULL && role->type == 's' && !text_is(role, "system"))
		return BILLING_STAYS;
	return p->api == API_MESSAGES ? BILLING_ALL :
	       p->api == API_CHAT || p->api == API_RESPONSES ? BILLING_LINE : BILLING_STAYS;
}

static inline bool ref_message(struct prompt_ref *p, const struct node *m)
{
	static const char *const asides[] = { "reasoning_content", "reasoning", "refusal", NULL };
	static const char *const calls[] = { "tool_calls", "function_call", NULL };
	static const char *const texts[] = { "arguments", "input", "action", "code", "queries", NULL };
	static const char *const contents[] = { "content", "output", NULL };
	struct run_ref run[3] = { ref_run(p), ref_run(p), ref_run(p) };
	static const struct node assistant = { .type = 's', .text = { .p = (char *)"assistant", .n = 9 } };
	const struct node *role = get(m, "role"), *type = NULL, *aside = NULL, *text;
	enum ref_billing how;

	if (p->api == API_RESPONSES) {
		text = last_of(m, contents);
		how = ref_billing_of(p, m, text);
		ref_content(&run[0], text, how, how);
		text = last_of(m, texts);
		if (text != NULL)
			ref_value_text(&run[1], text);
		type = get(m, "type");
		if (text_is(type, "message"))
			type = NULL;
	} else if (p->api == API_CONTENTS) {
		ref_content(&run[0], get(m, "parts"), BILLING_STAYS, BILLING_STAYS);
		if (text_is(role, "model"))
			role = &assistant;
		ref_final(p, &p->messages, run, ref_name(p->key, role), 0, 0, true);
		return text_is(role, "system") || text_is(role, "developer");
	} else {
		how = ref_billing_of(p, m, get(m, "content"));
		ref_content(&run[0], get(m, "content"), how, how);
		ref_calls(&run[1], last_of(m, calls));
		aside = last_of(m, asides);
		if (aside != NULL && aside->type == 's')
			ref_add(&run[2], aside->text.p, aside->text.n);
	}
	ref_final(p, &p->messages, run, ref_name(p->key, role), ref_name(p->key, get(m, "name")),
		  ref_name(p->key, type), true);
	return text_is(role, "system") || text_is(role, "developer");
}

static inline void ref_messages(struct prompt_ref *p, const struct node *list)
{
	bool leading = true;
	size_t i;

	for (i = 0; i < list->n; i++) {
		if (list->kid[i]->type != '{')
			continue;
		p->found = true;
		leading = ref_message(p, list->kid[i]) && leading;
		if (leading)
			p->n_leading = p->messages.n;
	}
}

/* Add a message of text only: a system text, or "input" as a string. */
static inline void ref_plain(struct prompt_ref *p, struct page_vec *to, const struct node *content,
			     const char *role)
{
	struct run_ref run[3] = { ref_run(p), ref_run(p), ref_run(p) };
	bool may = to == &p->system && p->api != API_CONTENTS;

	ref_content(&run[0], content, may ? BILLING_LINE : BILLING_STAYS,
		    !may ? BILLING_STAYS : p->api == API_MESSAGES ? BILLING_ALL : BILLING_LINE);
	ref_final(p, to, run, ref_digest(p->key, role, strlen(role)), 0, 0, false);
}

static inline void ref_tools(struct prompt_ref *p, const char *key, unsigned slot)
{
	const struct node *x = get(p->tree, key);
	struct run_ref r = ref_run(p);
	struct log text = { 0 };

	if (x != NULL && (x->type == '[' || x->type == '{')) {
		ref_canon(&text, x, x->type == '[' ? "cache_control" : NULL, 2);
		ref_add(&r, text.p, text.n);
		ref_cut(&r);
	}
	if (r.n_units > 2) {
		uint64_t word[3] = { (uint64_t)0x544f4f4c << 32 | slot, r.n_units, ref_rest(&r) };

		p->n_units += r.n_units;
		ref_append(&p->tools, &r.v);
		if (page_vec_push(&p->tools, hash64(p->key, word, 24)) != 0)
			abort();
	}
	free(text.p);
	ref_run_free(&r);
}

/* ---- prompts without messages ---------------------------------------------------------------- */

static inline bool ref_text_prompt(struct prompt_ref *p, const struct node *x, bool first)
{
	struct run_ref r = ref_run(p);
	bool some = x->text.n > 0;

	r.mark = first ? 0 : 0x42415443;
	ref_add(&r, x->text.p, x->text.n);
	ref_pad(&r);
	p->n_units += r.n_units;
	ref_append(&p->messages, &r.v);
	ref_run_free(&r);
	p->found = p->found || some;
	return some;
}

/* Add the ids of a list. Returns false if an element is not an id. */
static inline bool ref_ids(struct prompt_ref *p, const struct node *list, bool first)
{
	uint32_t page = p->opts.token_page, fill = 0, ids[512];
	struct run_ref r = ref_run(p);
	bool good = true;
	size_t i;

	r.mark = first ? 0 : 0x42415443;
	for (i = 0; i < list->n && good; i++) {
		const struct node *x = list->kid[i];
		char *end;
		unsigned long long v = strtoull(x->text.p, &end, 10);

		good = x->type == 'n' && strspn(x->text.p, "0123456789") == x->text.n && v <= UINT32_MAX;
		if (!good)
			break;
		p->n_units++;
		ids[fill++] = (uint32_t)v;
		if (fill == page) {
			ref_push(&r, hash64(p->key, ids, 4ul * page));
			fill = 0;
		}
	}
	ref_append(&p->messages, &r.v);
	p->found = p->found || i > 0;
	ref_run_free(&r);
	return good;
}

static inline void ref_batch(struct prompt_ref *p, const struct node *x)
{
	bool first = true, good = true;
	size_t i;

	if (x->type == 's') {
		ref_text_prompt(p, x, true);
		return;
	}
	if (x->type != '[') {
		p->found = false;
		return;
	}
	if (x->n > 0 && x->kid[0]->type == 'n') {
		p->tokens = true;
		good = ref_ids(p, x, true);
	}
	for (i = 0; x->n > 0 && x->kid[0]->type != 'n' && i < x->n && good; i++) {
		const struct node *k = x->kid[i];

		good = k->type == x->kid[0]->type && (k->type == 's' || k->type == '[');
		if (good && k->type == 's') {
			first = !ref_text_prompt(p, k, first) && first;
		} else if (good) {
			p->tokens = true;
			good = ref_ids(p, k, first);
			first = first && k->n == 0;
		}
	}
	p->found = p->found && good;
}

/* Return the system text of the contents API: the last member of either spelling, or its "parts" if
 * it is an object. */
static inline const struct node *ref_instruction(const struct node *top)
{
	const struct node *s = NULL;
	size_t i;

	for (i = 0; i < top->n; i++)
		if (is(top->kid[i], "systemInstruction") || is(top->kid[i], "system_instruction"))
			s = top->kid[i];
	return s != NULL && s->type == '{' ? get(s, "parts") : s;
}

static inline struct prompt_ref prompt_ref(const struct hash_key *key, const struct prompt_opts *o,
					   enum prompt_api api, const char *text, size_t n)
{
	static const char *const prompts[][3] = {
		[API_NONE] = { NULL }, [API_CHAT] = { "messages" }, [API_COMPLETIONS] = { "prompt" },
		[API_RESPONSES] = { "input" }, [API_MESSAGES] = { "messages" },
		[API_EMBEDDINGS] = { "input", "messages" }, [API_GENERATE] = { "text", "input_ids" },
		[API_CONTENTS] = { "contents" },
	};
	struct prompt_ref p = { .key = key, .opts = *o, .api = api };
	struct ref r = { (const unsigned char *)text, (const unsigned char *)text + n, NULL, 128 };
	const struct node *x, *s;

	ref_eat(&r, "\xef\xbb\xbf");
	p.tree = tree_read(&r);
	if (p.tree->type != '{')
		return p;
	s = api == API_MESSAGES ? get(p.tree, "system") : api == API_RESPONSES ?
	    get(p.tree, "instructions") : NULL;
	if (api == API_CONTENTS)
		s = ref_instruction(p.tree);
	if (s != NULL)
		ref_plain(&p, &p.system, s, "system");
	if (api == API_CHAT || api == API_RESPONSES || api == API_MESSAGES || api == API_CONTENTS)
		ref_tools(&p, "tools", 0);
	if (api == API_CHAT) {
		ref_tools(&p, "functions", 1);
		ref_tools(&p, "documents", 2);
	}
	x = last_of(p.tree, prompts[api]);
	if (x == NULL || x->type == '0')
		return p;
	if (is(x, "messages") || api == API_RESPONSES || api == API_CONTENTS) {
		if (x->type == '[') {
			ref_messages(&p, x);
		} else if (x->type == 's' && api == API_RESPONSES) {
			ref_plain(&p, &p.messages, x, "user");
			p.found = x->text.n > 0;
		}
	} else {
		ref_batch(&p, x);
	}
	return p;
}

static inline void prompt_ref_free(struct prompt_ref *p)
{
	page_vec_free(&p->system);
	page_vec_free(&p->tools);
	page_vec_free(&p->messages);
	tree_free(p->tree);
}

#endif
