/* values.c - times, sizes, addresses and servers, as HAProxy reads them. */
#include <ctype.h>
#include <stdlib.h>

#include "agent/doctor/doctor_in.h"

#define TEMPLATE_MOST	4096
#define SERVERS_READ	1024u	/* of a backend; the agent keeps no more */
#define BUFSIZE		16384	/* of HAProxy without tune.bufsize */
#define LARGE_SINCE	DOCTOR_VERSION(3, 4, 0)

/* Parse digits at <*s>. Returns -1 if there are none or too many. */
static int64_t digits(const char **s)
{
	int64_t v = 0;

	if (!isdigit((unsigned char)**s))
		return -1;
	for (; isdigit((unsigned char)**s); (*s)++) {
		if (v > INT64_MAX / 1000)
			return -1;
		v = v * 10 + (**s - '0');
	}
	return v < INT64_MAX / 86400000 ? v : -1;
}

int64_t dr_time(const char *s)
{
	static const struct {
		const char *unit;
		int64_t ms;
	} units[] = { { "", 1 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 },
		{ "d", 86400000 } };
	int64_t v = digits(&s);

	for (size_t i = 0; v >= 0 && i < sizeof(units) / sizeof(units[0]); i++) {
		if (dr_is(s, units[i].unit))
			return v * units[i].ms;
	}
	return v >= 0 && dr_is(s, "us") ? v / 1000 : -1;
}

int64_t dr_size(const char *s)
{
	static const char units[] = "kmg";
	int64_t v = digits(&s);
	const char *u;

	if (v < 0 || *s == '\0')
		return v;
	u = strchr(units, tolower((unsigned char)*s));
	return u == NULL || s[1] != '\0' || v > INT64_MAX >> 31 ? -1 : v << 10 * (u - units + 1);
}

/* 2.6 and 3.0 ignore a unit, so that "256k" makes buffers of 256 bytes; 3.2 takes it. */
static int64_t bufsize_of(const struct doctor *d, const char *s)
{
	return d->o.version < DOCTOR_VERSION(3, 2, 0) ? digits(&s) : dr_size(s);
}

/* Return the last value of <keyword> in "global", or <size>, which is HAProxy's own. */
static int64_t global_size(
    const struct doctor *d, const char *keyword, int64_t size, const struct dr_line **at)
{
	int64_t v;

	*at = NULL;
	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		if (s->kind != DR_GLOBAL)
			continue;
		if (*at == NULL)
			*at = &s->at;
		for (size_t k = 0; k < s->lines.n; k++) {
			if (dr_is(s->lines.p[k].w[0], keyword) &&
			    (v = bufsize_of(d, s->lines.p[k].w[1])) > 0) {
				*at = &s->lines.p[k];
				size = v;
			}
		}
	}
	return size;
}

int64_t dr_bufsize(const struct doctor *d, const struct dr_line **at)
{
	return global_size(d, "tune.bufsize", BUFSIZE, at);
}

int64_t dr_bufsize_large(const struct doctor *d)
{
	const struct dr_line *at;

	return d->o.version < LARGE_SINCE ? 0 : global_size(d, "tune.bufsize.large", 0, &at);
}

const char *dr_chroot(const struct doctor *d)
{
	const char *folder = NULL;

	for (size_t i = 0; i < d->sections.n; i++) {
		const struct dr_section *s = &d->sections.p[i];

		for (size_t j = 0; j < s->lines.n && s->kind == DR_GLOBAL; j++) {
			if (dr_is(s->lines.p[j].w[0], "chroot") && s->lines.p[j].n > 1)
				folder = s->lines.p[j].w[1];
		}
	}
	return folder == NULL || dr_is(folder, "/") ? NULL : folder;
}

/* ---- addresses ----------------------------------------------------------------------------- */

unsigned dr_port(const char *address)
{
	const char *colon = strrchr(address, ':');
	unsigned long port;
	char *end;

	if (colon == NULL || !isdigit((unsigned char)colon[1]))
		return 0;
	port = strtoul(colon + 1, &end, 10);
	return (*end == '\0' || *end == ' ') && port < 65536 ? (unsigned)port : 0;
}

const char *dr_unix_path(const char *a)
{
	return dr_starts(a, "unix@") ? a + 5 : *a == '/' ? a : NULL;
}

static bool is_loopback(const char *a)
{
	return dr_starts(a, "127.") || dr_starts(a, "localhost:") || dr_starts(a, "[::1]") ||
	    dr_starts(a, "::1:");
}

/* Without names, another host that is not loopback may be the agent's, so its port decides. */
bool dr_same_address(const char *haproxys, const char *agents)
{
	const char *a, *b = dr_unix_path(agents);
	size_t n;

	if (dr_starts(haproxys, "ipv4@") || dr_starts(haproxys, "ipv6@"))
		haproxys += 5;
	else if (dr_starts(haproxys, "udp@") || dr_starts(haproxys, "tcp@"))
		haproxys += 4;
	a = dr_unix_path(haproxys);
	if (a != NULL || b != NULL) {
		n = b != NULL ? strcspn(b, " ") : 0;
		return a != NULL && b != NULL && strlen(a) == n && strncmp(a, b, n) == 0;
	}
	return dr_port(haproxys) != 0 && dr_port(haproxys) == dr_port(agents) &&
	    (is_loopback(haproxys) || !is_loopback(agents) || !dr_starts(haproxys, "0.0.0.0"));
}

