/* load_entries.c - the lists of the configuration: pools, models, tenants and engines.
 *
 * Each entry starts as a copy of its default. The entry "*" becomes the default once the list is
 * read, so it changes no other entry of the list. */
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/conf/load_in.h"
#include "agent/conf/value.h"

/* Returns the line of the entry in <list> whose name is <name>, before <until>. */
static int line_of_name(struct conf_loader *l, const struct conf_node *list, const char *name,
			const struct conf_node *until)
{
	const struct conf_node *entry, *key, *v;
	uint32_t i, at;

	for (i = list->first; i != 0 && (entry = conf_node_at(l, i)) != until; i = entry->next)
		for (at = entry->first; at != 0 && conf_node_at(l, at)->next != 0; at = v->next) {
			key = conf_node_at(l, at);
			v = conf_node_at(l, key->next);
			if (span_eq(key->text, SPAN("name")) && span_eq(v->text, span_str(name)))
				return key->at.line;
		}
	return 0;
}

static int name_key(const struct conf_section *s)
{
	return conf_key_find(s, SPAN(""), SPAN("name"));
}

/* Read one entry into <rec> and check its name. Returns false if the entry is not kept. */
static bool load_entry(struct conf_loader *l, const struct conf_section *s, void *rec,
		       struct conf_given *given, const struct conf_node *entry)
{
	const char *word = s->shape == SHAPE_POOLS ? "pool" : s->shape == SHAPE_MODELS ? "model" :
			   s->shape == SHAPE_ENGINES ? "engine" : "tenant";
	char show[CONF_SHOW_MAX];
	int name = name_key(s);

	if (entry->kind == NODE_REFUSED)
		return false;
	if (entry->kind != NODE_MAP) {
		conf_add(l, entry->at,
			"%s: %s does not belong here; a %s is a name and further keys, as in \"- name: "
			"chat\".", s->name, conf_kind_text(l, entry, show), word);
		return false;
	}
	conf_load_map(l, s, rec, given, entry);
	if (given->at[name].line == 0 && entry->whole)
		conf_add(l, entry->at, "%s: This %s has no name.", s->name, word);
	return given->at[name].line > 0 && !given->bad[name];
}

/* Make room for one more element. Returns NULL, and reports it, if there is no memory. */
static void *one_more(struct conf_loader *l, void *array, size_t n, size_t size)
{
	void *more = array;

	if ((n & (n - 1)) == 0)		/* full: the capacity doubles, 1 2 4 8 ... */
		more = mem_resize(array, n ? n * 2 : 1, size);
	if (more == NULL)
		conf_add(l, ((struct conf_mark){ 0, 0 }),
			"There is not enough memory to read the configuration.");
	return more;
}

static void set_twice(struct conf_loader *l, const struct conf_section *s,
    const struct conf_node *list, const struct conf_node *entry, const struct conf_given *given,
    const char *name)
{
	char show[CONF_SHOW_MAX];

	conf_add(l, given->at[name_key(s)], "%s: %s is named twice; the first is in line %d.",
	    s->name, conf_show(span_str(name), show), line_of_name(l, list, name, entry));
}

/* Each function adds one entry. Returns 0, or -1 to end the list. <star> gets the entry "*". */
static int add_pool(struct conf_loader *l, const struct conf_section *s,
    const struct conf_node *list, const struct conf_node *entry, struct pool_opts *star)
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

/* Returns the model read so far that has the name or alias <name>, or NULL. */
static const struct model_opts *model_called(
    const struct conf_loader *l, const struct model_opts *star, const char *name)
{
	const struct route_opts *r = &l->c->route;

	for (size_t i = 0; i < r->n_models; i++)
		if (model_is_called(&r->models[i], name))
			return &r->models[i];
	return star->name[0] != '\0' && strcmp(star->name, name) == 0 ? star : NULL;
}

/* Check that none of <names>, the values of <key>, names another model or this one. <what> they
 * are: "alias", "adapter". Returns false after reporting an error. */
static bool names_are_new(struct conf_loader *l, const struct conf_section *s,
    const struct conf_given *given, const struct model_opts *m, const struct model_opts *star,
    const char (*names)[PROMPT_NAME_MAX + 1], struct span key, const char *what)
{
	char show[CONF_SHOW_MAX], whose[CONF_SHOW_MAX];

	for (size_t i = 0; i < MODEL_ALIASES_MAX && names[i][0] != '\0'; i++) {
		const struct model_opts *other =
		    strcmp(names[i], m->name) == 0 ? m : model_called(l, star, names[i]);

		if (other == NULL)
			continue;
		conf_add(l, given->at[conf_key_find(s, SPAN(""), key)],
		    "%s: The %s %s is a name of %s already.", s->name, what,
		    conf_show(span_str(names[i]), show), conf_show(span_str(other->name), whose));
		return false;
	}
	return true;
}

/* Check that name, aliases and adapters of <m> name no other model. Returns false after reporting
 * an error. */
