/* Which server of the store takes writes.
 *
 * Each listed server has a connection for commands, and is asked every second what it is: ROLE, or
 * in a cluster its own id and the owner of each slot. So a failover is followed as soon as the new
 * primary says so, without another connection. Servers are told apart by what they say of
 * themselves, never by the addresses that others say: these may be of another network, and an agent
 * must not connect to, and send its password to, whatever a store names.
 *
 * The log has one line when some part can no longer be written or read, and one when all can. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <stdio.h>

#include "agent/os/clock.h"

#define ASK_MS		1000
#define ASK_CLUSTER_MS	3000
#define ASK_AGAIN_MS	200
#define SLOTS		16384
#define TOLD_MS		10000	/* between two lines about a store that cannot be used */
#define DOWN_MS		1500	/* shorter losses are not logged, because a failover takes as long */

/* ---- parts ---- */

/* CRC16 (XMODEM) of the part of a key between braces, as in the specification of clusters. */
static uint16_t slot_of(const char *tag)
{
	uint16_t crc = 0;

	for (; *tag != '\0'; tag++) {
		crc ^= (uint16_t)((uint8_t)*tag << 8);
		for (int i = 0; i < 8; i++)
			crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
	}
	return crc % SLOTS;
}

void store_init(struct share *sh)
{
	char tag[STORE_KEY_MAX];

	for (uint32_t i = 0; i < sh->n_parts; i++) {
		struct share_part *p = &sh->part[i];

		p->sh = sh;
		p->n = i;
		snprintf(tag, sizeof(tag), "%s:%u", sh->opts.fleet, i);
		snprintf(p->key, sizeof(p->key), "kvroute:{%.*s}:log", (int)sizeof(p->key) - 20, tag);
		p->slot = slot_of(tag);
	}
}

static struct store_server *primary_of(struct share *sh, const struct share_part *p)
{
	struct store_server *first = NULL;

	for (unsigned i = 0; i < sh->n_servers; i++) {
		struct store_server *s = &sh->server[i];

		if (s->cmd.ctx == NULL || (sh->opts.cluster ? !s->owns[p->n] : !s->primary))
			continue;
		if (s == p->owner)
			return s;
		if (first == NULL)
			first = s;
	}
	return first;
}

static void assign_parts(struct share *sh)
{
	bool changed = false;

	for (uint32_t i = 0; i < sh->n_parts; i++) {
		struct share_part *p = &sh->part[i];
		struct store_server *to = primary_of(sh, p);

		if (to == p->owner)
			continue;
		p->owner = to;
		send_reset(p);
		changed = true;
	}
	if (!changed)
		return;
	read_aim(sh);
	conn_aim(&sh->bulk, sh->part[0].owner != NULL && sh->bulk.to != NULL ? sh->part[0].owner : NULL);
}

/* ---- roles ---- */

static void set_primary(struct store_server *s, bool primary)
{
	s->primary = primary;
	assign_parts(s->sh);
}

/* If the user may not ask, the only server is taken for the primary. */
static bool on_role(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct store_server *s = arg;
	struct span role;

	s->asking = false;
	if (reply_is_any_error(r)) {
		bool alone = reply_is_error(r, "NOPERM") && s->sh->n_servers == 1;

		if (!alone)
			store_note(s->sh, s, reply_text(r));
		set_primary(s, alone);
		return false;
	}
	if (r->type != REDIS_REPLY_ARRAY || r->elements == 0) {
		conn_fail(c, "its answer to ROLE makes no sense");
		return false;
	}
	role = reply_text(r->element[0]);
	if (!span_eq(role, SPAN("master")) && s->sh->n_servers == 1)
		store_note(s->sh, s, SPAN("it is a replica"));
	set_primary(s, span_eq(role, SPAN("master")));
	return false;
}

static bool on_id(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct store_server *s = arg;
	struct span id = reply_text(r);

	if (reply_is_any_error(r))
		store_note(s->sh, s, id);
	s->id[0] = '\0';
	if (r->type == REDIS_REPLY_STRING && id.n < sizeof(s->id)) {
		memcpy(s->id, id.p, id.n);
		s->id[id.n] = '\0';
	}
	return false;
}

