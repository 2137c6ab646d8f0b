/* sessions.h - what each session has in which cache: how deep its last turns went, and where.
 *
 *      turn 5   [ seen by the agent | not seen ........ ]   served: a holds 40,000 tokens
 *      turn 6   [ the same          | not seen ............ ]   known: 40,000 at a, 0 elsewhere
 *
 * Of a body that is cut the visible part is often common to all sessions of a client program, so
 * the index cannot tell where one of them lives. The key of a session does, if it can be trusted:
 *
 *   - the visible part must continue what was seen of that turn: two of its marks are compared
 *   - a turn is served before the next one begins, and is at most a quarter shorter. Each
 *     request that breaks this halves the trust; each that keeps it adds a sixteenth of the rest.
 *     Without enough trust the session counts for nothing. So a client that sends one key with
 *     everything is treated like one that sends none.
 *
 * A session that was compacted never sends its old path again: a turn that continues none of its
 * tails and is much shorter than the last one, or another prompt. The owner then lets the old path
 * go (index_let_go()). A subagent under its parent's name looks alike, so the tail of the parent is
 * kept: if a later request continues it after all, its marks prove what that server had. Of cut
 * prompts the second shorter turn shows that it was a summary, and the longer tails go.
 *
 * A session brings work back: about (turns - 1) / turns of sessions have another turn, after a gap,
 * with some more tokens. Turns and gap are learned for each model. Sums of it by server are
 * the promised work. A session that is late counts half after two gaps, a quarter after four, and
 * so on; after sixteen it promises nothing. Where its last turn was still counts.
 *
 * Bounded in bytes. The session with the oldest turn is evicted first; one of a tenant that has few
 * is passed over a few times. Keys are keyed hashes. Not locked: the owner locks. O(1) each. */
#ifndef KVROUTE_FLEET_SESSIONS_H
#define KVROUTE_FLEET_SESSIONS_H

#include "agent/base/types.h"

#define SESSION_TAILS	3u	/* last turns that are remembered: of several servers, or branches */

/* Where the pages of a turn end in the index: struct index_place of the owner. */
struct session_place {
	uint32_t node;		/* 0: unknown */
	uint32_t depth, era;
};

/* Where a turn ended. */
struct session_tail {
	server_id server;	/* SERVER_NONE: none */
	bool done;		/* it was served, and its whole body had come */
	bool cut;		/* not all of it was seen */
	uint32_t life;		/* of the server */
	uint32_t tokens;	/* of the prompt, with the unseen part */
	uint32_t answer;	/* of its answer; 0: unknown */
	msec at;		/* its end; before that, when it was sent */
	msec let_go;		/* its pages were let go then; 0: they were not */
	struct session_place place;
	/* a mark of the visible part near its end, and one near its middle; depth 0: none */
	uint32_t depth[2], check[2];
	uint32_t hidden;	/* of the prompt, not seen, as they were counted in the server's cache */
};

/* One request of a session. */
struct session_turn {
	uint64_t key;		/* of the session, its tenant, space and opening; never 0 */
	uint64_t tenant, kind;	/* hashes; <kind>: of the model, under which is learned */
	uint64_t tokens;	/* of the prompt, with the unseen part */
	bool cut;
	msec ago;		/* since it was sent, if a sibling tells it late */
	bool rough;		/* <tokens> may be far too few: that it is shorter proves no summary */
	uint32_t n;		/* marks of the visible part, by depth */
	const uint32_t *depth;
	const uint64_t *mark;
};

/* What a request is to its session. */
#define SESSION_STATE_LIST(X) \
	X(NONE,		"")		/* it has none */ \
	X(NEW,		"new")		/* its first turn */ \
	X(TURN,		"turn")		/* it continues an earlier turn */ \
	X(OPEN,		"open")		/* another request of it is not over, so it may be no turn */ \
	X(COMPACTED,	"compacted")	/* it replaces most of the last turn */ \
	X(OTHER,	"other")	/* it continues no turn, or the session is not trusted */

#define SESSION_STATE(name, text)	SESSION_##name,
enum session_state { SESSION_STATE_LIST(SESSION_STATE) SESSION_STATES };
#undef SESSION_STATE

const char *session_state_text(enum session_state s);

/* What a session says about a request, before it is sent. */
struct session_view {
	enum session_state state;
	bool known;		/* it had a turn before */
	bool trusted;		/* and this request may be its next turn: <tail> counts */
	bool open;		/* another request of it is not over */
	bool shrank;		/* compacted: the pages of tail[0] can be let go */
	uint32_t turns;
	msec seen;		/* its last turn */
	uint32_t held[SESSION_TAILS];	/* tokens of this request that tail[] holds; 0: none */
	uint32_t proven[SESSION_TAILS];	/* its pages that tail[] had too, by their marks */
	struct session_tail tail[SESSION_TAILS];	/* the latest first */
};

