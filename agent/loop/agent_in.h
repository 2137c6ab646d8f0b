/* agent_in.h - the state that the threads of a running agent share. */
#ifndef KVROUTE_LOOP_AGENT_IN_H
#define KVROUTE_LOOP_AGENT_IN_H

#include "agent/loop/budget_in.h"
#include "agent/loop/config_text_in.h"
#include "agent/loop/connect_ports_in.h"
#include "agent/loop/log_in.h"
#include "agent/loop/models.h"
#include "agent/loop/recfile_in.h"
#include "agent/loop/sibling_in.h"
#include "agent/loop/snapfile_in.h"
#include "agent/os/addr.h"
#include "agent/os/clock.h"
#include "agent/os/notify.h"
#include "agent/os/opener.h"
#include "agent/os/privileges.h"
#include "agent/os/process.h"
#include "agent/os/sandbox.h"
#include "agent/os/secret.h"
#include "agent/serve/serve.h"

#define THREADS_MAX	64

/* Options that a reload may change while threads read them. Each is a relaxed atomic of its own,
 * because no two of them must agree. */
struct tune {
	uint32_t max_connections, max_feeds;
	msec hello_timeout_ms, idle_timeout_ms, drain_ms, timeout_processing_ms;
	uint32_t max_frame_size;
	size_t max_joined;
	unsigned max_open;
	size_t send_buffer;
	enum decisions_to decisions_to;
};

#define tune_get(field)		__atomic_load_n(&(field), __ATOMIC_RELAXED)
#define tune_set(field, v)	__atomic_store_n(&(field), (v), __ATOMIC_RELAXED)

struct listeners {
	struct listener l[LISTEN_MAX];
	unsigned n;
};

struct worker;
struct kvsub;
struct share;

struct agent {
	struct route *route;
	struct log log;
	struct tune tune;
	struct listeners spop, log_tcp, log_udp, metrics, runtime;	/* <runtime>: one at most */
	struct worker *worker[THREADS_MAX];
	unsigned n_workers;
	int64_t started;	/* seconds since 1970 */
	struct process_files files;	/* used by the background thread */
	struct opener opener;
	struct notify notify;	/* the service manager */
	struct identity identity;
	struct sandbox_refused *refused;	/* NULL: without a sandbox */
	struct sandbox sandbox;	/* not written once threads run, like the next two */
	struct connect_ports connect_ports;	/* the connections that it allows */
	struct token feed_token;
	struct config_text config_text;
	struct snapfile snapfile;
	struct recfile recfile;
	struct models models;	/* changed by the main thread */
	struct kvsub *kvsub;	/* NULL: no engine publishes events */
	struct share *share;	/* NULL: no store */
	struct sibling_reader sibling;
	struct budget budget;	/* of the buffers of SPOP connections */
	struct message_clock message_clock;
	bool jit;		/* PCRE2 may compile patterns to machine code */
	bool by_messages;	/* the core's time is <message_clock> */
	/* atomics: */
	uint32_t n_conns;	/* SPOP, all threads */
	unsigned n_accepting;	/* workers that still accept */
	unsigned n_running;	/* workers that have not left their loop */
	bool ready;		/* all listeners open, all threads running, not draining */
	bool draining;
	bool hurried;		/* draining, and not waiting for open requests */
};

/* Returns the time of the core. */
static inline msec agent_msec(const struct agent *a)
{
	return a->by_messages ? tune_get(a->message_clock.now) : clock_msec();
}

#endif
