/* bench_spop.c - time of SPOP itself: decode a NOTIFY of 16 KB down to its last argument and encode
 * its ACK, in memory, on one core. Prints the median of several rounds, because the mean would
 * include pauses of a shared machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spoe/spop.h"
#include "tests/lib/bench.h"

#define ROUNDS		31
#define PER_ROUND	20000
#define IN_A_ROW	16	/* NOTIFYs in the buffer, as HAProxy pipelines them */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void patch_length(uint8_t *p, size_t n)
{
	n -= SPOP_LENGTH_BYTES;
	p[0] = (uint8_t)(n >> 24);
	p[1] = (uint8_t)(n >> 16);
	p[2] = (uint8_t)(n >> 8);
	p[3] = (uint8_t)n;
}

static void put_arg(
    struct spop_wr *w, const char *name, enum spop_type type, const char *p, size_t n, int64_t i)
{
	struct spop_data d = { .type = type };

	if (type == SPOP_T_INT32)
		d.i = i;
	else
		d.s = (struct spop_str){ p, n };
	spop_put_str(w, name, strlen(name));
	spop_put_data(w, &d);
}

static void put_str_arg(struct spop_wr *w, const char *name, const char *s)
{
	put_arg(w, name, SPOP_T_STR, s, strlen(s), 0);
}

/* A route message as HAProxy sends it, with a body of <n> bytes. */
static size_t make_notify(uint8_t *to, size_t cap, uint64_t stream, const char *body, size_t n)
{
	struct spop_wr w = { to, 0, cap, false };

	memcpy(to, "\0\0\0\0\3\0\0\0\1", 9);
	w.n = 9;
	spop_put_varint(&w, stream);
	spop_put_varint(&w, 1);
	spop_put_str(&w, "route", 5);
	w.p[w.n++] = 9;
	put_str_arg(&w, "uid", "7F000001:C350_7F000001:1F90_6710A3B2_0001");
	put_str_arg(&w, "pool", "llm");
	put_str_arg(&w, "load", "h1/42;s1=1,3,0,100;s2=1,2,0,100;s3=1,7,1,100;s4=1,0,0,100");
	put_str_arg(&w, "path", "/v1/chat/completions");
	put_str_arg(&w, "tenant", "acme");
	put_arg(&w, "seq", SPOP_T_INT32, NULL, 0, 0);
	put_arg(&w, "blen", SPOP_T_INT32, NULL, 0, (int64_t)n);
	put_arg(&w, "bsize", SPOP_T_INT32, NULL, 0, (int64_t)n);
	put_arg(&w, "body", SPOP_T_BIN, body, n, 0);
	if (w.full)
		exit(2);
	patch_length(to, w.n);
	return w.n;
}

static void put_ack(const struct spop_conn *c, struct spop_wr *out, const struct spop_event *ev,
		    int64_t sum)
{
	struct spop_ack a;

	spop_ack_begin(&a, c, out, ev->stream_id, ev->frame_id);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "server", "s1", 2);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "alt", "s2", 2);
	spop_ack_set_str(&a, SPOP_SCOPE_TXN, "why", "cached", 6);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "hit", 870);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "pages", 222);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "prompt_pages", 255);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "us", sum & 0x3f);
	spop_ack_set_int(&a, SPOP_SCOPE_TXN, "cut", 0);
	if (!spop_ack_end(&a))
		exit(2);
}

/* Everything an agent must look at: each argument's name and type. */
static int64_t read_messages(struct spop_rd r)
{
	struct spop_message m;
	struct spop_str name;
	struct spop_data d;
	int64_t sum = 0;

	while (spop_message_next(&r, &m) > 0)
		while (spop_arg_next(&m, &name, &d))
			sum += (int64_t)name.n + (int64_t)d.type;
	return sum;
}

static void serve(struct spop_conn *c, const uint8_t *in, size_t n, uint8_t *reply, size_t cap)
{
	struct spop_wr out = { reply, 0, cap, false };
	struct spop_event ev;
	ssize_t used;

	while ((used = spop_conn_next(c, in, n, &out, &ev)) > 0) {
		if (ev.kind == SPOP_EV_CLOSE)
			exit(2);
		if (ev.kind == SPOP_EV_NOTIFY)
			put_ack(c, &out, &ev, read_messages(ev.messages));
		in += used;
		n -= (size_t)used;
	}
	if (n || !out.n)
		exit(2);
}

