/* stub_engine.c - an inference server without a model: OpenAI-compatible, with a paged prefix
 * cache, a queue, chunked prefill and batched decode with simulated times.
 *
 * One thread, one libev loop; simulated work is one timer. The parts are in lib/: sched.c is the
 * engine, blocks.c its memory, ask.c and answer.c its APIs, engine_*.c the server around them, and
 * engine_control.c the list of its faults.
 *
 * Prints one line when it listens, so that port 0 can be used:
 *    stub_engine name=e1 listen=127.0.0.1:40123 listen=unix@/run/e1.sock */
#include "tests/tools/lib/engine.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const char usage_text[] =
"usage: stub_engine [options]\n"
"  --listen ADDR       host:port or unix@/path; may be repeated (127.0.0.1:8000)\n"
"  --control ADDR      the same, but open even when told to play dead\n"
"  --name NAME         what x-engine says (stub)\n"
"  --model NAME        the model that is served; others are taken too (stub)\n"
"  --block-size N      tokens of a block (16)\n"
"  --blocks N          blocks of KV memory (8192)\n"
"  --max-seqs N        sequences in the batch (256)\n"
"  --step-tokens N     token budget of a step (2048)\n"
"  --prefill-tps X     uncached prompt tokens a second (8000)\n"
"  --attention-ns X    and for each of them and each token before it (0)\n"
"  --decode-ms X       time of a step that decodes (8)\n"
"  --decode-seq-ms X   and for each sequence in it (0.05)\n"
"  --default-out N     output tokens of a request that names no limit (16)\n"
"  --max-out N         output tokens at most (4096)\n"
"  --max-body N        bytes of a request body (16777216)\n"
"  --max-conns N       connections (4096)\n"
"  --hold-s X          KV for another engine is released after so long (480)\n"
"  --transfer-ms X     time to fetch KV from another engine (5)\n"
"  --transfer-1k-ms X  and for each 1000 tokens (10)\n"
"  --headers-early     a stream's headers do not wait for its first token\n"
"  --seed N            makes other words out of the same prompts (0)\n";

enum { OPT_LISTEN = 1000, OPT_CONTROL, OPT_NAME, OPT_MODEL, OPT_EARLY, OPT_HELP, OPT_NUMBER };

/* The numeric options, after OPT_NUMBER in this order. */
enum { NUM_BLOCK_SIZE, NUM_BLOCKS, NUM_SEQS, NUM_STEP, NUM_TPS, NUM_DECODE, NUM_DECODE_SEQ,
       NUM_DEFAULT_OUT, NUM_MAX_OUT, NUM_BODY, NUM_CONNS, NUM_SEED, NUM_HOLD,
       NUM_TRANSFER, NUM_TRANSFER_1K, NUM_ATTENTION, N_NUMS };

static const struct {
	const char *name;
	double lo, hi;
} nums[N_NUMS] = {
	{ "block-size", 1, 65536 }, { "blocks", 1, 1 << 24 }, { "max-seqs", 1, 65536 },
	{ "step-tokens", 1, 1 << 24 }, { "prefill-tps", 1, 1e9 }, { "decode-ms", 0, 60000 },
	{ "decode-seq-ms", 0, 60000 }, { "default-out", 1, 65536 }, { "max-out", 1, 65536 },
	{ "max-body", 1024, 1 << 30 }, { "max-conns", 1, 100000 }, { "seed", 0, 4294967295.0 },
	{ "hold-s", 0.001, 86400 }, { "transfer-ms", 0, 60000 }, { "transfer-1k-ms", 0, 60000 },
	{ "attention-ns", 0, 1000 },
};

static int fail(const char *text)
{
	fprintf(stderr, "stub_engine: %s\n", text);
	return -1;
}

static int add_listener(struct engine *e, const char *text, bool control)
{
	struct listener *l = &e->listeners[e->n_listeners];
	struct err err;

	if (e->n_listeners == ENGINE_LISTEN_MAX)
		return fail("too many listeners.");
	l->control = control;
	l->fd = -1;
	if (addr_parse(&l->addr, text, &err))
		return fail(err.text);
	e->n_listeners++;
	return 0;
}

static int set_number(struct engine *e, int which, const char *text)
{
	struct engine_opts *o = &e->o;
	char *end;
	double v = strtod(text, &end);

	if (*text == 0 || *end || !(v >= nums[which].lo && v <= nums[which].hi)) {
		fprintf(stderr, "stub_engine: --%s takes a number from %g to %g, not \"%s\".\n",
			nums[which].name, nums[which].lo, nums[which].hi, text);
		return -1;
	}
	switch (which) {
	case NUM_BLOCK_SIZE: o->sched.block_size = (uint32_t)v; break;
	case NUM_BLOCKS: o->sched.n_blocks = (uint32_t)v; break;
	case NUM_SEQS: o->sched.max_seqs = (uint32_t)v; break;
	case NUM_STEP: o->sched.step_tokens = (uint32_t)v; break;
	case NUM_TPS: o->sched.prefill_tps = v; break;
	case NUM_DECODE: o->sched.decode_ms = v; break;
	case NUM_DECODE_SEQ: o->sched.decode_seq_ms = v; break;
	case NUM_DEFAULT_OUT: o->ask.default_out = (uint32_t)v; break;
	case NUM_MAX_OUT: o->ask.max_out = (uint32_t)v; break;
	case NUM_BODY: o->max_body = (uint64_t)v; break;
	case NUM_CONNS: o->max_conns = (uint32_t)v; break;
	case NUM_SEED: o->sched.seed = (uint64_t)v; break;
	case NUM_HOLD: o->hold_s = v; break;
	case NUM_ATTENTION: o->sched.attention_ns = v; break;
	case NUM_TRANSFER: o->transfer_ms = v; break;
	case NUM_TRANSFER_1K: o->transfer_1k_ms = v; break;
	}
	return 0;
}

