/* load.c - the YAML tree into the option structs.
 *
 * Sections may have any order. "policy" is always read before "pools", because each pool starts as
 * a copy of it. Loading continues after an error: a rejected value keeps its default, is marked as
 * bad, and takes part in no further check. So one mistake causes one message. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/conf/load_in.h"
#include "agent/conf/value.h"

/* ---- values ------------------------------------------------------------------------------ */

const char *conf_kind_text(const struct conf_loader *l, const struct conf_node *n,
			     char show[CONF_SHOW_MAX])
{
	if (n->kind == NODE_MAP)
		return "a section";
	if (n->kind == NODE_LIST)
		return "a list";
	return conf_show(n->text, show);
}

static void bad_value(struct conf_loader *l, const struct conf_key *k, const struct conf_node *v,
		      const char *why)
{
	char show[CONF_SHOW_MAX], allowed[CONF_ALLOWED_MAX];

	conf_value_allowed(k, allowed, sizeof(allowed));
	conf_add(l, v->at, "%s: %s %s; it must be %s.", k->name, conf_kind_text(l, v, show), why, allowed);
}

static int set_scalar(struct conf_loader *l, const struct conf_key *k, void *rec,
		      const struct conf_node *v)
{
	char why[CONF_REASON_MAX];

	if (v->kind != NODE_SCALAR) {
		bad_value(l, k, v, "does not belong here");
		return -1;
	}
	if (conf_value_set(k, rec, v->text, why, sizeof(why)) != 0) {
		bad_value(l, k, v, why);
		return -1;
	}
	return 0;
}

/* Check one value of a list against those before it. */
static int check_item(struct conf_loader *l, const struct conf_key *k, const struct conf_node *v,
		      const struct span *items, size_t n)
{
	char why[CONF_REASON_MAX];
	struct span text = v->text, other;

	if (v->kind == NODE_REFUSED)
		return -1;
	if (v->kind != NODE_SCALAR) {
		bad_value(l, k, v, "does not belong in this list");
		return -1;
	}
	if (conf_item_check(k, v->text, why, sizeof(why)) != 0) {
		bad_value(l, k, v, why);
		return -1;
	}
	conf_addr_optional(&text);
	for (size_t i = 0; i < n; i++) {
		other = items[i];
		conf_addr_optional(&other);
		if (span_eq(other, text)) {
			bad_value(l, k, v, "is in the list already");
			return -1;
		}
	}
	return 0;
}

/* Set a list from <v>, which is the list or its only value. */
static int set_list(
    struct conf_loader *l, const struct conf_key *k, void *rec, const struct conf_node *v)
{
	const struct conf_node *item = v, *next;
	struct span items[CONF_ITEMS_MAX];
	size_t n = 0, bad = 0;

	if (v->kind == NODE_MAP) {
		bad_value(l, k, v, "does not belong here");
		return -1;
	}
	if (!v->whole)			/* incomplete: already reported */
		return -1;
	if (v->kind == NODE_LIST)
		item = v->first ? conf_node_at(l, v->first) : NULL;
	for (; item != NULL; item = next) {
		next = item != v && item->next != 0 ? conf_node_at(l, item->next) : NULL;
		if (n + bad >= (size_t)k->max) {
			bad_value(l, k, item, "is one entry too many");
			return -1;
		}
		if (check_item(l, k, item, items, n) != 0)
			bad++;
		else
			items[n++] = item->text;
	}
	if (bad == 0 && n < (size_t)k->min) {
		bad_value(l, k, v, n == 0 ? "is empty" : "has too few entries");
		return -1;
	}
	if (bad > 0)
		return -1;
	conf_items_set(k, rec, items, n);
	return 0;
}

/* Set the value of <key>, a key of section <s> and its <group>, in <rec>. */
static void set_key(struct conf_loader *l, const struct conf_section *s, struct span group,
    void *rec, struct conf_given *given, const struct conf_node *key, const struct conf_node *v)
{
	int i = conf_key_find(s, group, key->text);
	const struct conf_key *k;
	int rc = -1;

	if (i < 0) {
		conf_unknown_key(l, s, group, key);
		return;
	}
	k = &conf_keys[i];
	if (given->at[i].line > 0) {
		conf_add(l, key->at, "The key %s is given twice; the first is in line %d.",
		    conf_key_word(k), given->at[i].line);
		return;
	}
	given->at[i] = key->at;
	if (conf_node_is_null(v))
		bad_value(l, k, v, "is no value");
	else if (v->kind != NODE_REFUSED)
		rc = conf_type_is_list(k->type) ? set_list(l, k, rec, v) : set_scalar(l, k, rec, v);
	given->bad[i] = rc != 0;
}

