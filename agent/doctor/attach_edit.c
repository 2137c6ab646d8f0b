/* attach_edit.c - the lines that attach kvroute, as haproxy-conf/ has them, and where they go.
 *
 *   global      its end: tune.bufsize, if the buffer is small; the list of variables to set
 *   frontend    after its last request rule: log, format, unique-id, what is a request of an API
 *   backend     after its last request rule: filter, load, messages; use-server after its own
 *   last file   its end: the ring, the agent's defaults, the agent's backend
 *
 * tests/it/doctor_attach.py compares them with haproxy-conf/. */
#include "agent/doctor/attach_in.h"

#define BUFSIZE_WANTED	262144
#define BUFSIZE_SMALL	65536	/* DR_BODY_BUFFER names a smaller one */
#define HEADERS_ROOM	2048	/* as in rules_spoe.c */
#define SLACK		2048	/* of the bound, for what is added to headers or load later */
#define ROUND		1024	/* so that one server more seldom changes the bound */
#define BODY_LEAST	8192
#define BODY_WAIT_MS	600000
/* variables that the added lines read */
#define ADDED_READ	(1u << VAR_SERVER | 1u << VAR_ALT | 1u << VAR_WHY)
#define NO_TIMEOUT	"24d"	/* of a side without timeout: HAProxy's longest */

#define ROUTED	" if { var(txn.kvroute.why) -m found }"
#define ASKED	" if { var(txn.api) -m found }"
#define UP	" { nbsrv(spoe_agent) gt 0 }"
#define SHORT_JSON \
	" if { res.hdr(content-type) -m beg -i application/json }" \
	" { res.hdr_val(content-length) 1:65536 }" \
	" { var(txn.kvroute.why) -m found }"

static const char log_sd[] = "    log-format-sd '{\"uid\":\"%ID\",\"be\":\"%b\",\"srv\":\"%s\","
	"\"want\":\"%[var(txn.kvroute.server)]\",\"why\":\"%[var(txn.kvroute.why)]\","
	"\"err\":\"%[var(txn.kvroute.error)]\",\"st\":%ST,\"ts\":\"%ts\",\"tw\":%Tw,\"tc\":%Tc,\"tr\":%Tr,"
	"\"ta\":%Ta,\"out\":%B,\"in\":%U,\"rc\":\"%rc\",\"sq\":%sq,\"bq\":%bq,"
	"\"ptok\":\"%[var(txn.ptok)]\",\"gtok\":\"%[var(txn.gtok)]\"}'";
static const char api_paths[] = "    http-request set-var(txn.api) int(1) if METH_POST { path_beg "
	"/v1/chat/completions /v1/completions /v1/responses /v1/embeddings /v1/messages /generate "
	"/v1beta/models/ } !{ path_end /count_tokens /input_tokens :countTokens }";
#define HEADER(name)	"%[req.hdr(" name "),bytes(0,64)]"
static const char session[] = "    http-request set-var-fmt(txn.session) \""
	HEADER("x-claude-code-session-id") HEADER("x-claude-code-agent-id") HEADER("session_id")
	HEADER("session-id") HEADER("conversation_id") HEADER("x-session-id")
	HEADER("x-dynamo-session-id") HEADER("x-opencode-session") HEADER("x-amp-thread-id")
	HEADER("x-grok-conv-id") HEADER("x-session-affinity") HEADER("x-semantic-cluster-id") "\"";
#define ANSWERED(name)	"res.body,json_query('$.usage." name "',int),add(0)"
#define IN_TEXT(name)	"%[res.body,json_query('\\$.usage." name "',int),add(0)]"
static const char *const counts[] = {
	"    http-response set-var(txn.ptok) " ANSWERED("prompt_tokens") SHORT_JSON,
	"    http-response set-var(txn.gtok) " ANSWERED("completion_tokens") SHORT_JSON,
	"    http-response set-var-fmt(txn.ptok) \"" IN_TEXT("input_tokens") "+"
	IN_TEXT("cache_read_input_tokens") "+" IN_TEXT("cache_creation_input_tokens") "\"" SHORT_JSON
	" !{ var(txn.ptok) -m found }",
	"    http-response set-var(txn.gtok) " ANSWERED("output_tokens") SHORT_JSON
	" !{ var(txn.gtok) -m found }",
};

