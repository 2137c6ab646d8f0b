/* learn_in.h - private to learn.c and lesson.c: what a fact says of its request, and teaches. */
#ifndef KVROUTE_ROUTE_LEARN_IN_H
#define KVROUTE_ROUTE_LEARN_IN_H

#include "agent/route/job_in.h"

/* Tell if HAProxy itself has answered, as "<CACHE>" does. */
static inline bool is_of_haproxy(struct span server)
{
	return server.n > 0 && server.p[0] == '<';
}

static inline bool is_served(const struct fact *f)
{
	return f->status >= 200 && f->status < 300 && !is_of_haproxy(f->server);
}

static inline bool is_first_token(const struct fact *f)
{
	return f->kind == FACT_FIRST && is_served(f) && fact_streams(f);
}

/* ---- lesson.c. The route's lock is held. ---- */

/* Change penalties by <v>, how it ended; a first token is no end. <to>: NULL if its server is
 * unknown. To be called before the entry is closed. */
void learn_verdict(struct route *r, const struct ledger_entry *e, const struct fact *f,
    enum verdict v, const struct server *to, msec now);

/* The first token of <e> came, from the server of the entry. */
void learn_first_token(struct route *r, const struct ledger_entry *e, msec now);

/* Learn what the fact says about tokens, and set those of the answer. */
void learn_tokens(struct route *r, const struct lesson *l, const struct fact *f,
    struct outcome *out, msec now);

/* Count what the engine found in its cache, if the line tells, beside what was expected. */
void learn_cached(
    struct route *r, const struct fact *f, uint64_t prompt_tokens, uint64_t expected);

/* Learn that <to> has stored the response that the fact names, or that one before did, and of how
 * many tokens. <to>: NULL if it is unknown. */
void learn_response(struct route *r, struct lesson *l, const struct server *to,
    const struct fact *f, struct outcome *out);

/* Learn the end of a request that <to> has served. */
void learn_served(struct route *r, struct ledger_entry *e, struct server *to,
    const struct fact *f, struct outcome *out, msec now);

/* Learn from the log line of a request that "first" has closed, or of one that is unknown. */
void learn_answered(
    struct route *r, uint64_t uid, const struct fact *f, struct outcome *out, msec now);

#endif
