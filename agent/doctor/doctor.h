/* doctor.h - find what is wrong in how a configuration of HAProxy attaches kvroute, before HAProxy
 * runs, and name the line to write.
 *
 *   haproxy.cfg ... --> doctor_file() --> sections, words, .if        doctor_check() --> findings
 *   kvroute.spoe    --> <open>        --> messages, groups
 *
 * It reads as HAProxy does: quotes, escapes, environment variables in double quotes, "defaults"
 * with names and "from", conditions of ".if" for one version of HAProxy. Opens nothing itself: the
 * caller hands over the text of each file. Pure; all memory is freed by doctor_free(). */
#ifndef KVROUTE_DOCTOR_DOCTOR_H
#define KVROUTE_DOCTOR_DOCTOR_H

#include "agent/base/buf.h"
#include "agent/base/err.h"

#define DOCTOR_FILE_MAX		((size_t)16 << 20)	/* bytes of one file */
#define DOCTOR_VERSION(major, minor, patch)	((major) * 1000000 + (minor) * 1000 + (patch))
#define DOCTOR_ADDRS		8

/* What the agent's own configuration says; the defaults of the agent if it was not given. */
struct doctor_agent {
	bool given;			/* by a file, so that addresses must agree with it */
	const char *spop[DOCTOR_ADDRS], *feed[DOCTOR_ADDRS], *udp[DOCTOR_ADDRS],
	    *metrics[DOCTOR_ADDRS];	/* "127.0.0.1:9400", "unix@/path"; NULL ends a list */
	uint64_t max_frame_size;
	bool feed_token;		/* log lines must carry a token */
	bool stats_feed;		/* it reads HAProxy's stats socket, so load may be missing */
	const char *const *pools;	/* names under "pools" other than "*"; NULL ends; may be NULL */
};

struct doctor_opts {
	int version;			/* of HAProxy: DOCTOR_VERSION() */
	const char *features;		/* "+THREAD -ZLIB ..." of haproxy -vv; NULL: any feature is built */
	const char *const *env;		/* "NAME=VALUE"; NULL ends */
	struct doctor_agent agent;
	/* Read the file <path>. Returns its text, which must stay until doctor_free(), in <text>; or -1
	 * with a sentence in <why>. */
	int (*open)(void *arg, const char *path, struct span *text, const char **why);
	void *arg;
};

/* Set the version 3.2, the agent's default addresses, and nothing else. */
void doctor_defaults(struct doctor_opts *o);

enum doctor_severity {
	DOCTOR_NOTE,		/* worth knowing; not counted */
	DOCTOR_WARNING,		/* costs speed or knowledge */
	DOCTOR_FAULT,		/* requests are not routed, wrongly routed, or HAProxy does not start */
	DOCTOR_UNREADABLE,	/* a file or line that cannot be read */
};

struct doctor_finding {
	enum doctor_severity severity;
	const char *rule;		/* a word; that of kvroute_problem if the agent reports it, too */
	const char *file;
	unsigned line;			/* from 1; 0: the file as a whole */
	const char *what, *subject;	/* subject "": none */
	const char *remedy;
};

struct doctor;

/* Returns NULL if there is no memory. <o> is copied; what it points to must stay. */
struct doctor *doctor_new(const struct doctor_opts *o);
void doctor_free(struct doctor *d);

/* Read the next file of the configuration, in HAProxy's order. <path> and <text> must stay. What
 * cannot be read becomes a finding. */
void doctor_file(struct doctor *d, const char *path, struct span text);

/* Apply all rules, once, after the last file. Returns 0, or -1 if there was no memory. */
int doctor_check(struct doctor *d);

/* Append "FILE:LINE: [severity rule] what: remedy" for each finding. */
void doctor_print(const struct doctor *d, struct buf *to);

/* Names on the way of a request through the attached pools, "" if unknown; they live as long as
 * <d>, which was checked. */
struct doctor_way {
	const char *client;		/* address of a frontend that leads to a pool; "https://" if by TLS only */
	const char *frontend;		/* that frontend */
	const char *agent;		/* the agent's backend */
	const char *ring;		/* the ring that delivers to the agent's log feed */
	const char *const *pools;	/* the backends with engines */
	size_t n_pools;
};
void doctor_way_of(struct doctor *d, struct doctor_way *w);
/* Return tune.bufsize, or HAProxy's default. */
size_t doctor_bufsize(const struct doctor *d);
/* Tell if each agent reads HAProxy's stats socket, which shows drain. */
bool doctor_sees_drain(const struct doctor *d);
bool doctor_is_pool(const struct doctor *d, const char *backend);

/* Tell if the agent sets its variable <name> for requests of <backend>: the list of variables has
 * it, or there is none. */
bool doctor_sets(struct doctor *d, const char *backend, const char *name);

/* Return the exit status: 0 clean, 1 faults or warnings, 2 unreadable. */
int doctor_status(const struct doctor *d);

#endif
