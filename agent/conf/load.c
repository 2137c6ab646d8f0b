/* load.c - the tree into the option structs.
 *
 * Sections may stand in any order; "policy" is read before "pools" whatever their order, because
 * each pool starts as a copy of it. Reading goes on after every mistake: what was refused keeps its
 * default, is marked as bad, and takes part in no check that compares keys, so that one mistake
 * makes one message. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/conf/check.h"
#include "agent/conf/near.h"
#include "agent/conf/tree.h"
#include "agent/conf/value.h"

struct load {
	struct conf *c;
	const char *file;
	struct conf_tree tree;
	struct conf_errors *es;
	struct conf_given given;
	uint32_t section[20];		/* node of what stands behind "spop:", 0: nothing */
	struct conf_mark section_at[20];
};

static const struct conf_node *node_at(const struct load *l, uint32_t i)
{
	return &l->tree.node[i];
}

#define add(l, at, ...)	conf_errors_add((l)->es, (l)->file, (at), __VA_ARGS__)

/* ---- keys nobody knows ------------------------------------------------------------------- */

/* The full name of the key whose whole name, or only its word in the file, is <word>. */
static const char *known_exactly(struct span word, bool whole)
{
	for (size_t i = 0; i < conf_n_keys; i++) {
		const char *name = whole ? conf_keys[i].name : conf_key_word(&conf_keys[i]);

		if (near_distance(span_str(name), word) == 0)
			return conf_keys[i].name;
	}
	return NULL;
}

/* The full name of a key or section that <word> may be meant to be, anywhere in the file. */
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

static const char *known_here(const struct conf_section *s, struct span word)
{
	struct near near;

	near_init(&near, word);
	for (size_t i = 0; i < conf_n_keys; i++)
		if (conf_key_in(&conf_keys[i], s))
			near_try(&near, conf_key_word(&conf_keys[i]));
	for (size_t i = 0; s == NULL && i < conf_n_sections; i++)
		near_try(&near, conf_sections[i].name);
	return near.best;
}

static void list_known(const struct conf_section *s, char *out, size_t cap)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < conf_n_keys; i++)
		if (conf_key_in(&conf_keys[i], s) && n < cap)
			n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? ", " : "",
					      conf_key_word(&conf_keys[i]));
	if (n >= cap || s == NULL)
		snprintf(out, cap, "listed in kvroute.yaml(5)");
}

/* The word is right and its place is not. */
static void misplaced_section(struct load *l, const struct conf_section *s, const struct conf_node *key)
{
	const struct conf_section *meant = &conf_sections[conf_section_find(key->text)];
	bool in_pool = s->shape == SHAPE_POOLS && meant->shape == SHAPE_POLICY;

	add(l, key->at, "The section %s does not belong in %s%s.", meant->name, conf_section_name(s),
	    in_pool ? "; write its keys beside the pool's name" : ", but at the top of the file, not indented");
}

static void unknown_key(struct load *l, const struct conf_section *s, const struct conf_node *key)
{
	const char *in = s != NULL ? " in " : "", *name = conf_section_name(s), *meant;
	char show[CONF_SHOW_MAX], known[160];

	if (conf_errors_lose(l->es, key->at))
		return;
	if (s != NULL && conf_section_find(key->text) >= 0) {
		misplaced_section(l, s, key);
		return;
	}
	conf_show(key->text, show);
	meant = memchr(key->text.p, '.', key->text.n) ? known_exactly(key->text, true) : NULL;
	if (meant == NULL && (meant = known_here(s, key->text)) != NULL) {
		add(l, key->at, "The key %s%s%s is unknown; did you mean %s?", show, in, name, meant);
	} else if (meant != NULL || (meant = known_elsewhere(key->text)) != NULL) {
		add(l, key->at, "The key %s%s%s is unknown; did you mean %s%s?", show, in, name, meant,
		    strchr(meant, '.') != NULL ? " (the point stands for a section)" : "");
	} else {
		list_known(s, known, sizeof(known));
		add(l, key->at, "The key %s%s%s is unknown; the keys there are %s.", show, in, name,
		    known);
	}
}

/* ---- values ------------------------------------------------------------------------------ */

