/* Sockets of libzmq in a libev loop. */
#include "agent/loop/kvsub_in.h"

#ifdef HAVE_ZMQ
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

#include "agent/base/mem.h"
#include "agent/loop/engine_url.h"
#include "agent/os/clock.h"

#define REOPEN_MS	2000	/* a socket without a connection that libzmq makes no other for */
#define EVENT_BYTES	6	/* of a monitor: what (16 bits), value (32 bits), in host order */
#define EVENTS		(ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | \
			 ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_CONNECT_DELAYED | \
			 ZMQ_EVENT_CONNECT_RETRIED)

/* ---- the turn --------------------------------------------------------------------------- */

static void set_ready(struct kvsub_socket *s, bool yes)
{
	struct kvsub *k = s->k;

	list_remove(&s->ready);
	list_init(&s->ready);
	if (!yes)
		return;
	list_append(&k->ready, &s->ready);
	ev_idle_start(k->loop, &k->idle);
}

static void on_socket(struct ev_loop *loop, ev_io *io, int revents)
{
	kvsub_socket_read(io->data);
}

/* ---- opening ---------------------------------------------------------------------------- */

static void set_int(void *zmq, int option, int value)
{
	zmq_setsockopt(zmq, option, &value, sizeof(value));
}

/* A dead peer is found by TCP, after a minute. */
static void set_options(void *zmq, enum kvsub_kind kind, bool v6)
{
	int64_t most = kind == KVSUB_LOAD ? KVSUB_LOAD_BYTES : KVSUB_PART_BYTES;

	zmq_setsockopt(zmq, ZMQ_MAXMSGSIZE, &most, sizeof(most));
	set_int(zmq, ZMQ_RCVHWM, kind == KVSUB_REPLAY ? KVSUB_REPLAY_MESSAGES : KVSUB_LIVE_MESSAGES);
	set_int(zmq, ZMQ_LINGER, 0);
	set_int(zmq, ZMQ_IPV6, v6);
	set_int(zmq, ZMQ_TCP_KEEPALIVE, 1);
	set_int(zmq, ZMQ_TCP_KEEPALIVE_IDLE, 30);
	set_int(zmq, ZMQ_TCP_KEEPALIVE_INTVL, 10);
	set_int(zmq, ZMQ_TCP_KEEPALIVE_CNT, 3);
	set_int(zmq, ZMQ_RECONNECT_IVL, 100);
	set_int(zmq, ZMQ_RECONNECT_IVL_MAX, 3000);
	set_int(zmq, ZMQ_HANDSHAKE_IVL, 10000);
	if (kind == KVSUB_REPLAY)
		set_int(zmq, ZMQ_IMMEDIATE, 1);	/* a request waits for no connection that never comes */
}

static void watch_fd(struct kvsub_socket *s, void *zmq, ev_io *io)
{
	size_t n = sizeof(int);
	int fd = -1;

	zmq_getsockopt(zmq, ZMQ_FD, &fd, &n);
	ev_io_init(io, on_socket, fd, EV_READ);
	io->data = s;
	ev_io_start(s->k->loop, io);
}

static bool open_monitor(struct kvsub_socket *s)
{
	char name[64];

	snprintf(name, sizeof(name), "inproc://monitor-%llu", (unsigned long long)s->k->monitors++);
	if (zmq_socket_monitor(s->zmq, name, EVENTS) != 0 ||
	    (s->monitor = zmq_socket(s->k->context, ZMQ_PAIR)) == NULL)
		return false;
	set_int(s->monitor, ZMQ_RCVHWM, 0);
	set_int(s->monitor, ZMQ_LINGER, 0);
	return zmq_connect(s->monitor, name) == 0;
}

static void close_zmq(struct kvsub_socket *s)
{
	if (s->zmq != NULL)
		zmq_socket_monitor(s->zmq, NULL, 0);
	if (s->monitor != NULL)
		zmq_close(s->monitor);
	if (s->zmq != NULL)
		zmq_close(s->zmq);
	s->zmq = s->monitor = NULL;
}