/* ---- maps -------------------------------------------------------------------------------- */

/* Returns the next key of a map with its value, or NULL at the end. <at>: index of a node, 0:
 * none. */
static const struct conf_node *next_pair(
    struct conf_loader *l, uint32_t *at, const struct conf_node **v)
{
	const struct conf_node *key;

	while (*at != 0) {
		key = conf_node_at(l, *at);
		if (key->next == 0)		/* the YAML ended after the key */
			return NULL;
		*v = conf_node_at(l, key->next);
		*at = (*v)->next;
		if (key->kind == NODE_SCALAR)
			return key;
		if (key->kind != NODE_REFUSED)
			conf_add(l, key->at, "A key must be a word, not a list or a section.");
	}
	return NULL;
}

/* Set again what the file gives under "policy", because a preset of a pool's rule has changed
 * it. */
static void keep_given(const struct conf_loader *l, struct pool_opts *p)
{
	const char *from = (const char *)&l->c->route.pool_default;

	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->home == HOME_POLICY && l->given.at[i].line > 0 && strcmp(k->name, "policy.rule") != 0)
			memcpy((char *)p + k->at, from + k->at, k->width);
	}
}

/* Apply the preset of the rule that the map names, wherever that key stands. Then the values of
 * "policy" apply again. */
static void apply_preset(struct conf_loader *l, struct pool_opts *p, const struct conf_node *map)
{
	const struct conf_node *key, *v;

	for (uint32_t at = map->first; at != 0 && conf_node_at(l, at)->next != 0; at = v->next) {
		int rule;

		key = conf_node_at(l, at);
		v = conf_node_at(l, key->next);
		if (key->kind != NODE_SCALAR || v->kind != NODE_SCALAR ||
		    !span_eq(key->text, SPAN("rule")))
			continue;
		rule = policy_rule_of(v->text);
		if (rule < 0 || (enum policy_rule)rule == p->policy.rule)
			continue;
		policy_preset(&p->policy, (enum policy_rule)rule);
		keep_given(l, p);
	}
}

/* Read <map>, the value of <name>, a group of keys in an entry of <s>. */
static void load_group(struct conf_loader *l, const struct conf_section *s, void *rec,
    struct conf_given *given, const struct conf_node *name, const struct conf_node *map)
{
	const struct conf_node *key, *v;
	uint32_t at = map->first;
	char show[CONF_SHOW_MAX];

	if (map->kind == NODE_REFUSED)
		return;
	if (map->kind != NODE_MAP) {
		conf_add(l, map->at,
		    "%s." SPAN_FMT ": %s does not belong here; its keys stand below it, indented.",
		    s->name, SPAN_ARG(name->text), conf_kind_text(l, map, show));
		return;
	}
	while ((key = next_pair(l, &at, &v)) != NULL)
		set_key(l, s, name->text, rec, given, key, v);
}

/* Read all keys of <map>, which is section <s>. */
void conf_load_map(struct conf_loader *l, const struct conf_section *s, void *rec,
		     struct conf_given *given, const struct conf_node *map)
{
	const struct conf_node *key, *v;
	uint32_t at = map->first;

	if (s->shape == SHAPE_POLICY || s->shape == SHAPE_POOLS)
		apply_preset(l, rec, map);
	while ((key = next_pair(l, &at, &v)) != NULL)
		if (conf_group_in(s, key->text))
			load_group(l, s, rec, given, key, v);
		else
			set_key(l, s, SPAN(""), rec, given, key, v);
}

static void load_section(struct conf_loader *l, size_t i, void *rec, struct conf_given *given)
{
	const struct conf_section *s = &conf_sections[i];
	const struct conf_node *v = l->section[i] ? conf_node_at(l, l->section[i]) : NULL;
	char show[CONF_SHOW_MAX];

	if (v == NULL || v->kind == NODE_REFUSED || conf_node_is_null(v))
		return;
	if (v->kind == NODE_MAP)
		conf_load_map(l, s, rec, given, v);
	else
		conf_add(l, v->at,
			"%s: %s does not belong here; %s is a section, its keys stand below it, "
			"indented.", s->name, conf_kind_text(l, v, show), s->name);
}

/* ---- the whole text --------------------------------------------------------------------- */

