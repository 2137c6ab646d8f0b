/* value.h - one value from text, and back to text that loads again. */
#ifndef KVROUTE_CONF_VALUE_H
#define KVROUTE_CONF_VALUE_H

#include "agent/conf/keys.h"

#define CONF_POOLS_MAX		4096
#define CONF_MODELS_MAX		4096
#define CONF_TENANTS_MAX	(TENANTS_MAX - 1)
#define CONF_ENGINES_MAX	SERVERS_MAX
/* the longest printed value: aliases */
#define CONF_VALUE_MAX		(MODEL_ALIASES_MAX * (2 * PROMPT_NAME_MAX + 4) + 16)
#define CONF_ALLOWED_MAX	480
#define CONF_REASON_MAX		160
#define CONF_ITEMS_MAX	STORE_SERVERS_MAX	/* of any list */
_Static_assert(CONF_ITEMS_MAX >= MODEL_ALIASES_MAX && CONF_ITEMS_MAX >= LISTEN_MAX,
    "a list is too short");

const char *conf_type_name(enum conf_type t);
bool conf_type_is_list(enum conf_type t);

/* Write the range as the manual shows it: "0 to 64", "cost, cache_aware". */
void conf_value_range(const struct conf_key *k, char *out, size_t cap);

/* Write what is allowed, to follow "it must be": "a whole number from 0 to 64". */
void conf_value_allowed(const struct conf_key *k, char *out, size_t cap);

/* Parse <text> and store the value of <k> in <rec>. Returns 0; or -1 with <why>, a phrase without
 * name and full stop, and <rec> unchanged. */
int conf_value_set(const struct conf_key *k, void *rec, struct span text,
		   char *why, size_t cap);

/* Check <text> as an item of the list <k>. Returns as above, and stores nothing. */
int conf_item_check(const struct conf_key *k, struct span text, char *why, size_t cap);

/* Store <n> checked items, at most as many as allowed. */
void conf_items_set(const struct conf_key *k, void *rec, const struct span *items, size_t n);

/* Write the value as it may follow "key: ", in at most CONF_VALUE_MAX bytes with its NUL. */
void conf_value_text(const struct conf_key *k, const void *rec, char *out, size_t cap);

/* Write <text> for a message: quoted, shortened, without invisible characters. */
#define CONF_SHOW_MAX	64
const char *conf_show(struct span text, char out[CONF_SHOW_MAX]);

/* Check "127.0.0.1:9400", "[::1]:9400", "unix@/run/x.sock". <optional>: see struct conf_key.
 * Returns 0, or -1 with <why>. */
int conf_addr_check(struct span text, bool optional, char *why, size_t cap);

/* Check "10.0.0.5:6379", "[::1]:6379", "redis.internal:6379" or "unix@/run/redis.sock". Returns as
 * above. */
int conf_host_check(struct span text, char *why, size_t cap);

/* Check "127.0.0.1:8000", "http://[::1]:8000/metrics", "unix@/run/x.sock", or with "{address}" and
 * "{port}". Returns as above. */
int conf_url_check(struct span text, char *why, size_t cap);

/* Check "tcp://10.0.0.1:5557", "tcp://{address}:5557", "ipc:///run/x.sock". <own>: or "auto", or
 * one to bind, like "tcp://0.0.0.0:5557". Returns as above. */
int conf_endpoint_check(struct span text, bool own, char *why, size_t cap);

/* Remove the word "optional" from the end of <text>. Returns true if it was there. */
bool conf_addr_optional(struct span *text);

/* Decode the UTF-8 sequence at the start of <s> to <cp>. Returns its bytes, or 0 if it is not
 * UTF-8. */
size_t conf_utf8(struct span s, uint32_t *cp);
bool conf_can_be_seen(uint32_t cp);

#endif