static struct kvsub_socket *socket_new(struct kvsub *k, enum kvsub_kind kind, bool v6)
{
	struct kvsub_socket *s = mem_alloc(sizeof(*s));

	if (s == NULL)
		return NULL;
	s->k = k;
	s->kind = kind;
	list_init(&s->ready);
	list_init(&s->ranks);
	list_append(&k->sockets, &s->link);
	s->zmq = zmq_socket(k->context, kind == KVSUB_REPLAY ? ZMQ_DEALER : ZMQ_SUB);
	if (s->zmq == NULL || !open_monitor(s)) {
		kvsub_socket_close(s);
		return NULL;
	}
	set_options(s->zmq, kind, v6);
	watch_fd(s, s->zmq, &s->io);
	watch_fd(s, s->monitor, &s->monitor_io);
	set_ready(s, true);
	return s;
}

struct kvsub_socket *kvsub_socket_open(
    struct kvsub *k, enum kvsub_kind kind, struct kvsub_rank *rank, const char *endpoint)
{
	const char *topic = kind == KVSUB_LOAD ? SGL_LOAD_TOPIC : rank->source->who.events.topic;
	unsigned port = engine_endpoint_port(endpoint);
	struct kvsub_socket *s = socket_new(k, kind, strchr(endpoint, '[') != NULL);
	char to[ENGINE_URL_MAX + 8];

	if (s == NULL)
		return NULL;
	s->rank = rank;
	if (port > 0)
		snprintf(to, sizeof(to), "%.*s:%u", (int)(strrchr(endpoint, ':') - endpoint), endpoint,
		    port + rank->n);
	else
		snprintf(to, sizeof(to), "%s", endpoint);
	if (kind != KVSUB_REPLAY)
		zmq_setsockopt(s->zmq, ZMQ_SUBSCRIBE, topic, strlen(topic));
	if (zmq_connect(s->zmq, to) == 0)
		return s;
	kvsub_socket_close(s);
	return NULL;
}

/* libzmq closes <fd>. */
struct kvsub_socket *kvsub_socket_bind(struct kvsub *k, int fd, uint16_t port)
{
	struct kvsub_socket *s = socket_new(k, KVSUB_BOUND, true);
	char at[32];

	if (s == NULL)
		return NULL;
	s->port = port;
	snprintf(at, sizeof(at), "tcp://*:%u", port);
	set_int(s->zmq, ZMQ_USE_FD, fd);
	if (zmq_bind(s->zmq, at) == 0)
		return s;
	kvsub_socket_close(s);
	return NULL;
}

void kvsub_socket_close(struct kvsub_socket *s)
{
	if (s->dead)
		return;
	s->dead = true;
	set_ready(s, false);
	ev_io_stop(s->k->loop, &s->io);
	ev_io_stop(s->k->loop, &s->monitor_io);
	close_zmq(s);
	list_remove(&s->link);
	list_append(&s->k->dead, &s->link);
}

bool kvsub_socket_is_gone(const struct kvsub_socket *s, msec opened_at, msec now)
{
	return now - opened_at >= REOPEN_MS &&
	       (s == NULL || (s->gone_at != 0 && now - s->gone_at >= REOPEN_MS));
}

void kvsub_free_dead(struct kvsub *k)
{
	while (!list_empty(&k->dead)) {
		struct kvsub_socket *s = list_entry(k->dead.next, struct kvsub_socket, link);

		list_remove(&s->link);
		mem_free(s->conns);
		mem_free(s);
	}
}

struct kvsub_socket *kvsub_bound_at(struct kvsub *k, uint16_t port)
{
	for (struct list *l = k->sockets.next; l != &k->sockets; l = l->next) {
		struct kvsub_socket *s = list_entry(l, struct kvsub_socket, link);

		if (s->kind == KVSUB_BOUND && s->port == port)
			return s;
	}
	return NULL;
}

