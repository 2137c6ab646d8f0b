/* A limit for what waits in libzmq.
 *
 * Its own limits count messages and the bytes of one part, but a message may have parts without
 * end, and none of them is seen before the last. So the bytes that the kernel has received on each
 * connection are compared with the bytes that were read. */
#include "agent/loop/kvsub_in.h"

#ifdef HAVE_ZMQ
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent/base/mem.h"

/* Returns the bytes received on <fd> since it was connected. A unix socket has no such count. */
static uint64_t received_on(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t n = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0)
		return 0;
	return info.tcpi_bytes_received;
}

void kvsub_conn_add(struct kvsub_socket *s, int fd)
{
	if (s->n_conns == s->conns_room) {
		unsigned room = s->conns_room > 0 ? s->conns_room * 2 : 1;
		struct kvsub_conn *c = mem_resize(s->conns, room, sizeof(*c));

		if (c == NULL || s->n_conns >= KVSUB_CONNS_MAX) {
			s->conns = c != NULL ? c : s->conns;
			shutdown(fd, SHUT_RDWR);
			return;
		}
		s->conns = c;
		s->conns_room = room;
	}
	s->conns[s->n_conns++] = (struct kvsub_conn){ .fd = fd };
}

void kvsub_conn_remove(struct kvsub_socket *s, int fd)
{
	for (unsigned i = 0; i < s->n_conns; i++) {
		if (s->conns[i].fd != fd)
			continue;
		s->received_before += s->conns[i].received;
		s->conns[i] = s->conns[--s->n_conns];
		break;
	}
	if (s->n_conns == 0)
		s->received_before = s->read = 0;
}

static uint64_t waiting_in(struct kvsub_socket *s)
{
	uint64_t received = s->received_before;

	for (unsigned i = 0; i < s->n_conns; i++) {
		s->conns[i].received = received_on(s->conns[i].fd);
		received += s->conns[i].received;
	}
	return received > s->read ? received - s->read : 0;
}

static void log_end_of(struct kvsub_socket *s, uint64_t bytes)
{
	struct log_line ln;

	if (!log_begin(&ln, &s->k->agent->log, LOG_WARN, LOG_EVENTS,
		"connection of KV cache events ended: too much of it waits in memory"))
		return;
	if (s->rank != NULL) {
		log_text(&ln, "pool", s->rank->source->who.pool);
		log_text(&ln, "server", s->rank->source->who.server);
	} else {
		log_int(&ln, "port", s->port);
	}
	log_int(&ln, "bytes", (int64_t)bytes);
	log_text(&ln, "effect", "the agent connects again, and asks for what is missing");
	log_text(&ln, "remedy",
		"if it happens again, what publishes there is no engine, or the agent has too little CPU");
	log_end(&ln);
}

static void end_connections(struct kvsub_socket *s, uint64_t bytes)
{
	log_end_of(s, bytes);
	for (unsigned i = 0; i < s->n_conns; i++)
		shutdown(s->conns[i].fd, SHUT_RDWR);
	s->read += bytes;
	if (s->rank != NULL)
		s->rank->ended++;
}

void kvsub_watch(struct kvsub *k)
{
	struct kvsub_socket *most = NULL;
	uint64_t all = 0, n_most = 0;

	for (struct list *l = k->sockets.next; l != &k->sockets; l = l->next) {
		struct kvsub_socket *s = list_entry(l, struct kvsub_socket, link);
		uint64_t n = waiting_in(s);

		all += n;
		if (n >= n_most) {
			most = s;
			n_most = n;
		}
		if (n > KVSUB_CONN_BYTES)
			end_connections(s, n);
	}
	if (all > KVSUB_ALL_BYTES && n_most <= KVSUB_CONN_BYTES)
		end_connections(most, n_most);
}

#endif
