/* test_recfile.c - the file of recorded traffic: start, growth and end. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/loop/recfile_in.h"
#include "agent/route/traffic.h"

static char dir[64], path[96], old[96];

static struct world {
	struct loop_opts o;
	struct log log;
	struct route *route;
	struct hash_key key;
	struct recfile f;
	int log_fd;
	struct err e;
} w;

static int setup(void **state)
{
	struct route_opts ro;
	struct rng rng;

	snprintf(dir, sizeof(dir), "/tmp/kvroute-recfile.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/traffic", dir);
	snprintf(old, sizeof(old), "%s/traffic.1", dir);
	rng_init(&rng, 1);
	for (size_t i = 0; i < sizeof(w.key.secret); i++)
		w.key.secret[i] = (uint8_t)rng_next(&rng);
	loop_defaults(&w.o);
	snprintf(w.o.record_file, sizeof(w.o.record_file), "%s", path);
	w.log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	log_init(&w.log, w.log_fd, LOG_INFO);
	route_defaults(&ro);
	ro.index.max_bytes = 1u << 20;
	w.route = route_new(&ro, &w.key, 1);
	return w.route != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	route_free(w.route);
	log_fini(&w.log);
	close(w.log_fd);
	unlink(path);
	unlink(old);
	return rmdir(dir);
}

static void begin(void)
{
	memset(&w.f, 0, sizeof(w.f));
	recfile_init(&w.f, &w.o, NULL);
	if (recfile_open(&w.f, &w.o, w.route, &w.key, &w.log, &w.e) != 0)
		fail_msg("%s", w.e.text);
	assert_int_equal(recfile_start(&w.f, &w.e), 0);
}

static void end(void)
{
	recfile_stop(&w.f);
	recfile_close(&w.f);
}

static void requests(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct traffic_asked a = { .uid = i + 1,
			.at = (msec)i,
			.tokens = 100,
			.block_tokens = 32,
			.n_blocks = 1,
			.server = 5 };
		uint64_t block = i;

		traffic_ask(w.f.queue, &a, &block);
	}
}

static size_t lines_of(const char *name)
{
	FILE *f = fopen(name, "r");
	size_t n = 0;
	int c, last = '\n';

	assert_non_null(f);
	while ((c = getc(f)) != EOF) {
		n += c == '\n';
		last = c;
	}
	assert_int_equal(last, '\n');
	fclose(f);
	return n;
}

static void the_previous_file_is_kept_once(void **state)
{
	struct stat st;

	for (unsigned i = 1; i <= 3; i++) {
		begin();
		requests(i);
		end();
		assert_int_equal(lines_of(path), i);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	assert_int_equal(lines_of(old), 2);
}

static void a_full_file_ends_it(void **state)
{
	struct stat st;

	w.o.record_max_bytes = 2000;
	begin();
	requests(100);
	recfile_stop(&w.f);
	assert_true(w.f.ended);
	assert_false(traffic_wants(w.f.queue));
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size <= 2000 && st.st_size > 1800 && (uint64_t)st.st_size == w.f.bytes);
	assert_int_equal(lines_of(path), w.f.lines);
	recfile_close(&w.f);
}

static void or_goes_on_in_a_new_one(void **state)
{
	struct stat st;

	w.o.record_max_bytes = 2000;
	w.o.record_rotate = true;
	begin();
	requests(100);
	recfile_stop(&w.f);
	assert_false(w.f.ended);
	assert_int_equal(w.f.lines, 100);
	assert_int_equal(stat(old, &st), 0);
	assert_true(st.st_size <= 2000 && st.st_size > 1800);
	assert_true(lines_of(path) > 0 && w.f.bytes <= 2000);
	recfile_close(&w.f);
}

/* On a full disk the recording ends, and later requests are not queued. */
static void a_write_that_fails_ends_it(void **state)
{
	begin();
	close(w.f.fd);
	w.f.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	requests(3);
	recfile_stop(&w.f);
	assert_true(w.f.ended);
	assert_int_equal(w.f.lines, 0);
	assert_false(traffic_wants(w.f.queue));
	recfile_close(&w.f);
}

static void nowhere_to_go(void **state)
{
	snprintf(w.o.record_file, sizeof(w.o.record_file), "%s/none/traffic", dir);
	memset(&w.f, 0, sizeof(w.f));
	recfile_init(&w.f, &w.o, NULL);
	assert_int_equal(recfile_open(&w.f, &w.o, w.route, &w.key, &w.log, &w.e), -1);
	assert_non_null(strstr(w.e.text, "record.file"));
	recfile_close(&w.f);
	w.o.record_file[0] = '\0';
	recfile_init(&w.f, &w.o, NULL);
	assert_int_equal(recfile_open(&w.f, &w.o, w.route, &w.key, &w.log, &w.e), 0);
	assert_int_equal(recfile_start(&w.f, &w.e), 0);
	assert_int_equal(recfile_budget(&w.o), 0);
	recfile_stop(&w.f);
	recfile_close(&w.f);
}

int main(void)
{
#define T(f)	cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_previous_file_is_kept_once),
		T(a_full_file_ends_it),
		T(or_goes_on_in_a_new_one),
		T(a_write_that_fails_ends_it),
		T(nowhere_to_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
