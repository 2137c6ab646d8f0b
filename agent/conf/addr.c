/* addr.c - check addresses to listen on, and addresses of peers.
 *
 * Hosts must be numeric. A name would make the start depend on a resolver, and a listener at an
 * unintended address is worse than an error. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/un.h>

#include "agent/conf/value.h"
#include "agent/loop/engine_list.h"

static int bad_address(char *why, size_t cap, const char *text)
{
	snprintf(why, cap, "%s", text);
	return -1;
}

static bool starts_with(struct span s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && memcmp(s.p, with, n) == 0;
}

bool conf_addr_optional(struct span *text)
{
	static const char word[] = " optional";
	size_t n = sizeof(word) - 1;

	if (text->n <= n || memcmp(text->p + text->n - n, word, n) != 0)
		return false;
	text->n -= n;
	return true;
}

/* <relative>: what to say of a path without / at its start. */
static int check_unix(struct span path, const char *relative, char *why, size_t cap)
{
	if (path.n == 0 || path.p[0] != '/')
		return bad_address(why, cap, relative);
	if (path.n >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return bad_address(why, cap, "has a path longer than 107 bytes");
	for (size_t i = 0; i < path.n; i++)
		if (path.p[i] <= ' ' || path.p[i] > '~' || path.p[i] == '"' || path.p[i] == '\\')
			return bad_address(why, cap, "has a space, a quote, a backslash or a byte that is not ASCII");
	return 0;
}

static int check_port(struct span s, char *why, size_t cap)
{
	unsigned port = 0;

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9' || (i > 0 && s.p[0] == '0'))
			return bad_address(why, cap, "has a port that is not a number from 0 to 65535");
		if ((port = port * 10 + (unsigned)(s.p[i] - '0')) > 65535)
			return bad_address(why, cap, "has a port above 65535");
	}
	return s.n > 0 ? 0 : bad_address(why, cap, "has no port");
}

static int check_host(int family, struct span s, char *why, size_t cap)
{
	char host[INET6_ADDRSTRLEN];
	uint8_t raw[sizeof(struct in6_addr)];

	if (family == AF_INET && (s.n == 0 || span_eq(s, SPAN("*"))))
		return 0;
	if (s.n < sizeof(host) && memchr(s.p, '\0', s.n) == NULL) {
		memcpy(host, s.p, s.n);
		host[s.n] = '\0';
		if (inet_pton(family, host, raw) == 1)
			return 0;
	}
	return bad_address(why, cap, family == AF_INET6 ? "has no IPv6 address between [ and ]" :
		     memchr(s.p, ':', s.n) ? "has several colons; write [IPv6]:port" :
		     "has no IPv4 address before the colon; names are not looked up");
}

int conf_addr_check(struct span text, bool may, char *why, size_t cap)
{
	const char *end;
	struct span port;
	bool optional = conf_addr_optional(&text);

	if (optional && (!may || !starts_with(text, "unix@")))
		return bad_address(why, cap, "says optional, which only unix@ addresses of spop.listen may");
	if (starts_with(text, "unix@"))
		return check_unix(span_of(text.p + 5, text.n - 5),
		    "has no absolute path after unix@", why, cap);
	if (starts_with(text, "/"))
		return bad_address(why, cap, "is a path; write unix@ before it");
	if (text.n >= ADDR_MAX)
		return bad_address(why, cap, "is too long");
	end = memrchr(text.p ? text.p : "", starts_with(text, "[") ? ']' : ':', text.n);
	if (end == NULL)
		return bad_address(why, cap, "has no port");
	if (starts_with(text, "[")) {
		port = span_of(end + 1, (size_t)(text.p + text.n - end - 1));
		if (!starts_with(port, ":"))
			return bad_address(why, cap, "has no port");
		if (check_host(AF_INET6, span_of(text.p + 1, (size_t)(end - text.p - 1)),
			       why, cap) != 0)
			return -1;
	} else {
		port = span_of(end, (size_t)(text.p + text.n - end));
		if (check_host(AF_INET, span_of(text.p, (size_t)(end - text.p)), why, cap) != 0)
			return -1;
	}
	return check_port(span_of(port.p + 1, port.n - 1), why, cap);
}

static bool host_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
	       c == '_' || c == '.';
}

/* Returns true if <host> has a letter, which no IPv4 address has. */
static bool is_name(struct span host)
{
	bool letter = false;

	for (size_t i = 0; i < host.n; i++) {
		if (!host_char(host.p[i]))
			return false;
		letter |= host.p[i] != '.' && (host.p[i] < '0' || host.p[i] > '9');
	}
	return letter;
}

