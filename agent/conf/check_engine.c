/* check_engine.c - rules between the keys of one engine. */
#include "agent/conf/check_in.h"
#include "agent/conf/value.h"
#include "agent/loop/engine_list.h"
#include "agent/loop/kvsub.h"
#include "agent/route/sources.h"

struct engine_check {
	struct conf_errors *es;
	const char *file;
	const struct conf *c;
	const struct engine_opts *e;
	const struct conf_given *given;
};

#define ADDRESSES	4

/* Keys whose values may have "{address}" in them. */
static const char *const keys[ADDRESSES] = { "engines.metrics", "engines.events.endpoint",
	"engines.events.replay", "engines.load" };

static const char *address_of(const struct engine_opts *e, int i)
{
	const char *const texts[ADDRESSES] = { e->metrics, e->events.endpoint, e->events.replay, e->load };

	return texts[i];
}

/* Returns true if an error at <key> must be reported, with its place. */
static bool place(const struct engine_check *k, const char *key, struct conf_mark *at)
{
	return conf_error_place(k->given, conf_key_of(key), conf_key_of(key), at);
}

#define add(k, at, ...)	conf_errors_add((k)->es, (k)->file, (at), __VA_ARGS__)

/* All servers of a pool would share one publisher, or one page of metrics. */
static void check_star(const struct engine_check *k)
{
	struct conf_mark at;

	for (int i = 0; i < ADDRESSES; i++)
		if (address_of(k->e, i)[0] != '\0' && !engine_url_has_address(address_of(k->e, i)) &&
		    (i != 1 || !engine_events_are_auto(k->e)) && place(k, keys[i], &at))
			add(k, at, "%s: The name \"*\" stands for several servers, so this needs {address} in "
			    "it.", keys[i]);
}

static void check_sockets(const struct engine_check *k)
{
	struct conf_mark at;

	for (int i = 0; i < ADDRESSES; i++) {
		const char *text = address_of(k->e, i);

		if ((engine_url_has_address(text) || engine_url_has_port(text)) && place(k, keys[i], &at)) {
			add(k, at, "%s: Addresses of servers come from HAProxy's stats socket; list it in "
			    "stats_feed.sockets.", keys[i]);
			return;
		}
	}
}

/* Rank r has the port of rank 0 plus r. */
static void check_ranks(const struct engine_check *k, const char *key, const char *text)
{
	uint32_t ranks = k->e->events.ranks;
	struct conf_mark at;

	if (ranks < 2 || !conf_error_place(k->given, conf_key_of(key),
			     conf_key_of("engines.events.ranks"), &at))
		return;
	if (strncmp(text, "ipc://", 6) == 0)
		add(k, at, "engines.events.ranks: %u ranks need tcp://, because rank r has port + r.",
		    ranks);
	else if (engine_endpoint_port(text) + ranks - 1 > UINT16_MAX)
		add(k, at, "%s: Rank %u would have port %u, and 65535 is the last; use a lower port.", key,
		    ranks - 1, engine_endpoint_port(text) + ranks - 1);
}

/* The engine is asked at the host and port of its metrics. */
static void check_auto(const struct engine_check *k)
{
	struct conf_mark at;

	if (!engine_events_are_auto(k->e) ||
	    !conf_error_place(k->given, conf_key_of("engines.events.endpoint"),
		conf_key_of("engines.metrics"), &at))
		return;
	if (k->e->metrics[0] == '\0')
		add(k, at, "engines.events.endpoint: auto asks the engine at the address of its metrics, so "
		    "this needs engines.metrics beside it.");
	else if (strncmp(k->e->metrics, "unix@", 5) == 0)
		add(k, at, "engines.events.endpoint: auto takes the host from engines.metrics, and a unix "
		    "socket has none; write the address.");
}

/* Find an earlier engine of the same pool with the same address. Addresses that stand for several,
 * or that several engines connect to, do not count. */
