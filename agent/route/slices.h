/* slices.h - requests whose body comes in several messages and is not all here yet.
 *
 * Slices of one request may come over different connections and threads, so a request in between
 * is kept here, by uid, and taken out while a thread works on it. Bounded in bytes, by dropping the
 * oldest, and in age. Dropping costs only what later slices would have added: the answer already
 * given stands. Locks itself. */
#ifndef KVROUTE_ROUTE_SLICES_H
#define KVROUTE_ROUTE_SLICES_H

#include <pthread.h>

#include "agent/base/list.h"
#include "agent/prompt/prompt.h"
#include "agent/route/words.h"

#define SLICE_TEXT_MAX	1024	/* pool, tenant and model together */

/* A request in between. The spans point into <text>. */
struct sliced {
	struct list by_age;
	struct sliced *chain;
	uint64_t uid;
	msec since;
	struct body *body;
	struct words *words;		/* NULL: nobody asks for them, or no memory */
	struct { char *p; size_t n, cap; bool wanted, lost; } raw;	/* the body so far, for conversations */
	int64_t next_seq;
	uint64_t work, looked;		/* steps taken for it; bytes gone over by all decisions so far */
	int64_t visible, whole;		/* bytes; -1 unknown */
	uint64_t process;		/* hash of the HAProxy process */
	enum prompt_api api;
	struct span pool, tenant, model;
	size_t bytes;			/* counted for it while it waits */
	char text[SLICE_TEXT_MAX];
};

#define SLICE_BUCKETS	4096	/* some 9000 of the smallest fit the default budget */

struct slices {
	pthread_mutex_t lock;		/* guards all below */
	struct sliced *table[SLICE_BUCKETS];
	struct list by_age;		/* oldest first */
	uint64_t n, bytes;
	uint64_t aged, dropped, again, repeated;
};

void slices_init(struct slices *t);
void slices_fini(struct slices *t);

/* A fresh one, not in the table; NULL: no memory, or names too long to keep. */
struct sliced *sliced_new(const struct prompt_opts *o, const struct hash_key *key, struct span pool,
			  struct span tenant, struct span model);
void sliced_free(struct sliced *s);		/* takes NULL */

/* Keep what came of the body, where that is wanted. Without memory it is lost, and sliced_raw() has nothing. */
void sliced_keep_raw(struct sliced *s, struct span body);
struct span sliced_raw(const struct sliced *s);

/* Take the one with <uid> out of the table, to feed it slice <seq>. NULL: there is none; or one in between is
 * missing, so that what follows makes no sense, and it is dropped; or it has seen that slice before (counted), and
 * <*waits> on for the next. */
struct sliced *slices_take(struct slices *t, uint64_t uid, int64_t seq, bool *waits);

/* Forget the one with <uid>, if any: its request has been sent on. */
void slices_forget(struct slices *t, uint64_t uid);

/* The same because a request starts anew under it (counted). */
void slices_restart(struct slices *t, uint64_t uid);

/* Keep <s>, the youngest now; the oldest go when <max_bytes> asks for it, and <s> itself when it
 * would be too large alone. Takes <s>. */
void slices_put(struct slices *t, struct sliced *s, size_t max_bytes, msec now);

/* Drop those put in before <then>, at most <most> of them. */
void slices_age(struct slices *t, msec then, unsigned most);

#endif