/* Names are looked up once, at the start. */
int conf_host_check(struct span text, char *why, size_t cap)
{
	const char *colon = memrchr(text.p ? text.p : "", ':', text.n);
	struct span host = span_of(text.p, colon != NULL ? (size_t)(colon - text.p) : text.n);

	if (memmem(text.p, text.n, "://", 3) != NULL)
		return bad_address(why, cap, "is a URL; write host:port, and the rest in keys of share");
	if (starts_with(text, "unix@") || starts_with(text, "/") || text.n >= ADDR_MAX || !is_name(host)) {
		if (conf_addr_check(text, false, why, cap) != 0) {
			if (strstr(why, "names") != NULL)
				bad_address(why, cap, "has neither an IPv4 address nor a name before the colon");
			return -1;
		}
	} else if (colon == NULL) {
		return bad_address(why, cap, "has no port; Valkey and Redis have 6379");
	} else if (check_port(span_of(colon + 1, (size_t)(text.p + text.n - colon - 1)), why, cap) != 0) {
		return -1;
	}
	if (starts_with(text, ":") || starts_with(text, "*"))
		return bad_address(why, cap, "has no host");
	if (!starts_with(text, "unix@") && text.n > 2 && memcmp(text.p + text.n - 2, ":0", 2) == 0)
		return bad_address(why, cap, "has port 0");
	return 0;
}

/* Write <text> with an address for "{address}" and a port for "{port}" to <full>. The room left is
 * enough for the longest address. */
static int fill(struct span *text, char full[ENGINE_URL_MAX + 1], char *why, size_t cap)
{
	static const char longest[] = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]";

	if (engine_url_fill(*text, longest, UINT16_MAX, full, ENGINE_URL_MAX + 1) != 0)
		return bad_address(why, cap, "is too long with an address in it");
	engine_url_fill(*text, "127.0.0.1", 1, full, ENGINE_URL_MAX + 1);
	*text = span_str(full);
	if (strchr(full, '{') != NULL)
		return bad_address(why, cap, "has a { that begins neither {address} nor {port}");
	return 0;
}

/* The path is written to a request line unchanged. */
int conf_url_check(struct span text, char *why, size_t cap)
{
	char full[ENGINE_URL_MAX + 1];
	struct span addr, path;

	if (starts_with(text, "https://"))
		return bad_address(why, cap, "is https, which is not supported");
	if (fill(&text, full, why, cap) != 0)
		return -1;
	engine_url_split(text, &addr, &path);
	for (size_t i = 0; i < path.n; i++)
		if (path.p[i] <= ' ' || path.p[i] > '~' || path.p[i] == '"' || path.p[i] == '\\')
			return bad_address(why, cap,
				"has a space, a quote, a backslash or a byte that is not ASCII in its path");
	if (conf_addr_check(addr, false, why, cap) != 0)
		return -1;
	if (starts_with(addr, ":") || starts_with(addr, "*"))
		return bad_address(why, cap, "has no host");
	if (!starts_with(addr, "unix@") && addr.n > 2 && memcmp(addr.p + addr.n - 2, ":0", 2) == 0)
		return bad_address(why, cap, "has port 0");
	return 0;
}

/* A name would have to be looked up, and ZeroMQ's other transports are of no use here. */
int conf_endpoint_check(struct span text, bool own, char *why, size_t cap)
{
	char full[ENGINE_URL_MAX + 1];

	if (own && span_eq(text, SPAN(ENGINE_EVENTS_AUTO)))
		return 0;
	if (memmem(text.p, text.n, "{address}", 9) != NULL && !starts_with(text, "tcp://"))
		return bad_address(why, cap, "has {address}, which only tcp:// may");
	if (fill(&text, full, why, cap) != 0)
		return -1;
	if (starts_with(text, "ipc://"))
		return check_unix(span_of(text.p + 6, text.n - 6),
		    "has no absolute path after ipc://", why, cap);
	if (!starts_with(text, "tcp://"))
		return bad_address(why, cap, "begins with neither tcp:// nor ipc://");
	text = span_of(text.p + 6, text.n - 6);
	if (starts_with(text, ":") || starts_with(text, "/") || (!own && starts_with(text, "*")))
		return bad_address(why, cap, "has no host");
	if (starts_with(text, "unix@"))
		return bad_address(why, cap, "is a path; write ipc:// before it");
	if (conf_addr_check(text, false, why, cap) != 0)
		return -1;
	if (text.n > 2 && memcmp(text.p + text.n - 2, ":0", 2) == 0)
		return bad_address(why, cap, "has port 0");
	return 0;
}