static void shake_hands(struct spop_conn *c)
{
	static const char hello[] = "\0\0\0\0\1\0\0\0\1\0\0"
		"\x12supported-versions\x08\x03" "2.0"
		"\x0emax-frame-size\x03\xfc\xf0\x7e"		/* 262140 */
		"\x0c" "capabilities\x08\x0apipelining";
	uint8_t frame[sizeof(hello)], reply[SPOP_REPLY_MAX];

	memcpy(frame, hello, sizeof(hello));
	patch_length(frame, sizeof(hello) - 1);
	serve(c, frame, sizeof(hello) - 1, reply, sizeof(reply));
}

static void bench(const char *name, size_t n_body)
{
	size_t cap = (n_body + 512) * IN_A_ROW, n = 0, i, k;
	uint8_t *in = malloc(cap), reply[IN_A_ROW * 512];
	char *body = malloc(n_body);
	struct spop_conn_opts o;
	double ns[ROUNDS], at;
	struct spop_conn c;

	if (!in || !body)
		exit(2);
	memset(body, 'x', n_body);
	spop_conn_defaults(&o);
	spop_conn_init(&c, &o);
	shake_hands(&c);
	for (i = 0; i < IN_A_ROW; i++)
		n += make_notify(in + n, cap - n, 2 * i + 1, body, n_body);
	for (k = 0; k < ROUNDS; k++) {
		at = now_ns();
		for (i = 0; i < PER_ROUND; i += IN_A_ROW)
			serve(&c, in, n, reply, sizeof(reply));
		ns[k] = (now_ns() - at) / PER_ROUND;
	}
	qsort(ns, ROUNDS, sizeof(ns[0]), by_value);
	printf("bench %s body=%zu ns=%.1f ns_min=%.1f bytes_per_s=%.0f per_s=%.0f\n", name, n_body,
	       ns[ROUNDS / 2], ns[0], (double)n / IN_A_ROW / ns[ROUNDS / 2] * 1e9, 1e9 / ns[ROUNDS / 2]);
	spop_conn_fini(&c);
	free(body);
	free(in);
}

/* The same body in fragments of 4 KB: the price of joining. */
static void bench_fragments(size_t n_body, size_t fragment)
{
	size_t cap = n_body + 512 + 32 * (n_body / fragment + 2), n, whole, at_in, len, i, k;
	uint8_t *one = malloc(n_body + 512), *in = malloc(cap), reply[512];
	char *body = malloc(n_body);
	struct spop_conn_opts o;
	double ns[ROUNDS], at;
	struct spop_conn c;
	bool first, last;

	if (!in || !one || !body)
		exit(2);
	memset(body, 'x', n_body);
	spop_conn_defaults(&o);
	spop_conn_init(&c, &o);
	shake_hands(&c);
	whole = make_notify(one, n_body + 512, 1, body, n_body);
	for (n = 0, at_in = 11; at_in < whole; at_in += len) {
		first = at_in == 11;
		len = whole - at_in < fragment ? whole - at_in : fragment;
		last = at_in + len == whole;
		memcpy(in + n, (uint8_t[11]){ [4] = first ? 3 : 0, [8] = last, 1, 1 }, 11);
		memcpy(in + n + 11, one + at_in, len);
		patch_length(in + n, 11 + len);
		n += 11 + len;
	}
	for (k = 0; k < ROUNDS; k++) {
		at = now_ns();
		for (i = 0; i < PER_ROUND / 10; i++)
			serve(&c, in, n, reply, sizeof(reply));
		ns[k] = (now_ns() - at) / (PER_ROUND / 10);
	}
	qsort(ns, ROUNDS, sizeof(ns[0]), by_value);
	printf("bench spop_notify_fragments body=%zu fragment=%zu ns=%.1f ns_min=%.1f bytes_per_s=%.0f\n",
	       n_body, fragment, ns[ROUNDS / 2], ns[0], (double)n / ns[ROUNDS / 2] * 1e9);
	spop_conn_fini(&c);
	free(body);
	free(one);
	free(in);
}

static void print_conditions(void)
{
	char line[256], cpu[128] = "unknown";
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
			break;
	if (f)
		fclose(f);
	printf(
	    "conditions cpu=\"%s\" compiler=\"%s\" rounds=%d per_round=%d in_a_row=%d value=median\n",
	    cpu,
#ifdef __clang__
	    __VERSION__,
#else
	    "gcc " __VERSION__,
#endif
	    ROUNDS, PER_ROUND, IN_A_ROW);
}

int main(void)
{
	print_conditions();
	bench("spop_notify_small", 64);
	bench("spop_notify", 16u << 10);
	bench("spop_notify_128k", 128u << 10);
	bench_fragments(16u << 10, 4096);
	return 0;
}