/* After any call on a socket its descriptor may stay silent, although messages are there. */
void kvsub_subscribe(struct kvsub_socket *s, const char *topic, bool yes)
{
	zmq_setsockopt(s->zmq, yes ? ZMQ_SUBSCRIBE : ZMQ_UNSUBSCRIBE, topic, strlen(topic));
	set_ready(s, true);
}

bool kvsub_send_request(struct kvsub_socket *s, uint64_t from)
{
	uint8_t sequence[8];
	bool sent;

	for (int i = 0; i < 8; i++)
		sequence[i] = (uint8_t)(from >> (56 - 8 * i));
	sent = zmq_send(s->zmq, "", 0, ZMQ_DONTWAIT | ZMQ_SNDMORE) == 0 &&
	       zmq_send(s->zmq, sequence, sizeof(sequence), ZMQ_DONTWAIT) == sizeof(sequence);
	set_ready(s, true);
	return sent;
}

/* ---- the monitor ------------------------------------------------------------------------ */

/* At a bound socket only the ranks whose messages came over this connection lose it. */
static void lost(struct kvsub_socket *s, int fd)
{
	kvsub_conn_remove(s, fd);
	s->gone_at = clock_msec();
	if (s->kind == KVSUB_LIVE)
		kvsub_rank_disconnected(s->rank);
	for (struct list *l = s->ranks.next; l != &s->ranks; l = l->next) {
		struct kvsub_rank *r = list_entry(l, struct kvsub_rank, at_bound);

		if (r->fd == fd)
			kvsub_rank_disconnected(r);
	}
}

static void take_event(struct kvsub_socket *s, const uint8_t *p)
{
	uint16_t what;
	int32_t value;

	memcpy(&what, p, sizeof(what));
	memcpy(&value, p + sizeof(what), sizeof(value));
	switch (what) {
	case ZMQ_EVENT_CONNECT_DELAYED:
	case ZMQ_EVENT_CONNECT_RETRIED:
		s->gone_at = 0;
		break;
	case ZMQ_EVENT_CONNECTED:
	case ZMQ_EVENT_ACCEPTED:
		s->gone_at = 0;
		kvsub_conn_add(s, value);
		break;
	case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
		if (s->kind == KVSUB_LIVE)
			kvsub_rank_connected(s->rank);
		break;
	case ZMQ_EVENT_DISCONNECTED:
		lost(s, value);
		break;
	}
}

/* The second part of an event is an address. */
static void read_monitor(struct kvsub_socket *s)
{
	uint8_t event[EVENT_BYTES], rest[256];

	while (!s->dead && zmq_recv(s->monitor, event, sizeof(event), ZMQ_DONTWAIT) == EVENT_BYTES) {
		zmq_recv(s->monitor, rest, sizeof(rest), ZMQ_DONTWAIT);
		take_event(s, event);
	}
}

/* ---- messages --------------------------------------------------------------------------- */

struct message {
	zmq_msg_t part[KVFRAME_PARTS_MAX];
	unsigned n;		/* parts, also those above KVFRAME_PARTS_MAX, which are dropped */
	size_t bytes;		/* with what ZeroMQ writes before each part */
};

static size_t part_bytes(size_t n)
{
	return n + (n > 255 ? 9 : 2);
}

static bool receive(struct kvsub_socket *s, struct message *m)
{
	bool more = true;
	zmq_msg_t rest;

	m->bytes = 0;
	for (m->n = 0; more; m->n++) {
		zmq_msg_t *to = m->n < KVFRAME_PARTS_MAX ? &m->part[m->n] : &rest;

		zmq_msg_init(to);
		if (zmq_msg_recv(to, s->zmq, ZMQ_DONTWAIT) < 0) {
			zmq_msg_close(to);
			break;
		}
		more = zmq_msg_more(to);
		m->bytes += part_bytes(zmq_msg_size(to));
		if (to == &rest)
			zmq_msg_close(to);
	}
	return m->n > 0;
}

