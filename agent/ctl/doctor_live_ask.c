/* doctor_live_ask.c - questions to HAProxy's stats socket and to the agent, and the request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/ctl/doctor_live.h"
#include "agent/ctl/get.h"

#define ANSWER_MAX	((size_t)32 << 20)
#define ASK_MS		10000
#define BODY_LEAST	3000u
#define BODY_RANGE	5000u

/* ---- questions ----------------------------------------------------------------------------- */

/* Append what the peer sends until it closes, and a NUL. */
int live_read(int fd, struct buf *to)
{
	char block[16384];
	ssize_t n;

	while ((n = recv(fd, block, sizeof(block), 0)) > 0 && to->n < ANSWER_MAX)
		buf_add(to, block, (size_t)n);
	buf_add(to, "", 1);
	return n < 0 || to->failed ? -1 : 0;
}

/* Send a command to HAProxy's stats socket. Returns 0, or -1 with errno's text in <why>. */
int live_ask_haproxy(const struct live *l, const char *command, struct buf *to, const char **why)
{
	char address[512];
	int fd, status = -1;

	snprintf(address, sizeof(address), "%s%s", strchr(l->a->live, ':') != NULL ||
	    strncmp(l->a->live, "unix@", 5) == 0 ? "" : "unix@", l->a->live);
	if ((fd = ctl_connect(address, why)) < 0)
		return -1;
	if (send(fd, command, strlen(command), MSG_NOSIGNAL) == (ssize_t)strlen(command))
		status = live_read(fd, to);
	*why = strerror(errno);
	close(fd);
	return status;
}

int live_ask_ring(const struct live *l, struct buf *events)
{
	char command[256];
	const char *why = "";

	snprintf(command, sizeof(command), "show events %s\n", l->way.ring);
	return live_ask_haproxy(l, command, events, &why);
}

void live_mark_ring(struct live *l)
{
	struct buf events = { 0 };
	size_t from, to;

	buf_free(&l->last);
	if (l->way.ring[0] != '\0' && live_ask_ring(l, &events) == 0) {
		for (to = events.n - 1; to > 0 && events.p[to - 1] == '\n';)
			to--;
		for (from = to; from > 0 && events.p[from - 1] != '\n';)
			from--;
		buf_add(&l->last, events.p + from, to - from);
		buf_add(&l->last, "", 1);
		if (to == from || l->last.failed)
			buf_free(&l->last);
	}
	buf_free(&events);
}

static void take_page(void *arg, const char *p, size_t n)
{
	struct buf *to = arg;

	if (to->n < ANSWER_MAX)
		buf_add(to, p, n);
}

int live_ask_agent(struct live_agent *x, const char *path, struct buf *to, const char **why)
{
	struct http_answer answer;

	http_answer_init(&answer, take_page, to);
	*why = "the answer is an error";
	x->status = 0;
	if (ctl_get_within(x->metrics, path, ASK_MS, &answer, why) < 0)
		return -1;
	x->status = answer.status;
	if (x->status != 200)
		return -1;
	buf_add(to, "", 1);
	return to->failed ? -1 : 0;
}

/* Sum the rows of /metrics that begin with <name> and have <part>. */
static double metric(const char *page, const char *name, const char *part)
{
	double sum = 0;

	for (const char *p = page; (p = strstr(p, name)) != NULL; p++) {
		size_t n = strcspn(p, "\n");
		const char *blank = memrchr(p, ' ', n), *has = strstr(p, part);

		if ((p == page || p[-1] == '\n') && blank != NULL && has != NULL && has < p + n)
			sum += strtod(blank, NULL);
	}
	return sum;
}

bool live_counters(struct live_agent *x, double *decisions, double *done, double *lines,
		   const char **why)
{
	struct buf page = { 0 };
	bool good = live_ask_agent(x, "/metrics", &page, why) == 0;

	*decisions = good ? metric(page.p, "kvroute_decisions_total", "") : 0;
	*done = good ? metric(page.p, "kvroute_facts_total", "kind=\"done\"") : 0;
	*lines = good ? metric(page.p, "kvroute_feed_lines_total", "") : 0;
	buf_free(&page);
	return good;
}

/* ---- the request --------------------------------------------------------------------------- */

/* Begin the body for the API of <path>; returns what ends it. */
static const char *begin_body(const char *path, struct buf *to)
{
	static const struct {
		const char *end, *begin, *close;
	} apis[] = {
		{ "/chat/completions", "\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}" },
		{ "/completions", "\"prompt\":\"", "\"}" },
		{ "/responses", "\"input\":\"", "\"}" },
		{ "/embeddings", "\"input\":\"", "\"}" },
		{ "/generate", "\"text\":\"", "\"}" },
		{ "GenerateContent", "\"contents\":[{\"parts\":[{\"text\":\"", "\"}]}]}" },
		{ "generateContent", "\"contents\":[{\"parts\":[{\"text\":\"", "\"}]}]}" },
	};
	size_t i = 0, n = sizeof(apis) / sizeof(apis[0]);

	while (i < n && strstr(path, apis[i].end) == NULL)
		i++;
	i = i < n ? i : 0;
	buf_str(to, apis[i].begin);
	return apis[i].close;
}

const char *live_url(const struct live *l)
{
	return l->a->url != NULL ? l->a->url : l->way.client;
}

const char *live_host(const char *url)
{
	if (strncmp(url, LIVE_TLS, sizeof(LIVE_TLS) - 1) == 0)
		return url + sizeof(LIVE_TLS) - 1;
	return strncmp(url, "http://", 7) == 0 ? url + 7 : url;
}

static const char *path_of(const struct live *l)
{
	return l->a->path != NULL ? l->a->path : "/v1/chat/completions";
}

void live_head(const struct live *l, const char *url, struct buf *to)
{
	buf_str(to, "POST ");
	buf_str(to, path_of(l));
	buf_str(to, " HTTP/1.1\r\nhost: ");
	buf_str(to, strncmp(url, "unix@", 5) == 0 ? "localhost" : url);
	buf_str(to, "\r\nconnection: close\r\ncontent-type: application/json\r\n");
	for (unsigned i = 0; i < l->a->n_headers; i++) {
		buf_str(to, l->a->headers[i]);
		buf_str(to, "\r\n");
	}
}

/* Write the request; its body has random size and text. */
void live_request(struct live *l, const char *url, struct buf *to)
{
	const char *end;
	unsigned short random[16] = { 0 };
	struct buf body = { 0 };
	char text[64];

	if (getrandom(random, sizeof(random), 0) < 0)
		random[0] = (unsigned short)getpid();
	buf_str(&body, "{\"model\":\"");
	buf_str(&body, l->a->model != NULL ? l->a->model : "kvroute-doctor");
	buf_str(&body, "\",\"max_tokens\":1,");
	end = begin_body(path_of(l), &body);
	buf_str(&body, "kvroute doctor");
	while (body.n < BODY_LEAST + random[0] % BODY_RANGE && !body.failed) {
		snprintf(text, sizeof(text), " %04x", random[body.n / 5 % 16] ^ (unsigned)body.n);
		buf_str(&body, text);
	}
	buf_str(&body, end);
	live_head(l, url, to);
	snprintf(text, sizeof(text), "content-length: %zu\r\n\r\n", body.n);
	buf_str(to, text);
	buf_add(to, body.p, body.n);
	l->n_sent = to->n;
	buf_free(&body);
}