static int set_option(struct engine *e, int opt, const char *arg)
{
	if (opt >= OPT_NUMBER)
		return set_number(e, opt - OPT_NUMBER, arg);
	switch (opt) {
	case OPT_LISTEN:
	case OPT_CONTROL:
		return add_listener(e, arg, opt == OPT_CONTROL);
	case OPT_NAME:
		e->o.name = arg;
		return strpbrk(arg, "\r\n") ? fail("a name has no line ends.") : 0;
	case OPT_MODEL:
		e->o.model = e->o.ask.model = arg;
		return 0;
	case OPT_EARLY:
		e->o.headers_early = true;
		return 0;
	case OPT_HELP:
		fputs(usage_text, stdout);
		exit(0);
	default:
		fputs(usage_text, stderr);
		return -1;
	}
}

static int read_options(struct engine *e, int argc, char **argv)
{
	struct option longs[6 + N_NUMS + 1] = {
		{ "listen", 1, NULL, OPT_LISTEN }, { "control", 1, NULL, OPT_CONTROL },
		{ "name", 1, NULL, OPT_NAME }, { "model", 1, NULL, OPT_MODEL },
		{ "headers-early", 0, NULL, OPT_EARLY }, { "help", 0, NULL, OPT_HELP },
	};
	int opt;

	for (int i = 0; i < N_NUMS; i++)
		longs[6 + i] = (struct option){ nums[i].name, 1, NULL, OPT_NUMBER + i };
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1)
		if (set_option(e, opt, optarg))
			return -1;
	if (optind < argc)
		return fail("there are no arguments beside the options.");
	return e->n_listeners ? 0 : add_listener(e, "127.0.0.1:8000", false);
}

static void options_defaults(struct engine_opts *o)
{
	*o = (struct engine_opts){
		.name = "stub", .model = "stub", .sched = sched_defaults(),
		.ask = { .model = "stub", .default_out = 16, .max_out = 4096 },
		.max_body = 16u << 20, .max_conns = 4096,
		.hold_s = 480, .transfer_ms = 5, .transfer_1k_ms = 10,
	};
}

/* Raise the limit of open files as far as possible; allow fewer connections than that. */
static void raise_files(struct engine_opts *o)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	if (r.rlim_cur != RLIM_INFINITY && o->max_conns + 64 > r.rlim_cur)
		o->max_conns = r.rlim_cur > 128 ? (uint32_t)r.rlim_cur - 64 : 64;
}

static void restore_cb(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	engine_faults_clear(w->data);
}

static void settle_cb(struct ev_loop *loop, struct ev_prepare *w, int revents)
{
	struct engine *e = w->data;

	engine_settle(e);
	engine_kick(e);
	if (e->leaving)
		ev_break(loop, EVBREAK_ALL);
}

static void signal_cb(struct ev_loop *loop, struct ev_signal *w, int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static int open_doors(struct engine *e)
{
	char text[ADDR_TEXT_MAX];
	struct err err;

	for (size_t i = 0; i < e->n_listeners; i++)
		if (engine_listen(e, &e->listeners[i], &err))
			return fail(err.text);
	printf("stub_engine name=%s", e->o.name);
	for (size_t i = 0; i < e->n_listeners; i++)
		printf(" %s=%s", e->listeners[i].control ? "control" : "listen",
		       addr_text(&e->listeners[i].addr, text));
	printf("\n");
	fflush(stdout);
	return 0;
}

static void run(struct engine *e)
{
	struct ev_signal term, intr;

	ev_signal_init(&term, signal_cb, SIGTERM);
	ev_signal_init(&intr, signal_cb, SIGINT);
	ev_signal_start(e->loop, &term);
	ev_signal_start(e->loop, &intr);
	ev_timer_init(&e->step, engine_step, 0, 0);
	ev_timer_init(&e->restore, restore_cb, 0, 0);
	ev_prepare_init(&e->settle, settle_cb);
	e->step.data = e->restore.data = e->settle.data = e;
	ev_prepare_start(e->loop, &e->settle);
	ev_run(e->loop, 0);
	engine_close_all(e);
	kv_release_all(e);
	for (size_t i = 0; i < e->n_listeners; i++)
		engine_unlisten(e, &e->listeners[i]);
}

int main(int argc, char **argv)
{
	struct engine e = { .faults = { .slow = 1 } };

	signal(SIGPIPE, SIG_IGN);
	options_defaults(&e.o);
	if (read_options(&e, argc, argv))
		return 2;
	raise_files(&e.o);
	list_init(&e.conns);
	list_init(&e.dirty);
	list_init(&e.held);
	e.loop = ev_default_loop(0);
	e.started = ev_time();
	e.sched = sched_new(&e.o.sched, engine_event, &e);
	if (open_doors(&e))
		return 1;
	run(&e);
	sched_free(e.sched);
	ev_default_destroy();
	return 0;
}
