/* keys.h - the table of keys, for the loader, the printer, the checks and the manual.
 *
 *      name             "spop.max_frame_size": the section, a point, the word in the file;
 *                       "engines.events.topic": with a group, a map below "events:" in an entry
 *      home, at         the struct of the value, and its place there
 *      type, min, max   the allowed values
 *      reload           whether SIGHUP may change it in a running agent
 *
 * A key of the section "policy" lives in struct pool_opts and may also stand in each pool. */
#ifndef KVROUTE_CONF_KEYS_H
#define KVROUTE_CONF_KEYS_H

#include "agent/conf/conf.h"

enum conf_type {
	TYPE_INT,	/* a whole number */
	TYPE_SIZE,	/* bytes, alone or with KiB, MiB, GiB */
	TYPE_TIME,	/* with ms, s, m, h */
	TYPE_NUMBER,	/* with or without a fraction */
	TYPE_BOOL,	/* true, false */
	TYPE_WORD,	/* one of <words> */
	TYPE_MODE,	/* octal file mode */
	TYPE_TEXT,	/* min .. max bytes of visible characters */
	TYPE_NAME,	/* a text of characters that HAProxy allows in names, or "*" */
	TYPE_PATH,	/* absolute; min 0: may be empty */
	TYPE_FILE,	/* the same, or relative to models_dir; without ".." */
	TYPE_URL,	/* address of an engine's metrics: agent/loop/engine_url.h */
	TYPE_ENDPOINT,	/* tcp:// or ipc:// address of an engine's events: the same header */
	TYPE_HOSTS,	/* a list of addresses to connect to, ADDR_MAX bytes each; names are allowed */
	TYPE_ADDRS,	/* a list of addresses; min: the fewest */
	TYPE_NAMES,	/* a list of model names, PROMPT_NAME_MAX + 1 bytes each; <width>: of all */
	TYPE_ORDER,	/* system, tools and messages in any order */
	TYPE_WORDS	/* a list of different <words>; each is a byte, its index + 1 */
};

enum conf_home {
	HOME_CONF,	/* struct conf */
	HOME_POLICY,	/* struct pool_opts: in "policy" and in every pool */
	HOME_POOL,	/* struct pool_opts: in a pool only */
	HOME_MODEL,	/* struct model_opts */
	HOME_TENANT,	/* struct tenant_opts */
	HOME_ENGINE	/* struct engine_opts */
};

struct conf_key {
	const char *name;
	enum conf_type type;
	enum conf_home home;
	size_t at, width;		/* offset in its struct; bytes of one number or text */
	double min, max;
	bool reload;
	const char *const *words;	/* WORD, WORDS: ends with NULL */
	/* ADDRS: unix@ addresses may end in "optional"; NAMES: "*" is allowed; ENDPOINT: "auto" and an
	 * address to bind, like tcp://0.0.0.0:5557, are allowed */
	bool optional;
	const char *help;
};

/* The sections, in the order of the printer. */
enum conf_shape {
	SHAPE_KEYS,	/* keys of struct conf */
	SHAPE_POLICY,	/* keys of HOME_POLICY */
	SHAPE_POOLS,	/* a list of pools */
	SHAPE_MODELS,	/* a list of models */
	SHAPE_TENANTS,	/* a list of tenants */
	SHAPE_ENGINES	/* a list of engines */
};

struct conf_section {
	const char *name;
	enum conf_shape shape;
	const char *help;	/* lines, each without its "# " */
};

#define CONF_KEYS_MAX	168
#define CONF_SECTIONS_MAX	32

extern const struct conf_key conf_keys[];
extern const size_t conf_n_keys;
extern const struct conf_section conf_sections[];
extern const size_t conf_n_sections;

/* Returns the word in the file: the part after the last point. */
const char *conf_key_word(const struct conf_key *k);

/* Returns the word between two points, or an empty span. */
struct span conf_key_group(const struct conf_key *k);

/* Returns true if <k> is allowed in <s> (NULL: at the top of the file). */
bool conf_key_in(const struct conf_key *k, const struct conf_section *s);

/* Returns the index of the key that is written as <word> in <s> (NULL: at the top), or -1. <group>:
 * the map in an entry of <s> that holds it; empty: none. */
int conf_key_find(const struct conf_section *s, struct span group, struct span word);

/* Returns true if <s> has a group of this name. */
bool conf_group_in(const struct conf_section *s, struct span name);
int conf_section_find(struct span word);

/* Returns the name for messages; "" for the top of the file. */
const char *conf_section_name(const struct conf_section *s);

/* Returns the struct in <c> that holds the value of <k>; for keys of pools, models, tenants and
 * engines it is the default one. */
const void *conf_key_home(const struct conf_key *k, const struct conf *c);

#endif
