/* value.h - one value: from the text in the file, and back to text that loads again. */
#ifndef KVROUTE_CONF_VALUE_H
#define KVROUTE_CONF_VALUE_H

#include "agent/conf/keys.h"

#define CONF_POOLS_MAX		4096
#define CONF_MODELS_MAX		4096
#define CONF_TENANTS_MAX	(TENANTS_MAX - 1)
#define CONF_ENGINES_MAX	SERVERS_MAX
#define CONF_VALUE_MAX		(MODEL_ALIASES_MAX * (2 * PROMPT_NAME_MAX + 4) + 16)	/* the longest printed value: aliases */
#define CONF_ALLOWED_MAX	480
#define CONF_REASON_MAX		160
#define CONF_ITEMS_MAX		LISTEN_MAX	/* of any list of values */
_Static_assert(CONF_ITEMS_MAX >= MODEL_ALIASES_MAX, "a list is too short");

const char *conf_type_name(enum conf_type t);
bool conf_type_is_list(enum conf_type t);

/* "0 to 64", "cost, cache_aware": what the manual gives as range. */
void conf_value_range(const struct conf_key *k, char *out, size_t cap);

/* "a whole number from 0 to 64": behind "it must be". */
void conf_value_allowed(const struct conf_key *k, char *out, size_t cap);

/* Put the text of one value into <rec>, the struct <k> lives in. 0; or -1, <rec> is as it was and
 * <why> says what is wrong with the text, without its name and without a full stop. */
int conf_value_set(const struct conf_key *k, void *rec, struct span text,
		   char *why, size_t cap);

/* Is <text> good as an item of the list <k>? As above, but nothing is stored. */
int conf_item_check(const struct conf_key *k, struct span text, char *why, size_t cap);

/* Store <n> checked items, at most as many as allowed. */
void conf_items_set(const struct conf_key *k, void *rec, const struct span *items, size_t n);

/* The value as it may stand behind "key: ", in at most CONF_VALUE_MAX bytes with its NUL. */
void conf_value_text(const struct conf_key *k, const void *rec, char *out, size_t cap);

/* <text> fit to be shown in a sentence: quoted, shortened, nothing that cannot be seen. */
#define CONF_SHOW_MAX	64
const char *conf_show(struct span text, char out[CONF_SHOW_MAX]);

/* "127.0.0.1:9400", "[::1]:9400", "unix@/run/x.sock": 0; or -1 and <why>. <optional>:
 * see struct conf_key. */
int conf_addr_check(struct span text, bool optional, char *why, size_t cap);

/* "127.0.0.1:8000", "http://[::1]:8000/metrics", "unix@/run/x.sock": as above. */
int conf_url_check(struct span text, char *why, size_t cap);

/* Cut the word "optional" off <text>; was it there? */
bool conf_addr_optional(struct span *text);

/* One UTF-8 sequence at the start of <s>: bytes used, 0 when it is not UTF-8. <cp> is set. */
size_t conf_utf8(struct span s, uint32_t *cp);
bool conf_can_be_seen(uint32_t cp);

#endif