static void load_top(struct conf_loader *l)
{
	const struct conf_node *root = conf_node_at(l, 0), *key, *v;
	uint32_t at = root->first;
	char show[CONF_SHOW_MAX];
	int s;

	if (root->kind == NODE_REFUSED || conf_node_is_null(root))
		return;
	if (root->kind != NODE_MAP) {
		if (conf_errors_any(l->es))	/* the text may be the start of invalid YAML */
			return;
		conf_add(l, root->at,
			"%s does not belong here; a configuration is made of lines like \"threads: "
			"2\".", conf_kind_text(l, root, show));
		return;
	}
	while ((key = next_pair(l, &at, &v)) != NULL) {
		if ((s = conf_section_find(key->text)) < 0) {
			set_key(l, NULL, SPAN(""), l->c, &l->given, key, v);
		} else if (l->section_at[s].line > 0) {
			conf_add(l, key->at,
			    "The section %s is given twice; the first is in line %d.",
			    conf_sections[s].name, l->section_at[s].line);
		} else {
			l->section_at[s] = key->at;
			l->section[s] = (uint32_t)(v - l->tree.nodes.p);
		}
	}
}

static void load_sections(struct conf_loader *l)
{
	for (size_t i = 0; i < conf_n_sections; i++) {
		const struct conf_section *s = &conf_sections[i];

		if (s->shape == SHAPE_KEYS)
			load_section(l, i, l->c, &l->given);
		else if (s->shape == SHAPE_POLICY)
			load_section(l, i, &l->c->route.pool_default, &l->given);
		else
			conf_load_entries(l, i);
		if (s->shape == SHAPE_POLICY)
			conf_check_pool(l->es, l->file, &l->c->route.pool_default, &l->given);
		if (s->shape == SHAPE_POOLS)
			l->given.pools_at = l->section_at[i];
		if (s->shape == SHAPE_TENANTS)
			l->given.tenants_at = l->section_at[i];
	}
}

/* <own>: the absolute path of the file, or NULL. */
static int load_text(struct conf *c, const char *name, const char *own, const char *text, size_t n,
		     struct conf_errors *es)
{
	struct conf_loader l = { .c = c, .file = name, .es = es };

	conf_defaults(c);
	if (conf_errors_init(es) != 0) {
		es->lost = 1;
		conf_free(c);
		return -1;
	}
	if (n > CONF_FILE_MAX)
		conf_add(&l, ((struct conf_mark){ 0, 0 }), "The configuration is larger than 1 MiB.");
	else
		conf_tree_read(&l.tree, name, span_of(text, n), es);
	if (l.tree.nodes.n > 0) {
		load_top(&l);
		load_sections(&l);
		conf_check(es, name, own, c, &l.given);
	}
	c->route.share = c->loop.share.servers[0][0] != '\0';
	conf_tree_free(&l.tree);
	if (!conf_errors_any(es)) {
		conf_errors_free(es);
		return 0;
	}
	conf_free(c);
	return -1;
}

int conf_load_text(struct conf *c, const char *name, const char *text, size_t n,
		   struct conf_errors *es)
{
	return load_text(c, name, NULL, text, n, es);
}

/* ---- from a file ------------------------------------------------------------------------- */

/* Read <fd>, at most one byte more than allowed. Returns NULL with errno on failure. */
static char *read_all(int fd, size_t *n)
{
	size_t cap = CONF_FILE_MAX + 1;
	char *text = mem_alloc(cap);
	ssize_t got;

	*n = 0;
	if (text == NULL)
		return NULL;
	while (*n < cap && (got = read(fd, text + *n, cap - *n)) != 0) {
		if (got > 0) {
			*n += (size_t)got;
		} else if (errno != EINTR) {
			mem_free(text);
			return NULL;
		}
	}
	return text;
}

static int load_fd(struct conf *c, const char *name, const char *own, int fd,
		   struct conf_errors *es)
{
	size_t n = 0;
	char *text = fd >= 0 ? read_all(fd, &n) : NULL;
	int rc, error = fd >= 0 ? errno : -fd;

	if (text != NULL) {
		rc = load_text(c, name, own, text, n, es);
		mem_free(text);
		return rc;
	}
	memset(c, 0, sizeof(*c));
	if (conf_errors_init(es) != 0)
		es->lost = 1;
	else
		conf_errors_add(es, name, (struct conf_mark){ 0, 0 },
				"The configuration cannot be read: %s.", strerror(error));
	return -1;
}

int conf_load_fd(struct conf *c, const char *name, int fd, struct conf_errors *es)
{
	return load_fd(c, name, name[0] == '/' ? name : NULL, fd, es);
}

int conf_load(struct conf *c, const char *path, struct conf_errors *es)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *own = fd >= 0 ? realpath(path, NULL) : NULL;
	int rc = load_fd(c, path, own, fd >= 0 ? fd : -errno, es);

	free(own);
	if (fd >= 0)
		close(fd);
	return rc;
}
