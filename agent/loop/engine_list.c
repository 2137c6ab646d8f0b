/* Fills in the addresses of servers. */
#include <arpa/inet.h>
#include <stdio.h>

#include "agent/loop/engine_list.h"

static int to_port(struct span s, uint16_t *port)
{
	unsigned v = 0;

	if (s.n == 0 || s.n > 5)
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return -1;
		v = v * 10 + (unsigned)(s.p[i] - '0');
	}
	if (v == 0 || v > UINT16_MAX)
		return -1;
	*port = (uint16_t)v;
	return 0;
}

static bool is_host(const char *host, int family)
{
	static const struct in6_addr any;
	struct in6_addr raw;

	if (inet_pton(family, host, &raw) != 1)
		return false;
	return memcmp(&raw, &any, family == AF_INET6 ? sizeof(raw) : sizeof(struct in_addr)) != 0;
}

int engine_server_address(struct span text, char host[ENGINE_HOST_MAX], uint16_t *port)
{
	const char *colon = text.n > 0 ? memrchr(text.p, ':', text.n) : NULL;
	size_t n = colon != NULL ? (size_t)(colon - text.p) : 0;
	bool six = n > 2 && text.p[0] == '[' && text.p[n - 1] == ']';
	char bare[ENGINE_HOST_MAX];

	if (n == 0 || n >= ENGINE_HOST_MAX || memchr(text.p, '\0', n) != NULL)
		return -1;
	memcpy(host, text.p, n);
	host[n] = '\0';
	memcpy(bare, host + six, n - 2 * six);
	bare[n - 2 * six] = '\0';
	if (!is_host(bare, six ? AF_INET6 : AF_INET))
		return -1;
	return to_port(span_of(colon + 1, text.n - n - 1), port);
}

static bool is_star(const struct engine_opts *e)
{
	return e->name[0] == '*' && e->name[1] == '\0';
}

static bool is_open_text(const char *text)
{
	return engine_url_has_address(text) || engine_url_has_port(text);
}

bool engine_is_open(const struct engine_opts *e)
{
	return is_star(e) || is_open_text(e->metrics) || is_open_text(e->events.endpoint) ||
	       is_open_text(e->events.replay) || is_open_text(e->load);
}

bool engine_list_needs(const struct engine_opts *conf, size_t n_conf, struct span pool)
{
	for (size_t i = 0; i < n_conf; i++)
		if (span_eq(span_str(conf[i].pool), pool) && engine_is_open(&conf[i]))
			return true;
	return false;
}

/* Returns the entry for <s>: the one with its name, or "*" of its pool. */
static const struct engine_opts *entry_of(
    const struct engine_opts *conf, size_t n_conf, const struct engine_server *s)
{
	const struct engine_opts *star = NULL;

	for (size_t i = 0; i < n_conf; i++) {
		if (strcmp(conf[i].pool, s->pool) != 0)
			continue;
		if (strcmp(conf[i].name, s->name) == 0)
			return &conf[i];
		if (is_star(&conf[i]))
			star = &conf[i];
	}
	return star;
}

static int fill(char text[ENGINE_URL_MAX + 1], const char *from, const struct engine_server *s)
{
	return engine_url_fill(span_str(from), s->host, s->port, text, ENGINE_URL_MAX + 1);
}

static bool entry_fill(
    struct engine_opts *out, const struct engine_opts *e, const struct engine_server *s)
{
	*out = *e;
	memcpy(out->name, s->name, sizeof(out->name));
	return fill(out->metrics, e->metrics, s) == 0 &&
	       fill(out->events.endpoint, e->events.endpoint, s) == 0 &&
	       fill(out->events.replay, e->events.replay, s) == 0 && fill(out->load, e->load, s) == 0;
}

size_t engine_list_make(const struct engine_opts *conf, size_t n_conf,
    const struct engine_server *servers, size_t n_servers, struct engine_opts *out, size_t cap)
{
	const struct engine_opts *e;
	struct engine_opts one;
	size_t n = 0;

	for (size_t i = 0; i < n_conf; i++)
		if (!engine_is_open(&conf[i]) && n++ < cap)
			out[n - 1] = conf[i];
	for (size_t i = 0; i < n_servers; i++) {
		e = entry_of(conf, n_conf, &servers[i]);
		if (e != NULL && engine_is_open(e) && entry_fill(&one, e, &servers[i]) && n++ < cap)
			out[n - 1] = one;
	}
	return n;
}

/* ---- what engines tell ------------------------------------------------------------------ */

/* Write "tcp://<host of the metrics>:<port>". Returns -1 if the metrics have no host. */
static int endpoint_beside(char out[ENGINE_URL_MAX + 1], const struct engine_opts *e, uint16_t port)
{
	struct span addr, path;
	const char *colon;
	int n;

	engine_url_split(span_str(e->metrics), &addr, &path);
	colon = memrchr(addr.p, ':', addr.n);
	if (colon == NULL || strncmp(addr.p, "unix@", 5) == 0)
		return -1;
	n = snprintf(out, ENGINE_URL_MAX + 1, "tcp://%.*s:%u", (int)(colon - addr.p), addr.p, port);
	return n > 0 && n <= ENGINE_URL_MAX ? 0 : -1;
}

static bool fill_auto(struct engine_opts *e, const struct server_info *i)
{
	struct engine_events_opts *v = &e->events;

	if (i->port == 0 || endpoint_beside(v->endpoint, e, i->port) != 0)
		return false;
	if (v->replay[0] == '\0' && i->replay_port > 0)
		endpoint_beside(v->replay, e, i->replay_port);
	if (e->load[0] == '\0' && i->load_port > 0)
		endpoint_beside(e->load, e, i->load_port);
	if (v->topic[0] == '\0')
		memcpy(v->topic, i->topic, sizeof(i->topic));
	if (v->ranks == 0)
		v->ranks = i->ranks;
	return true;
}

_Static_assert(sizeof(((struct server_info *)0)->topic) <=
	       sizeof(((struct engine_events_opts *)0)->topic), "a topic may not fit");

static bool ports_exist(const char *endpoint, uint32_t ranks)
{
	return engine_endpoint_port(endpoint) + ranks - 1 <= UINT16_MAX;
}

bool engine_events_fill(struct engine_opts *e, const struct engine_told *told)
{
	struct engine_events_opts *v = &e->events;
	bool load_given = e->load[0] != '\0';

	if (v->endpoint[0] == '\0')
		return false;
	if (engine_events_are_auto(e) && (told == NULL || !fill_auto(e, &told->info)))
		return false;
	if (v->ranks == 0 && told != NULL) {
		if (!told->answered)
			return false;
		v->ranks = told->ranks;
	}
	if (v->ranks == 0)
		v->ranks = 1;
	if (!load_given && !ports_exist(e->load, v->ranks))
		e->load[0] = '\0';
	return ports_exist(v->endpoint, v->ranks) && ports_exist(v->replay, v->ranks) &&
	       ports_exist(e->load, v->ranks);
}
