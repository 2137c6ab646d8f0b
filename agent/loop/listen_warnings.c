/* The warnings of "kvroute -t" and of a start about addresses that are open to other machines. */
#include <stdio.h>

#include "agent/loop/listen_warnings.h"
#include "agent/os/addr.h"

static const char spop_means[] =
	"SPOP has no password: any client that connects can read and shape decisions and report false "
	"facts";
static const char feed_means[] =
	"any client that connects can forge how requests ended: set log_feed.token_file";
static const char metrics_means[] =
	"any client that connects can read the metrics and the names of pools and servers, and with "
	"metrics.decisions all also the last decisions";

static void warn_of_list(const char *key, const char (*text)[ADDR_MAX], const char *means,
		    void (*fn)(void *arg, const char *sentence), void *arg)
{
	char sentence[LISTEN_WARNING_MAX];

	for (unsigned i = 0; i < LISTEN_MAX && text[i][0] != '\0'; i++) {
		if (addr_is_loopback(text[i]))
			continue;
		snprintf(sentence, sizeof(sentence), "%s has %s, which is not loopback; %s", key, text[i],
			 means);
		fn(arg, sentence);
	}
}

static bool has_unix(const char (*text)[ADDR_MAX])
{
	for (unsigned i = 0; i < LISTEN_MAX && text[i][0] != '\0'; i++)
		if (strncmp(text[i], "unix@", 5) == 0)
			return true;
	return false;
}

static void warn_of_runtime(
    const struct loop_opts *o, void (*fn)(void *arg, const char *sentence), void *arg)
{
	char sentence[LISTEN_WARNING_MAX];

	if (o->runtime_path[0] == '\0')
		return;
	if (o->runtime_mode & 0002) {
		snprintf(sentence, sizeof(sentence),
			"runtime.mode %04o lets every user of this machine command the agent",
			(unsigned)o->runtime_mode);
		fn(arg, sentence);
	}
	if (o->runtime_group[0] != '\0' && (o->runtime_mode & 0020) == 0) {
		snprintf(sentence, sizeof(sentence),
			"runtime.group %s may not write to the socket, because runtime.mode is %04o; write 0660",
			o->runtime_group, (unsigned)o->runtime_mode);
		fn(arg, sentence);
	}
}

void listen_warnings(
    const struct loop_opts *o, void (*fn)(void *arg, const char *sentence), void *arg)
{
	char sentence[LISTEN_WARNING_MAX];

	warn_of_list("spop.listen", o->spop, spop_means, fn, arg);
	if (o->feed_token_file[0] == '\0') {
		warn_of_list("log_feed.tcp", o->log_tcp, feed_means, fn, arg);
		warn_of_list("log_feed.udp", o->log_udp, feed_means, fn, arg);
	}
	warn_of_runtime(o, fn, arg);
	warn_of_list("metrics.listen", o->metrics, metrics_means, fn, arg);
	if ((o->socket_mode & 0002) && (has_unix(o->spop) || has_unix(o->log_tcp) ||
					has_unix(o->log_udp) || has_unix(o->metrics))) {
		snprintf(sentence, sizeof(sentence),
			"spop.socket_mode %04o lets every user of this machine write to the unix "
			"sockets", (unsigned)o->socket_mode);
		fn(arg, sentence);
	}
}
