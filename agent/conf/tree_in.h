/* tree_in.h - a YAML file as a tree of words with their places.
 *
 *      spop:              map --first--> scalar "spop" --next--> map --next--> ...
 *        max_open: 8                                              |first
 *                                                        scalar "max_open" --next--> scalar "8"
 *
 * Only the part of YAML that a configuration needs: one document of nested maps, lists and
 * scalars. Anchors, aliases and tags are rejected, nesting and sizes are bounded, and bytes must
 * be UTF-8. */
#ifndef KVROUTE_CONF_TREE_IN_H
#define KVROUTE_CONF_TREE_IN_H

#include "agent/base/types.h"
#include "agent/base/vec.h"
#include "agent/conf/errors_in.h"

#define CONF_FILE_MAX	(1u << 20)	/* bytes */
#define CONF_DEPTH_MAX	8		/* nested maps and lists */
#define CONF_NODES_MAX	200000
#define CONF_SCALAR_MAX	1024		/* bytes */

enum conf_kind {
	NODE_SCALAR, NODE_MAP, NODE_LIST,
	NODE_REFUSED	/* an error that was reported; skip it */
};

struct conf_node {
	enum conf_kind kind;
	bool plain;			/* SCALAR: written without quotes */
	bool whole;			/* its end was read: false only after a YAML error */
	struct conf_mark at;
	struct span text;		/* SCALAR: owned by the tree, NUL-terminated */
	uint32_t first, next;		/* index of another node; 0: none */
};

struct conf_tree {
	VEC(struct conf_node) nodes;	/* node 0 is the root if n > 0 */
};

/* Read <text>. Errors go to <es>. <t> then holds the valid tree before them, but a map may lack its
 * last value. The caller frees <t> in any case. */
void conf_tree_read(struct conf_tree *t, const char *file, struct span text,
		    struct conf_errors *es);
void conf_tree_free(struct conf_tree *t);

/* Returns true for an empty value: "key:", "~" or "null". */
bool conf_node_is_null(const struct conf_node *n);

#endif
