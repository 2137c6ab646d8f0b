/* check.c - rules between keys. An error is reported at the later of the two keys, because it is
 * usually the one written last. A pair that the file does not contain is not checked, because the
 * defaults agree with each other (a test checks that). */
#include <stdio.h>

#include "agent/conf/check_in.h"
#include "agent/conf/value.h"
#include "agent/os/addr.h"

int conf_key_of(const char *name)
{
	for (size_t i = 0; i < conf_n_keys; i++)
		if (strcmp(conf_keys[i].name, name) == 0)
			return (int)i;
	return -1;
}

static bool is_later(struct conf_mark a, struct conf_mark b)
{
	return a.line != b.line ? a.line > b.line : a.column > b.column;
}

bool conf_error_place(const struct conf_given *given, int a, int b, struct conf_mark *at)
{
	if (given->bad[a] || given->bad[b])
		return false;
	*at = is_later(given->at[a], given->at[b]) ? given->at[a] : given->at[b];
	return at->line > 0;
}

/* Report an error if <small> is above <large>. */
static void check_order(struct conf_errors *es, const char *file, const void *rec,
			const struct conf_given *given, const char *small, const char *large,
			bool fine)
{
	int a = conf_key_of(small), b = conf_key_of(large);
	char va[CONF_VALUE_MAX], vb[CONF_VALUE_MAX];
	struct conf_mark at;

	if (fine || !conf_error_place(given, a, b, &at))
		return;
	conf_value_text(&conf_keys[a], rec, va, sizeof(va));
	conf_value_text(&conf_keys[b], rec, vb, sizeof(vb));
	conf_errors_add(es, file, at, "%s (%.32s) must not be above %s (%.32s%s).", small, va, large,
			vb, given->at[b].line == 0 ? ", because it is not given here" : "");
}

void conf_check_pool(struct conf_errors *es, const char *file, const struct pool_opts *p,
		     const struct conf_given *given)
{
	check_order(es, file, p, given, "policy.sacrifice_min", "policy.sacrifice_max",
		    p->policy.sacrifice_min <= p->policy.sacrifice_max);
}

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* Absolute paths are allowed for convenience, but they must be below models_dir. */
static void check_beneath(struct conf_errors *es, const char *file, const struct conf *c,
    const char *path, const struct conf_given *given, int key)
{
	size_t n = strlen(c->loop.models_dir);

	while (n > 0 && c->loop.models_dir[n - 1] == '/')
		n--;
	if (path[0] != '/' || given->bad[key] ||
	    (strncmp(path, c->loop.models_dir, n) == 0 && path[n] == '/'))
		return;
	conf_errors_add(es, file, given->at[key], "%s is not beneath models_dir (%.200s).",
	    conf_keys[key].name, c->loop.models_dir);
}

static void check_tokenizer(struct conf_errors *es, const char *file, const struct model_opts *m,
			    const struct conf_given *given)
{
	int mode = conf_key_of("models.mode"), tokenizer = conf_key_of("models.tokenizer"),
	    pattern = conf_key_of("models.pattern");
	int normalizer = conf_key_of("models.normalizer");
	struct conf_mark at;

	if (m->mode == MODEL_TOKENS && m->tokenizer[0] == '\0' &&
	    conf_error_place(given, mode, tokenizer, &at))
		conf_errors_add(es, file, at, "models.mode: tokens needs models.tokenizer.");
	if (m->tokenizer[0] != '\0' && given->at[mode].line == 0 &&
	    conf_error_place(given, mode, tokenizer, &at))
		conf_errors_add(es, file, at,
			"models.tokenizer needs models.mode beside it: tokens to use it, text to leave it alone.");
	if (m->pattern[0] != '\0' && m->tokenizer[0] == '\0' &&
	    conf_error_place(given, pattern, tokenizer, &at))
		conf_errors_add(es, file, at, "models.pattern needs models.tokenizer, a file of ranks.");
	if (m->pattern[0] != '\0' && ends_in(m->tokenizer, ".json") &&
	    conf_error_place(given, pattern, tokenizer, &at))
		conf_errors_add(es, file, at,
			"models.pattern is for a file of ranks; a tokenizer.json has its own.");
	if (m->normalizer != NORMALIZER_AUTO && m->pattern[0] == '\0' &&
	    conf_error_place(given, normalizer, tokenizer, &at))
		conf_errors_add(es, file, at,
			"models.normalizer is for a file of ranks, which has a models.pattern beside it.");
}

