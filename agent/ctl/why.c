/* why.c - kvroutectl why: asks the metrics address of an agent for its last decisions and says each in words. */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/why.h"
#include "agent/feed/http_answer.h"

#define ADDRESS		"127.0.0.1:9402"
#define TIMEOUT_S	10
#define UID_MAX		255
#define ADDRESS_MAX	255

struct ask {
	const char *address;
	unsigned long n;
	char uid[3 * UID_MAX + 1];	/* %XX each; "": none */
	bool json;
	struct http_answer answer;
	struct why_reader reader;
	enum json_state state;
	size_t said;
};

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: kvroutectl why [options] [ADDRESS]\n"
		"\n"
		"Why the last requests went where they went. ADDRESS is metrics.listen of the agent,\n"
		"host:port or unix@path; default " ADDRESS ".\n"
		"\n"
		"  -n N         the last N; default 10\n"
		"  --uid UID    the one that HAProxy's log names so\n"
		"  --json       as the agent says it\n");
	return status;
}

static int fail(const struct ask *a, const char *why)
{
	fprintf(stderr, "kvroutectl: %s: %s\n", a->address, why);
	return CTL_FAILED;
}

/* ---- the connection ------------------------------------------------------------------------------ */

static int try_one(int family, const struct sockaddr *sa, socklen_t len)
{
	struct timeval limit = { .tv_sec = TIMEOUT_S };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, sa, len) == 0)
		return fd;
	close(fd);
	return -1;
}

static int connect_unix(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(un.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(un.sun_path, path);
	return try_one(AF_UNIX, (struct sockaddr *)&un, sizeof(un));
}

/* "host:port", "[::1]:port". -1: <why>. */
static int connect_inet(const char *address, const char **why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	char host[ADDRESS_MAX + 1], *port, *name = host;
	int rc, fd = -1;

	snprintf(host, sizeof(host), "%s", address);
	if ((port = strrchr(host, ':')) == NULL) {
		*why = "it is no host:port";
		return -1;
	}
	*port++ = '\0';
	if (name[0] == '[' && name[strlen(name) - 1] == ']') {
		name[strlen(name) - 1] = '\0';
		name++;
	}
	if ((rc = getaddrinfo(name[0] != '\0' ? name : "127.0.0.1", port, &hints, &list)) != 0) {
		*why = gai_strerror(rc);
		return -1;
	}
	for (struct addrinfo *ai = list; ai != NULL && fd < 0; ai = ai->ai_next)
		fd = try_one(ai->ai_family, ai->ai_addr, ai->ai_addrlen);
	*why = strerror(errno);
	freeaddrinfo(list);
	return fd;
}

static int connect_to(const char *address, const char **why)
{
	int fd;

	if (strncmp(address, "unix@", 5) != 0)
		return connect_inet(address, why);
	fd = connect_unix(address + 5);
	*why = strerror(errno);
	return fd;
}

/* ---- question and answer --------------------------------------------------------------------------- */

static void say(void *arg, const struct why_decision *d)
{
	struct ask *a = arg;

	a->said++;
	why_say(stdout, d);
}

/* Of any other status it is a sentence. */
static void take_body(void *arg, const char *p, size_t n)
{
	struct ask *a = arg;

	if (a->answer.status != 200)
		fwrite(p, 1, n, stderr);
	else if (a->json)
		fwrite(p, 1, n, stdout);
	else
		a->state = why_feed(&a->reader, p, n);
}

static int send_question(int fd, const struct ask *a)
{
	char text[3 * UID_MAX + 80];
	int n = a->uid[0] != '\0' ?
		snprintf(text, sizeof(text), "GET /decisions?uid=%s HTTP/1.0\r\n\r\n", a->uid) :
		snprintf(text, sizeof(text), "GET /decisions?n=%lu HTTP/1.0\r\n\r\n", a->n);

	return send(fd, text, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -1;
}

static int read_answer(int fd, struct ask *a)
{
	char buf[16384];
	ssize_t n, used = 0;

	while (used == 0 && (n = recv(fd, buf, sizeof(buf), 0)) > 0)
		used = http_answer_feed(&a->answer, buf, (size_t)n);
	if (used == 0 && n < 0)
		return fail(a, strerror(errno));
	if (used == 0)
		used = http_answer_eof(&a->answer);
	if (used < 0)
		return fail(a, http_answer_strerror((int)-used));
	if (a->answer.status != 200)
		return CTL_FAILED;
	if (!a->json && a->state != JSON_DONE)
		return fail(a, "what it says is no list of decisions");
	if (!a->json && a->said == 0)
		return fail(a, a->uid[0] != '\0' ? "no decision of that uid is kept" : "there was no decision yet");
	return 0;
}

static int ask(struct ask *a)
{
	const char *why = "";
	int fd = connect_to(a->address, &why), status;

	if (fd < 0)
		return fail(a, why);
	http_answer_init(&a->answer, take_body, a);
	why_start(&a->reader, say, a);
	status = send_question(fd, a) < 0 ? fail(a, strerror(errno)) : read_answer(fd, a);
	close(fd);
	return status;
}

/* ---- the command line -------------------------------------------------------------------------------- */

/* The agent takes no longer one. */
static void take_uid(struct ask *a, const char *uid)
{
	char *to = a->uid;

	for (size_t i = 0; uid[i] != '\0' && i < UID_MAX; i++)
		to += sprintf(to, "%%%02x", (unsigned char)uid[i]);
}

static bool take_n(struct ask *a, const char *s)
{
	char *end;

	a->n = strtoul(s, &end, 10);
	return *s >= '1' && *s <= '9' && *end == '\0' && a->n <= 1000000;
}

int ctl_why(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "uid", required_argument, NULL, 'u' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	struct ask a = { .address = ADDRESS, .n = 10, .state = JSON_MORE };
	int c;

	while ((c = getopt_long(argc, argv, "n:h", longs, NULL)) != -1) {
		switch (c) {
		case 'n':
			if (!take_n(&a, optarg))
				return usage(stderr, CTL_USAGE);
			break;
		case 'u': take_uid(&a, optarg); break;
		case 'j': a.json = true; break;
		case 'h': return usage(stdout, 0);
		default: return usage(stderr, CTL_USAGE);
		}
	}
	if (argc - optind > 1)
		return usage(stderr, CTL_USAGE);
	if (optind < argc)
		a.address = argv[optind];
	return ask(&a);
}