/* Events have the tokens of prompts. */
static void message_close(struct message *m)
{
	for (unsigned i = 0; i < m->n && i < KVFRAME_PARTS_MAX; i++) {
		mem_wipe(zmq_msg_data(&m->part[i]), zmq_msg_size(&m->part[i]));
		zmq_msg_close(&m->part[i]);
	}
}

static bool has_topic(const struct kvframe *f, const char *topic)
{
	size_t n = strlen(topic);

	return f->topic.n >= n && memcmp(f->topic.p, topic, n) == 0;
}

/* The rank with the longest topic that the frame's begins with. */
static struct kvsub_rank *rank_at_bound(struct kvsub_socket *s, const struct kvframe *f, int fd)
{
	struct kvsub_rank *best = NULL;
	size_t longest = 0;

	for (struct list *l = s->ranks.next; l != &s->ranks; l = l->next) {
		struct kvsub_rank *r = list_entry(l, struct kvsub_rank, at_bound);
		size_t n = strlen(r->source->who.events.topic);

		if (has_topic(f, r->source->who.events.topic) && (best == NULL || n > longest)) {
			best = r;
			longest = n;
		}
	}
	if (best == NULL)
		return NULL;
	if (best->fd != fd)
		kvsub_rank_disconnected(best);
	best->fd = fd;
	return best;
}

static struct kvsub_rank *rank_of(
    struct kvsub_socket *s, const struct kvframe *f, struct message *m)
{
	struct kvsub_rank *r = s->rank;

	if (s->kind == KVSUB_BOUND)
		r = rank_at_bound(s, f, zmq_msg_get(&m->part[0], ZMQ_SRCFD));
	if (r != NULL && !r->cursor.connected && s->n_conns > 0)
		kvsub_rank_connected(r);
	return r;
}

static void take_message(struct kvsub_socket *s, struct message *m)
{
	struct span part[KVFRAME_PARTS_MAX];
	struct kvsub_rank *r = s->rank;
	struct kvframe f;
	bool ok = m->n <= KVFRAME_PARTS_MAX;

	for (unsigned i = 0; ok && i < m->n; i++)
		part[i] = span_of(zmq_msg_data(&m->part[i]), zmq_msg_size(&m->part[i]));
	if (s->kind == KVSUB_LOAD) {
		kvsub_load_take(r, ok && kvframe_live(part, m->n, &f) ? &f : NULL);
		return;
	}
	if (s->kind == KVSUB_REPLAY)
		ok = ok && kvframe_replay(part, m->n, &f);
	else
		ok = ok && kvframe_live(part, m->n, &f) && (r = rank_of(s, &f, m)) != NULL;
	if (r != NULL)
		r->bytes += m->bytes;
	if (ok && s->kind == KVSUB_REPLAY)
		kvsub_rank_replayed(r, &f);
	else if (ok)
		kvsub_rank_live(r, &f);
	else if (r != NULL)
		kvsub_rank_bad(r, s->kind == KVSUB_REPLAY);
}

void kvsub_socket_read(struct kvsub_socket *s)
{
	struct message m;
	unsigned n = 0;
	bool waits;

	set_ready(s, false);
	read_monitor(s);
	while (!s->dead && n < KVSUB_TURN && !kvsub_work_waits(s) && receive(s, &m)) {
		n++;
		s->read += m.bytes;
		read_monitor(s);
		if (!s->dead)
			take_message(s, &m);
		message_close(&m);
	}
	if (s->dead)
		return;
	waits = kvsub_work_waits(s);
	if (s->kind == KVSUB_REPLAY && !waits)
		kvsub_rank_ask(s->rank);
	if (s->kind == KVSUB_LOAD)
		kvsub_load_tell(s->rank);
	if (n == KVSUB_TURN || waits)
		set_ready(s, true);
}

#endif
