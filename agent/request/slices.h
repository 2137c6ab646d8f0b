/* slices.h - requests whose body comes in several messages and is not complete yet.
 *
 * Slices of one request may come over different connections and threads. Between two of them the
 * request is kept here, by uid; a thread takes it out while it works on it. Bounded in bytes, by
 * dropping the oldest, and in age. A dropped request loses only what later slices would have added:
 * its last answer holds. Locks itself. */
#ifndef KVROUTE_REQUEST_SLICES_H
#define KVROUTE_REQUEST_SLICES_H

#include <pthread.h>

#include "agent/base/buf.h"
#include "agent/base/list.h"
#include "agent/prompt/prompt.h"

struct text_ids;

#define SLICE_NAMES_MAX	1024	/* pool, tenant and model together */

/* A request between two slices. The spans point into <names>. */
struct sliced {
	struct list by_age;
	struct sliced *chain;
	uint64_t uid;
	msec since;
	struct body *body;
	struct text_ids *text;		/* NULL: no model needs the text, or no memory */
	struct buf raw;			/* the body from byte <raw_from> on */
	uint64_t raw_from;		/* 0 if conversations need the body */
	bool raw_wanted;
	size_t state_chunk;		/* where the last state of its template was left; SIZE_MAX: none */
	uint64_t scan_paid;		/* steps charged for reading it */
	int64_t next_seq;
	uint64_t work, looked;		/* steps charged; bytes gone over by all decisions so far */
	int64_t visible, whole;		/* bytes; -1 unknown */
	uint64_t process;		/* hash of the HAProxy process */
	uint64_t session, user;		/* hashes of these arguments; 0: none. For the caller */
	enum prompt_api api;
	struct span pool, tenant, model;
	size_t bytes;			/* counted in slices.bytes */
	char names[SLICE_NAMES_MAX];
};

#define SLICE_BUCKETS	4096	/* about 6000 of the smallest requests fit the default budget */

struct slices {
	pthread_mutex_t lock;		/* guards all below */
	struct sliced *table[SLICE_BUCKETS];
	struct list by_age;		/* oldest first */
	uint64_t n, bytes;		/* <n> is atomic: read without the lock, too */
	uint64_t aged, dropped;		/* by age; for room */
	uint64_t again, repeated;	/* uids that started anew; slices that came twice */
};

void slices_init(struct slices *t);
void slices_fini(struct slices *t);

/* Allocate a request, not in the table. Returns NULL if there is no memory or the names are too
 * long. */
struct sliced *sliced_new(const struct prompt_opts *o, const struct hash_key *key, struct span pool,
			  struct span tenant, struct span model);
void sliced_free(struct sliced *s);		/* <s> may be NULL */

/* Append a slice to the raw bytes. Returns false if there is no memory: they are as they were, and
 * no other slice can be appended. */
bool sliced_add_raw(struct sliced *s, struct span slice);

/* Drop raw bytes before byte <needs> of the body, unless they are wanted. */
void sliced_drop_raw(struct sliced *s, uint64_t needs);
struct span sliced_raw(const struct sliced *s);		/* from byte raw_from on */

/* Take the request <uid> out of the table, to feed it slice <seq>. Returns NULL if there is none;
 * if a slice before <seq> is missing, which drops the request; or if it has had this slice already,
 * which is counted, and then <*waits> is set because it still waits for the next one. */
struct sliced *slices_take(struct slices *t, uint64_t uid, int64_t seq, bool *waits);

/* Drop the request <uid>, if any, because HAProxy has sent it on. */
void slices_forget(struct slices *t, uint64_t uid);

/* Drop it because a request with this uid starts again; counted. */
void slices_restart(struct slices *t, uint64_t uid);

/* Store <s> and own it. The oldest are dropped until all fit <max_bytes>; <s> itself if it is too
 * large alone. */
void slices_put(struct slices *t, struct sliced *s, size_t max_bytes, msec now);

/* Drop requests stored before <then>, at most <most> of them. */
void slices_age(struct slices *t, msec then, unsigned most);

#endif
