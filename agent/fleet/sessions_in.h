/* sessions_in.h - private to sessions.c and sessions_turn.c: the table of sessions.
 *
 * Sessions are chained by hash, and listed by age. One that is late promises ever less. */
#ifndef KVROUTE_FLEET_SESSIONS_IN_H
#define KVROUTE_FLEET_SESSIONS_IN_H

#include "agent/fleet/sessions.h"

#define TRUST_START	128u	/* of 255 */
#define TRUST_LEAST	96u	/* below it the session counts for nothing */
#define TENANTS		256u	/* counters; tenants may share one */
#define KINDS		64u
#define SESSION_TURNS_KEPT	4096u	/* of a model; then older ones count half */

/* Links are numbers of entries; 0: none, and in the list both of its ends. */
struct session {
	uint64_t key;
	uint32_t next;			/* next with the same hash */
	uint32_t older, newer;
	uint32_t turns;
	uint8_t trust;
	uint8_t n_open;			/* requests that are not over */
	uint8_t tenant, kind;		/* numbers */
	uint32_t gap_ms;		/* mean time from turn to turn; 0: unknown */
	msec seen;			/* last turn */
	struct session_tail tail[SESSION_TAILS];
	struct session_tail served;	/* tail[0] before a turn that is not over, or that failed */
	uint8_t kind_life;		/* of its kind, when it began */
	/* in the sum of <promised> */
	server_id promised;		/* SERVER_NONE: nothing */
	uint32_t work_us, busy_ppm;
};

_Static_assert(sizeof(struct session) == 312, "8 MiB hold 26,000");

/* What sessions of one model have in common. */
struct session_kind {
	uint64_t key;
	uint32_t turns, sessions;	/* recent ones */
	uint32_t gap_ms;
	uint8_t life;			/* another kind had the place before */
};

struct sessions {
	uint32_t cap, n;		/* entries allowed; used so far; entry 0 is the ends of the list */
	uint32_t mask, hand;
	uint32_t *head;
	struct session *e;
	uint32_t of_tenant[TENANTS];
	struct session_kind kind[KINDS];
	uint64_t promised_ppm[SERVERS_MAX];
	uint32_t life[SERVERS_MAX];
	struct sessions_stats st;
};

/* ---- sessions.c ---- */

uint32_t session_find(const struct sessions *t, uint64_t key);		/* 0: none */
/* Add a session, for which another may be evicted. Returns its number. */
uint32_t session_take(struct sessions *t, const struct session_turn *u);
void session_used(struct sessions *t, uint32_t i);	/* it is evicted last now */

/* Enter in the sums what the session will bring back, as far as it is late. */
void session_promise(struct sessions *t, struct session *s, msec now);

#endif
