/* store_load.c - agents without a router, which write to and read from a store as agents do.
 *
 *   store_load NAME PORT PID AGENTS RATE PAGES SECONDS
 *
 * Each of AGENTS puts RATE requests a second into an outbox of its own, a PLACED with PAGES pages
 * and a FACT each; sends due batches with XADD, at most 8 that are not confirmed; and reads the
 * stream with XREAD BLOCK, also its own batches, as agents do. RATE 0: full batches of 64 KiB, as
 * fast as they are read. What is read is counted and thrown away, so that the store is full before
 * this program is.
 *
 * Prints a line: requests, batches and bytes a second; read: batches that came to all readers; how
 * late the oldest batch of an answer was, at most, in 99 of 100 answers; the CPU of the store's
 * thread (process PID) and of this program, and which of the two was full: one that used more than
 * nine tenths of a processor; other: neither, so other load or a wait. capacity: requests a second
 * at which the store would use one processor, by its time for each request here. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/share/outbox.h"
#include "tests/lib/share/entries.h"

#define KEY		"kvroute:{kvroute:0}:log"
#define UNDER_WAY	8
#define UNREAD		16		/* batches that a reader may lack, without a rate */
#define COUNT		"64"
#define AGENTS_MAX	128
#define READ_BYTES	(256u << 10)
#define LAG_MAX		10000
#define ID_MAX		48

struct writer {
	int fd;
	struct share_outbox *out;
	struct buf commands;
	size_t sent;
	unsigned under_way;
	uint8_t before;			/* the last byte of an answer; '\n': a line begins */
	unsigned n;			/* lines of answers */
	double made;			/* requests put so far */
};

/* An answer is *1 *2 $key *n, then of each entry *2 $id *2 $field $batch. */
struct reader {
	int fd;
	unsigned token;			/* the next one of the answer, or of the entry from FIRST on */
	uint64_t entries;		/* left in the answer */
	size_t skip;			/* bytes of a text, with its end */
	bool take_id, first;
	char line[ID_MAX], id[ID_MAX], last[ID_MAX];
	unsigned n, n_id;
};

#define FIRST	4
#define LAST	9

static struct hash_key key;
static struct writer writers[AGENTS_MAX];
static struct reader readers[AGENTS_MAX];
static unsigned agents, pages, port;
static double rate;
static uint64_t requests, batches, batch_bytes, batches_read, bytes_read;
static int64_t unread;			/* batches that were sent and not read, of all readers */
static uint32_t lags[LAG_MAX + 1];
static uint8_t input[READ_BYTES];