/* ---- writing ------------------------------------------------------------------------------- */

static void line(struct dr_plan *p, const char *text)
{
	buf_str(&p->text, text);
	buf_str(&p->text, " " DOCTOR_MARK "\n");
}

/* End the lines written so far as an edit after line <after> of the file of <s>. */
static void add_edit(struct dr_plan *p, unsigned file, unsigned after)
{
	struct doctor *d = p->d;

	d->mem.nomem = d->mem.nomem || p->text.failed;
	if (p->text.n > 0 && vec_push(&p->edits, (struct dr_edit){ file, after,
	    dr_text(&d->mem, p->text.p, p->text.n) }) < 0)
		d->mem.nomem = true;
	buf_start(&p->text, 0);
}

static const dr_raws *raws_of(const struct dr_plan *p, const struct dr_section *s)
{
	return &p->raws.p[dr_file_of(p->d, s->at.file)];
}

/* ---- global -------------------------------------------------------------------------------- */

static const struct dr_section *last_global(const struct doctor *d)
{
	for (size_t i = d->sections.n; i-- > 0;) {
		if (d->sections.p[i].kind == DR_GLOBAL)
			return &d->sections.p[i];
	}
	return NULL;
}

static void edit_global(struct dr_plan *p)
{
	const struct dr_section *s = last_global(p->d);
	const struct dr_line *at;
	bool small;

	p->bufsize = dr_bufsize(p->d, &at);
	small = p->bufsize < BUFSIZE_SMALL;
	if (small && at != NULL && dr_is(at->w[0], "tune.bufsize"))
		dr_note(p, at, "tune.bufsize %d is added, because kvroute routes by what HAProxy holds of a "
		    "body", BUFSIZE_WANTED);
	if (s == NULL)
		line(p, "global");
	if (small) {
		p->bufsize = BUFSIZE_WANTED;
		line(p, dr_printf(&p->d->mem, "    tune.bufsize %d", BUFSIZE_WANTED));
	}
	line(p, dr_printf(&p->d->mem, "    set-var proc.kvroute_vars str(%s)",
	    dr_vars_text(p->d, ADDED_READ | dr_vars_read(p->d, "kvroute"))));
	if (s == NULL)
		add_edit(p, 0, 0);
	else
		add_edit(p, dr_file_of(p->d, s->at.file),
		    dr_section_end(raws_of(p, s), dr_extent_of(raws_of(p, s), &s->at)));
}

/* Return how long HAProxy waits for a body of the side whose timeout is <t>: no shorter than that,
 * because the request fails at its end. A side that sends nothing is ended by its own timeout. */
static const char *body_time(const struct dr_line *t)
{
	if (t == NULL)
		return NO_TIMEOUT;
	return dr_time(t->w[2]) > BODY_WAIT_MS ? t->w[2] : "10m";
}

/* ---- frontends ----------------------------------------------------------------------------- */

static void write_front(struct dr_plan *p, const struct dr_section *f)
{
	const struct doctor *d = p->d;
	bool format = dr_find(d, f, "log-format", NULL) != NULL || dr_option(d, f, "httplog") ||
	    dr_option(d, f, "httpslog") || dr_option(d, f, "tcplog");

	line(p, d->o.agent.feed[0] != NULL ?
	    "    log ring@kvroute-feed len 4096 format rfc5424 local0 info info" :
	    dr_printf(&p->d->mem, "    log %s len 4096 format rfc5424 local0 info info",
		d->o.agent.udp[0]));
	if (!dr_option(d, f, "http-no-delay"))
		line(p, "    option http-no-delay");
	if (dr_find(d, f, "unique-id-format", NULL) == NULL)
		line(p, "    unique-id-format %[uuid()]");
	if (!format)
		line(p, "    option httplog");
	line(p, log_sd);
	line(p, api_paths);
	line(p, session);
	line(p, dr_printf(&p->d->mem, "    http-request wait-for-body time %s" ASKED UP,
	    body_time(dr_find(p->d, f, "timeout", "client"))));
}

/* ---- pools --------------------------------------------------------------------------------- */

