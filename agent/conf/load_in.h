/* load_in.h - the state of one load, for the files load*.c. */
#ifndef KVROUTE_CONF_LOAD_IN_H
#define KVROUTE_CONF_LOAD_IN_H

#include "agent/conf/check_in.h"
#include "agent/conf/tree_in.h"
#include "agent/conf/value.h"

struct conf_loader {
	struct conf *c;
	const char *file;
	struct conf_tree tree;
	struct conf_errors *es;
	struct conf_given given;
	uint32_t section[CONF_SECTIONS_MAX];	/* node of the section's value, 0: none */
	struct conf_mark section_at[CONF_SECTIONS_MAX];
};

static inline const struct conf_node *conf_node_at(const struct conf_loader *l, uint32_t i)
{
	return &l->tree.nodes.p[i];
}

#define conf_add(l, at, ...)	conf_errors_add((l)->es, (l)->file, (at), __VA_ARGS__)

/* Returns "a section", "a list", or the text of <n> by conf_show(), for an error. */
const char *conf_kind_text(
    const struct conf_loader *l, const struct conf_node *n, char show[CONF_SHOW_MAX]);

/* Report the unknown key <key> of section <s> (NULL: top level) and its <group>. */
void conf_unknown_key(struct conf_loader *l, const struct conf_section *s, struct span group,
    const struct conf_node *key);

/* Read all keys of <map>, which is section <s>, into <rec>. */
void conf_load_map(struct conf_loader *l, const struct conf_section *s, void *rec,
    struct conf_given *given, const struct conf_node *map);

/* Check pools.prefill in <list>, the pools, which are all read. */
void conf_check_prefill(struct conf_loader *l, const struct conf_node *list);

/* Read the list that is section number <section>. */
void conf_load_entries(struct conf_loader *l, size_t section);

#endif
