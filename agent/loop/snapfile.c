/* Reads and writes the file of the snapshot.
 *
 * The index is written in slices, with pauses, so that the threads that decide wait for one slice
 * at most. A file larger than the index could have written is rejected before it is read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/base/sections.h"
#include "agent/index/snapshot.h"
#include "agent/loop/share_in.h"
#include "agent/loop/snapfile_in.h"
#include "agent/route/sources.h"
#include "agent/os/clock.h"
#include "agent/os/newfile.h"
#include "agent/os/privileges.h"
#include "agent/os/sandbox.h"
#include "agent/os/secret.h"

#define SLICE_NODES	256u
#define SLICE_PAUSE_MS	1
#define NEVER_MS	((msec)365 * 24 * 3600 * 1000)
#define READ_FIRST	65536u		/* bytes of the first buffer */

/* magic[8]  u32 0, bytes of the text  u64 checksum of the text  text: share_positions() */
#define POSITIONS_MAGIC	"kvrread\n"
#define POSITIONS_HEAD	24u

/* ---- the directory ---------------------------------------------------------------------- */

void snapfile_init(
    struct snapfile *s, const struct loop_opts *o, const struct route_opts *ro,
    struct opener *opener)
{
	char *slash;

	s->dir = -1;
	s->opener = opener;
	s->bytes_most = snapshot_bytes_most(ro->index.max_bytes) + route_events_bytes_most(ro) +
		route_sessions_bytes_most(ro) + POSITIONS_HEAD + SHARE_POSITIONS_MAX;
	snprintf(s->path, sizeof(s->path), "%s", o->snapshot_file);
	snprintf(s->dir_path, sizeof(s->dir_path), "%s", o->snapshot_file);
	if ((slash = strrchr(s->dir_path, '/')) == NULL)
		return;
	snprintf(s->name, sizeof(s->name), "%s", slash + 1);
	slash[slash == s->dir_path] = '\0';
	newfile_name(s->name, s->tmp);
}

