/* load.c - load a model's template and special tokens.
 *
 * tokenizer_config.json: "chat_template" is a text, or a list of {"name", "template"}, of which
 * "tool_use" is for bodies with tools and "default" for others (Hugging Face, get_chat_template()).
 * Special tokens are texts or {"content": ...}; null ones are not variables. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/chat/chat_in.h"

#define CONFIG_BYTES_MAX	(64u << 20)

static int say(struct err *e, const char *file, const char *what)
{
	if (file != NULL && e != NULL)
		snprintf(e->file, sizeof(e->file), "%s", file);
	return err_set(e, "%s", what);
}

static struct jinja *compile(struct span text, const char *file, struct err *e)
{
	struct jinja *t = jinja_compile(text, e);

	if (t == NULL && e != NULL && e->file[0] == '\0' && file != NULL)
		snprintf(e->file, sizeof(e->file), "%s", file);
	return t;
}

/* Return the template called <name>; n == 0: none. */
static struct span named(struct jval list, const char *name)
{
	for (uint32_t i = 0; is_list(list) && i < list.n; i++) {
		if (is_word(get_text(list.v[i], "name"), name))
			return get_text(list.v[i], "template");
	}
	return (struct span){ .n = 0 };
}

static bool names(struct span text, const char *word)
{
	return memmem(text.p, text.n, word, strlen(word)) != NULL;
}

static struct chat_traits traits(const struct jinja *t, struct span text)
{
	return (struct chat_traits){
		.parts = jinja_walks_content(t),
		.developer = names(text, "\"developer\"") || names(text, "'developer'"),
		.content = names(text, "content"),
		.generation = names(text, "endgeneration"),
	};
}

static int take_templates(struct chat *c, const struct chat_source *src, struct jval config,
		struct err *e)
{
	struct jval own = get(config, "chat_template");
	struct span plain = src->template, tool_use = { .n = 0 };
	const char *file = plain.n > 0 ? src->template_name : src->config_name;

	if (plain.n == 0) {
		plain = is_str(own) ? jval_span(own) : named(own, "default");
		tool_use = named(own, "tool_use");
	}
	if (plain.n == 0)
		return say(e, file,
		    "there is no chat template: neither a file of its own nor \"chat_template\" here");
	if ((c->plain = compile(plain, file, e)) == NULL)
		return -1;
	if (tool_use.n > 0 && (c->tool_use = compile(tool_use, file, e)) == NULL)
		return -1;
	c->plain_traits = traits(c->plain, plain);
	c->tool_traits = c->tool_use != NULL ? traits(c->tool_use, tool_use) : c->plain_traits;
	return 0;
}

/* Copy a special token to memory of <c>. Returns JV_MISSING if it is none. */
static struct jval token_of(struct make *k, struct jval v)
{
	struct jval text = is_str(v) ? v : get(v, "content");
	char *p;

	if (!is_str(text) || (p = make_take(k, text.n)) == NULL)
		return (struct jval){ .kind = JV_MISSING };
	if (text.n > 0)
		memcpy(p, text.s, text.n);
	return jval_str(p, text.n);
}

static void take_more_tokens(struct make *k, struct jval tokens, struct jval list)
{
	struct make_list l = { .n = 0 };

	for (uint32_t i = 0; is_list(list) && i < list.n; i++) {
		struct jval t = token_of(k, list.v[i]);

		if (t.kind != JV_MISSING)
			make_add(k, &l, t);
	}
	if (l.n > 0)
		make_put(k, tokens, "additional_special_tokens", make_list_value(&l));
}

static int take_tokens(struct chat *c, struct jval config, struct err *e)
{
	static const char *const names[] = {
		"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
	};
	struct make k = { .mem = c->mem };

	c->tokens = make_dict(&k);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct jval t = token_of(&k, get(config, names[i]));

		if (t.kind != JV_MISSING)
			make_put(&k, c->tokens, names[i], t);
	}
	take_more_tokens(&k, c->tokens, get(config, "additional_special_tokens"));
	return k.state == MAKE_GOOD ? 0 : err_set(e, "no memory for a chat template's special tokens");
}

