/* Reload: everything is read and checked in the main thread while the other threads work, and
 * applied only if all of it is valid. The tokenizers of models are loaded here as well, at the
 * start and at a reload. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/reload_in.h"
#include "agent/os/clock.h"

/* ---- tokenizers ------------------------------------------------------------------------- */

static int open_by_opener(void *opener, const char *path)
{
	return opener_open_model(opener, path);
}

static struct model_files model_files_of(struct agent *a, const struct loop_opts *o, bool start)
{
	struct model_files f = { .models_dir = o->models_dir, .state_dir = o->state_dir, .log = &a->log };

	f.images = start ? IMAGES_WRITE : IMAGES_READ;
	f.open = start || a->opener.fd < 0 ? models_open : open_by_opener;
	f.arg = f.open == models_open ? (void *)o->models_dir : &a->opener;
	return f;
}

int agent_load_models(struct agent *a, const struct loop_opts *o, const struct route_opts *ro,
    struct route_opts *own, struct err *e)
{
	struct model_files f = model_files_of(a, o, true);
	struct model_set *set;

	if (route_opts_copy(own, ro) != 0) {
		memset(own, 0, sizeof(*own));
		return err_set(e, "no memory");
	}
	if ((set = models_load(own, NULL, &f, e)) == NULL)
		return -1;
	models_take(&a->models, set);
	return 0;
}

/* ---- errors ---------------------------------------------------------------------- */

static void log_err(struct agent *a, const char *msg, const struct err *e)
{
	struct log_line ln;

	if (!log_begin(&ln, &a->log, LOG_ERROR, LOG_LIFE, msg))
		return;
	if (e->file[0] != '\0')
		log_text(&ln, "file", e->file);
	if (e->file[0] != '\0' && e->line > 0) {
		log_int(&ln, "line", e->line);
		log_int(&ln, "column", e->column);
	}
	log_text(&ln, "error", e->text);
	log_end(&ln);
}

static void refuse_reload(struct agent *a, const struct reload_errors *es)
{
	struct log_line ln;
	size_t i;

	for (i = 0; i < es->n; i++)
		log_err(a, "reload refused; the old configuration stays", &es->e[i]);
	if (es->more == 0 ||
	    !log_begin(&ln, &a->log, LOG_ERROR, LOG_LIFE, "reload refused, for more reasons"))
		return;
	log_int(&ln, "more", (int64_t)es->more);
	log_text(&ln, "remedy", "kvroute -t lists all of them");
	log_end(&ln);
}

static void set_reload_error(struct reload_errors *es, const char *text)
{
	err_set(&es->e[0], "%s", text);
	es->n = 1;
}

/* ---- reload ---------------------------------------------------------------------- */

/* Returns true if <fd> is not a regular file. Reading it may never end, and this thread must react
 * to signals. */
static bool is_endless(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
}

static int reload_file(struct agent *a, const struct loop_reload *reload, struct route_opts *ro,
		       struct loop_opts *o, struct reload_errors *es)
{
	int fd, rc = -1;

	if (a->opener.fd >= 0)
		fd = opener_open(&a->opener);
	else if ((fd = open(reload->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
		fd = -errno;
	if (fd == -ESRCH)
		set_reload_error(es, "the process that opens the configuration has ended; restart the agent");
	else if (is_endless(fd))
		set_reload_error(es, "the configuration is not a regular file");
	else
		rc = reload->load(reload->arg, fd, ro, o, es);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* The sandbox refuses the executable memory that PCRE2 requests; PCRE2 then works without its
 * JIT. */
static struct model_set *load_models_again(
    struct agent *a, const struct loop_opts *o, struct route_opts *ro, struct err *e)
{
	struct model_files f = model_files_of(a, o, false);
	struct model_set *set;

	sandbox_refused_expect_mmap(true);
	set = models_load(ro, a->models.set, &f, e);
	sandbox_refused_expect_mmap(false);
	return set;
}

/* Apply all of <ro> and <o>, or nothing. */
static void apply_reload(struct agent *a, struct background *bg, struct route_opts *ro,
    const struct loop_opts *o, struct reload_errors *es)
{
	struct model_set *set;
	struct poll_peers_opts *peers = NULL;
	struct connect_ports *want = mem_alloc(sizeof(*want));
	bool ports = sandbox_binds_ports(&a->sandbox), bound = a->sandbox.seccomp || ports;

	if (want == NULL) {
		set_reload_error(es, "no memory");
		return;
	}
	connect_ports_of(o, want);
	if (bound && connect_ports_cover(&a->connect_ports, ports, want, &es->e[0]) != 0) {
		es->n = 1;
	} else if ((set = load_models_again(a, o, ro, &es->e[0])) == NULL) {
		es->n = 1;
	} else if ((peers = poll_peers_opts_new(o)) == NULL || route_reconfigure(a->route, ro) != 0) {
		mem_free(peers);
		models_free(set);
		set_reload_error(es, "no memory");
	} else {
		models_take(&a->models, set);
		agent_apply_options(a, o);
		background_reload(bg, peers);
		log_msg(&a->log, LOG_INFO, LOG_LIFE, "reloaded");
	}
	mem_free(want);
}

static void notify_reloading(const struct agent *a)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)clock_usec());
	notify_send(&a->notify, text);
}

static void notify_reloaded(const struct agent *a, bool applied)
{
	notify_send(&a->notify, applied ? "READY=1\nSTATUS=reloaded"
	    : "READY=1\nSTATUS=reload refused, the old configuration stays; the log says why");
}

void agent_reload(struct agent *a, struct background *bg, const struct loop_reload *reload)
{
	struct route_opts *ro = mem_alloc(sizeof(*ro));
	struct loop_opts *o = mem_alloc(sizeof(*o));
	struct reload_errors es = { .n = 0 };

	notify_reloading(a);
	if (reload == NULL) {
		set_reload_error(&es, "this agent was started without a way to reload");
	} else if (reload->file == NULL) {
		set_reload_error(&es,
			"no configuration file was named at the start (-f), so there is none to reload");
	} else if (ro == NULL || o == NULL) {
		set_reload_error(&es, "no memory");
	} else if (reload_file(a, reload, ro, o, &es) == 0) {
		apply_reload(a, bg, ro, o, &es);
		if (es.n == 0)
			config_text_set(&a->config_text, reload, ro, o);
		route_opts_free(ro);
		loop_opts_free(o);
	}
	refuse_reload(a, &es);
	notify_reloaded(a, es.n == 0);
	mem_free(ro);
	mem_free(o);
}
