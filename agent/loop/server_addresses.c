/* A table of servers. Rows come in the same order in every answer, so that a row is nearly always
 * found at the place after the last one. */
#include "agent/base/mem.h"
#include "agent/loop/server_addresses.h"

#define NO_OWNER	SERVER_SOCKETS

void server_addresses_free(struct server_addresses *t)
{
	mem_free(t->servers);
	mem_free(t->state);
	memset(t, 0, sizeof(*t));
}

static bool is_server(const struct engine_server *s, const struct hastats_row *row)
{
	return span_eq(span_str(s->name), row->server) && span_eq(span_str(s->pool), row->pool);
}

/* Returns the place of the row's server, or <n>. */
static size_t find(struct server_addresses *t, const struct hastats_row *row)
{
	for (size_t k = 0; k < t->n; k++) {
		size_t i = t->next + k < t->n ? t->next + k : t->next + k - t->n;

		if (is_server(&t->servers[i], row)) {
			t->next = i + 1 < t->n ? i + 1 : 0;
			return i;
		}
	}
	return t->n;
}

static int make_room(struct server_addresses *t)
{
	size_t room = t->room > 0 ? t->room * 2 : 16;
	void *servers, *state;

	if (t->n < t->room)
		return 0;
	if (t->n >= ENGINES_MAX)
		return -1;
	if ((servers = mem_resize(t->servers, room, sizeof(t->servers[0]))) == NULL)
		return -1;
	t->servers = servers;
	if ((state = mem_resize(t->state, room, sizeof(t->state[0]))) == NULL)
		return -1;
	t->state = state;
	t->room = room;
	return 0;
}

static size_t add(struct server_addresses *t, unsigned socket, const struct hastats_row *row)
{
	struct engine_server *s;

	if (row->pool.n > POOL_NAME_MAX || row->server.n > SERVER_NAME_MAX || make_room(t) != 0) {
		t->refused++;
		return t->n;
	}
	s = &t->servers[t->n];
	memset(s, 0, sizeof(*s));
	memcpy(s->pool, row->pool.p, row->pool.n);
	memcpy(s->name, row->server.p, row->server.n);
	t->state[t->n] = (struct server_address){ .owner = (uint8_t)socket };
	return t->n++;
}

bool server_addresses_row(
    struct server_addresses *t, unsigned socket, const struct hastats_row *row)
{
	char host[ENGINE_HOST_MAX] = "";
	struct server_address *state;
	struct engine_server *s;
	uint16_t port;
	size_t i;

	if (engine_server_address(row->address, host, &port) != 0)
		return false;
	if ((i = find(t, row)) == t->n && (i = add(t, socket, row)) == t->n)
		return true;
	s = &t->servers[i];
	state = &t->state[i];
	state->seen |= 1u << socket;
	if (state->owner == NO_OWNER)
		state->owner = (uint8_t)socket;
	if (state->owner == socket && (s->port != port || strcmp(s->host, host) != 0)) {
		memcpy(s->host, host, sizeof(host));
		s->port = port;
		t->changed = true;
	}
	return true;
}

static void remove_at(struct server_addresses *t, size_t i)
{
	t->n--;
	t->servers[i] = t->servers[t->n];
	t->state[i] = t->state[t->n];
	t->next = 0;
	t->changed = true;
}

/* Give the server to another socket that shows it. Returns false if none does. */
static bool pass_on(struct server_address *s)
{
	s->misses = 0;
	s->owner = s->shown != 0 ? (uint8_t)__builtin_ctz(s->shown) : NO_OWNER;
	return s->owner != NO_OWNER;
}

/* Returns false if the server is gone. */
static bool is_still_there(struct server_address *s, unsigned socket)
{
	uint32_t bit = 1u << socket;
	bool seen = s->seen & bit;

	s->seen &= ~bit;
	s->shown = seen ? s->shown | bit : s->shown & ~bit;
	if (seen && s->owner == socket)
		s->misses = 0;
	if (seen || (s->owner != socket && s->owner != NO_OWNER))
		return true;
	return ++s->misses < SERVER_MISSES || pass_on(s);
}

void server_addresses_end(struct server_addresses *t, unsigned socket, bool complete)
{
	for (size_t i = t->n; i-- > 0;) {
		if (!complete)
			t->state[i].seen &= ~(1u << socket);
		else if (!is_still_there(&t->state[i], socket))
			remove_at(t, i);
	}
}

void server_addresses_leave(struct server_addresses *t, unsigned socket)
{
	for (size_t i = 0; i < t->n; i++) {
		t->state[i].seen &= ~(1u << socket);
		t->state[i].shown &= ~(1u << socket);
		if (t->state[i].owner == socket)
			pass_on(&t->state[i]);
	}
}

void server_addresses_keep(
    struct server_addresses *t, const struct engine_opts *conf, size_t n_conf)
{
	for (size_t i = t->n; i-- > 0;)
		if (!engine_list_needs(conf, n_conf, span_str(t->servers[i].pool)))
			remove_at(t, i);
}
