/* events.c - kvroutectl events: what an engine publishes about its KV cache, as it comes. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/events.h"

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl events [-q] [-n BATCHES] [-s SECONDS] [-t TOPIC] ADDRESS\n"
		"\n"
		"Connect to the socket where an engine publishes events of its KV cache, print each event on\n"
		"a line, and lost batches, restarts and sums. No token is printed. ADDRESS is host:port or\n"
		"a ZeroMQ endpoint; vLLM's port is 5557 unless --kv-events-config says otherwise.\n"
		"\n"
		"  -n BATCHES  end after so many batches\n"
		"  -s SECONDS  end after so many seconds; without a batch by then the exit status is 1\n"
		"  -t TOPIC    only topics that begin so\n"
		"  -q          only the sums, at the end\n");
	return status;
}

#ifdef HAVE_ZMQ
#include <zmq.h>

struct watch {
	struct events_tally tally;
	void *context, *socket;
	void *monitor;			/* tells when the connection is made */
	int signals;			/* a signalfd: SIGINT, SIGTERM end the watch */
	uint64_t batches;		/* to end after; 0: no end */
	int64_t until_ms;		/* on the monotonic clock; 0: no end */
};

static int64_t monotonic_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static double wall_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Receive the parts of one message; those above KVFRAME_PARTS_MAX are dropped. Returns how many
 * there were, or 0 if no message is waiting. */
static unsigned receive(void *socket, zmq_msg_t part[KVFRAME_PARTS_MAX])
{
	unsigned n = 0;
	bool more = true;
	zmq_msg_t rest;

	for (; more; n++) {
		zmq_msg_t *m = n < KVFRAME_PARTS_MAX ? &part[n] : &rest;

		zmq_msg_init(m);
		if (zmq_msg_recv(m, socket, ZMQ_DONTWAIT) < 0)
			break;
		more = zmq_msg_more(m);
		if (m == &rest)
			zmq_msg_close(m);
	}
	return n;
}

static void take_message(struct watch *w, zmq_msg_t *part, unsigned n)
{
	struct span parts[KVFRAME_PARTS_MAX];
	unsigned kept = n < KVFRAME_PARTS_MAX ? n : KVFRAME_PARTS_MAX;
	struct kvframe f;

	for (unsigned i = 0; i < kept; i++)
		parts[i] = span_of(zmq_msg_data(&part[i]), zmq_msg_size(&part[i]));
	if (n <= KVFRAME_PARTS_MAX && kvframe_live(parts, n, &f))
		events_message(&w->tally, &f, wall_s());
	else
		events_foreign(&w->tally, n);
	for (unsigned i = 0; i < kept; i++)
		zmq_msg_close(&part[i]);
}

static bool ended(const struct watch *w)
{
	return (w->batches > 0 && w->tally.batches >= w->batches) ||
	       (w->until_ms > 0 && monotonic_ms() >= w->until_ms);
}

static void run(struct watch *w)
{
	zmq_pollitem_t items[2] = {
		{ .socket = w->socket, .events = ZMQ_POLLIN }, { .fd = w->signals, .events = ZMQ_POLLIN },
	};
	zmq_msg_t part[KVFRAME_PARTS_MAX];
	unsigned n;

	while (!ended(w)) {
		if (zmq_poll(items, 2, 100) < 0 && errno != EINTR)
			return;
		if (items[1].revents != 0)
			return;
		while (!ended(w) && (n = receive(w->socket, part)) > 0)
			take_message(w, part, n);
		if (w->tally.out != NULL)
			fflush(w->tally.out);
	}
}

static int watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Tell if the peer was a publisher; other sockets reject the handshake. */
static bool was_connected(struct watch *w)
{
	zmq_msg_t part[KVFRAME_PARTS_MAX];
	unsigned n = w->monitor != NULL ? receive(w->monitor, part) : 0;

	for (unsigned i = 0; i < n && i < KVFRAME_PARTS_MAX; i++)
		zmq_msg_close(&part[i]);
	return n > 0;
}

