/* Each protocol has a test for the start of its first message. */
#include "agent/feed/spoken.h"

static bool begins(struct span s, struct span with)
{
	return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

/* Test for a frame below 16 MiB of type HAPROXY-HELLO whose only flag is FIN (SPOE.txt 3.2). */
static bool is_spop(struct span s)
{
	return s.n >= 9 && s.p[0] == 0 && memcmp(s.p + 4, "\1\0\0\0\1", 5) == 0;
}

/* Test for a handshake record with a ClientHello of any version (RFC 8446, 5.1). */
static bool is_tls(struct span s)
{
	return s.n >= 6 && s.p[0] == 0x16 && s.p[1] == 3 && s.p[5] == 1;
}

static bool is_http(struct span s)
{
	static const char *const methods[] = { "GET ", "POST ", "PUT ", "HEAD ", "OPTIONS ",
					       "DELETE ", "CONNECT ", "PRI * HTTP/2" };

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (begins(s, span_str(methods[i])))
			return true;
	}
	return false;
}

static size_t digits(struct span s, size_t from)
{
	size_t n = 0;

	while (from + n < s.n && s.p[from + n] >= '0' && s.p[from + n] <= '9')
		n++;
	return n;
}

/* Test for "<134>", also after a length (RFC 6587, 3.4.1), or JSON, which HAProxy sends with
 * "format raw". */
static bool is_log(struct span s)
{
	size_t n = digits(s, 0), priority;
	size_t at = n > 0 && n < 8 && n < s.n && s.p[n] == ' ' ? n + 1 : 0;

	if (begins(s, SPAN("{\"")))
		return true;
	if (at >= s.n || s.p[at] != '<')
		return false;
	priority = digits(s, at + 1);
	return priority >= 1 && priority <= 3 && at + 1 + priority < s.n && s.p[at + 1 + priority] == '>';
}

enum spoken spoken_of(const void *bytes, size_t n)
{
	struct span s = span_of(bytes, n < 17 ? n : 17);

	if (begins(s, SPAN("PROXY ")) || begins(s, SPAN("\r\n\r\n\0\r\nQUIT\n")))
		return SPOKEN_PROXY;
	if (is_spop(s))
		return SPOKEN_SPOP;
	if (is_tls(s))
		return SPOKEN_TLS;
	if (is_http(s))
		return SPOKEN_HTTP;
	return is_log(s) ? SPOKEN_LOG : SPOKEN_UNKNOWN;
}
