/* Splits the address of an engine's metrics, without a resolver and without copies. */
#include <stdio.h>

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