static const char *kind_text(const struct load *l, const struct conf_node *n,
			     char show[CONF_SHOW_MAX])
{
	if (n->kind == NODE_MAP)
		return "a section";
	if (n->kind == NODE_LIST)
		return "a list";
	return conf_show(n->text, show);
}

static void bad_value(struct load *l, const struct conf_key *k, const struct conf_node *v,
		      const char *why)
{
	char show[CONF_SHOW_MAX], allowed[CONF_ALLOWED_MAX];

	conf_value_allowed(k, allowed, sizeof(allowed));
	add(l, v->at, "%s: %s %s; it must be %s.", k->name, kind_text(l, v, show), why, allowed);
}

static int set_scalar(struct load *l, const struct conf_key *k, void *rec,
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

/* One value of a list, with those before it to compare. */
static int check_item(struct load *l, const struct conf_key *k, const struct conf_node *v,
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

/* <v> is the list, or its only value. */
static int set_list(struct load *l, const struct conf_key *k, void *rec, const struct conf_node *v)
{
	const struct conf_node *item = v, *next;
	struct span items[CONF_ITEMS_MAX];
	size_t n = 0, bad = 0;

	if (v->kind == NODE_MAP) {
		bad_value(l, k, v, "does not belong here");
		return -1;
	}
	if (!v->whole)			/* broken off: that has been said */
		return -1;
	if (v->kind == NODE_LIST)
		item = v->first ? node_at(l, v->first) : NULL;
	for (; item != NULL; item = next) {
		next = item != v && item->next != 0 ? node_at(l, item->next) : NULL;
		if (n + bad >= (size_t)k->max) {
			bad_value(l, k, item, "is one too many");
			return -1;
		}
		if (check_item(l, k, item, items, n) != 0)
			bad++;
		else
			items[n++] = item->text;
	}
	if (bad == 0 && n < (size_t)k->min) {
		bad_value(l, k, v, n == 0 ? "is empty" : "lacks something");
		return -1;
	}
	if (bad > 0)
		return -1;
	conf_items_set(k, rec, items, n);
	return 0;
}

/* Key <key> of the map it stands in, which is section <s>, fills <rec>. */
static void set_key(struct load *l, const struct conf_section *s, void *rec,
		    struct conf_given *given, const struct conf_node *key,
		    const struct conf_node *v)
{
	int i = conf_key_find(s, key->text);
	const struct conf_key *k;
	int rc = -1;

	if (i < 0) {
		unknown_key(l, s, key);
		return;
	}
	k = &conf_keys[i];
	if (given->at[i].line > 0) {
		add(l, key->at, "The key %s is here a second time; the first is in line %d.",
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

/* The next key of a map with its value. NULL: no more. <at>: 0 is none, as in the tree. */
static const struct conf_node *next_pair(struct load *l, uint32_t *at, const struct conf_node **v)
{
	const struct conf_node *key;

	while (*at != 0) {
		key = node_at(l, *at);
		if (key->next == 0)		/* the file broke off behind the key */
			return NULL;
		*v = node_at(l, key->next);
		*at = (*v)->next;
		if (key->kind == NODE_SCALAR)
			return key;
		if (key->kind != NODE_REFUSED)
			add(l, key->at, "A key must be a word, not a list or a section.");
	}
	return NULL;
}

/* What the file says under "policy" holds in a pool, too, whatever its rule has as defaults. */
static void keep_given(const struct load *l, struct pool_opts *p)
{
	const char *from = (const char *)&l->c->route.pool_default;

	for (size_t i = 0; i < conf_n_keys; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->home == HOME_POLICY && l->given.at[i].line > 0 && strcmp(k->name, "policy.rule") != 0)
			memcpy((char *)p + k->at, from + k->at, k->width);
	}
}

/* Naming a rule sets what its authors give as defaults, wherever the key stands; what the file gives goes
 * over them. */
static void take_preset(struct load *l, struct pool_opts *p, const struct conf_node *map)
{
	const struct conf_node *key, *v;

	for (uint32_t at = map->first; at != 0 && node_at(l, at)->next != 0; at = v->next) {
		int rule;

		key = node_at(l, at);
		v = node_at(l, key->next);
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

/* All keys of the map <map>, which is section <s>. */
static void load_map(struct load *l, const struct conf_section *s, void *rec,
		     struct conf_given *given, const struct conf_node *map)
{
	const struct conf_node *key, *v;
	uint32_t at = map->first;

	if (s->shape == SHAPE_POLICY || s->shape == SHAPE_POOLS)
		take_preset(l, rec, map);
	while ((key = next_pair(l, &at, &v)) != NULL)
		set_key(l, s, rec, given, key, v);
}

static void load_section(struct load *l, size_t i, void *rec, struct conf_given *given)
{
	const struct conf_section *s = &conf_sections[i];
	const struct conf_node *v = l->section[i] ? node_at(l, l->section[i]) : NULL;
	char show[CONF_SHOW_MAX];

	if (v == NULL || v->kind == NODE_REFUSED || conf_node_is_null(v))
		return;
	if (v->kind == NODE_MAP)
		load_map(l, s, rec, given, v);
	else
		add(l, v->at, "%s: %s does not belong here; %s is a section, its keys stand below it, "
		    "indented.", s->name, kind_text(l, v, show), s->name);
}

/* ---- pools and models -------------------------------------------------------------------- */

/* The line of the entry in <list> whose name is <name>, before <until>. */
static int line_of_name(struct load *l, const struct conf_node *list, const char *name,
			const struct conf_node *until)
{
	const struct conf_node *entry, *key, *v;
	uint32_t i, at;

	for (i = list->first; i != 0 && (entry = node_at(l, i)) != until; i = entry->next)
		for (at = entry->first; at != 0 && node_at(l, at)->next != 0; at = v->next) {
			key = node_at(l, at);
			v = node_at(l, key->next);
			if (span_eq(key->text, SPAN("name")) && span_eq(v->text, span_str(name)))
				return key->at.line;
		}
	return 0;
}

static int name_key(const struct conf_section *s)
{
	return conf_key_find(s, SPAN("name"));
}

/* Read one entry into <rec> and check its name. False: it is not to be kept. */
static bool load_entry(struct load *l, const struct conf_section *s, void *rec,
		       struct conf_given *given, const struct conf_node *entry)
{
	const char *word = s->shape == SHAPE_POOLS ? "pool" : s->shape == SHAPE_MODELS ? "model" :
			   s->shape == SHAPE_ENGINES ? "engine" : "tenant";
	char show[CONF_SHOW_MAX];
	int name = name_key(s);

	if (entry->kind == NODE_REFUSED)
		return false;
	if (entry->kind != NODE_MAP) {
		add(l, entry->at, "%s: %s does not belong here; a %s is a name and further keys, as in "
		    "\"- name: chat\".", s->name, kind_text(l, entry, show), word);
		return false;
	}
	load_map(l, s, rec, given, entry);
	if (given->at[name].line == 0 && entry->whole)
		add(l, entry->at, "%s: This %s has no name.", s->name, word);
	return given->at[name].line > 0 && !given->bad[name];
}

/* Make room for one more at the end of an array. NULL: no memory, and said so. */
static void *one_more(struct load *l, void *array, size_t n, size_t size)
{
	void *more = array;

	if ((n & (n - 1)) == 0)		/* full: its room doubles, 1 2 4 8 ... */
		more = mem_resize(array, n ? n * 2 : 1, size);
	if (more == NULL)
		add(l, ((struct conf_mark){ 0, 0 }), "There is not enough memory to read the "
		    "configuration.");
	return more;
}

static void set_twice(struct load *l, const struct conf_section *s, const struct conf_node *list,
		  const struct conf_node *entry, const struct conf_given *given, const char *name)
{
	char show[CONF_SHOW_MAX];

	add(l, given->at[name_key(s)], "%s: %s is named a second time; the first is in line %d.",
	    s->name, conf_show(span_str(name), show), line_of_name(l, list, name, entry));
}

/* Each takes one entry; -1 ends the list. <star>: where "*" goes, once the list is through. */
static int add_pool(struct load *l, const struct conf_section *s, const struct conf_node *list,
		    const struct conf_node *entry, struct pool_opts *star)
{
	struct route_opts *r = &l->c->route;
	struct pool_opts p = r->pool_default, *more;
	struct conf_given given = { 0 };
	size_t i;

	memset(p.name, 0, sizeof(p.name));
	if (!load_entry(l, s, &p, &given, entry))
		return 0;
	conf_check_pool(l->es, l->file, &p, &given);
	for (i = 0; i < r->n_pools && strcmp(r->pools[i].name, p.name) != 0; i++)
		;
	if (i < r->n_pools || (star->name[0] != '\0' && strcmp(p.name, "*") == 0)) {
		set_twice(l, s, list, entry, &given, p.name);
		return 0;
	}
	if (strcmp(p.name, "*") == 0) {
		*star = p;
		return 0;
	}
	if ((more = one_more(l, r->pools, r->n_pools, sizeof(p))) == NULL)
		return -1;
	r->pools = more;
	r->pools[r->n_pools++] = p;
	return 0;
}

static bool model_is_called(const struct model_opts *m, const char *name)
{
	if (strcmp(m->name, name) == 0)
		return true;
	for (size_t i = 0; i < MODEL_ALIASES_MAX && m->aliases[i][0] != '\0'; i++)
		if (strcmp(m->aliases[i], name) == 0)
			return true;
	return false;
}

/* The model of the file so far that is called so; NULL: none. */
static const struct model_opts *model_called(const struct load *l, const struct model_opts *star, const char *name)
{
	const struct route_opts *r = &l->c->route;

	for (size_t i = 0; i < r->n_models; i++)
		if (model_is_called(&r->models[i], name))
			return &r->models[i];
	return star->name[0] != '\0' && strcmp(star->name, name) == 0 ? star : NULL;
}

/* Each of <names> must be no name of another model, nor of its own. False: said so; <what> they are, the values of <key>. */
static bool names_are_new(struct load *l, const struct conf_section *s, const struct conf_given *given, const struct model_opts *m,
			  const struct model_opts *star, const char (*names)[PROMPT_NAME_MAX + 1], struct span key, const char *what)
{
	char show[CONF_SHOW_MAX], whose[CONF_SHOW_MAX];

	for (size_t i = 0; i < MODEL_ALIASES_MAX && names[i][0] != '\0'; i++) {
		const struct model_opts *other = strcmp(names[i], m->name) == 0 ? m : model_called(l, star, names[i]);

		if (other == NULL)
			continue;
		add(l, given->at[conf_key_find(s, key)], "%s: The %s %s is a name of %s already.", s->name, what,
		    conf_show(span_str(names[i]), show), conf_show(span_str(other->name), whose));
		return false;
	}
	return true;
}

/* Its name, and each alias and adapter, must be nobody else's. False: said so. */
static bool model_is_new(struct load *l, const struct conf_section *s, const struct conf_node *list,
			 const struct conf_node *entry, const struct conf_given *given, const struct model_opts *m,
			 const struct model_opts *star)
{
	const struct model_opts *other = model_called(l, star, m->name);
	char show[CONF_SHOW_MAX], whose[CONF_SHOW_MAX];

	if (other != NULL && strcmp(other->name, m->name) == 0) {
		set_twice(l, s, list, entry, given, m->name);
		return false;
	}
	if (other != NULL) {
		add(l, given->at[name_key(s)], "%s: %s is an alias of %s already.", s->name,
		    conf_show(span_str(m->name), show), conf_show(span_str(other->name), whose));
		return false;
	}
	return names_are_new(l, s, given, m, star, m->aliases, SPAN("aliases"), "alias") &&
	       names_are_new(l, s, given, m, star, m->adapters, SPAN("adapters"), "adapter");
}

static int add_model(struct load *l, const struct conf_section *s, const struct conf_node *list,
		     const struct conf_node *entry, struct model_opts *star)
{
	struct route_opts *r = &l->c->route;
	struct model_opts m = r->model_default, *more;
	struct conf_given given = { 0 };

	memset(m.name, 0, sizeof(m.name));
	if (!load_entry(l, s, &m, &given, entry))
		return 0;
	conf_check_model(l->es, l->file, l->c, &m, &given);
	if (!model_is_new(l, s, list, entry, &given, &m, star))
		return 0;
	if (strcmp(m.name, "*") == 0) {
		*star = m;
		return 0;
	}
	if ((more = one_more(l, r->models, r->n_models, sizeof(m))) == NULL)
		return -1;
	r->models = more;
	r->models[r->n_models++] = m;
	return 0;
}

static int add_tenant(struct load *l, const struct conf_section *s, const struct conf_node *list,
		      const struct conf_node *entry, struct tenant_opts *star)
{
	struct route_opts *r = &l->c->route;
	struct tenant_opts t = r->tenant_default, *more;
	struct conf_given given = { 0 };
	size_t i;

	memset(t.name, 0, sizeof(t.name));
	if (!load_entry(l, s, &t, &given, entry))
		return 0;
	for (i = 0; i < r->n_tenants && strcmp(r->tenants[i].name, t.name) != 0; i++)
		;
	if (i < r->n_tenants || (star->name[0] != '\0' && strcmp(t.name, "*") == 0)) {
		set_twice(l, s, list, entry, &given, t.name);
		return 0;
	}
	if (strcmp(t.name, "*") == 0) {
		*star = t;
		return 0;
	}
	if ((more = one_more(l, r->tenants, r->n_tenants, sizeof(t))) == NULL)
		return -1;
	r->tenants = more;
	r->tenants[r->n_tenants++] = t;
	return 0;
}

/* Both must be there, and name one. False: said so. */
static bool engine_is_whole(struct load *l, const struct conf_section *s, const struct conf_node *entry,
			    const struct conf_given *given, const struct engine_opts *e)
{
	int pool = conf_key_find(s, SPAN("pool")), metrics = conf_key_find(s, SPAN("metrics"));

	if (given->at[pool].line == 0)
		add(l, entry->at, "%s: This engine has no pool.", s->name);
	else if (given->at[metrics].line == 0)
		add(l, entry->at, "%s: This engine has no metrics.", s->name);
	else if (strcmp(e->name, "*") == 0 || strcmp(e->pool, "*") == 0)
		add(l, entry->at, "%s: An engine is one server of one pool, and not \"*\".", s->name);
	else
		return !given->bad[pool] && !given->bad[metrics];
	return false;
}

/* Servers of two pools may have one name. */
static int add_engine(struct load *l, const struct conf_section *s, const struct conf_node *entry)
{
	struct loop_opts *o = &l->c->loop;
	struct engine_opts e = o->engine_default, *more;
	struct conf_given given = { 0 };
	char show[CONF_SHOW_MAX];
	size_t i;

	if (!load_entry(l, s, &e, &given, entry) || (entry->whole && !engine_is_whole(l, s, entry, &given, &e)))
		return 0;
	for (i = 0; i < o->n_engines; i++)
		if (strcmp(o->engines[i].name, e.name) == 0 && strcmp(o->engines[i].pool, e.pool) == 0)
			break;
	if (i < o->n_engines) {
		add(l, given.at[name_key(s)], "%s: %s is named a second time in its pool.", s->name,
		    conf_show(span_str(e.name), show));
		return 0;
	}
	if ((more = one_more(l, o->engines, o->n_engines, sizeof(e))) == NULL)
		return -1;
	o->engines = more;
	o->engines[o->n_engines++] = e;
	return 0;
}

static size_t entries_max(const struct conf_section *s)
{
	switch (s->shape) {
	case SHAPE_POOLS: return CONF_POOLS_MAX;
	case SHAPE_MODELS: return CONF_MODELS_MAX;
	case SHAPE_ENGINES: return CONF_ENGINES_MAX;
	default: return CONF_TENANTS_MAX;
	}
}

static void load_entries(struct load *l, size_t section)
{
	const struct conf_section *s = &conf_sections[section];
	const struct conf_node *list = l->section[section] ? node_at(l, l->section[section]) : NULL;
	struct pool_opts star_pool = { .name = "" };
	struct model_opts star_model = { .name = "" };
	struct tenant_opts star_tenant = { .name = "" };
	size_t n = 0, max = entries_max(s);
	char show[CONF_SHOW_MAX];
	int rc = 0;

	if (list == NULL || list->kind == NODE_REFUSED || conf_node_is_null(list))
		return;
	if (list->kind != NODE_LIST) {
		add(l, list->at, "%s: %s does not belong here; it is a list, each entry starts with "
		    "\"- name:\".", s->name, kind_text(l, list, show));
		return;
	}
	for (uint32_t i = list->first; i != 0 && rc == 0; i = node_at(l, i)->next) {
		if (n++ == max) {
			add(l, node_at(l, i)->at, "%s: There are more than %zu entries.", s->name, max);
			break;
		}
		rc = s->shape == SHAPE_POOLS ?
			add_pool(l, s, list, node_at(l, i), &star_pool) :
			s->shape == SHAPE_MODELS ?
			add_model(l, s, list, node_at(l, i), &star_model) :
			s->shape == SHAPE_ENGINES ? add_engine(l, s, node_at(l, i)) :
			add_tenant(l, s, list, node_at(l, i), &star_tenant);
	}
	if (star_pool.name[0] != '\0')
		l->c->route.pool_default = star_pool;
	if (star_model.name[0] != '\0')
		l->c->route.model_default = star_model;
	if (star_tenant.name[0] != '\0')
		l->c->route.tenant_default = star_tenant;
}

/* ---- the whole --------------------------------------------------------------------------- */

static void load_top(struct load *l)
{
	const struct conf_node *root = node_at(l, 0), *key, *v;
	uint32_t at = root->first;
	char show[CONF_SHOW_MAX];
	int s;

	if (root->kind == NODE_REFUSED || conf_node_is_null(root))
		return;
	if (root->kind != NODE_MAP) {
		if (conf_errors_any(l->es))	/* and it may be no more than the start of bad YAML */
			return;
		add(l, root->at, "%s does not belong here; a configuration is made of lines like "
		    "\"threads: 2\".", kind_text(l, root, show));
		return;
	}
	while ((key = next_pair(l, &at, &v)) != NULL) {
		if ((s = conf_section_find(key->text)) < 0) {
			set_key(l, NULL, l->c, &l->given, key, v);
		} else if (l->section_at[s].line > 0) {
			add(l, key->at, "The section %s is here a second time; the first is in "
			    "line %d.", conf_sections[s].name, l->section_at[s].line);
		} else {
			l->section_at[s] = key->at;
			l->section[s] = (uint32_t)(v - l->tree.node);
		}
	}
}

static void load_sections(struct load *l)
{
	for (size_t i = 0; i < conf_n_sections; i++) {
		const struct conf_section *s = &conf_sections[i];

		if (s->shape == SHAPE_KEYS)
			load_section(l, i, l->c, &l->given);
		else if (s->shape == SHAPE_POLICY)
			load_section(l, i, &l->c->route.pool_default, &l->given);
		else
			load_entries(l, i);
		if (s->shape == SHAPE_POLICY)
			conf_check_pool(l->es, l->file, &l->c->route.pool_default, &l->given);
		if (s->shape == SHAPE_POOLS)
			l->given.pools_at = l->section_at[i];
		if (s->shape == SHAPE_TENANTS)
			l->given.tenants_at = l->section_at[i];
	}
}

int conf_load_text(struct conf *c, const char *name, const char *text, size_t n,
		   struct conf_errors *es)
{
	struct load l = { .c = c, .file = name, .es = es };

	_Static_assert(sizeof(l.section) / sizeof(*l.section) >= 16, "one for each section");
	conf_defaults(c);
	if (conf_errors_init(es) != 0) {
		es->lost = 1;
		conf_free(c);
		return -1;
	}
	if (n > CONF_FILE_MAX)
		add(&l, ((struct conf_mark){ 0, 0 }), "The configuration is larger than 1 MiB.");
	else
		conf_tree_read(&l.tree, name, span_of(text, n), es);
	if (l.tree.n > 0) {
		load_top(&l);
		load_sections(&l);
		conf_check(es, name, c, &l.given);
	}
	conf_tree_free(&l.tree);
	if (!conf_errors_any(es)) {
		conf_errors_free(es);
		return 0;
	}
	conf_free(c);
	return -1;
}

/* ---- from a file ------------------------------------------------------------------------- */

/* The whole of <fd>, at most one byte more than is allowed. NULL: errno says why. */
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

int conf_load_fd(struct conf *c, const char *name, int fd, struct conf_errors *es)
{
	size_t n = 0;
	char *text = fd >= 0 ? read_all(fd, &n) : NULL;
	int rc, error = fd >= 0 ? errno : -fd;

	if (text != NULL) {
		rc = conf_load_text(c, name, text, n, es);
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

int conf_load(struct conf *c, const char *path, struct conf_errors *es)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = conf_load_fd(c, path, fd >= 0 ? fd : -errno, es);

	if (fd >= 0)
		close(fd);
	return rc;
}
