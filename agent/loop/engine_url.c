/* Splits and fills the addresses of an engine, without a resolver. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/loop/engine_url.h"

static const char scheme[] = "http://", unix_prefix[] = "unix@";

static bool starts_with(struct span s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && memcmp(s.p, with, n) == 0;
}

void engine_url_split(struct span text, struct span *addr, struct span *path)
{
	const char *slash;

	if (starts_with(text, scheme))
		text = span_of(text.p + strlen(scheme), text.n - strlen(scheme));
	slash = text.n > 0 && !starts_with(text, unix_prefix) ? memchr(text.p, '/', text.n) : NULL;
	*addr = span_of(text.p, slash ? (size_t)(slash - text.p) : text.n);
	*path = slash ? span_of(slash, text.n - addr->n) : SPAN(ENGINE_URL_PATH);
}

int engine_url_parse(const char *text, struct engine_url *t, struct err *e)
{
	struct span addr, path;

	memset(t, 0, sizeof(*t));
	engine_url_split(span_str(text), &addr, &path);
	if (addr.n >= sizeof(t->host) || path.n >= sizeof(t->path))
		return err_set(e, "\"%s\" is too long", text);
	memcpy(t->host, addr.p, addr.n);
	memcpy(t->path, path.p, path.n);
	if (addr_parse(t->host, &t->to, e) != 0)
		return -1;
	if (t->to.a.sa.sa_family == AF_UNIX)
		snprintf(t->host, sizeof(t->host), "localhost");
	return 0;
}

uint16_t engine_endpoint_port(const char *text)
{
	const char *colon = strncmp(text, "tcp://", 6) == 0 ? strrchr(text, ':') : NULL;
	unsigned long port = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;

	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

bool engine_endpoint_is_bound(const char *text)
{
	static const char *const any[] = { "tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:" };

	for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++)
		if (strncmp(text, any[i], strlen(any[i])) == 0)
			return true;
	return false;
}

#define ADDRESS	"{address}"
#define PORT	"{port}"

bool engine_url_has_address(const char *text)
{
	return strstr(text, ADDRESS) != NULL;
}

bool engine_url_has_port(const char *text)
{
	return strstr(text, PORT) != NULL;
}

int engine_url_fill(struct span text, const char *host, uint16_t port, char *out, size_t cap)
{
	char number[8];
	struct span put;
	size_t n = 0, used;

	snprintf(number, sizeof(number), "%u", (unsigned)port);
	for (; text.n > 0; text = span_of(text.p + used, text.n - used)) {
		put = span_of(text.p, used = 1);
		if (starts_with(text, ADDRESS)) {
			put = span_str(host);
			used = strlen(ADDRESS);
		} else if (starts_with(text, PORT)) {
			put = span_str(number);
			used = strlen(PORT);
		}
		if (put.n >= cap - n)
			return -1;
		memcpy(out + n, put.p, put.n);
		n += put.n;
	}
	if (cap > 0)
		out[n] = '\0';
	return cap > 0 ? 0 : -1;
}
