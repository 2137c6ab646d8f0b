/* Endpoints of KV cache events as text. They keep ZeroMQ's form, which engines use too. */
#include <stdio.h>

#include "agent/loop/kvsub.h"

#define TCP	"tcp://"

static bool is_any(const union sockaddr_any *a)
{
	if (a->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
	return a->in.sin_addr.s_addr == htonl(INADDR_ANY);
}

static int check_port(const char *text, uint32_t ranks, uint16_t port, struct err *e)
{
	if (port == 0)
		return err_set(e, "\"%s\": the port must be from 1 to 65535", text);
	if (ranks > 1 && port + ranks - 1 > UINT16_MAX)
		return err_set(e, "\"%s\": the port of rank %u would be above 65535", text, ranks - 1);
	return 0;
}

int kvsub_endpoint_parse(
    const char *text, uint32_t ranks, struct kvsub_endpoint *out, struct err *e)
{
	static const char host[] = TCP KVSUB_ADDRESS ":";
	char addr[ADDR_MAX];
	struct err why;

	memset(out, 0, sizeof(*out));
	if (strncmp(text, TCP, strlen(TCP)) != 0)
		return err_set(e, "\"%s\" must begin with \"" TCP "\"", text);
	out->any_host = strncmp(text, host, strlen(host)) == 0;
	if (strlen(text) >= sizeof(addr))
		return err_set(e, "\"%s\" is too long", text);
	snprintf(addr, sizeof(addr), "%s%s", out->any_host ? "127.0.0.1:" : "",
	    text + (out->any_host ? strlen(host) : strlen(TCP)));
	if (strncmp(addr, "unix@", 5) == 0 || addr[0] == ':' || addr_parse(addr, &out->to, &why) != 0)
		return err_set(e,
			"\"%s\" is not an address: write \"" TCP "\", a numeric host (\"10.0.0.7\", "
			"\"[fd00::7]\", \"*\" to bind, or \"" KVSUB_ADDRESS "\"), a colon and a port", text);
	out->port = ntohs(out->to.a.sa.sa_family == AF_INET6 ? out->to.a.in6.sin6_port :
			  out->to.a.in.sin_port);
	out->bind = !out->any_host && is_any(&out->to.a);
	return check_port(text, ranks, out->port, e);
}
