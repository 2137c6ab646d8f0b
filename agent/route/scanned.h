/* scanned.h - bodies that the message <model> has read, for the message <route> that follows.
 *
 *      message model:  bytes -> scanner -> name          scanned_put()
 *      message route:  the same bytes -> scanner as it was left                     scanned_take()
 *
 * The two messages of a request may come over different connections and threads. A scanner changes its
 * owner for that, and the thread gets another one for it, so that nothing is allocated once all places
 * have one. It is given back for the same uid, tenant, API and body only. Of a body of more than 1 KB
 * are compared: its length, its beginning, its end and 16 pieces between, by a keyed hash. HAProxy sends
 * the same body twice. A client who may choose its own uid and asks twice at once can have one of its
 * bodies taken for the other: what it asks for itself goes to the wrong server.
 *
 * Bounded: SCANNED_PLACES scanners of SCANNED_BYTES at most, for SCANNED_MS. Where there is no room the
 * body is read twice. Locks itself. About 200 ns a call. */
#ifndef KVROUTE_ROUTE_SCANNED_H
#define KVROUTE_ROUTE_SCANNED_H

#include <pthread.h>

#include "agent/prompt/prompt.h"

#define SCANNED_WAYS	4u
#define SCANNED_PLACES	256u			/* a multiple of SCANNED_WAYS */
#define SCANNED_BYTES	((size_t)64 << 10)	/* bodies of some 400 KB of text */
#define SCANNED_MS	1000

struct scanned_key {
	uint64_t uid, tenant;		/* hashes */
	enum prompt_api api;
	struct span bytes;
};

/* What goes with it. */
struct scanned_note {
	size_t n;			/* of the bytes, that were read */
	uint64_t scope;			/* of heads, in which it was remembered */
};

struct scanned_place {
	uint64_t uid, tenant, hash;
	size_t n_bytes;
	enum prompt_api api;
	msec since;
	bool waits;			/* else <body> is a spare one, or NULL */
	struct body *body;
	struct scanned_note note;
};

struct scanned {
	pthread_mutex_t lock;		/* guards all below */
	struct scanned_place place[SCANNED_PLACES];
	unsigned n;			/* that wait; read without the lock, too */
	uint64_t taken, lost;		/* by the other message; by age, for room, or as another body came */
};

void scanned_init(struct scanned *t);
void scanned_fini(struct scanned *t);

/* Leave <*body>, with <note>, for who asks by <k>, and put another scanner in its place. Does nothing when
 * it is too large, or there is no memory for another. */
void scanned_put(struct scanned *t, const struct hash_key *key, const struct scanned_key *k, const struct scanned_note *note,
		 const struct prompt_opts *o, struct body **body, msec now);

/* Exchange <*body> for the one that was left by <k>, and fill <note>. False: there is none. */
bool scanned_take(struct scanned *t, const struct hash_key *key, const struct scanned_key *k, struct scanned_note *note,
		  struct body **body);

/* Wipe those that were left before <then>. */
void scanned_age(struct scanned *t, msec then);

#define scanned_most_bytes()	((uint64_t)SCANNED_PLACES * SCANNED_BYTES)

#endif
