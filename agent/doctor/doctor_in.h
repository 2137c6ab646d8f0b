/* doctor_in.h - the configuration as sections of lines of words, and what the rules share.
 *
 * All text lives in one chain of blocks. An allocation that fails sets <nomem> and gives "" or
 * NULL, and doctor_check() reports it at the end. */
#ifndef KVROUTE_DOCTOR_DOCTOR_IN_H
#define KVROUTE_DOCTOR_DOCTOR_IN_H

#include <stdarg.h>

#include "agent/base/vec.h"
#include "agent/doctor/doctor.h"
#include "agent/route/problems.h"
#include "agent/route/vars.h"

#define DR_WORDS	64	/* MAX_LINE_ARGS of HAProxy */
#define DR_DEPTH	16	/* nested .if: MAXNESTEDCONDS of HAProxy is 16 */
#define DR_LINES	500000u	/* of all files */
#define DR_FINDINGS	1000u
#define DR_ALIKE	8u	/* of one rule in one file that are printed */
#define DR_REMEDY_LONG	200u	/* bytes of a remedy that is printed once */

/* ---- memory -------------------------------------------------------------------------------- */

struct dr_block;
struct dr_mem {
	struct dr_block *last;
	bool nomem;
};

void *dr_alloc(struct dr_mem *m, size_t n);	/* zeroed; NULL without memory */
const char *dr_text(struct dr_mem *m, const char *p, size_t n);
/* The same with its arguments in <ap>. */
const char *dr_vprintf(struct dr_mem *m, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
const char *dr_printf(struct dr_mem *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dr_mem_free(struct dr_mem *m);

/* ---- words --------------------------------------------------------------------------------- */

struct dr_var {
	struct span name;
	const char *value;		/* NULL: unset */
};

/* The environment, as changed by setenv, presetenv, unsetenv and resetenv. */
struct dr_env {
	const char *const *env;		/* NAME=VALUE; NULL ends; may be NULL */
	VEC(struct dr_var) vars;	/* later ones win */
};

const char *dr_env_get(const struct dr_env *e, struct span name);

/* Split a line into <words> (room for DR_WORDS). Bit i of <unset>: word i has a variable that is
 * unset, without another value. Returns their number, or -1 with a sentence in <why>. */
int dr_split(struct dr_mem *m, const struct dr_env *env, struct span line, const char **words,
	     uint64_t *unset, const char **why);

/* Evaluate the condition of a ".if". Returns 1, 0, or -1 with a sentence in <why>. */
int dr_condition(const struct doctor_opts *o, const struct dr_env *env, const char *text,
		 const char **why);

/* Return an address with its $NAME and ${NAME} expanded, as HAProxy does outside of quotes. */
const char *dr_address(struct doctor *d, const char *word);

/* ---- lines and sections -------------------------------------------------------------------- */

struct dr_line {
	const char *file;
	unsigned no;		/* from 1 */
	unsigned depth;		/* nested .if around it */
	unsigned n;
	const char **w;		/* <n> words, and "" after them */
	uint64_t unset;		/* of dr_split() */
};

typedef VEC(struct dr_line) dr_lines;

/* Take a line of "global" that changes the environment. */
void dr_take_env(struct doctor *d, const struct dr_line *l);

enum dr_kind { DR_GLOBAL, DR_DEFAULTS, DR_FRONTEND, DR_BACKEND, DR_LISTEN, DR_RING, DR_OTHER };

struct dr_section {
	enum dr_kind kind;
	const char *name, *from;	/* "" */
	struct dr_line at;		/* its opening line */
	dr_lines lines;			/* the active ones */
	int base;			/* index of its defaults section; -1: none */
	bool routed;			/* the rest is found: dr_lead() */
	VEC(unsigned) leads;		/* sections that a frontend leads to */
	struct dr_line may_lead;	/* a rule that may lead to any; n 0: none */
};

struct dr_file {
	const char *path;
	struct span text;
};

/* A line with a scope of a SPOE file, "spoe-agent" and so on, is an ordinary line. */
struct spoe_part {
	struct dr_line at;
	const char *name;
	dr_lines lines;
};

typedef VEC(struct spoe_part) spoe_parts;

struct spoe {
	const char *path;
	struct dr_line scope;		/* n 0: the scope of the engine is missing */
	spoe_parts agents, messages, groups;
};

/* A filter of kvroute in a proxy. */
struct dr_attached {
	unsigned section;
	struct dr_line filter;
	const char *engine, *path;
	struct spoe spoe;
	bool readable;
	bool routes;		/* it has a message "route", or should have */
};

struct doctor {
	struct dr_mem mem;
	struct doctor_opts o;
	struct dr_env env;
	VEC(struct dr_file) files;
	VEC(struct dr_section) sections;
	VEC(struct dr_attached) attached;
	VEC(struct doctor_finding) findings;
	unsigned lines, findings_lost;
	int defaults;		/* the last defaults section; -1: none */
	enum { OUTSIDE, OUTSIDE_TOLD, IN_SECTION } place;	/* of the line being read, in its file */
	bool marked;		/* a line carries DOCTOR_MARK, so that remedies do */
};

/* Call <put> for each line with words of <text> that is active, and keep track of ".if". Lines
 * without sense become findings. */
typedef void dr_put(struct doctor *d, void *arg, const struct dr_line *l);
void dr_read_lines(struct doctor *d, const char *path, struct span text, dr_put *put,
		   void *arg);

/* Read the part of <text> that belongs to <engine>. */
void dr_spoe_read(struct doctor *d, struct spoe *s, const char *path, struct span text,
		  const char *engine);
void dr_spoe_free(struct spoe *s);
const struct spoe_part *dr_spoe_message(const struct spoe *s, const char *name);
/* Return the value of argument <name> ("load=") of a message; NULL: it has none. <at>: its line. */
const char *dr_spoe_arg(const struct spoe_part *m, const char *name, const struct dr_line **at);
const struct dr_line *dr_part_line(const struct spoe_part *p, const char *w0, const char *w1);

/* Tell if <word> begins a section. */
bool dr_opens_section(struct span word);

/* ---- questions ----------------------------------------------------------------------------- */

static inline bool dr_is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool dr_starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static inline bool dr_has(const char *s, const char *part)
{
	return strstr(s, part) != NULL;
}

static inline bool dr_proxy(const struct dr_section *s)
{
	return s->kind == DR_FRONTEND || s->kind == DR_BACKEND || s->kind == DR_LISTEN;
}

static inline bool dr_is_front(const struct dr_section *s)
{
	return s->kind == DR_FRONTEND || s->kind == DR_LISTEN;
}

static inline bool dr_is_back(const struct dr_section *s)
{
	return s->kind == DR_BACKEND || s->kind == DR_LISTEN;
}

/* Return the last line that begins with <w0> (and <w1>, unless NULL) of <s>, or of its defaults;
 * NULL: none, or cancelled by "no". */
const struct dr_line *dr_find(const struct doctor *d, const struct dr_section *s, const char *w0,
			      const char *w1);

/* Collect the lines that begin with <w0> in effect in <s>: those of its defaults, then its own. The
 * caller frees <to>. */
void dr_collect(const struct doctor *d, const struct dr_section *s, const char *w0, dr_lines *to);

/* Return the index of the word <word> in <l>, from <from> on; 0: it is not there. */
unsigned dr_word(const struct dr_line *l, const char *word, unsigned from);

/* Tell if <text> has the variable <name>, and not only a longer name that begins so. */
bool dr_has_variable(struct span text, const char *name);

/* Join the words of <l> from <from> on. */
const char *dr_join(struct doctor *d, const struct dr_line *l, unsigned from);

const struct dr_section *dr_named(const struct doctor *d, unsigned kinds, const char *name);
#define DR_BACKS	(1u << DR_BACKEND | 1u << DR_LISTEN)

/* Tell if requests of frontend <f> go to backend <b>; a listen section leads to itself. */
enum dr_lead { DR_LEADS_NOT, DR_MAY_LEAD, DR_LEADS };
enum dr_lead dr_lead(const struct doctor *d, const struct dr_section *f,
		     const struct dr_section *b);
/* Tell if they go there, or may. */
bool dr_leads(const struct doctor *d, const struct dr_section *f, const struct dr_section *b);

/* Return a time like "10s", "5m" or "300" in ms; -1: it is none. */
int64_t dr_time(const char *s);
/* The same for a size: "262144", "256k". */
int64_t dr_size(const char *s);

struct dr_server {
	const char *name, *address;
	const struct dr_line *line;
	char backup;		/* '\0', 'b', or 'B' with option allbackups */
};

typedef VEC(struct dr_server) dr_servers;

/* Collect the servers of a backend, with those of server-template. */
void dr_servers_of(struct doctor *d, const struct dr_section *s, dr_servers *to);
/* Tell if <word> is set for a server: by its own line, or by default-server. */
bool dr_server_has(const struct doctor *d, const struct dr_section *s, const struct dr_line *server,
		   const char *word);
int64_t dr_bufsize(const struct doctor *d, const struct dr_line **at);
/* Return the size of large buffers; 0: there are none. */
int64_t dr_bufsize_large(const struct doctor *d);

/* Return the port after the last ':' of an address; 0: none. */
unsigned dr_port(const char *address);
bool dr_same_address(const char *haproxys, const char *agents);
/* A stats socket for the agent, in its configuration and in HAProxy's. Debian's own is for
 * HAProxy's group, with level admin. */
#define DR_STATS_FEED	"stats_feed: {sockets: [\"unix@/run/haproxy/kvroute.sock\"]}"
#define DR_STATS_LINE	"stats socket /run/haproxy/kvroute.sock user kvroute mode 600 level operator"

/* Return the path of a unix socket; NULL: it is none. The end may be a blank. */
const char *dr_unix_path(const char *address);
/* Return the folder that HAProxy's worker changes its root to; NULL: none. */
const char *dr_chroot(const struct doctor *d);

/* Write the load line for <s> as load.sh does, without the indent. */
const char *dr_load_line(struct doctor *d, const struct dr_section *s, const char *condition);
/* Return the most bytes that the load of <s> can have. */
int64_t dr_load_most(struct doctor *d, const struct dr_section *s);

/* ---- rules --------------------------------------------------------------------------------- */

/* name, word (or NULL), problem of the running agent (PROBLEM_COUNT: none), severity, what. */
#define DR_RULES(X) \
	X(UNREADABLE, "unreadable", PROBLEM_COUNT, UNREADABLE, "cannot be read") \
	X(NOT_ATTACHED, "not_attached", PROBLEM_COUNT, FAULT, "no proxy has a filter of kvroute") \
	X(SPOE_FILE, "spoe_file", PROBLEM_COUNT, FAULT, \
	    "the file of the filter cannot be read, so HAProxy does not start") \
	X(SPOE_ENGINE, "spoe_engine", PROBLEM_COUNT, FAULT, \
	    "the file of the filter has no part for its engine, so HAProxy does not start") \
	X(SPOE_AGENT, "spoe_agent", PROBLEM_COUNT, FAULT, "the SPOE engine is not complete") \
	X(FILTER_FRONTEND, "filter_frontend", PROBLEM_COUNT, FAULT, \
	    "the filter that routes is in a frontend, which has no servers") \
	X(FILTER_TWICE, "filter_twice", PROBLEM_COUNT, FAULT, \
	    "the same engine filters twice, so each message is sent twice") \
	X(LOAD_MISSING, NULL, PROBLEM_LOAD_MISSING, FAULT, NULL) \
	X(LOAD_UNSET, NULL, PROBLEM_LOAD_UNSET, FAULT, NULL) \
	X(LOAD_LATE, "load_late", PROBLEM_COUNT, FAULT, \
	    "the load is set after the message is sent, so the agent gets none") \
	X(LOAD_EMPTY, "load_empty", PROBLEM_COUNT, FAULT, \
	    "set-var-fmt has no format: HAProxy 2.6 and 3.0 crash at the first request") \
	X(LOAD_BAD, NULL, PROBLEM_LOAD_BAD, FAULT, NULL) \
	X(LOAD_LABEL, "load_label", PROBLEM_COUNT, FAULT, \
	    "a name in load is not that of the server it describes") \
	X(LOAD_ABSENT, "load_absent", PROBLEM_COUNT, FAULT, \
	    "load describes a server that the backend does not have") \
	X(SERVER_UNNAMED, NULL, PROBLEM_SERVER_UNNAMED, FAULT, NULL) \
	X(SERVER_TWICE, "server_twice", PROBLEM_COUNT, FAULT, \
	    "two servers of a backend have one name, so HAProxy does not start") \
	X(LOAD_BACKUP, "load_backup", PROBLEM_COUNT, WARNING, \
	    "load marks a server otherwise than its line, which decides about backup") \
	X(DRAIN_UNSEEN, "drain_unseen", PROBLEM_COUNT, WARNING, \
	    "a server can drain itself by agent-check; the agent does not see that and goes on naming " \
	    "it, and HAProxy sends it those requests") \
	X(LOAD_LONG, "load_long", PROBLEM_COUNT, WARNING, "load has more than 64 servers") \
	X(POOL_UNSET, NULL, PROBLEM_POOL_UNSET, FAULT, NULL) \
	X(POOL_DIFFERS, NULL, PROBLEM_POOL_DIFFERS, FAULT, NULL) \
	X(POOL_UNKNOWN, "pool_unknown", PROBLEM_COUNT, WARNING, \
	    "the agent's configuration names a pool that is no attached backend") \
	X(UID_MISSING, NULL, PROBLEM_UID_MISSING, FAULT, NULL) \
	X(UID_CLIENT, "uid_client", PROBLEM_COUNT, FAULT, \
	    "a client can choose the unique-id, and so confuse requests with each other") \
	X(TENANT_CLIENT, "tenant_client", PROBLEM_COUNT, FAULT, \
	    "a client can choose its tenant by a header that nothing removes") \
	X(SESSION_SECRET, "session_secret", PROBLEM_COUNT, WARNING, \
	    "a header with a secret is sent as session") \
	X(SESSION_LONG, "session_long", PROBLEM_COUNT, WARNING, \
	    "a header of any length is sent as session, so the message may not fit a frame") \
	X(BODY_EARLY, NULL, PROBLEM_BODY_EARLY, FAULT, NULL) \
	X(BODY_BOUND, NULL, PROBLEM_BODY_BOUND, WARNING, NULL) \
	X(BODY_BUFFER, NULL, PROBLEM_BODY_BUFFER, WARNING, NULL) \
	X(BODY_MISSING, "body_missing", PROBLEM_COUNT, FAULT, \
	    "the message has no argument body, so the agent sees no prompt") \
	X(SPOE_TOO_BIG, NULL, PROBLEM_SPOE_TOO_BIG, FAULT, NULL) \
	X(FRAME_SIZE, "frame_size", PROBLEM_COUNT, FAULT, \
	    "frames can be larger than one side accepts, so the agent refuses HAProxy") \
	X(ANSWER_LOST, NULL, PROBLEM_ANSWER_LOST, FAULT, NULL) \
	X(UNREGISTERED, "unregistered", PROBLEM_COUNT, WARNING, \
	    "variables of the agent are not registered, so HAProxy drops those that no line names") \
	X(VARS_LEFT_OUT, "vars_left_out", PROBLEM_COUNT, FAULT, \
	    "a variable of the agent is read, but the list of variables to set leaves it out") \
	X(CONTINUE_ON_ERROR, "continue_on_error", PROBLEM_COUNT, WARNING, \
	    "continue-on-error makes each error cost its timeout twice") \
	X(TIMEOUT, "timeout", PROBLEM_COUNT, WARNING, "a timeout does not suit") \
	X(NO_CONDITION, "no_nbsrv", PROBLEM_COUNT, WARNING, \
	    "messages are sent while the agent is down, so each request waits for timeout processing") \
	X(NOT_ASKED, NULL, PROBLEM_NOT_ASKED, FAULT, NULL) \
	X(NOT_FOLLOWED, NULL, PROBLEM_NOT_FOLLOWED, FAULT, NULL) \
	X(FIRST_EARLY, "first_early", PROBLEM_COUNT, FAULT, \
	    "the group first is sent before HAProxy 3.0, where a response may wait for ever") \
	X(FIRST_MISSING, "first_missing", PROBLEM_COUNT, WARNING, \
	    "the first token is not reported, so the agent learns speeds from ends only") \
	X(FIRST_HEADERS, "first_headers", PROBLEM_COUNT, WARNING, \
	    "the first token is reported at the headers, which some engines send much earlier") \
	X(NO_DELAY, "no_delay", PROBLEM_COUNT, WARNING, \
	    "without option http-no-delay HAProxy may delay each streamed token for 200 ms") \
	X(COMPRESSION, "compression", PROBLEM_COUNT, FAULT, \
	    "compression beside filter spoe needs a filter of its own, else HAProxy does not start") \
	X(PERSIST, "persist", PROBLEM_COUNT, WARNING, \
	    "option persist keeps requests on servers that are down") \
	X(AGENT_BACKEND, "agent_backend", PROBLEM_COUNT, FAULT, \
	    "the backend of the agent is missing or has no server") \
	X(AGENT_ADDRESS, "agent_address", PROBLEM_COUNT, FAULT, \
	    "the server line of the agent names no address of spop.listen") \
	X(AGENT_CHROOT, "agent_chroot", PROBLEM_COUNT, WARNING, \
	    "HAProxy looks for the agent's unix socket below its chroot") \
	X(AGENT_MODE, "agent_mode", PROBLEM_COUNT, FAULT, \
	    "the backend of the agent has mode http, so HAProxy does not start") \
	X(AGENT_CHECK, "agent_check", PROBLEM_COUNT, FAULT, \
	    "HAProxy does not notice that the agent is down") \
	X(AGENT_DEFAULTS, "agent_defaults", PROBLEM_COUNT, FAULT, \
	    "a proxy takes the defaults that are meant for the agent's backend") \
	X(AGENT_LIMIT, "agent_limit", PROBLEM_COUNT, WARNING, \
	    "connections to the agent are limited by a default-server meant for engines") \
	X(PROXY_ON_SPOP, NULL, PROBLEM_PROXY_ON_SPOP, FAULT, NULL) \
	X(TLS_ON_SPOP, NULL, PROBLEM_TLS_ON_SPOP, FAULT, NULL) \
	X(HTTP_ON_SPOP, NULL, PROBLEM_HTTP_ON_SPOP, FAULT, NULL) \
	X(SPOP_ON_FEED, NULL, PROBLEM_SPOP_ON_FEED, FAULT, NULL) \
	X(SPOP_ON_HTTP, NULL, PROBLEM_SPOP_ON_HTTP, FAULT, NULL) \
	X(LOG_ON_SPOP, NULL, PROBLEM_LOG_ON_SPOP, FAULT, NULL) \
	X(LOG_ON_HTTP, NULL, PROBLEM_LOG_ON_HTTP, FAULT, NULL) \
	X(TLS_ON_FEED, NULL, PROBLEM_TLS_ON_FEED, FAULT, NULL) \
	X(FEED_MISSING, NULL, PROBLEM_FEED_MISSING, FAULT, NULL) \
	X(FEED_PLAIN, NULL, PROBLEM_FEED_PLAIN, FAULT, NULL) \
	X(FEED_FIELDS, NULL, PROBLEM_FEED_FIELDS, WARNING, NULL) \
	X(FEED_FORMAT, "feed_format", PROBLEM_COUNT, FAULT, \
	    "log line and ring have different formats") \
	X(FEED_LENGTH, "feed_length", PROBLEM_COUNT, WARNING, \
	    "log lines may be longer than the limit, which cuts them") \
	X(FEED_EARLY, "feed_early", PROBLEM_COUNT, FAULT, \
	    "log lines are written when an answer begins, so they do not tell how it ended") \
	X(FEED_RING, "feed_ring", PROBLEM_COUNT, FAULT, "the ring does not deliver") \
	X(PATH_NEVER, "path_never", PROBLEM_COUNT, FAULT, \
	    "no path of an API satisfies the condition, so the line has no effect") \
	X(FILE_MISSING, "file_missing", PROBLEM_COUNT, FAULT, \
	    "a map or a file of patterns cannot be read; without it HAProxy does not start") \
	X(FILE_EMPTY, "file_empty", PROBLEM_COUNT, WARNING, \
	    "a map or a file of patterns has no entry, so it never matches") \
	X(MAP_UNKNOWN, "map_unknown", PROBLEM_COUNT, WARNING, \
	    "a map names a backend that does not exist, so HAProxy takes default_backend") \
	X(FEED_LEVEL, "feed_level", PROBLEM_COUNT, FAULT, \
	    "the log line of a request has the level info, which this target does not take") \
	X(NOMEM, "no_memory", PROBLEM_COUNT, UNREADABLE, "there is no memory")

enum dr_rule {
#define X(name, word, problem, severity, what) DR_##name,
	DR_RULES(X)
#undef X
	DR_RULE_COUNT
};

struct dr_rule_row {
	const char *word;
	enum problem problem;
	enum doctor_severity severity;
	const char *what;
};

extern const struct dr_rule_row dr_rules[DR_RULE_COUNT];

/* Add a finding at <at> (NULL: the first file as a whole). <subject> may be "". The remedy is a
 * format; NULL: that of the running agent. A finding that exists already is not repeated. */
void dr_say(struct doctor *d, enum dr_rule rule, const struct dr_line *at, const char *subject,
	    const char *remedy, ...) __attribute__((format(printf, 5, 6)));

void dr_check_spoe(struct doctor *d, const struct dr_attached *a);
void dr_check_vars(struct doctor *d, const struct dr_attached *a);
void dr_check_load(struct doctor *d, const struct dr_attached *a);
void dr_check_pool(struct doctor *d, const struct dr_attached *a);
void dr_check_front(struct doctor *d, const struct dr_attached *a);
void dr_check_paths(struct doctor *d, const struct dr_attached *a);
void dr_check_body(struct doctor *d, const struct dr_attached *a);
void dr_check_place(struct doctor *d, const struct dr_attached *a);
void dr_check_agent(struct doctor *d, const struct dr_attached *a);
void dr_check_feed(struct doctor *d, const struct dr_attached *a);

/* Return a rule that silences the log of all requests of a proxy; NULL: none, or a later rule may
 * set another level. */
const struct dr_line *dr_silent(const struct doctor *d, const struct dr_section *s);

/* Return the set of variables txn.<prefix>.NAME of the agent that a line reads. */
uint32_t dr_vars_read(struct doctor *d, const char *prefix);
/* Write a set of variables as the argument "vars" lists them: "server+alt+why". */
const char *dr_vars_text(struct doctor *d, uint32_t vars);

/* Return the first line of a proxy that sends the group <group> of <a>, or of any group if NULL;
 * <order>: its place among the request rules. NULL: none. */
const struct dr_line *dr_sends(const struct doctor *d, const struct dr_attached *a,
			       const char *ruleset, const char *group);

#endif
