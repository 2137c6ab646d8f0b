/* scanned.h - bodies that the message <model> has read, for the message <route> that follows.
 *
 *      message model:  bytes -> scanner -> name          scanned_put()
 *      message route:  the same bytes -> the scanner as it was left                 scanned_take()
 *
 * The two messages of a request may come over different connections and threads. The scanner moves
 * from one to the other, and the first thread gets another one for it, so that nothing is allocated
 * once all places have one. A scanner is returned only for the same uid, tenant, API and body. Of a
 * body of more than 1 KB these are compared, by a keyed hash: its length, beginning, end and 16
 * pieces between, because HAProxy sends the same body twice. A client that may choose its own uid
 * and sends two bodies at once can have one of them taken for the other. Then its own request goes
 * to the wrong server.
 *
 * Bounded: SCANNED_PLACES scanners of SCANNED_BYTES at most, for SCANNED_MS. Without room the body
 * is read twice. Locks itself. About 200 ns a call. */
#ifndef KVROUTE_REQUEST_SCANNED_H
#define KVROUTE_REQUEST_SCANNED_H

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

/* Stored with the scanner. */
struct scanned_note {
	size_t n;			/* bytes that were read */
	uint64_t scope;			/* scope in which its head was stored; 0: it was not */
};

struct scanned_place {
	uint64_t uid, tenant, hash;
	size_t n_bytes;
	enum prompt_api api;
	msec since;
	bool waits;			/* else <body> is spare, or NULL */
	struct body *body;
	struct scanned_note note;
};

struct scanned {
	pthread_mutex_t lock;		/* guards all below */
	struct scanned_place place[SCANNED_PLACES];
	unsigned n;			/* places that wait; also read without the lock */
	uint64_t taken;			/* by the message <route> */
	uint64_t lost;			/* by age, for room, or because another body came */
};

void scanned_init(struct scanned *t);
void scanned_fini(struct scanned *t);

/* Store <*body> and <note> under <k>, and set <*body> to another scanner. Does nothing if the
 * scanner is too large or there is no memory for another. */
void scanned_put(struct scanned *t, const struct hash_key *key, const struct scanned_key *k,
    const struct scanned_note *note, const struct prompt_opts *o, struct body **body, msec now);

/* Tell if any body is stored. Takes no lock: without messages <model> none ever is. */
static inline bool scanned_any(const struct scanned *t)
{
	return __atomic_load_n(&t->n, __ATOMIC_RELAXED) != 0;
}

/* Exchange <*body> for the one stored under <k>, and set <note>. Returns false if there is none. */
bool scanned_take(struct scanned *t, const struct hash_key *key, const struct scanned_key *k,
    struct scanned_note *note, struct body **body);

/* Wipe the bodies stored before <then>. */
void scanned_age(struct scanned *t, msec then);

#define scanned_most_bytes()	((uint64_t)SCANNED_PLACES * SCANNED_BYTES)

#endif