struct sessions;

#define SESSIONS_LEAST	65536u

/* <max_bytes> below SESSIONS_LEAST: returns NULL, and nothing is known, as without memory. */
struct sessions *sessions_new(size_t max_bytes);
void sessions_free(struct sessions *t);		/* all functions take NULL for <t> */

/* Set <v> for a request. Changes nothing. */
void sessions_look(const struct sessions *t, const struct session_turn *u, struct session_view *v);

/* The request was sent to <to>. <again>: it had been, and is decided anew; nothing is learned.
 * <work_us>: microseconds of prefill that a turn takes there. */
void sessions_sent(struct sessions *t, const struct session_turn *u, server_id to, bool again,
    uint32_t work_us, msec now);

/* The pages of the last turn, sent to <to>, end at <place>. */
void sessions_placed(
    struct sessions *t, uint64_t key, server_id to, const struct session_place *place);
/* The pages that end there were let go. */
void sessions_let_go(
    struct sessions *t, uint64_t key, const struct session_place *place, msec now);

/* The request was served by <at>, with <answer> tokens, and its body had come. */
struct session_end {
	server_id at;		/* SERVER_NONE: it was not served */
	uint32_t answer, hidden;	/* as in struct session_tail */
};
void sessions_ended(struct sessions *t, uint64_t key, const struct session_end *e, msec now);

/* Tell if only one request of the session is open: only such a one leaves a tail when it ends. */
bool sessions_alone(const struct sessions *t, uint64_t key);

/* What the turn that ended then, which <at> has served, left there became known only now. Returns
 * false if no tail is of it any more: the next turn, which was sent there, counts as its own all
 * that is hidden. */
bool sessions_counted(struct sessions *t, uint64_t key, server_id at, msec end, uint32_t hidden,
    msec now);
/* Count again the hidden tokens of the turn that <at> served and that ended then: undoes
 * sessions_uncounted(). Returns false if no tail is of it any more, or the cache of <at> is another
 * one since. */
bool sessions_recounted(
    struct sessions *t, uint64_t key, server_id at, msec end, uint32_t hidden);
/* The hidden tokens of the turn that ended then are not counted any more. */
void sessions_uncounted(struct sessions *t, uint64_t key, msec end);

/* All that <id> held is gone: its engine restarted, or it left. */
void sessions_server_gone(struct sessions *t, server_id id);

/* Return the work that sessions will bring back to a server, as a share of its time. */
double sessions_promise(const struct sessions *t, server_id id);

/* Return the mean number of turns that sessions of <kind> have after a first one; 0: unknown. */
double sessions_turns_left(const struct sessions *t, uint64_t kind);

/* Let promises decay: look at the next <n> sessions. */
void sessions_age(struct sessions *t, uint32_t n, msec now);

/* ---- over a restart ---- */

struct session_saved {
	uint64_t key;
	uint32_t turns, gap_ms, work_us;
	uint8_t trust, tenant, kind;
	msec seen;
	struct session_tail tail[SESSION_TAILS];	/* places are not known again */
};

struct session_learned {	/* of a model */
	uint64_t key;
	uint32_t turns, sessions, gap_ms;
};

/* Copy at most <n> from number <*from> on, which moves on. Returns how many; 0: the end. */
uint32_t sessions_read(
    const struct sessions *t, uint32_t *from, struct session_saved *out, uint32_t n);
/* Add a session, or replace what is known of it if that is of an earlier turn, which is over. Later
 * ones are evicted later. */
void sessions_restore(struct sessions *t, const struct session_saved *s, msec now);

/* Copy what is learned of model <i>; .key 0: nothing. Returns false if <i> is beyond the last. */
bool sessions_learned(const struct sessions *t, uint32_t i, struct session_learned *k);
void sessions_learned_before(struct sessions *t, const struct session_learned *k);

struct sessions_stats {
	uint64_t max_bytes, sessions, max_sessions;
	/* requests with a session; of these to the server of its last turn; to another one */
	uint64_t turns, stayed, moved;
	uint64_t mistrusted;		/* requests that no turn could be continued by */
	uint64_t compacted;		/* old paths that were let go */
	uint64_t evicted;
};

void sessions_stats(const struct sessions *t, struct sessions_stats *s);

#endif
