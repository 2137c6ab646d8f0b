/* host_port.c - inet_pton() knows addresses best. */
#include <arpa/inet.h>

#include "agent/base/num.h"
#include "agent/feed/host_port.h"

static bool is_port(struct span s)
{
	int64_t v;

	return num_parse(s, &v) && s.p[0] >= '1' && s.p[0] <= '9' && v <= 65535;
}

static bool is_host(const char *text, bool six)
{
	static const uint8_t none[16];
	uint8_t to[16];

	return inet_pton(six ? AF_INET6 : AF_INET, text, to) == 1 && memcmp(to, none, six ? 16 : 4) != 0;
}

bool host_port_is(struct span s)
{
	const char *colon = s.n > 0 && s.n <= HOST_PORT_MAX ? memrchr(s.p, ':', s.n) : NULL;
	size_t n = colon != NULL ? (size_t)(colon - s.p) : 0;
	bool six = n > 2 && s.p[0] == '[' && s.p[n - 1] == ']';
	char host[HOST_PORT_MAX + 1];

	if (n == 0 || memchr(s.p, '\0', n) != NULL)
		return false;
	memcpy(host, s.p + six, n - 2 * (size_t)six);
	host[n - 2 * (size_t)six] = '\0';
	return is_host(host, six) && is_port(span_of(colon + 1, s.n - n - 1));
}