/* Quote a path: HAProxy takes a "\" before these. */
static const char *quoted(struct dr_plan *p, const char *path)
{
	struct buf b = { 0 };
	const char *text;

	for (; *path != '\0'; path++) {
		if (strchr(" \\#\"'", *path) != NULL)
			buf_str(&b, "\\");
		buf_add(&b, path, 1);
	}
	p->d->mem.nomem = p->d->mem.nomem || b.failed;
	text = dr_text(&p->d->mem, b.p, b.n);
	buf_free(&b);
	return text;
}

static bool many_servers(struct dr_plan *p, const struct dr_section *s)
{
	dr_servers servers = { 0 };
	size_t n;

	dr_servers_of(p->d, s, &servers);
	n = servers.n;
	vec_free(&servers);
	return n > 64;
}

static void write_rules(struct dr_plan *p, const struct dr_section *s, bool has_front)
{
	const struct doctor *d = p->d;

	if (dr_find(d, s, "compression", NULL) != NULL && dr_find(d, s, "filter", "compression") == NULL)
		line(p, "    filter compression");
	line(p, dr_printf(&p->d->mem, "    filter spoe engine kvroute config %s",
	    quoted(p, p->o->spoe)));
	if (!has_front && !dr_option(d, s, "http-no-delay"))
		line(p, "    option http-no-delay");
	if (!many_servers(p, s))
		line(p, dr_printf(&p->d->mem, "    %s", dr_load_line(p->d, s, ASKED)));
	if (p->pools.n > 1)
		line(p, dr_printf(&p->d->mem, "    http-request set-var(txn.pool) str(%s)", s->name));
	line(p, "    http-request send-spoe-group kvroute route" ASKED UP);
}

static void write_uses(struct dr_plan *p)
{
	line(p, "    use-server %[var(txn.kvroute.server)] if { var(txn.kvroute.server) -m found }");
	line(p, "    use-server %[var(txn.kvroute.alt)] if { var(txn.kvroute.alt) -m found }");
}

static void write_answers(struct dr_plan *p, const struct dr_section *s)
{
	const char *time = body_time(dr_find(p->d, s, "timeout", "server"));

	line(p, ".if version_atleast(3.0)");
	line(p, dr_printf(&p->d->mem, "    http-response wait-for-body time %s at-least 1" ROUTED, time));
	line(p, "    http-response send-spoe-group kvroute first" ROUTED UP);
	line(p, ".endif");
	line(p, dr_printf(&p->d->mem, "    http-response wait-for-body time %s" SHORT_JSON, time));
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		line(p, counts[i]);
}

/* ---- places -------------------------------------------------------------------------------- */

static bool is_front(const struct dr_plan *p, unsigned section)
{
	for (size_t i = 0; i < p->fronts.n; i++) {
		if (p->fronts.p[i] == section)
			return true;
	}
	return false;
}

static void edit_front(struct dr_plan *p, const struct dr_section *f)
{
	struct dr_extent e = dr_extent_of(raws_of(p, f), &f->at);

	write_front(p, f);
	add_edit(p, dr_file_of(p->d, f->at.file), dr_rules_end(raws_of(p, f), e));
}

/* The pool's own rules use-server come first, because they were written for a reason. */
static void edit_pool(struct dr_plan *p, unsigned section)
{
	const struct dr_section *s = &p->d->sections.p[section];
	struct dr_extent e = dr_extent_of(raws_of(p, s), &s->at);
	unsigned rules = dr_rules_end(raws_of(p, s), e), file = dr_file_of(p->d, s->at.file);
	unsigned uses = dr_last_with(raws_of(p, s), e, "use-server");

	write_rules(p, s, is_front(p, section));
	add_edit(p, file, rules);
	if (uses > 0)
		dr_note(p, &s->at, "the rules use-server of %s come before those of kvroute", s->name);
	write_uses(p);
	add_edit(p, file, uses > rules ? uses : rules);
	write_answers(p, s);
	add_edit(p, file, rules);
}

/* ---- end of the last file ------------------------------------------------------------------ */

