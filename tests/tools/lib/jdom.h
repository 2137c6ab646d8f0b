/* jdom.h - a JSON text as a tree, for test tools. It shares no code with the agent's scanner, so
 * that a bug in one does not hide in the other. */
#ifndef KVROUTE_TOOLS_JDOM_H
#define KVROUTE_TOOLS_JDOM_H

#include "agent/base/types.h"

#define JDOM_DEPTH_MAX	256
#define JDOM_NODES_MAX	(1u << 20)

enum jtype { J_NULL, J_FALSE, J_TRUE, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT };

struct jnode {
	enum jtype type;
	uint32_t n;		/* children */
	struct span key;	/* decoded; of an object's member */
	struct span text;	/* a string decoded, a number as written */
	struct span raw;	/* the whole value as it stood in the input; borrows from it */
	struct jnode *parent, *first, *last, *next;
};

struct jdom;

/* The tree of the <n> bytes at <p>, which must stay as long as <raw> spans are used. NULL, and
 * a reason in <why>, when they are not one JSON value within the limits above. */
struct jdom *jdom_parse(const char *p, size_t n, const char **why);
void jdom_free(struct jdom *d);
const struct jnode *jdom_root(const struct jdom *d);

/* The member <key> of <nd>, the last one if there are several; NULL when <nd> is NULL, is no
 * object or has none, or has one that is null. */
const struct jnode *jget(const struct jnode *nd, const char *key);

bool jis(const struct jnode *nd, enum jtype type);			/* false for NULL */
struct span jtext(const struct jnode *nd);				/* "" unless a string */
double jnumber(const struct jnode *nd, double otherwise);
bool jbool(const struct jnode *nd, bool otherwise);

#endif