void conf_check_model(struct conf_errors *es, const char *file, const struct conf *c,
    const struct model_opts *m, const struct conf_given *given)
{
	int aliases = conf_key_of("models.aliases"), name = conf_key_of("models.name");
	struct conf_mark at;

	check_tokenizer(es, file, m, given);
	check_beneath(es, file, c, m->tokenizer, given, conf_key_of("models.tokenizer"));
	check_beneath(es, file, c, m->tokenizer_config, given, conf_key_of("models.tokenizer_config"));
	check_beneath(es, file, c, m->chat_template, given, conf_key_of("models.chat_template"));
	if (m->aliases[0][0] != '\0' && strchr(m->name, '*') != NULL &&
	    conf_error_place(given, aliases, name, &at))
		conf_errors_add(es, file, at,
			"models.aliases are names of one model, and models.name has a * in it.");
}

/* Returns true if two listeners cannot share an address. TCP and UDP ports do not collide, files
 * do, and port 0 is a new port each time. */
static bool addresses_collide(const char *a, const char *b, bool datagrams)
{
	size_t n = strlen(a);

	if (n == 0 || strcmp(a, b) != 0)
		return false;
	if (strncmp(a, "unix@", 5) == 0)
		return true;
	return !datagrams && strcmp(a + n - 2, ":0") != 0;
}

static void check_addrs(struct conf_errors *es, const char *file, const struct conf *c,
			const struct conf_given *given)
{
	const struct { const char *name; const char (*addr)[ADDR_MAX]; bool datagrams; } lists[] = {
		{ "spop.listen", c->loop.spop, false }, { "log_feed.tcp", c->loop.log_tcp, false },
		{ "metrics.listen", c->loop.metrics, false }, { "log_feed.udp", c->loop.log_udp, true },
	};
	struct conf_mark at;

	for (size_t pair = 0; pair < 16; pair++) {
		size_t i = pair / 4, j = pair % 4;

		for (size_t n = 0; i < j && n < LISTEN_MAX * LISTEN_MAX; n++) {
			const char *a = lists[i].addr[n / LISTEN_MAX];
			const char *b = lists[j].addr[n % LISTEN_MAX];

			if (addresses_collide(a, b, lists[j].datagrams) &&
			    conf_error_place(given, conf_key_of(lists[i].name), conf_key_of(lists[j].name), &at))
				conf_errors_add(es, file, at, "%s and %s both have the address %s.",
						lists[i].name, lists[j].name, a);
		}
	}
}

/* Any client that can send messages would set the time, so this needs loopback. */
static void check_clock(struct conf_errors *es, const char *file, const struct conf *c,
			const struct conf_given *given)
{
	int clock = conf_key_of("clock"), listen = conf_key_of("spop.listen");
	struct conf_mark at;

	if (c->loop.clock != CLOCK_MESSAGE || !conf_error_place(given, clock, listen, &at))
		return;
	for (size_t i = 0; i < LISTEN_MAX && c->loop.spop[i][0] != '\0'; i++)
		if (!addr_is_loopback(c->loop.spop[i]))
			conf_errors_add(es, file, at,
				"clock: message is for simulations, and spop.listen has %s, which is not "
				"loopback.", c->loop.spop[i]);
}

static void check_index(struct conf_errors *es, const char *file, const struct conf *c,
			const struct conf_given *given)
{
	const struct index_opts *o = &c->route.index;
	int shards = conf_key_of("index.shards"), bytes = conf_key_of("index.max_bytes");
	uint64_t floors = c->route.tenant_default.index_floor;
	struct conf_mark at;

	if (conf_error_place(given, shards, shards, &at) && (o->shards & (o->shards - 1)) != 0)
		conf_errors_add(es, file, at,
			"index.shards: %u is not a power of two; it must be 1, 2, 4, 8, 16, 32 or 64.",
				o->shards);
	else if (o->max_bytes / o->shards > SHARD_BYTES_MAX && conf_error_place(given, shards, bytes, &at))
		conf_errors_add(es, file, at,
			"index.max_bytes is more than 4 GiB for each of %u index.shards; more shards are "
			"needed.", o->shards);
	for (size_t i = 0; i < c->route.n_tenants; i++)
		floors += c->route.tenants[i].index_floor;
	if (floors > o->max_bytes / 4 * 3 && !given->bad[bytes]) {
		at = given->tenants_at;
		conf_errors_add(es, file, at,
			"tenants: The floors are %.0f MiB together, more than three quarters of index.max_bytes (%.0f "
			"MiB).", (double)floors / (1 << 20),
				(double)o->max_bytes / (1 << 20));
	}
}

