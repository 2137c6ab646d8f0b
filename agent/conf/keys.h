/* keys.h - the one table of keys: what the loader, the printer, the checks and the manual share.
 *
 *      name             "spop.max_frame_size": the section, a point, the word in the file
 *      home, at         which struct the value lives in, and where
 *      type, min, max   what is allowed there
 *      reload           whether SIGHUP may change it in a running agent
 *
 * A key of the section "policy" lives in struct pool_opts, and may stand in each pool as well. */
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
	TYPE_MODE,	/* of a file, octal */
	TYPE_TEXT,	/* min .. max bytes that can be seen */
	TYPE_NAME,	/* a text of the characters HAProxy allows in names, or "*" */
	TYPE_PATH,	/* absolute; min 0: may be empty */
	TYPE_FILE,	/* the same, but relative to models_dir as well, and without ".." */
	TYPE_URL,	/* where an engine's metrics are: agent/loop/target.h */
	TYPE_ADDRS,	/* a list of addresses; min: how many at least */
	TYPE_NAMES,	/* a list of models' names, each PROMPT_NAME_MAX + 1 bytes in its struct; <width>: all */
	TYPE_ORDER,	/* system, tools and messages in some order */
	TYPE_WORDS	/* a list of different ones of <words>; bytes, each the place of one + 1 */
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
	size_t at, width;		/* where in its struct; bytes of one number or text */
	double min, max;
	bool reload;
	const char *const *words;	/* WORD, WORDS: ends with NULL */
	bool optional;			/* ADDRS: unix@ ones may end in the word "optional"; NAMES: they may have a "*" */
	const char *help;
};

/* What stands at the top of the file with a colon behind it, in the order of the printer. */
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

#define CONF_KEYS_MAX	128

extern const struct conf_key conf_keys[];
extern const size_t conf_n_keys;
extern const struct conf_section conf_sections[];
extern const size_t conf_n_sections;

/* The word in the file: behind the point. */
const char *conf_key_word(const struct conf_key *k);

/* Is <k> allowed in <s>? <s> NULL: at the top of the file. */
bool conf_key_in(const struct conf_key *k, const struct conf_section *s);

/* Index of the key that is written as <word> in <s> (NULL: at the top); -1: none. */
int conf_key_find(const struct conf_section *s, struct span word);
int conf_section_find(struct span word);

/* "pools", for sentences; "" for the top. */
const char *conf_section_name(const struct conf_section *s);

/* What <k> has in <c>; for keys of pools and models that of the default one. */
const void *conf_key_home(const struct conf_key *k, const struct conf *c);

#endif