static int take_config(struct chat *c, const struct chat_source *src, const struct hash_key *key,
		struct err *e)
{
	struct jinja_mem *mem = jinja_mem_new(CONFIG_BYTES_MAX, key);
	struct jval config = { .kind = JV_MISSING };
	size_t at = 0;
	int rc;

	if (mem == NULL)
		return err_set(e, "no memory for a tokenizer's configuration");
	if (utf8_check(src->config, src->config_name, e) < 0)
		rc = -1;
	else if (src->config.n > 0 &&
	    (jval_from_json(mem, src->config, 0, &config, &at) < 0 || config.kind != JV_DICT))
		rc = say(e, src->config_name, "this is no tokenizer_config.json: a JSON object is wanted");
	else
		rc = take_tokens(c, config, e);
	if (rc == 0 && src->format == CHAT_TEMPLATE)
		rc = take_templates(c, src, config, e);
	jinja_mem_free(mem);
	return rc;
}

/* Tell if the configuration has a template other than null. True for one that is no JSON object,
 * because chat_load() then reports it. */
static bool config_has(struct span config, const struct hash_key *key)
{
	static const char word[] = "\"chat_template\"";
	struct jinja_mem *mem;
	struct jval v = { .kind = JV_MISSING };
	bool has = true;
	size_t at;

	if (config.n == 0 || memmem(config.p, config.n, word, sizeof(word) - 1) == NULL)
		return false;
	if ((mem = jinja_mem_new(CONFIG_BYTES_MAX, key)) == NULL)
		return true;
	if (jval_from_json(mem, config, 0, &v, &at) == 0 && v.kind == JV_DICT) {
		v = get(v, "chat_template");
		has = v.kind != JV_MISSING && v.kind != JV_NONE;
	}
	jinja_mem_free(mem);
	return has;
}

bool chat_source_has(const struct chat_source *src, const struct hash_key *key)
{
	return src->format == CHAT_HARMONY || src->template.n > 0 || config_has(src->config, key);
}

struct chat *chat_load(const struct chat_source *src, const struct hash_key *key, struct err *e)
{
	struct chat *c = mem_alloc(sizeof(*c));

	if (e != NULL)
		*e = (struct err){ .line = 0 };
	if (c == NULL || (c->mem = jinja_mem_new(1u << 20, key)) == NULL) {
		mem_free(c);
		err_set(e, "no memory for a chat template");
		return NULL;
	}
	c->refs = 1;
	c->format = src->format;
	c->aliases = !src->no_aliases;
	c->fingerprint = XXH3_64bits(src->config.p, src->config.n) * 3 +
	    XXH3_64bits(src->template.p, src->template.n) + 2 * src->no_aliases + src->format;
	if (take_config(c, src, key, e) < 0) {
		chat_unref(c);
		return NULL;
	}
	if (chat_probe(c, key) < 0) {
		chat_unref(c);
		err_set(e, "no memory for a chat template");
		return NULL;
	}
	return c;
}

struct chat *chat_ref(struct chat *c)
{
	if (c != NULL)
		__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void chat_unref(struct chat *c)
{
	if (c == NULL || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	jinja_free(c->plain);
	jinja_free(c->tool_use);
	jinja_mem_free(c->mem);
	mem_free(c);
}

size_t chat_bytes(const struct chat *c)
{
	return sizeof(*c) + jinja_mem_used(c->mem) + (c->plain != NULL ? jinja_bytes(c->plain) : 0) +
	       (c->tool_use != NULL ? jinja_bytes(c->tool_use) : 0);
}

uint64_t chat_fingerprint(const struct chat *c)
{
	return c->fingerprint;
}
