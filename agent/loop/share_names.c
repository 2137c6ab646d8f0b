/* The servers of the store as addresses. Names are looked up here, at the start, because the
 * sandbox refuses it later. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <netdb.h>
#include <stdio.h>

static void log_unknown(struct share *sh, const char *text, const char *why)
{
	struct log_line ln;

	if (!log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_LIFE,
		"a server of the store is not used: its name was not found"))
		return;
	log_text(&ln, "server", text);
	log_text(&ln, "error", why);
	log_text(&ln, "effect", "the agent works without it until it is restarted");
	log_text(&ln, "remedy",
		"write a numeric address to share.servers, or restart once the name is known");
	log_end(&ln);
}

static void add_server(struct share *sh, const char *text, const char *host, const void *addr,
    socklen_t len)
{
	struct store_server *s = &sh->server[sh->n_servers];

	if (sh->n_servers == STORE_SERVERS_MAX || len > sizeof(s->addr.a))
		return;
	for (unsigned i = 0; i < sh->n_servers; i++)
		if (sh->server[i].addr.len == len && memcmp(&sh->server[i].addr.a, addr, len) == 0)
			return;
	snprintf(s->text, sizeof(s->text), "%s", text);
	snprintf(s->host, sizeof(s->host), "%s", host);
	memcpy(&s->addr.a, addr, len);
	s->addr.len = len;
	store_add_server(sh, s);
	sh->n_servers++;
}

static void look_up(struct share *sh, const char *text)
{
	const char *colon = strrchr(text, ':');
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found = NULL;
	char host[ADDR_MAX];
	int rc;

	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	if ((rc = getaddrinfo(host, colon + 1, &hints, &found)) != 0) {
		log_unknown(sh, text, gai_strerror(rc));
		return;
	}
	for (const struct addrinfo *i = found; i != NULL; i = i->ai_next)
		add_server(sh, text, host, i->ai_addr, i->ai_addrlen);
	freeaddrinfo(found);
}

/* "[::1]:6379" is for TLS the host "::1". */
static void add_numeric(struct share *sh, const char *text, const struct addr *a)
{
	const char *colon = strrchr(text, ':');
	size_t skip = text[0] == '[', n = colon != NULL ? (size_t)(colon - text) - 2 * skip : 0;
	char host[ADDR_MAX];

	snprintf(host, sizeof(host), "%.*s", (int)n, text + skip);
	add_server(sh, text, host, &a->a, a->len);
}

void store_find_servers(struct share *sh, const struct share_opts *o)
{
	struct addr a;
	struct err e;

	for (unsigned i = 0; i < STORE_SERVERS_MAX && o->servers[i][0] != '\0'; i++) {
		if (addr_parse(o->servers[i], &a, &e) == 0)
			add_numeric(sh, o->servers[i], &a);
		else
			look_up(sh, o->servers[i]);
	}
}

#endif