/* ---- servers ------------------------------------------------------------------------------- */

/* Return 1 after "word", 0 after "no-word", -1 without either; the last one counts. */
static int keyword(const struct dr_line *l, unsigned from, const char *word)
{
	int on = -1;

	for (unsigned i = from; i < l->n; i++) {
		if (dr_is(l->w[i], word))
			on = 1;
		else if (dr_starts(l->w[i], "no-") && dr_is(l->w[i] + 3, word))
			on = 0;
	}
	return on;
}

static unsigned first_keyword(const struct dr_line *l)
{
	return dr_is(l->w[0], "server-template") ? 4 : dr_is(l->w[0], "server") ? 3 : 1;
}

bool dr_server_has(const struct doctor *d, const struct dr_section *s, const struct dr_line *server,
		   const char *word)
{
	int on = keyword(server, first_keyword(server), word), by_default = -1, v;
	dr_lines defaults = { 0 };

	if (on >= 0)
		return on > 0;
	dr_collect(d, s, "default-server", &defaults);
	for (size_t i = 0; i < defaults.n; i++) {
		if ((v = keyword(&defaults.p[i], 1, word)) >= 0)
			by_default = v;
	}
	vec_free(&defaults);
	return by_default > 0;
}

static void add_template(struct doctor *d, const struct dr_line *l, char backup, dr_servers *to)
{
	const char *dash = strchr(l->w[2], '-');
	long first = dash != NULL ? strtol(l->w[2], NULL, 10) : 1;
	long last = strtol(dash != NULL ? dash + 1 : l->w[2], NULL, 10);

	if (first < 0 || last < 0 || first > INT32_MAX || last > INT32_MAX ||
	    last - first >= TEMPLATE_MOST) {
		dr_say(d, DR_UNREADABLE, l, l->w[2], "write the number of servers, or FIRST-LAST");
		return;
	}
	for (long i = first; i <= last && to->n < SERVERS_READ; i++) {
		struct dr_server s = {
			dr_printf(&d->mem, "%s%ld", l->w[1], i), l->n > 3 ? l->w[3] : "", l, backup,
		};

		if (vec_push(to, s) < 0)
			d->mem.nomem = true;
	}
}

void dr_servers_of(struct doctor *d, const struct dr_section *s, dr_servers *to)
{
	char mark = dr_find(d, s, "option", "allbackups") != NULL ? 'B' : 'b', backup;

	for (size_t i = 0; i < s->lines.n; i++) {
		const struct dr_line *l = &s->lines.p[i];

		if (l->n < 3 || to->n >= SERVERS_READ ||
		    (!dr_is(l->w[0], "server") && !dr_is(l->w[0], "server-template")))
			continue;
		backup = dr_server_has(d, s, l, "backup") ? mark : '\0';
		if (dr_is(l->w[0], "server-template"))
			add_template(d, l, backup, to);
		else if (vec_push(to, (struct dr_server){ l->w[1], l->w[2], l, backup }) < 0)
			d->mem.nomem = true;
	}
}

/* ---- the load line ------------------------------------------------------------------------- */

#define LOAD_HEAD	73	/* a host name of 64 bytes, a process id, and their separators */
#define LOAD_ENTRY	22

int64_t dr_load_most(struct doctor *d, const struct dr_section *s)
{
	dr_servers servers = { 0 };
	int64_t most = LOAD_HEAD;

	dr_servers_of(d, s, &servers);
	for (size_t i = 0; i < servers.n; i++)
		most += (int64_t)strlen(servers.p[i].name) + (servers.p[i].backup != '\0') + LOAD_ENTRY;
	vec_free(&servers);
	return most;
}

const char *dr_load_line(struct doctor *d, const struct dr_section *s, const char *condition)
{
	dr_servers servers = { 0 };
	struct buf b = { 0 };
	const char *text, *n;

	dr_servers_of(d, s, &servers);
	buf_str(&b, "http-request set-var-fmt(txn.load) \"%[hostname]/%pid");
	for (size_t i = 0; i < servers.n; i++) {
		n = servers.p[i].name;
		text = dr_printf(&d->mem, ";%s=%.1s%%[srv_is_up(%s)],%%[srv_conn(%s)],%%[srv_queue(%s)],"
		    "%%[srv_weight(%s)]", n, (char[]){ servers.p[i].backup, '\0' }, n, n, n, n);
		buf_str(&b, text);
	}
	buf_str(&b, "\"");
	buf_str(&b, condition);
	vec_free(&servers);
	text = b.failed ? "" : dr_text(&d->mem, b.p, b.n);
	d->mem.nomem = d->mem.nomem || b.failed;
	buf_free(&b);
	return text;
}