int snapfile_open(struct snapfile *s, const struct loop_opts *o, bool kept, struct err *e)
{
	if (o->snapshot_file[0] == '\0')
		return 0;
	if (!kept)
		return err_set(e,
			"index.snapshot_file needs a permanent key, because a snapshot is useless with another key: "
			"state_dir %s is missing or not writable, and key_file is not set",
			       o->state_dir);
	if (s->name[0] == '\0' || (s->dir = open(s->dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_set(e, "cannot open the directory of index.snapshot_file %s: %s", s->path,
			       s->name[0] == '\0' ? "the file has no name" : strerror(errno));
	s->every_ms = o->snapshot_every_ms;
	s->on_demand = o->runtime_path[0] != '\0';
	thread_sleep_init(&s->sleep);
	newfile_clean(s->dir, s->name);
	return 0;
}

void snapfile_close(struct snapfile *s)
{
	if (s->dir >= 0)
		close(s->dir);
	s->dir = -1;
}

/* ---- reading ---------------------------------------------------------------------------- */

/* Read up to <n> bytes; fewer only at the end of the file. Returns their number, or -1 with errno.
 * The size of the file is not trusted. */
static ssize_t read_upto(int fd, uint8_t *to, size_t n)
{
	size_t have = 0;
	ssize_t got;

	while (have < n && (got = read(fd, to + have, n - have)) != 0) {
		if (got < 0 && errno != EINTR)
			return -1;
		have += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)have;
}

static int too_large(const struct snapfile *s, uint64_t n, struct err *e)
{
	return err_set(e,
		"it has %llu bytes or more, but with this index.max_bytes and events.max_bytes at most %llu "
		"are written: set them to their old values, or remove the file", (unsigned long long)n,
		       (unsigned long long)s->bytes_most);
}

/* Read the rest of <fd> to the buffer <*p>, which has <*n> bytes and grows. */
static int read_rest(const struct snapfile *s, int fd, uint8_t **p, size_t *n, struct err *e)
{
	size_t cap = *n;
	ssize_t got;
	uint8_t *more;

	for (;;) {
		cap = cap < READ_FIRST ? READ_FIRST : cap * 2;
		if (cap > s->bytes_most + 1)
			cap = s->bytes_most + 1;
		if ((more = mem_resize(*p, cap, 1)) == NULL)
			return err_set(e, "not enough memory for its more than %zu bytes", *n);
		*p = more;
		if ((got = read_upto(fd, *p + *n, cap - *n)) < 0)
			return err_set(e, "it cannot be read: %s", strerror(errno));
		*n += (size_t)got;
		if (*n > s->bytes_most)
			return too_large(s, *n, e);
		if (*n < cap)
			return 0;
	}
}

static void log_failure(struct snapfile *s, const char *msg, const char *why)
{
	struct log_line ln;

	if (!log_begin(&ln, s->log, LOG_WARN, LOG_LIFE, msg))
		return;
	log_text(&ln, "file", s->path);
	log_text(&ln, "error", why);
	log_end(&ln);
}

/* Hand the positions at the start of <n> bytes to the part that shares. Returns the bytes that they
 * take; 0: there are none. */
static size_t restore_positions(struct snapfile *s, const uint8_t *p, size_t n)
{
	size_t text;

	if (n < POSITIONS_HEAD || memcmp(p, POSITIONS_MAGIC, 8) != 0 ||
	    (text = get32(p + 12)) > n - POSITIONS_HEAD)
		return 0;
	if (get64(p + 16) == checksum(p + POSITIONS_HEAD, text))
		share_resume(s->share, span_of((const char *)p + POSITIONS_HEAD, text));
	return POSITIONS_HEAD + text;
}

/* Load the tree, and the parts after it if there are any. The tree stays if these are refused. */
static int restore(struct snapfile *s, const uint8_t *p, size_t n, struct snapshot_stats *st,
    struct err *e)
{
	size_t tree = snapshot_length(p, n);
	struct route_saved saved = {
		.bytes = p, .n = tree > 0 ? tree : n, .now = clock_msec(), .wall_ms = clock_wall_ms(),
	};
	struct err part = { 0 };

	if (route_restore(s->route, &saved, st, e) != 0)
		return -1;
	tree = saved.n + restore_positions(s, p + saved.n, n - saved.n);
	saved.bytes = p + tree;
	saved.n = n - tree;
	tree += route_restore_sessions(s->route, &saved, &part);
	if (part.text[0] != '\0')
		log_failure(s, "sessions in the snapshot are not loaded", part.text);
	if (tree < n && route_restore_events(s->route, p + tree, n - tree, saved.now, e) != 0)
		log_failure(s, "the blocks that engines reported are not in the snapshot", e->text);
	return 0;
}

static int load_snapshot(struct snapfile *s, int fd, struct snapshot_stats *st, struct err *e)
{
	const struct identity as = { .uid = geteuid() };
	uint8_t head[SNAPSHOT_HEAD_BYTES], *p;
	size_t n = sizeof(head);
	int64_t size;
	int rc;

	if (secret_check(fd, "snapshot", s->path, &as, &size, e) != 0)
		return -1;
	if (size > (int64_t)s->bytes_most)
		return too_large(s, (uint64_t)size, e);
	if (read_upto(fd, head, n) != (ssize_t)n)
		return err_set(e, "it is not a snapshot, or its start is missing");
	if (snapshot_begins(head, e) != 0)
		return -1;
	if ((p = mem_alloc(n)) == NULL)
		return err_set(e, "not enough memory");
	memcpy(p, head, n);
	if ((rc = read_rest(s, fd, &p, &n, e)) == 0)
		rc = restore(s, p, n, st, e);
	mem_free(p);
	return rc;
}

static void log_counts(
    struct log_line *ln, const struct snapfile *s, const struct snapshot_stats *st)
{
	log_text(ln, "file", s->path);
	log_int(ln, "bytes", (int64_t)st->bytes);
	log_int(ln, "spaces", (int64_t)st->spaces);
	log_int(ln, "nodes", (int64_t)st->nodes);
	log_int(ln, "pages", (int64_t)st->pages);
	log_int(ln, "servers", (int64_t)st->servers);
}

static void log_loaded(struct snapfile *s, const struct snapshot_stats *st, msec ms)
{
	struct log_line ln;

	if (!log_begin(&ln, s->log, LOG_INFO, LOG_LIFE, "snapshot loaded"))
		return;
	log_counts(&ln, s, st);
	log_int(&ln, "servers_skipped", (int64_t)st->servers_skipped);
	log_int(&ln, "prefixes", (int64_t)st->held);
	log_int(&ln, "prefixes_left_out", (int64_t)st->left_out);
	log_int(&ln, "ms", ms);
	log_end(&ln);
}

/* Log why the snapshot was rejected, and rename it to .refused. The next write would replace it,
 * and it may fit another key or configuration. */
static void keep_aside(struct snapfile *s, const char *msg, const char *why)
{
	char aside[sizeof(s->name) + 16];

	snprintf(aside, sizeof(aside), "%s.refused", s->name);
	log_failure(s, msg, why);
	if (renameat(s->dir, s->name, s->dir, aside) == 0)
		log_msg(s->log, LOG_WARN, LOG_LIFE, "rejected snapshot renamed to .refused");
}

void snapfile_load(struct snapfile *s, struct route *r, struct log *log)
{
	struct snapshot_stats st;
	struct err e = { 0 };
	msec begun = clock_msec();
	int fd;

	if (s->dir < 0)
		return;
	s->route = r;
	s->log = log;
	fd = openat(s->dir, s->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0) {
		if (errno == ENOENT)
			log_msg(log, LOG_INFO, LOG_LIFE, "no snapshot yet; the index starts empty");
		else
			keep_aside(s, "cannot open the snapshot; the index starts empty", strerror(errno));
		return;
	}
	if (load_snapshot(s, fd, &st, &e) != 0) {
		keep_aside(s, "snapshot rejected; the index starts empty", e.text);
	} else {
		__atomic_store_n(&s->loaded_pages, st.pages, __ATOMIC_RELAXED);
		log_loaded(s, &st, clock_msec() - begun);
	}
	close(fd);
}

/* ---- writing ---------------------------------------------------------------------------- */

static int write_bytes(void *arg, const void *bytes, size_t n)
{
	return fd_write_all(*(int *)arg, bytes, n);
}

/* <text>: taken before the index, so that nothing lies between the two. */
static int write_positions(int fd, const char *text, size_t n)
{
	uint8_t head[POSITIONS_HEAD] = { 0 };

	if (n == 0)
		return 0;
	memcpy(head, POSITIONS_MAGIC, 8);
	put32(head + 12, (uint32_t)n);
	put64(head + 16, checksum(text, n));
	return fd_write_all(fd, head, sizeof(head)) != 0 || fd_write_all(fd, text, n) != 0 ? -1 : 0;
}

/* Returns 0, or -1 with errno, which is ECANCELED if the end of the process came first. */
static int write_slices(struct snapfile *s, int fd, bool pause, struct snapshot_stats *st)
{
	char positions[SHARE_POSITIONS_MAX];
	size_t n = share_positions(s->share, positions, sizeof(positions));
	struct snapshot_writer *w = route_snapshot(
	    s->route, clock_msec(), clock_wall_ms(), write_bytes, &fd);
	int rc, error;

	errno = ENOMEM;
	if (w == NULL)
		return -1;
	while ((rc = snapshot_write(w, SLICE_NODES)) == 0) {
		if (!pause || !thread_sleep_ms(&s->sleep, SLICE_PAUSE_MS))
			continue;
		errno = ECANCELED;
		rc = -1;
		break;
	}
	error = errno;
	snapshot_writer_stats(w, st);
	snapshot_writer_free(w);
	errno = error;
	return rc > 0 && write_positions(fd, positions, n) == 0 &&
	    route_save_sessions(s->route, clock_msec(), clock_wall_ms(), write_bytes, &fd) == 0 ?
		route_save_events(s->route, write_bytes, &fd) : -1;
}

/* Without an opener there is no sandbox. */
static bool without_opener(const struct snapfile *s)
{
	return s->opener == NULL || s->opener->fd < 0;
}

static int opener_result(int rc)
{
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -1 : rc;
}

/* Like newfile_end(), but the opener renames or removes the file. */
static int end_by_opener(struct snapfile *s, int fd, int rc)
{
	int error;

	rc = fd_end(fd, rc);
	if (rc == 0 && opener_result(opener_snapshot_keep(s->opener)) == 0) {
		fsync(s->dir);
		return 0;
	}
	error = errno;
	opener_snapshot_drop(s->opener);
	errno = error;
	return -1;
}

static int write_file(struct snapfile *s, bool pause, struct snapshot_stats *st)
{
	int fd;

	if (without_opener(s)) {
		unlinkat(s->dir, s->tmp, 0);
		fd = openat(s->dir, s->tmp, SANDBOX_NEW_FILE, 0600);
		return fd < 0 ? -1 : newfile_end(s->dir, fd, s->tmp, s->name, write_slices(s, fd, pause, st));
	}
	fd = opener_result(opener_snapshot_new(s->opener));
	return fd < 0 ? -1 : end_by_opener(s, fd, write_slices(s, fd, pause, st));
}

static void log_written(struct snapfile *s, const struct snapshot_stats *st, msec ms)
{
	struct log_line ln;

	if (!log_begin(&ln, s->log, LOG_INFO, LOG_LIFE, "snapshot written"))
		return;
	log_counts(&ln, s, st);
	log_int(&ln, "ms", ms);
	log_end(&ln);
}

static void write_now(struct snapfile *s, bool pause)
{
	struct snapshot_stats st = { 0 };
	msec begun = clock_msec();

	if (write_file(s, pause, &st) == 0) {
		__atomic_store_n(&s->bytes, st.bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&s->written_at, clock_msec(), __ATOMIC_RELAXED);
		__atomic_fetch_add(&s->written, 1, __ATOMIC_RELAXED);
		log_written(s, &st, clock_msec() - begun);
	} else if (errno != ECANCELED) {
		__atomic_fetch_add(&s->failed, 1, __ATOMIC_RELAXED);
		log_failure(s, "cannot write the snapshot; the old one stays",
		    errno == ESRCH ? "the process that opens files has ended; restart the agent"
				   : strerror(errno));
	}
}

void snapfile_write(struct snapfile *s)
{
	if (s->dir >= 0)
		write_now(s, false);
}

/* ---- the thread ------------------------------------------------------------------------- */

static void *snapfile_main(void *arg)
{
	struct snapfile *s = arg;

	pthread_setname_np(pthread_self(), "snapshot");
	for (;;) {
		/* what is asked for while a snapshot is written comes after it */
		bool asked = __atomic_exchange_n(&s->asked, false, __ATOMIC_RELAXED);

		if (!asked && thread_sleep_ms(&s->sleep, s->every_ms > 0 ? s->every_ms : NEVER_MS))
			return NULL;
		if (__atomic_exchange_n(&s->asked, false, __ATOMIC_RELAXED) || asked || s->every_ms > 0)
			write_now(s, true);
	}
}

bool snapfile_ask(struct snapfile *s)
{
	if (s->dir < 0 || !s->on_demand)
		return false;
	__atomic_store_n(&s->asked, true, __ATOMIC_RELAXED);
	thread_sleep_wake(&s->sleep);
	return true;
}

int snapfile_start(struct snapfile *s, struct err *e)
{
	int rc;

	if (s->dir < 0 || (s->every_ms == 0 && !s->on_demand))
		return 0;
	rc = pthread_create(&s->thread, NULL, snapfile_main, s);
	if (rc != 0)
		return err_set(e, "cannot start the snapshot thread: %s", strerror(rc));
	s->running = true;
	return 0;
}

void snapfile_stop(struct snapfile *s)
{
	if (!s->running)
		return;
	thread_sleep_end(&s->sleep);
	pthread_join(s->thread, NULL);
	s->running = false;
}