static bool model_is_new(struct conf_loader *l, const struct conf_section *s,
    const struct conf_node *list, const struct conf_node *entry, const struct conf_given *given,
    const struct model_opts *m, const struct model_opts *star)
{
	const struct model_opts *other = model_called(l, star, m->name);
	char show[CONF_SHOW_MAX], whose[CONF_SHOW_MAX];

	if (other != NULL && strcmp(other->name, m->name) == 0) {
		set_twice(l, s, list, entry, given, m->name);
		return false;
	}
	if (other != NULL) {
		conf_add(l, given->at[name_key(s)], "%s: %s is an alias of %s already.", s->name,
		    conf_show(span_str(m->name), show), conf_show(span_str(other->name), whose));
		return false;
	}
	return names_are_new(l, s, given, m, star, m->aliases, SPAN("aliases"), "alias") &&
	       names_are_new(l, s, given, m, star, m->adapters, SPAN("adapters"), "adapter");
}

static int add_model(struct conf_loader *l, const struct conf_section *s,
    const struct conf_node *list, const struct conf_node *entry, struct model_opts *star)
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

static int add_tenant(struct conf_loader *l, const struct conf_section *s,
    const struct conf_node *list, const struct conf_node *entry, struct tenant_opts *star)
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

/* Check that a pool, and metrics or events, are given, and that the pool is no "*". <errors>: of
 * the file before this entry. Returns false after reporting an error. */
static bool engine_is_whole(struct conf_loader *l, const struct conf_section *s,
    const struct conf_node *entry, const struct conf_given *given, const struct engine_opts *e,
    size_t errors)
{
	int pool = conf_key_of("engines.pool"), metrics = conf_key_of("engines.metrics");
	int endpoint = conf_key_of("engines.events.endpoint");

	if (given->at[pool].line == 0)
		conf_add(l, entry->at, "%s: This engine has no pool.", s->name);
	else if (e->metrics[0] == '\0' && e->events.endpoint[0] == '\0' && l->es->n == errors)
		conf_add(l, entry->at, "%s: This engine has neither metrics nor events.endpoint.", s->name);
	else if (strcmp(e->pool, "*") == 0)
		conf_add(l, entry->at, "%s: An engine belongs to one pool, and not to \"*\".", s->name);
	else
		return !given->bad[pool] && !given->bad[metrics] && !given->bad[endpoint];
	return false;
}

/* Servers of two pools may have the same name. */
static int add_engine(
    struct conf_loader *l, const struct conf_section *s, const struct conf_node *entry)
{
	struct loop_opts *o = &l->c->loop;
	struct engine_opts e = o->engine_default, *more;
	struct conf_given given = { 0 };
	char show[CONF_SHOW_MAX];
	size_t i, errors = l->es->n;

	if (!load_entry(l, s, &e, &given, entry) ||
	    (entry->whole && !engine_is_whole(l, s, entry, &given, &e, errors)))
		return 0;
	if (entry->whole)
		conf_check_engine(l->es, l->file, l->c, &e, &given,
		    l->given.bad[conf_key_of("stats_feed.sockets")]);
	for (i = 0; i < o->n_engines; i++)
		if (strcmp(o->engines[i].name, e.name) == 0 && strcmp(o->engines[i].pool, e.pool) == 0)
			break;
	if (i < o->n_engines) {
		conf_add(l, given.at[name_key(s)], "%s: %s is named twice in its pool.", s->name,
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

void conf_load_entries(struct conf_loader *l, size_t section)
{
	const struct conf_section *s = &conf_sections[section];
	const struct conf_node *list = l->section[section] ? conf_node_at(l, l->section[section]) : NULL;
	struct pool_opts star_pool = { .name = "" };
	struct model_opts star_model = { .name = "" };
	struct tenant_opts star_tenant = { .name = "" };
	size_t n = 0, max = entries_max(s);
	char show[CONF_SHOW_MAX];
	int rc = 0;

	if (list == NULL || list->kind == NODE_REFUSED || conf_node_is_null(list))
		return;
	if (list->kind != NODE_LIST) {
		conf_add(l, list->at,
			"%s: %s does not belong here; it is a list, each entry starts with \"- "
			"name:\".", s->name, conf_kind_text(l, list, show));
		return;
	}
	for (uint32_t i = list->first; i != 0 && rc == 0; i = conf_node_at(l, i)->next) {
		if (n++ == max) {
			conf_add(l, conf_node_at(l, i)->at, "%s: There are more than %zu entries.", s->name, max);
			break;
		}
		rc = s->shape == SHAPE_POOLS ?
			add_pool(l, s, list, conf_node_at(l, i), &star_pool) :
			s->shape == SHAPE_MODELS ?
			add_model(l, s, list, conf_node_at(l, i), &star_model) :
			s->shape == SHAPE_ENGINES ? add_engine(l, s, conf_node_at(l, i)) :
			add_tenant(l, s, list, conf_node_at(l, i), &star_tenant);
	}
	if (s->shape == SHAPE_POOLS)
		conf_check_prefill(l, list);
	if (star_pool.name[0] != '\0')
		l->c->route.pool_default = star_pool;
	if (star_model.name[0] != '\0')
		l->c->route.model_default = star_model;
	if (star_tenant.name[0] != '\0')
		l->c->route.tenant_default = star_tenant;
}
