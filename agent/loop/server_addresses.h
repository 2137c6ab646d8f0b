/* server_addresses.h - the addresses of servers, as HAProxy's stats sockets show them.
 *
 *      socket 0   row, row, row, end ---.
 *      socket 1   row, row, end --------+--> one address for each server, and whether any changed
 *      socket 2   removed --------------'
 *
 * The address of a server is that of one socket, its owner, so that two HAProxy processes that
 * differ for a while do not make it change back and forth. A server that is missing in
 * SERVER_MISSES answers of its owner in a row is gone, unless another socket shows it, which then
 * is the owner. While a socket does not answer, its servers stay.
 *
 * Pure: no socket, no clock. */
#ifndef KVROUTE_LOOP_SERVER_ADDRESSES_H
#define KVROUTE_LOOP_SERVER_ADDRESSES_H

#include "agent/loop/engine_list.h"

#define SERVER_MISSES	3
#define SERVER_SOCKETS	32	/* numbered from 0 */

struct server_address {
	uint8_t owner;		/* socket; SERVER_SOCKETS: it was removed */
	uint8_t misses;		/* answers of the owner without it, in a row */
	uint32_t shown;		/* sockets whose last answer has it, a bit each */
	uint32_t seen;		/* sockets whose open answer has it so far */
};

struct server_addresses {
	struct engine_server *servers;	/* <n> of them, at most ENGINES_MAX */
	struct server_address *state;	/* the same places */
	size_t n, room;
	size_t next;		/* the likely place of the next row */
	bool changed;		/* servers or addresses; reset by the caller */
	uint64_t refused;	/* rows without room for their server */
};

void server_addresses_free(struct server_addresses *t);		/* zeroed: empty */

/* A row of <socket>. Returns false if it has no usable address: then it does not count. */
bool server_addresses_row(
    struct server_addresses *t, unsigned socket, const struct hastats_row *row);

/* The answer of <socket> has ended. <complete>: servers without a row are missing in it. */
void server_addresses_end(struct server_addresses *t, unsigned socket, bool complete);

/* <socket> is not polled any more. */
void server_addresses_leave(struct server_addresses *t, unsigned socket);

/* Forget the servers whose address no entry of <conf> needs. */
void server_addresses_keep(
    struct server_addresses *t, const struct engine_opts *conf, size_t n_conf);

#endif