/* A range of slots: first, last, primary, replicas. A node: address, port, id. */
static void take_range(struct store_server *s, const struct redisReply *range)
{
	const struct redisReply *node;

	if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
	    range->element[0]->type != REDIS_REPLY_INTEGER ||
	    range->element[1]->type != REDIS_REPLY_INTEGER)
		return;
	node = range->element[2];
	if (node->type != REDIS_REPLY_ARRAY || node->elements < 3 ||
	    !span_eq(reply_text(node->element[2]), span_str(s->id)))
		return;
	for (uint32_t i = 0; i < s->sh->n_parts; i++)
		s->owns[i] |= s->sh->part[i].slot >= range->element[0]->integer &&
			      s->sh->part[i].slot <= range->element[1]->integer;
}

static bool on_slots(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct store_server *s = arg;

	s->asking = false;
	memset(s->owns, 0, sizeof(s->owns));
	if (reply_is_any_error(r))
		store_note(s->sh, s, reply_text(r));
	for (size_t i = 0; r->type == REDIS_REPLY_ARRAY && s->id[0] != '\0' && i < r->elements; i++)
		take_range(s, r->element[i]);
	assign_parts(s->sh);
	return false;
}

static void ask_role(struct store_server *s, msec now)
{
	msec wait = s->sh->opts.timeout_ms;
	const struct span role[] = { SPAN("ROLE") };
	const struct span id[] = { SPAN("CLUSTER"), SPAN("MYID") };
	const struct span slots[] = { SPAN("CLUSTER"), SPAN("SLOTS") };

	s->asked_at = now;
	s->asking = s->sh->opts.cluster ? conn_send(&s->cmd, on_id, s, 0, wait, 2, id) &&
					      conn_send(&s->cmd, on_slots, s, 0, wait, 2, slots)
					: conn_send(&s->cmd, on_role, s, 0, wait, 1, role);
}

static void on_opened(struct conn *c)
{
	ask_role(c->owner, clock_msec());
}

static void on_lost(struct conn *c)
{
	struct store_server *s = c->owner;

	s->primary = s->asking = false;
	memset(s->owns, 0, sizeof(s->owns));
	warm_command_lost(s->sh);
	snapshot_command_lost(s->sh);
	assign_parts(s->sh);
}

static const struct conn_use command_use = { on_opened, on_lost };

void store_add_server(struct share *sh, struct store_server *s)
{
	s->sh = sh;
	conn_init(&s->cmd, sh, &command_use, s, CONN_SMALL_REPLY);
}

void store_ask_again(struct share *sh)
{
	msec now = clock_msec();

	for (unsigned i = 0; i < sh->n_servers; i++) {
		struct store_server *s = &sh->server[i];

		if (s->cmd.ctx != NULL && !s->asking && now - s->asked_at >= ASK_AGAIN_MS)
			ask_role(s, now);
	}
}

void store_tick(struct share *sh, msec now)
{
	msec every = sh->opts.cluster ? ASK_CLUSTER_MS : ASK_MS;

	for (unsigned i = 0; i < sh->n_servers; i++) {
		struct store_server *s = &sh->server[i];

		conn_aim(&s->cmd, s);
		conn_tick(&s->cmd, now);
		if (s->cmd.ctx != NULL && !s->asking && now - s->asked_at >= every)
			ask_role(s, now);
	}
}

/* ---- the log ---- */

void store_note(struct share *sh, struct store_server *s, struct span why)
{
	sh->blamed = s;
	snprintf(sh->blame, sizeof(sh->blame), SPAN_FMT, SPAN_ARG(why));
}