static const char *reachable(struct dr_plan *p, const char *address)
{
	if (dr_starts(address, "0.0.0.0:") || dr_starts(address, "*:"))
		return dr_printf(&p->d->mem, "127.0.0.1:%u", dr_port(address));
	if (dr_starts(address, "[::]:"))
		return dr_printf(&p->d->mem, "[::1]:%u", dr_port(address));
	return address;
}

static void edit_end(struct dr_plan *p)
{
	const struct doctor_agent *a = &p->d->o.agent;
	unsigned file = (unsigned)p->d->files.n - 1;

	if (a->feed[0] != NULL) {
		line(p, "ring kvroute-feed");
		line(p, "    format rfc5424");
		line(p, "    maxlen 4096");
		line(p, "    size 1048576");
		line(p, "    timeout connect 2s");
		line(p, "    timeout server 10s");
		line(p, dr_printf(&p->d->mem, "    server agent %s", reachable(p, a->feed[0])));
	}
	line(p, "defaults kvroute-agent");
	line(p, "    mode tcp");
	line(p, "    retries 1");
	line(p, "    timeout connect 200ms");
	line(p, "    timeout server 5m");
	line(p, "backend spoe_agent from kvroute-agent");
	line(p, "    option spop-check");
	line(p, dr_printf(&p->d->mem, "    server a1 %s check inter 500ms fall 1 rise 1 "
	    "on-marked-down shutdown-sessions", reachable(p, a->spop[0])));
	add_edit(p, file, (unsigned)p->raws.p[file].n);
}

void dr_plan_edit(struct dr_plan *p)
{
	edit_global(p);
	for (size_t i = 0; i < p->fronts.n; i++)
		edit_front(p, &p->d->sections.p[p->fronts.p[i]]);
	for (size_t i = 0; i < p->pools.n; i++)
		edit_pool(p, p->pools.p[i]);
	edit_end(p);
}

/* ---- the SPOE file ------------------------------------------------------------------------- */

void dr_plan_spoe(struct dr_plan *p, struct buf *to)
{
	int64_t bound = p->bufsize - HEADERS_ROOM - SLACK, most = 0, v;
	const char *pool = p->pools.n > 1 ? "var(txn.pool)" :
	    dr_printf(&p->d->mem, "str(%s)", p->d->sections.p[p->pools.p[0]].name);

	for (size_t i = 0; i < p->pools.n; i++) {
		v = dr_load_most(p->d, &p->d->sections.p[p->pools.p[i]]);
		most = v > most ? v : most;
	}
	bound = (bound - most) / ROUND * ROUND;
	bound = bound > BODY_LEAST ? bound : BODY_LEAST;
	buf_str(to, DR_SPOE_BEGIN "\n[kvroute]\n\n"
	    "spoe-agent kvroute-agent\n"
	    "    groups route first\n"
	    "    option var-prefix kvroute\n"
	    "    option set-on-error error\n"
	    "    option set-process-time ptime\n"
	    "    register-var-names server alt prefill why wait tokens hit_tokens hit pages prompt_pages "
	    "us cut more rank priority model\n"
	    "    timeout processing 50ms\n"
	    ".if !version_atleast(3.1)\n"
	    "    timeout hello 100ms\n"
	    "    timeout idle 1m\n"
	    ".endif\n"
	    "    option dontlog-normal\n"
	    "    use-backend spoe_agent\n\n"
	    "spoe-message route\n"
	    "    args uid=unique-id asked_ms=date(0,ms) vars=var(proc.kvroute_vars) pool=");
	buf_str(to, pool);
	buf_str(to, " load=var(txn.load) path=path tenant=var(txn.tenant) model=var(txn.model) "
	    "session=var(txn.session) user=req.hdr(x-user-id),bytes(0,128) "
	    "blen=req.body_len bsize=req.body_size body=req.body,bytes(0,");
	buf_str(to, dr_printf(&p->d->mem, "%lld", (long long)bound));
	buf_str(to, ")\n\n"
	    "spoe-group route\n"
	    "    messages route\n\n"
	    "spoe-message first\n"
	    "    args uid=unique-id srv=srv_name st=status ct=res.hdr(content-type) "
	    "head=var(txn.head)\n\n"
	    "spoe-group first\n"
	    "    messages first\n");
}