static const struct engine_opts *shared_with(const struct engine_check *k, int i)
{
	const struct loop_opts *o = &k->c->loop;
	const char *text = address_of(k->e, i);

	if (text[0] == '\0' || engine_url_has_address(text) || engine_url_has_port(text) ||
	    (i == 1 && (engine_events_are_auto(k->e) || engine_endpoint_is_bound(text))))
		return NULL;
	for (size_t n = 0; n < o->n_engines; n++)
		if (strcmp(address_of(&o->engines[n], i), text) == 0 &&
		    strcmp(o->engines[n].pool, k->e->pool) == 0 &&
		    strcmp(o->engines[n].name, k->e->name) != 0)
			return &o->engines[n];
	return NULL;
}

/* Two servers would be judged by the cache of one engine. */
static void check_shared(const struct engine_check *k)
{
	const struct engine_opts *other;
	char show[CONF_SHOW_MAX];
	struct conf_mark at;

	for (int i = 0; i < ADDRESSES; i++) {
		if ((other = shared_with(k, i)) == NULL || !place(k, keys[i], &at))
			continue;
		add(k, at, "%s: %s has the same address; each server needs that of its own engine.",
		    keys[i], conf_show(span_str(other->name), show));
		return;
	}
}

/* Engines that connect to an address of the agent share it. */
static void check_bound(const struct engine_check *k)
{
	const struct engine_events_opts *v = &k->e->events;
	struct conf_mark at;

	if (engine_endpoint_is_bound(v->endpoint) && v->topic[0] == '\0' &&
	    conf_error_place(k->given, conf_key_of("engines.events.endpoint"),
		conf_key_of("engines.events.topic"), &at))
		add(k, at, "engines.events.endpoint: Several engines may connect to %s and are told apart by "
		    "topic, so this needs engines.events.topic beside it.", v->endpoint);
}

/* It has no other transport. */
static void check_load(const struct engine_check *k)
{
	struct conf_mark at;

	if (strncmp(k->e->load, "ipc://", 6) == 0 && place(k, "engines.load", &at))
		add(k, at, "engines.load: SGLang publishes its load at tcp:// only.");
}

/* The agent can be built without ZeroMQ. */
static void check_built(const struct engine_check *k)
{
	struct conf_mark at;

	if (!kvsub_available() && k->e->events.endpoint[0] != '\0' &&
	    place(k, "engines.events.endpoint", &at))
		add(k, at, "engines.events.endpoint: This kvroute was built without libzmq, which events "
		    "need; install libzmq3-dev and build it again.");
}

static void check_endpoint(const struct engine_check *k)
{
	static const char *const beside[] = { "engines.events.replay", "engines.events.topic",
		"engines.events.ranks", "engines.load", "engines.events.expire" };
	const struct engine_events_opts *v = &k->e->events;
	const bool given[] = { v->replay[0] != '\0', v->topic[0] != '\0', v->ranks != 0,
		k->e->load[0] != '\0', v->expire_ms != 0 };
	struct conf_mark at;

	if (v->endpoint[0] != '\0')
		return;
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		if (given[i] &&
		    conf_error_place(k->given, conf_key_of(beside[i]),
			conf_key_of("engines.events.endpoint"), &at)) {
			add(k, at, "%s needs engines.events.endpoint beside it.", beside[i]);
			return;
		}
}

void conf_check_engine(struct conf_errors *es, const char *file, const struct conf *c,
    const struct engine_opts *e, const struct conf_given *given, bool sockets_bad)
{
	struct engine_check k = { es, file, c, e, given };

	check_endpoint(&k);
	if (e->name[0] == '*')
		check_star(&k);
	if (c->loop.stats[0][0] == '\0' && !sockets_bad)
		check_sockets(&k);
	if (e->events.endpoint[0] != '\0')
		check_ranks(&k, keys[1], e->events.endpoint);
	if (e->events.replay[0] != '\0')
		check_ranks(&k, keys[2], e->events.replay);
	if (e->load[0] != '\0')
		check_ranks(&k, keys[3], e->load);
	check_auto(&k);
	check_bound(&k);
	check_load(&k);
	check_built(&k);
	check_shared(&k);
}
