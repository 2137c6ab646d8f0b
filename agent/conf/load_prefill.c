/* load_prefill.c - pools.prefill, once all pools are read: it must name another pool of the list,
 * and that one must compute for itself. Errors are reported at the value. */
#include "agent/conf/load_in.h"

/* Returns the value of <word> in <entry>, or NULL. */
static const struct conf_node *value_of(
    const struct conf_loader *l, const struct conf_node *entry, struct span word)
{
	const struct conf_node *key, *v;

	for (uint32_t at = entry->first; at != 0; at = v->next) {
		key = conf_node_at(l, at);
		if (key->next == 0)
			return NULL;
		v = conf_node_at(l, key->next);
		if (span_eq(key->text, word))
			return v;
	}
	return NULL;
}

static const struct pool_opts *pool_called(const struct route_opts *r, struct span name)
{
	for (size_t i = 0; i < r->n_pools; i++)
		if (span_eq(span_str(r->pools[i].name), name))
			return &r->pools[i];
	return NULL;
}

static void check_one(struct conf_loader *l, struct span name, const struct conf_node *v)
{
	const struct pool_opts *other = pool_called(&l->c->route, v->text);
	char show[CONF_SHOW_MAX], next[CONF_SHOW_MAX];

	conf_show(v->text, show);
	if (span_eq(name, SPAN("*")))
		conf_add(l, v->at, "pools.prefill is for a pool with a name, not for \"*\".");
	else if (span_eq(name, v->text))
		conf_add(l, v->at, "pools.prefill: %s cannot compute for itself.", show);
	else if (other == NULL)
		conf_add(l, v->at,
		    "pools.prefill: There is no pool %s in this list; an entry with its name is enough.", show);
	else if (other->prefill[0] != '\0')
		conf_add(l, v->at, "pools.prefill: %s has a prefill itself (%s); chains are not possible.",
		    show, conf_show(span_str(other->prefill), next));
}

void conf_check_prefill(struct conf_loader *l, const struct conf_node *list)
{
	for (uint32_t i = list->first; i != 0; i = conf_node_at(l, i)->next) {
		const struct conf_node *entry = conf_node_at(l, i), *name, *v;

		if (entry->kind != NODE_MAP || (name = value_of(l, entry, SPAN("name"))) == NULL ||
		    (v = value_of(l, entry, SPAN("prefill"))) == NULL)
			continue;
		if (name->kind == NODE_SCALAR && v->kind == NODE_SCALAR && v->text.n > 0)
			check_one(l, name->text, v);
	}
}