static const struct {
	const char *word, *remedy;
} remedies[] = {
	{ "NOAUTH", "the store wants a password: set share.password_file" },
	{ "WRONGPASS", "check share.user and share.password_file" },
	{ "ERR invalid password", "check share.password_file" },
	{ "ERR AUTH",
	    "the store has no password for this user: check share.user and share.password_file" },
	{ "ERR Client sent AUTH", "the store has no password: remove share.password_file" },
	{ "ERR unknown command 'AUTH'", "the store takes no password: remove share.password_file" },
	{ "NOPERM", "allow the user all commands that kvroute(8), SHARING, lists" },
	{ "OOM", "the store is full: raise its maxmemory, or lower share.stream_entries" },
	{ "READONLY", "list the primary in share.servers as well" },
	{ "it is a replica", "list the primary in share.servers as well" },
	{ "MISCONF", "the store cannot write its disk: look at its own log" },
	{ "LOADING", "wait until the store has loaded its data" },
	{ "MOVED", "it is a cluster: set share.cluster, and list all of its nodes" },
	{ "CROSSSLOT", "it is a cluster: set share.cluster" },
	{ "CLUSTERDOWN", "the cluster has no owner for some slots: look at its own log" },
	{ "ERR This instance has cluster", "it is no cluster: remove share.cluster" },
	{ "ERR max number of clients", "raise maxclients of the store" },
	{ "DENIED", "the store takes connections from its own machine only: set its bind and password" },
	{ "Protocol error", "what listens there is no Valkey or Redis, or wants TLS: share.tls" },
	{ "hostname mismatch", "write the name that the certificate has to share.servers" },
	{ "IP address mismatch", "write the name that the certificate has to share.servers" },
	{ "self", "set share.tls_ca to the authority that signed the store's certificate" },
	{ "unable to get", "set share.tls_ca to the authority that signed the store's certificate" },
	{ "Connection refused", "start the store, or correct share.servers" },
};

static const char *remedy_for(const char *why)
{
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (strncmp(why, remedies[i].word, strlen(remedies[i].word)) == 0)
			return remedies[i].remedy;
	return "check that the store runs and can be reached from here, and share.servers";
}

static void log_down(struct share *sh, msec now)
{
	struct log_line ln;

	if (!log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_LIFE,
		sh->was_up ? "connection to the store lost" : "the store cannot be used"))
		return;
	if (sh->blamed != NULL)
		log_text(&ln, "server", sh->blamed->text);
	log_text(&ln, "error", sh->blame[0] != '\0' ? sh->blame : "no listed server is the primary");
	log_text(&ln, "effect",
		"requests are routed by what this agent knows itself; it learns nothing of its siblings");
	log_text(&ln, "remedy", remedy_for(sh->blame));
	log_end(&ln);
}

static void log_up(struct share *sh, msec now)
{
	struct share_outbox_stats out;
	struct log_line ln;
	char agent[SHARE_AGENT_TEXT];

	share_outbox_stats(sh->outbox, &out);
	if (!log_begin(&ln, &sh->agent->log, LOG_INFO, LOG_LIFE, "store connected"))
		return;
	log_text(&ln, "server", sh->part[0].owner != NULL ? sh->part[0].owner->text : "");
	log_text(&ln, "fleet", sh->opts.fleet);
	log_text(&ln, "agent", share_agent_text(sh->self, agent));
	log_int(&ln, "parts", sh->n_parts);
	if (sh->was_up && sh->down_since != 0)
		log_int(&ln, "lost_ms", now - sh->down_since);
	log_int(&ln, "dropped_batches", (int64_t)out.dropped_batches);
	log_end(&ln);
}

static bool all_parts_work(const struct share *sh, msec now)
{
	for (uint32_t i = 0; i < sh->n_parts; i++)
		if (sh->part[i].owner == NULL || sh->part[i].retry_at != 0)
			return false;
	return sh->warm.state < WARM_READ || read_is_current(sh, now);
}

/* Another error than the one told last is told as well, because it has another remedy. */
static bool is_due_to_tell(const struct share *sh, msec now)
{
	if (sh->told_down == 0)
		return now - sh->down_since >= DOWN_MS;
	return now - sh->told_down >= TOLD_MS && strcmp(sh->blame, sh->told_blame) != 0;
}

void store_log(struct share *sh, msec now)
{
	bool up = all_parts_work(sh, now);

	__atomic_store_n(&sh->connected, up, __ATOMIC_RELAXED);
	if (up) {
		if (sh->told_down != 0 || !sh->was_up)
			log_up(sh, now);
		sh->was_up = true;
		sh->told_down = 0;
		sh->down_since = 0;
		sh->blame[0] = '\0';
		sh->blamed = NULL;
		return;
	}
	if (sh->down_since == 0)
		sh->down_since = now;
	if (is_due_to_tell(sh, now)) {
		log_down(sh, now);
		sh->told_down = now;
		snprintf(sh->told_blame, sizeof(sh->told_blame), "%s", sh->blame);
	}
}

#endif
