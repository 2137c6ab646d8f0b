/* The recording thread sleeps, empties the queue, and writes whole lines. An error ends the
 * recording but never the agent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/recfile_in.h"
#include "agent/os/sandbox.h"
#include "agent/route/traffic_text.h"

/* half of the queue: 4000 prompts of 16,000 tokens in 128-token blocks */
#define HALF_BYTES	(2u << 20)
#define TAKE_MS		100

uint64_t recfile_budget(const struct loop_opts *o)
{
	struct traffic_text_opts to;

	traffic_text_defaults(&to);
	return o->record_file[0] != '\0' ? 2 * (uint64_t)HALF_BYTES + traffic_text_bytes(&to) : 0;
}

void recfile_init(struct recfile *f, const struct loop_opts *o, struct opener *opener)
{
	char *slash;

	f->dir = f->fd = -1;
	f->opener = opener;
	snprintf(f->path, sizeof(f->path), "%s", o->record_file);
	snprintf(f->dir_path, sizeof(f->dir_path), "%s", o->record_file);
	if ((slash = strrchr(f->dir_path, '/')) == NULL)
		return;
	snprintf(f->name, sizeof(f->name), "%s", slash + 1);
	snprintf(f->old, sizeof(f->old), "%s.1", f->name);
	slash[slash == f->dir_path] = '\0';
}

/* ---- files ------------------------------------------------------------------------------ */

/* Returns a descriptor, or -1 with errno. */
static int new_file(struct recfile *f)
{
	int fd;

	if (f->dir < 0) {
		fd = opener_record_new(f->opener);
		errno = fd < 0 ? -fd : 0;
		return fd < 0 ? -1 : fd;
	}
	if (renameat(f->dir, f->name, f->dir, f->old) != 0 && errno != ENOENT)
		return -1;
	return openat(f->dir, f->name, SANDBOX_NEW_FILE, 0600);
}

/* Names are hashed with a random secret of each file, which is not kept. */
static int begin_file(struct recfile *f)
{
	struct hash_key secret;
	int fd;

	if (getrandom(&secret, sizeof(secret), 0) != (ssize_t)sizeof(secret) || (fd = new_file(f)) < 0)
		return -1;
	traffic_text_secret(f->text, &secret);
	mem_wipe(&secret, sizeof(secret));
	if (f->fd >= 0)
		close(f->fd);
	f->fd = fd;
	__atomic_store_n(&f->bytes, 0, __ATOMIC_RELAXED);
	return 0;
}

static void end_recording(struct recfile *f, const char *msg, const char *error)
{
	struct log_line ln;

	traffic_close(f->queue);
	__atomic_store_n(&f->ended, true, __ATOMIC_RELAXED);
	if (!log_begin(&ln, f->log, error != NULL ? LOG_WARN : LOG_INFO, LOG_LIFE, msg))
		return;
	log_text(&ln, "file", f->path);
	if (error != NULL)
		log_text(&ln, "error", error);
	log_int(&ln, "bytes", (int64_t)f->bytes);
	log_text(&ln, "remedy", "restart to record again; this file is then kept as .1");
	log_end(&ln);
}

/* Check that <n> more bytes fit into the file; with rotate, begin a new one. Returns false if the
 * recording has ended. */
static bool has_room(struct recfile *f, size_t n)
{
	if (f->bytes + n <= f->max_bytes)
		return true;
	if (!f->rotate)
		end_recording(f, "recording ended: its file has reached record.max_bytes", NULL);
	else if (begin_file(f) != 0)
		end_recording(f, "recording ended: cannot create its next file", strerror(errno));
	return !f->ended;
}

static void put_line(void *arg, const char *line, size_t n)
{
	struct recfile *f = arg;

	if (f->ended || !has_room(f, n))
		return;
	if (fd_write_all(f->fd, line, n) != 0) {
		end_recording(f, "recording ended: cannot write its file", strerror(errno));
		return;
	}
	__atomic_store_n(&f->bytes, f->bytes + n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->lines, 1, __ATOMIC_RELAXED);
}

/* ---- start and stop --------------------------------------------------------------------- */

static int make_queue(
    struct recfile *f, const struct loop_opts *o, const struct hash_key *key, struct err *e)
{
	struct traffic_text_opts to;
	uint64_t seed = 0;

	traffic_text_defaults(&to);
	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed) ||
	    (f->queue = traffic_new(HALF_BYTES, o->record_block_tokens, key, seed)) == NULL ||
	    (f->text = traffic_text_new(&to, put_line, f)) == NULL)
		return err_set(e, "not enough memory for record.file");
	return 0;
}

int recfile_open(struct recfile *f, const struct loop_opts *o, struct route *r,
    const struct hash_key *key, struct log *log, struct err *e)
{
	if (o->record_file[0] == '\0')
		return 0;
	f->log = log;
	f->max_bytes = o->record_max_bytes;
	f->rotate = o->record_rotate;
	thread_sleep_init(&f->sleep);
	if (f->name[0] == '\0' || (f->dir = open(f->dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_set(e, "cannot open the directory of record.file %s: %s", f->path,
			       f->name[0] == '\0' ? "the file has no name" : strerror(errno));
	if (make_queue(f, o, key, e) != 0)
		return -1;
	if (begin_file(f) != 0)
		return err_set(e, "cannot create record.file %s: %s", f->path, strerror(errno));
	if (f->opener != NULL && f->opener->fd >= 0) {	/* the opener has the directory open */
		close(f->dir);
		f->dir = -1;
	}
	route_traffic(r, f->queue);
	return 0;
}

static void drain_queue(struct recfile *f)
{
	const struct traffic_sink sink = { f->text, traffic_text_asked, traffic_text_ended };

	traffic_take(f->queue, &sink);
}

static void *recfile_main(void *arg)
{
	struct recfile *f = arg;

	pthread_setname_np(pthread_self(), "record");
	while (!thread_sleep_ms(&f->sleep, TAKE_MS)) {
		drain_queue(f);
		traffic_text_flush(f->text, false);
	}
	return NULL;
}

int recfile_start(struct recfile *f, struct err *e)
{
	struct log_line ln;
	int rc;

	if (f->queue == NULL)
		return 0;
	if ((rc = pthread_create(&f->thread, NULL, recfile_main, f)) != 0)
		return err_set(e, "cannot start the recording thread: %s", strerror(rc));
	f->running = true;
	if (log_begin(&ln, f->log, LOG_INFO, LOG_LIFE,
		"recording requests: lengths, times and equal beginnings, no text")) {
		log_text(&ln, "file", f->path);
		log_int(&ln, "max_bytes", (int64_t)f->max_bytes);
		log_end(&ln);
	}
	return 0;
}

void recfile_stop(struct recfile *f)
{
	if (!f->running)
		return;
	thread_sleep_end(&f->sleep);
	pthread_join(f->thread, NULL);
	f->running = false;
	drain_queue(f);
	traffic_text_flush(f->text, true);
}

void recfile_close(struct recfile *f)
{
	traffic_free(f->queue);
	traffic_text_free(f->text);
	if (f->fd >= 0)
		close(f->fd);
	if (f->dir >= 0)
		close(f->dir);
	f->queue = NULL;
	f->text = NULL;
	f->fd = f->dir = -1;
}
