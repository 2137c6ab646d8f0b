/* load_unknown.c - the error for an unknown key, which suggests the key or section that was
 * probably meant. */
#include <stdio.h>

#include "agent/conf/load_in.h"
#include "agent/conf/near_in.h"
#include "agent/conf/value.h"

/* Returns the full name of the key whose full name (<whole>), or word in the file, is <word>. */
static const char *known_exactly(struct span word, bool whole)
{
	for (size_t i = 0; i < conf_n_keys; i++) {
		const char *name = whole ? conf_keys[i].name : conf_key_word(&conf_keys[i]);

		if (near_distance(span_str(name), word) == 0)
			return conf_keys[i].name;
	}
	return NULL;
}

/* Returns the full name of a key or section that is similar to <word>, anywhere in the file. */
static const char *known_elsewhere(struct span word)
{
	const char *name = known_exactly(word, false);
	struct near near;

	if (name != NULL)
		return name;
	near_init(&near, word);
	for (size_t i = 0; i < conf_n_keys; i++)
		near_try(&near, conf_keys[i].name);
	for (size_t i = 0; i < conf_n_sections; i++)
		near_try(&near, conf_sections[i].name);
	return near.best;
}

static bool is_here(const struct conf_key *k, const struct conf_section *s, struct span group)
{
	return conf_key_in(k, s) && span_eq(conf_key_group(k), group);
}

static const char *known_here(const struct conf_section *s, struct span group, struct span word)
{
	struct near near;

	near_init(&near, word);
	for (size_t i = 0; i < conf_n_keys; i++)
		if (is_here(&conf_keys[i], s, group))
			near_try(&near, conf_key_word(&conf_keys[i]));
	for (size_t i = 0; s == NULL && i < conf_n_sections; i++)
		near_try(&near, conf_sections[i].name);
	return near.best;
}

/* Returns the full name of a key in a group of <s> that is written as if it had no group. */
static const char *known_in_group(const struct conf_section *s, struct span word)
{
	size_t section = strlen(conf_section_name(s)) + 1;

	for (size_t i = 0; s != NULL && i < conf_n_keys; i++)
		if (conf_key_in(&conf_keys[i], s) && conf_key_group(&conf_keys[i]).n > 0 &&
		    span_eq(span_str(conf_keys[i].name + section), word))
			return conf_keys[i].name;
	return NULL;
}

static void list_known(const struct conf_section *s, struct span group, char *out, size_t cap)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < conf_n_keys; i++)
		if (is_here(&conf_keys[i], s, group) && n < cap)
			n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "",
					      conf_key_word(&conf_keys[i]));
	if (n >= cap || s == NULL)
		snprintf(out, cap, "listed in kvroute.yaml(5)");
}

/* Report a section in the wrong place. */
static void misplaced_section(
    struct conf_loader *l, const struct conf_section *s, const struct conf_node *key)
{
	const struct conf_section *meant = &conf_sections[conf_section_find(key->text)];
	bool in_pool = s->shape == SHAPE_POOLS && meant->shape == SHAPE_POLICY;

	conf_add(l, key->at, "The section %s does not belong in %s%s.", meant->name, conf_section_name(s),
	    in_pool ? "; write its keys beside the pool's name" :
	           ", but at the top of the file, not indented");
}

void conf_unknown_key(struct conf_loader *l, const struct conf_section *s, struct span group,
    const struct conf_node *key)
{
	const char *in = s != NULL ? " in " : "", *meant;
	char show[CONF_SHOW_MAX], known[160], name[CONF_SHOW_MAX];

	if (conf_errors_lose(l->es, key->at))
		return;
	snprintf(name, sizeof(name), "%s%s" SPAN_FMT, conf_section_name(s), group.n > 0 ? "." : "",
	    SPAN_ARG(group));
	if (s != NULL && group.n == 0 && conf_section_find(key->text) >= 0) {
		misplaced_section(l, s, key);
		return;
	}
	conf_show(key->text, show);
	meant = memchr(key->text.p, '.', key->text.n) ? known_exactly(key->text, true) : NULL;
	if (meant == NULL && group.n == 0)
		meant = known_in_group(s, key->text);
	if (meant == NULL && (meant = known_here(s, group, key->text)) != NULL) {
		conf_add(l, key->at, "The key %s%s%s is unknown; did you mean %s?", show, in, name, meant);
	} else if (meant != NULL || (meant = known_elsewhere(key->text)) != NULL) {
		conf_add(l, key->at, "The key %s%s%s is unknown; did you mean %s%s?", show, in, name, meant,
		    strchr(meant, '.') != NULL ? " (the point stands for a section)" : "");
	} else {
		list_known(s, group, known, sizeof(known));
		conf_add(l, key->at, "The key %s%s%s is unknown; the keys there are %s.", show, in, name,
		    known);
	}
}