static void *monitor_of(struct watch *w)
{
	static const char name[] = "inproc://monitor";
	void *m;

	if (zmq_socket_monitor(w->socket, name, ZMQ_EVENT_HANDSHAKE_SUCCEEDED) != 0 ||
	    (m = zmq_socket(w->context, ZMQ_PAIR)) == NULL)
		return NULL;
	zmq_connect(m, name);
	return m;
}

static bool connect_to(struct watch *w, const char *address, const char *topic)
{
	int one = 1, none = 0;
	int64_t most = (int64_t)64 << 20;
	char endpoint[512];

	snprintf(endpoint, sizeof(endpoint), "%s%s", strstr(address, "://") != NULL ? "" : "tcp://",
	    address);
	w->context = zmq_ctx_new();
	w->socket = w->context != NULL ? zmq_socket(w->context, ZMQ_SUB) : NULL;
	if (w->socket == NULL)
		return false;
	zmq_setsockopt(w->socket, ZMQ_IPV6, &one, sizeof(one));
	zmq_setsockopt(w->socket, ZMQ_LINGER, &none, sizeof(none));
	zmq_setsockopt(w->socket, ZMQ_MAXMSGSIZE, &most, sizeof(most));
	zmq_setsockopt(w->socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
	w->monitor = monitor_of(w);
	return zmq_connect(w->socket, endpoint) == 0;
}

static void say_nothing_came(struct watch *w, const char *address)
{
	if (was_connected(w))
		fprintf(stderr, "kvroutectl events: connected to %s, but nothing came: does the engine answer "
			"requests with new prompts, with prefix caching on? -t must be how its topic begins\n",
			address);
	else
		fprintf(stderr, "kvroutectl events: no publisher answered at %s: does the engine publish there "
			"(vLLM: endpoint, not replay_endpoint, of --kv-events-config)?\n", address);
}

static int watch(struct watch *w, const char *address, const char *topic)
{
	int status = CTL_FAILED;

	w->signals = watch_signals();
	if (connect_to(w, address, topic)) {
		run(w);
		events_sums(&w->tally, stdout);
		status = w->tally.batches > 0 || w->until_ms == 0 ? 0 : CTL_FAILED;
		if (status != 0)
			say_nothing_came(w, address);
	} else {
		fprintf(stderr, "kvroutectl events: %s: %s; ADDRESS is the engine's host:port, or an endpoint "
			"such as tcp://10.0.0.1:5557\n", address, zmq_strerror(errno));
	}
	if (w->monitor != NULL)
		zmq_close(w->monitor);
	if (w->socket != NULL)
		zmq_close(w->socket);
	if (w->context != NULL)
		zmq_ctx_term(w->context);
	close(w->signals);
	return status;
}

static bool read_count(const char *s, uint64_t most, uint64_t *out)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(s, &end, 10);
	*out = v;
	return *s >= '0' && *s <= '9' && *end == '\0' && errno == 0 && v > 0 && v <= most;
}

int ctl_events(int argc, char **argv)
{
	struct watch w;
	const char *topic = "";
	uint64_t seconds;
	int c;

	w = (struct watch){ .tally.out = stdout };
	while ((c = getopt(argc, argv, "hn:qs:t:")) != -1) {
		switch (c) {
		case 'h':
			return usage(stdout, 0);
		case 'n':
			if (!read_count(optarg, UINT64_MAX, &w.batches))
				return usage(stderr, CTL_USAGE);
			break;
		case 's':
			if (!read_count(optarg, 31536000, &seconds))
				return usage(stderr, CTL_USAGE);
			w.until_ms = monotonic_ms() + (int64_t)seconds * 1000;
			break;
		case 't':
			topic = optarg;
			break;
		case 'q':
			w.tally.out = NULL;
			break;
		default:
			return usage(stderr, CTL_USAGE);
		}
	}
	if (argc - optind != 1)
		return usage(stderr, CTL_USAGE);
	return watch(&w, argv[optind], topic);
}

#else

int ctl_events(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "-h") == 0)
		return usage(stdout, 0);
	fprintf(stderr,
	    "kvroutectl events: this kvroutectl was built without libzmq; install libzmq3-dev and build "
	    "it again\n");
	return CTL_FAILED;
}

#endif