/* ---- files that the agent writes ------------------------------------------------------------ */

/* Compare absolute paths. "//" and "/./" count as "/". */
static bool same_path(const char *a, const char *b)
{
	while (*a == *b && *a != '\0') {
		bool slash = *a == '/';

		a++;
		b++;
		while (slash && (*a == '/' || (a[0] == '.' && a[1] == '/')))
			a++;
		while (slash && (*b == '/' || (b[0] == '.' && b[1] == '/')))
			b++;
	}
	return *a == *b;
}

struct written {
	const char *key, *path, *how;
};

/* Report an error if the file of <w> is the one that <key> names. <what>: that file, in words. */
static void check_written(struct conf_errors *es, const char *file, const struct conf_given *given,
			  const struct written *w, const char *key, const char *what,
			  const char *path)
{
	int a = conf_key_of(w->key), b = key != NULL ? conf_key_of(key) : a;
	struct conf_mark at;

	if (w->path[0] != '\0' && path[0] != '\0' && same_path(w->path, path) &&
	    conf_error_place(given, a, b, &at))
		conf_errors_add(es, file, at, "%s %s %.200s, which is %s.", w->key, w->how, w->path,
				what);
}

static void check_files(struct conf_errors *es, const char *file, const char *own,
			const struct conf *c, const struct conf_given *given)
{
	const struct loop_opts *o = &c->loop;
	char old[PATH_CHARS_MAX + 2], key[PATH_CHARS_MAX + 4];
	const struct written files[] = {
		{ "index.snapshot_file", o->snapshot_file, "replaces" },
		{ "record.file", o->record_file, "replaces" },
		{ "record.file", old, "keeps its last recording as" },
	};

	snprintf(old, sizeof(old), "%s%s", o->record_file, o->record_file[0] != '\0' ? ".1" : "");
	snprintf(key, sizeof(key), "%s/key", o->state_dir);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const struct written *w = &files[i];

		if (own != NULL)
			check_written(es, file, given, w, NULL, "the configuration", own);
		if (o->key_file[0] != '\0')
			check_written(es, file, given, w, "key_file", "key_file", o->key_file);
		else
			check_written(es, file, given, w, "state_dir", "the key in state_dir", key);
		check_written(es, file, given, w, "log_feed.token_file", "log_feed.token_file",
			      o->feed_token_file);
		if (i > 0)
			check_written(es, file, given, w, files[0].key, files[0].key, files[0].path);
	}
}

void conf_check(struct conf_errors *es, const char *file, const char *own, const struct conf *c,
		const struct conf_given *given)
{
	int max_pools = conf_key_of("max_pools"), segments = conf_key_of("segment_cache.max_bytes");
	struct conf_mark at;

	check_order(es, file, c, given, "spop.max_frame_size", "spop.max_joined",
		    c->loop.spop_conn.max_frame_size <= c->loop.spop_conn.max_joined);
	check_order(es, file, c, given, "spop.max_joined", "spop.max_bytes",
		    c->loop.spop_conn.max_joined <= c->loop.spop_max_bytes);
	check_order(es, file, c, given, "heads.max_tenant_bytes", "heads.max_bytes",
		    c->route.heads.max_tenant_bytes <= c->route.heads.max_bytes);
	check_addrs(es, file, c, given);
	check_files(es, file, own, c, given);
	check_clock(es, file, c, given);
	check_index(es, file, c, given);
	conf_check_share(es, file, c, given);
	if (c->route.segcache_max_bytes > 0 && c->route.segcache_max_bytes < 1 << 20 &&
	    conf_error_place(given, segments, segments, &at))
		conf_errors_add(es, file, at, "segment_cache.max_bytes must be at least 1 MiB, or 0 for none.");
	if (c->route.n_pools > c->route.max_pools && !given->bad[max_pools]) {
		at = given->at[max_pools].line ? given->at[max_pools] : given->pools_at;
		conf_errors_add(es, file, at, "There are %zu pools, more than max_pools (%u).",
				c->route.n_pools, c->route.max_pools);
	}
}