static void fail(const char *what)
{
	fprintf(stderr, "store_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static msec now_ms(void)
{
	return (msec)(now_s(CLOCK_MONOTONIC) * 1000);
}

static int open_connection(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		fail("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* ---- writing ---- */

/* The next turn of a conversation of 34000 tokens, and the end of an earlier request. */
static void put_request(struct writer *w, msec now)
{
	static const char *const servers[] = { "gpu-01", "gpu-02", "gpu-03", "gpu-04" };
	uint64_t i = requests++;
	struct share_server at = { SPAN("llm"), span_str(servers[i % 4]) };
	struct share_entry e = { .kind = SHARE_PLACED, .u.placed = {
		.uid = i * 0x9e3779b97f4a7c15ull, .process = 0x1234567812345678, .at = at,
		.space = { .h = { 1ull << 60, 1ull << 61 }, .part_room = 16, .page_room = 16 },
		.anchor = { i * 0x2545f4914f6cdd1dull, 2048 },
		.pages = entry_pages + i % 64, .n = pages, .nominal_s = 0.07,
		.work_tokens = 16 * pages, .prompt_tokens = 34000 + i % 1000, .common_tokens = 32768,
		.block = 16, .streams = true, .whole = true, .generates = true,
	} };

	share_outbox_put(w->out, 0, &e, now);
	e = (struct share_entry){ .kind = SHARE_FACT,
		.u.fact = { .uid = (i - 100) * 0x9e3779b97f4a7c15ull, .process = 0x1234567812345678 } };
	fact_init(&e.u.fact.fact, FACT_DONE);
	e.u.fact.fact.pool = at.pool;
	e.u.fact.fact.server = at.server;
	e.u.fact.fact.status = 200;
	e.u.fact.fact.end = END_OK;
	e.u.fact.fact.response_ms = 250;
	e.u.fact.fact.total_ms = 9000;
	share_outbox_put(w->out, 0, &e, now);
}

static void add_batch(struct writer *w, struct span b)
{
	char head[160];

	buf_add(&w->commands, head, (size_t)snprintf(head, sizeof(head),
		"*8\r\n$4\r\nXADD\r\n$%zu\r\n%s\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$5\r\n65536\r\n$1\r\n*\r\n"
		"$1\r\nb\r\n$%zu\r\n", strlen(KEY), KEY, b.n));
	buf_add(&w->commands, b.p, b.n);
	buf_add(&w->commands, "\r\n", 2);
	w->under_way++;
	batches++;
	unread += agents;
	batch_bytes += b.n;
}

static void flush_writer(struct writer *w)
{
	ssize_t n;

	while (w->sent < w->commands.n) {
		n = send(w->fd, w->commands.p + w->sent, w->commands.n - w->sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			fail("send");
		if (n < 0)
			return;
		w->sent += (size_t)n;
	}
	buf_start(&w->commands, 0);
	w->sent = 0;
}

/* Put what is due by the rate, or fill a batch, and send batches that are due. */
static void work(struct writer *w, double passed, msec now)
{
	msec at;

	for (; rate > 0 && w->made < passed * rate; w->made++)
		put_request(w, now);
	while (w->under_way < UNDER_WAY && (rate > 0 || unread < UNREAD * (int64_t)agents)) {
		while (rate == 0 && !share_outbox_due(w->out, 0, now, &at))
			put_request(w, now);
		if (!share_outbox_due(w->out, 0, now, &at))
			break;
		add_batch(w, share_outbox_take(w->out, 0, now, now));
	}
	flush_writer(w);
}

/* Answers to XADD: $bytes, id. */
static void take_answers(struct writer *w)
{
	ssize_t n = recv(w->fd, input, sizeof(input), 0);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		fail("the store closed a connection");
	for (ssize_t i = 0; i < n; i++) {
		if (input[i] == '-' && w->before == '\n') {
			fprintf(stderr, "store_load: the store refuses: %.60s\n", input + i);
			exit(1);
		}
		w->before = input[i];
		if (input[i] != '\n' || w->n++ % 2 == 0)
			continue;
		share_outbox_sent(w->out, 0);
		w->under_way--;
	}
}

/* ---- reading ---- */

static void ask(struct reader *r)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "*8\r\n$5\r\nXREAD\r\n$5\r\nCOUNT\r\n$2\r\n" COUNT "\r\n"
		"$5\r\nBLOCK\r\n$4\r\n1000\r\n$7\r\nSTREAMS\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
		strlen(KEY), KEY, strlen(r->last), r->last);

	if (send(r->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
		fail("send");
	r->token = 0;
	r->first = true;
}

static void note_id(struct reader *r)
{
	msec lag = (msec)(now_s(CLOCK_REALTIME) * 1000) - strtoll(r->id, NULL, 10);

	r->id[r->n_id] = '\0';
	memcpy(r->last, r->id, sizeof(r->last));
	batches_read++;
	unread--;
	if (r->first)
		lags[lag < 0 ? 0 : lag < LAG_MAX ? lag : LAG_MAX]++;
	r->first = false;
}

/* A text has ended, or a line that is no text. */
static void next_token(struct reader *r)
{
	if (++r->token < LAST)
		return;
	r->token = FIRST;
	if (--r->entries == 0)
		ask(r);
}

static void take_line(struct reader *r)
{
	r->line[r->n] = '\0';
	if (r->line[0] == '-') {
		fprintf(stderr, "store_load: the store refuses: %s\n", r->line);
		exit(1);
	}
	if (r->line[0] == '$') {
		r->skip = strtoull(r->line + 1, NULL, 10) + 2;
		r->take_id = r->token == FIRST + 1;
		r->n_id = 0;
	} else if (r->token == 0 && r->line[1] == '-') {
		ask(r);			/* nothing came within a second */
	} else {
		if (r->token == 3)
			r->entries = strtoull(r->line + 1, NULL, 10);
		next_token(r);
	}
	r->n = 0;
}

static size_t skip_text(struct reader *r, const uint8_t *p, size_t n)
{
	size_t take = n < r->skip ? n : r->skip;

	for (size_t i = 0; r->take_id && i < take && r->n_id < ID_MAX - 1; i++)
		if (p[i] != '\r' && p[i] != '\n')
			r->id[r->n_id++] = (char)p[i];
	r->skip -= take;
	if (r->skip > 0)
		return take;
	if (r->take_id)
		note_id(r);
	r->take_id = false;
	next_token(r);
	return take;
}

static void read_stream(struct reader *r)
{
	ssize_t n = recv(r->fd, input, sizeof(input), 0);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		fail("the store closed a connection");
	bytes_read += n > 0 ? (uint64_t)n : 0;
	for (size_t i = 0; n > 0 && i < (size_t)n; ) {
		if (r->skip > 0) {
			i += skip_text(r, input + i, (size_t)n - i);
		} else if (input[i] == '\n') {
			take_line(r);
			i++;
		} else {
			if (input[i] != '\r' && r->n < ID_MAX - 1)
				r->line[r->n++] = (char)input[i];
			i++;
		}
	}
}

/* ---- all of it ---- */

static void watch(int epoll, int fd, uint32_t number)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = number };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0)
		fail("epoll_ctl");
}

static int start(void)
{
	int epoll = epoll_create1(0);

	for (unsigned i = 0; i < agents; i++) {
		writers[i].out = share_outbox_new(&key, i + 1, 1, 64u << 20);
		writers[i].fd = open_connection();
		writers[i].before = '\n';
		readers[i].fd = open_connection();
		if (writers[i].out == NULL)
			fail("memory");
		watch(epoll, writers[i].fd, 2 * i);
		watch(epoll, readers[i].fd, 2 * i + 1);
		strcpy(readers[i].last, "$");
		ask(&readers[i]);
	}
	return epoll;
}

static void run_until(int epoll, double begun, double end)
{
	struct epoll_event e[2 * AGENTS_MAX];
	double now;

	while ((now = now_s(CLOCK_MONOTONIC)) < end) {
		int n = epoll_wait(epoll, e, 2 * AGENTS_MAX, rate > 0 ? 1 : 10);

		for (int i = 0; i < n; i++) {
			if (e[i].data.u32 % 2 == 0)
				take_answers(&writers[e[i].data.u32 / 2]);
			else
				read_stream(&readers[e[i].data.u32 / 2]);
		}
		for (unsigned i = 0; i < agents; i++)
			work(&writers[i], now_s(CLOCK_MONOTONIC) - begun, now_ms());
	}
}

/* Time that the first thread of <pid>, which does the work of a store, was on a processor. */
static double cpu_of(int pid)
{
	char path[60];
	unsigned long long ns = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, pid);
	if ((f = fopen(path, "r")) == NULL || fscanf(f, "%llu", &ns) != 1)
		fail(path);
	fclose(f);
	return (double)ns * 1e-9;
}

static unsigned lag_p99(void)
{
	uint64_t n = 0, sum = 0;
	unsigned i = 0;

	for (unsigned k = 0; k <= LAG_MAX; k++)
		n += lags[k];
	while (i < LAG_MAX && (sum += lags[i]) * 100 < n * 99)
		i++;
	return i;
}

int main(int argc, char **argv)
{
	double begun, took, store, client, seconds;
	struct rng rng;
	int epoll, pid;

	if (argc != 8) {
		fprintf(stderr, "usage: store_load NAME PORT PID AGENTS RATE PAGES SECONDS\n");
		return 2;
	}
	port = (unsigned)atoi(argv[2]);
	pid = atoi(argv[3]);
	agents = (unsigned)atoi(argv[4]) < AGENTS_MAX ? (unsigned)atoi(argv[4]) : AGENTS_MAX;
	rate = atof(argv[5]);
	pages = (unsigned)atoi(argv[6]);
	seconds = atof(argv[7]);
	rng_init(&rng, 1);
	entry_lists(&rng);
	key = entry_key(1);
	epoll = start();
	begun = now_s(CLOCK_MONOTONIC);
	run_until(epoll, begun, begun + 0.5);		/* all readers wait, and queues are full */
	requests = batches = batch_bytes = batches_read = bytes_read = 0;
	memset(lags, 0, sizeof(lags));
	store = cpu_of(pid);
	client = now_s(CLOCK_PROCESS_CPUTIME_ID);
	took = now_s(CLOCK_MONOTONIC);
	run_until(epoll, begun, took + seconds);
	took = now_s(CLOCK_MONOTONIC) - took;
	store = cpu_of(pid) - store;
	client = now_s(CLOCK_PROCESS_CPUTIME_ID) - client;
	printf("bench share_store store=%s agents=%u rate=%.0f pages=%u requests_s=%.0f batches_s=%.0f "
		"bytes_request=%.0f in_mb_s=%.1f out_mb_s=%.1f read=%.3f lag_p99_ms=%u store_cpu=%.2f "
		"client_cpu=%.2f full=%s store_us_request=%.2f store_us_batch=%.1f capacity=%.0f\n",
		argv[1], agents, rate, pages, (double)requests / took, (double)batches / took,
		(double)batch_bytes / (double)requests, (double)batch_bytes / took / 1e6,
		(double)bytes_read / took / 1e6,
		(double)batches_read / (double)batches / (double)agents, lag_p99(), store / took,
		client / took, store / took > 0.9 ? "store" : client / took > 0.9 ? "client" :
		rate > 0 ? "none" : "other", 1e6 * store / (double)requests, 1e6 * store / (double)batches,
		(double)requests / store);
	return 0;
}
