/* bench_index.c - time the index through the door that the agent uses: matches and commits by page
 * keys.
 *
 *   bench_index                    single operations on trees made for them (part of make bench)
 *   bench_index [-t] FILE SERVERS  a workload (PBW1: index/pbw1.h); -t: without the threads
 *   bench_index -c FILE SERVERS    check every server's pages of every match against an exact model
 *   bench_index -i FILE SERVERS    one replay in named functions, for an instruction counter
 *   bench_index -e FILE SERVERS    only forget: evictions and drops
 *   -n OPERATIONS: only the first so many; -r REPLAYS: 3; -p TOKENS: other pages than the file's
 *
 * `make bench-index` makes the workloads (gen_index.c) and runs all of it; bench-index-instructions
 * counts. One operation: match the whole pages of a prompt, then commit them for server key % N,
 * then confirm. The page keys are made before the time begins, because the agent makes them while
 * it scans the body; so they are in the nearest caches. The index is new in each replay, its heap
 * is not. Of each operation the least of 3 replays counts; mean, p50 and p99 are over operations.
 * Reading the clock is part of every figure (clock_ns).
 *
 *   op=match, commit, confirm   each alone
 *   op=match+commit, +confirm   one time for all of them
 *   op=full_hit                 match only, when the index holds every prompt
 *   read_ns                     time to read the keys that the operation must read: matched pages
 *                               and the first that differs; for commit the new ones; else all.
 *                               share_of_read is read_ns by the time of the operation
 *   hash_pages_ns               time to hash all pages of a prompt one by one, as the scanner does
 *   index_bytes per_page        bytes in use, less those of an empty index, by unique page
 *   index_evict, index_drop     time to forget half, and one server; longest_us: longest call;
 *                               most_records, most_pages: the most that one call evicted
 *   index_threads               see threads.c for rate and CPU time */
#include <malloc.h>
#include <unistd.h>

#include "agent/base/rng.h"
#include "tests/bench/index/bench.h"

#ifndef BENCH_FLAGS
#define BENCH_FLAGS	"?"
#endif
#define SHAPE_TOKENS	65536u

static void say_conditions(struct bench *b)
{
	char line[256], cpu[128] = "unknown";
	FILE *f = fopen("/proc/cpuinfo", "r");
	double load[3] = { 0 };

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
			break;
	if (f)
		fclose(f);
	(void)getloadavg(load, 3);
	printf("# conditions cpu=\"%s\" cores=%ld l2_kb=%ld compiler=\"%s\" flags=\"%s\" load=%.2f,%.2f "
	       "clock_ns=%.1f confirm=separate heap=kept replays=%u\n", cpu, sysconf(_SC_NPROCESSORS_ONLN),
	       sysconf(_SC_LEVEL2_CACHE_SIZE) / 1024,
#ifdef __clang__
	       __VERSION__,
#else
	       "gcc " __VERSION__,
#endif
	       BENCH_FLAGS, load[0], load[1], b->clock.own_ns, b->reps);
}

static void start(struct bench *b, uint32_t longest, uint32_t page)
{
	struct rng rng;
	size_t i;

	/* memory that one replay has faulted in serves the next */
	mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	mallopt(M_MMAP_THRESHOLD, INT32_MAX);
	rng_init(&rng, 1);
	for (i = 0; i < sizeof(b->key.secret); i++)
		b->key.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
	measure_clock(&b->clock);
	b->prompt = measure_must(calloc(longest + 1, sizeof(*b->prompt)));
	b->matched = measure_must(calloc(b->w.n_ops + 1, sizeof(*b->matched)));
	if (door_at_init(&b->at, longest / page) < 0)
		measure_must(NULL);
}

static void stop(struct bench *b)
{
	door_at_fini(&b->at);
	free(b->matched);
	free(b->prompt);
	if (b->w.map != NULL)
		pbw1_close(&b->w);
}

/* The name of a workload is its file's, without folder and ending. */
static const char *name_of(const char *path)
{
	static char name[64];
	const char *p = strrchr(path, '/');

	snprintf(name, sizeof(name), "%s", p ? p + 1 : path);
	name[strcspn(name, ".")] = 0;
	return name;
}

static int workload(struct bench *b, const char *path, char what, bool threads, uint64_t first,
		    uint32_t page)
{
	char why[256];
	int rc = 0;

	if (pbw1_open(&b->w, path, why, sizeof(why)) < 0) {
		fprintf(stderr, "bench_index: %s\n", why);
		return -1;
	}
	b->name = name_of(path);
	if (first < b->w.n_ops)
		b->w.n_ops = first;
	if (page != 0)
		b->w.page = page;
	start(b, b->w.longest, b->w.page);
	say_conditions(b);
	if (what == 'i') {
		replay_few(b);
	} else {
		replay_size(b);
		if (b->first.unique == 0) {
			fprintf(stderr, "bench_index: %s: no prompt has a whole page of %u tokens\n", path, b->w.page);
			rc = -1;
		} else if (what == 'c') {
			rc = replay_check(b);
		} else if (what == 'e') {
			forget_run(b);
		} else {
			rc = replay_run(b);
			forget_run(b);
			rc |= threads ? threads_run(b) : 0;
		}
	}
	stop(b);
	return rc;
}

static int usage(void)
{
	fprintf(stderr,
	    "usage: bench_index [-t|-c|-i|-e] [-n OPERATIONS] [-r REPLAYS] [-p TOKENS] [FILE SERVERS]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct bench b = { .reps = 3, .n_servers = 1 };
	uint64_t first = UINT64_MAX;
	bool threads = true;
	uint32_t page = 0;
	char what = 0;
	int c;

	while ((c = getopt(argc, argv, "tcien:r:p:")) != -1)
		switch (c) {
		case 't': threads = false; break;
		case 'c': case 'i': case 'e': what = (char)c; break;
		case 'n': first = strtoull(optarg, NULL, 10); break;
		case 'r': b.reps = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'p': page = (uint32_t)strtoul(optarg, NULL, 10); break;
		default: return usage();
		}
	if (argc == optind && what == 0) {
		start(&b, SHAPE_TOKENS, 16);
		say_conditions(&b);
		shapes_run(&b);
		stop(&b);
		return 0;
	}
	if (argc != optind + 2 || b.reps == 0 || page > PBW1_PAGE_MAX)
		return usage();
	b.n_servers = (uint32_t)strtoul(argv[optind + 1], NULL, 10);
	if (b.n_servers == 0 || b.n_servers > SERVERS_MAX) {
		fprintf(stderr, "bench_index: 1 to %u servers are possible\n", SERVERS_MAX);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return workload(&b, argv[optind], what, threads, first, page) < 0 ? 1 : 0;
}
