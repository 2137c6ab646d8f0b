/* The start gives up rights step by step. --no-sandbox keeps system calls and capabilities, for a
 * debugger; the user is changed in any case. */
#include <errno.h>
#include <grp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/loop/confine_in.h"
#include "agent/os/libc_files.h"
#include "agent/os/memory.h"

#define UNIX_PREFIX	"unix@"

/* ---- the opener ------------------------------------------------------------------------- */

static void add_sockets(struct opener_files *f, const char (*text)[ADDR_MAX])
{
	for (unsigned i = 0; i < LISTEN_MAX && text[i][0] != '\0'; i++)
		if (strncmp(text[i], UNIX_PREFIX "/", sizeof(UNIX_PREFIX)) == 0)
			f->socket[f->n_sockets++] = text[i] + strlen(UNIX_PREFIX);
}

/* The opener is forked before any secret is read, so that it never has one. */
static void start_opener(struct agent *a, const struct loop_opts *o, const char *conf)
{
	const struct snapfile *s = &a->snapfile;
	struct opener_files f = { .conf = conf, .models_dir = o->models_dir, .as = &a->identity };
	struct log_line ln;

	add_sockets(&f, o->spop);
	add_sockets(&f, o->log_tcp);
	add_sockets(&f, o->log_udp);
	add_sockets(&f, o->metrics);
	if (o->runtime_path[0] != '\0')
		f.socket[f.n_sockets++] = o->runtime_path;
	if (s->name[0] != '\0') {
		f.snapshot_dir = s->dir_path;
		f.snapshot = s->name;
		f.snapshot_tmp = s->tmp;
	}
	if (a->recfile.name[0] != '\0') {
		f.record_dir = a->recfile.dir_path;
		f.record = a->recfile.name;
		f.record_old = a->recfile.old;
	}
	f.refused = a->refused != NULL ? &a->refused->opener : NULL;
	if (opener_start(&a->opener, &f) == 0 ||
	    !log_begin(&ln, &a->log, LOG_WARN, LOG_LIFE,
		"cannot start the process that opens files for the agent"))
		return;
	log_text(&ln, "error", strerror(errno));
	log_text(&ln, "effect",
		"reloads, snapshots and the next file of a recording will fail; unix socket files stay after "
		"the end");
	log_text(&ln, "remedy",
	    "raise the limit of processes (ulimit -u, systemd: TasksMax=) and restart");
	log_end(&ln);
}

int confine_begin(struct agent *a, const struct loop_opts *o, const char *conf, struct err *e)
{
	libc_files_read();
	if (identity_find(o->user, o->group, &a->identity, e) != 0)
		return -1;
	process_open(&a->files);
	a->jit = memory_may_execute();
	if (o->no_sandbox)
		return 0;
	if (SANDBOX_CAN)
		sandbox_no_core(&a->sandbox);
	if ((a->refused = sandbox_refused_new()) == NULL)
		return err_set(e, "no memory");
	start_opener(a, o, conf);
	return 0;
}

void confine_end(struct agent *a)
{
	process_close(&a->files);
	opener_stop(&a->opener);
	sandbox_refused_free(a->refused);
	a->refused = NULL;
}

/* ---- the user --------------------------------------------------------------------------- */

static int own_sockets(const struct listeners *ls, const struct identity *id, struct err *e)
{
	for (unsigned i = 0; i < ls->n; i++) {
		const union sockaddr_any *a = &ls->l[i].addr.a;

		if (a->sa.sa_family == AF_UNIX && lchown(a->un.sun_path, id->uid, id->gid) != 0)
			return err_set(e, "cannot change the owner of the socket %s to user %u: %s",
			    a->un.sun_path, (unsigned)id->uid, strerror(errno));
	}
	return 0;
}

/* Its group is that of the key runtime.group, also if the user does not change. */
static int own_runtime(
    const struct agent *a, const struct loop_opts *o, struct err *e)
{
	const char *path = o->runtime_path;
	const struct identity *id = &a->identity;
	uid_t uid = id->change ? id->uid : (uid_t)-1;
	gid_t gid = id->change ? id->gid : (gid_t)-1;
	struct group *gr;

	if (a->runtime.n == 0)
		return 0;
	if (o->runtime_group[0] != '\0') {
		if ((gr = getgrnam(o->runtime_group)) == NULL)
			return err_set(e,
				"runtime.group: there is no group %s on this machine; make it (groupadd --system %s), or "
				"leave the key out", o->runtime_group, o->runtime_group);
		gid = gr->gr_gid;
	}
	/* no call without a change: the systemd unit refuses every chown */
	if ((uid != (uid_t)-1 || gid != (gid_t)-1) && lchown(path, uid, gid) != 0)
		return err_set(e,
			"cannot change owner and group of the socket %s: %s; start as root, or let the user be a "
			"member of runtime.group", path, strerror(errno));
	return 0;
}

static int own_all_sockets(const struct agent *a, struct err *e)
{
	const struct identity *id = &a->identity;

	if (!id->change)
		return 0;
	if (own_sockets(&a->spop, id, e) != 0 || own_sockets(&a->log_tcp, id, e) != 0 ||
	    own_sockets(&a->log_udp, id, e) != 0 || own_sockets(&a->metrics, id, e) != 0)
		return -1;
	return 0;
}

static void log_user(struct agent *a, bool dropped)
{
	struct log_line ln;

	if (!log_begin(&ln, &a->log, LOG_INFO, LOG_LIFE,
		       dropped ? "capabilities dropped" : "capabilities kept"))
		return;
	log_int(&ln, "uid", (int64_t)geteuid());
	log_int(&ln, "gid", (int64_t)getegid());
	if (geteuid() == 0 && dropped)
		log_text(&ln, "note",
			"root without capabilities still owns the files of the system; set the key user to run as "
			"another user");
	log_end(&ln);
}

/* The system may be set so that a change of user makes a process dumpable, so core dumps are
 * disabled again. */
int confine_user(struct agent *a, const struct loop_opts *o, struct err *e)
{
	bool drop = SANDBOX_CAN && !o->no_sandbox;

	if (own_all_sockets(a, e) != 0 || own_runtime(a, o, e) != 0)
		return -1;
	if (drop)
		privileges_bound();
	if (identity_become(&a->identity, e) != 0)
		return -1;
	if (drop) {
		a->sandbox.no_capabilities = privileges_drop();
		sandbox_no_core(&a->sandbox);
	}
	log_user(a, a->sandbox.no_capabilities);
	return 0;
}

/* ---- the sandbox ------------------------------------------------------------------------ */

static void log_layer(struct log_line *ln, const char *key, const char *on, int error)
{
	char off[128];

	snprintf(off, sizeof(off), "off: %s", strerror(error));
	log_text(ln, key, error == 0 ? on : off);
}

static void log_parts(struct log_line *ln, const struct sandbox *s)
{
	char abi[16];

	snprintf(abi, sizeof(abi), "abi%d", s->landlock_abi);
	log_layer(ln, "seccomp", "on", s->seccomp_error);
	log_layer(ln, "landlock", abi, s->landlock_error);
	log_text(ln, "no_new_privs", s->no_new_privs ? "on" : "off");
	log_text(ln, "capabilities", s->no_capabilities ? "none" : "kept");
	log_int(ln, "uid", (int64_t)geteuid());
	log_text(ln, "core", s->core_off ? "off" : "on");
	log_text(ln, "open", s->open_refused ? "refused" : "allowed");
	log_text(ln, "execve", s->execve_refused ? "refused" : "allowed");
}

static void log_sandbox(struct agent *a, const struct loop_opts *o)
{
	bool off = o->no_sandbox || !SANDBOX_CAN, whole = sandbox_whole(&a->sandbox);
	struct log_line ln;

	if (!log_begin(&ln, &a->log, off || whole ? LOG_INFO : LOG_WARN, LOG_LIFE,
		       off ? "sandbox off" : whole ? "sandbox" : "sandbox is incomplete"))
		return;
	if (off)
		log_text(&ln, "why", o->no_sandbox ? "--no-sandbox" : "built with a sanitizer");
	else
		log_parts(&ln, &a->sandbox);
	if (!off && !whole)
		log_text(&ln, "effect",
			"requests are answered; the parts that are off or allowed do not protect the process");
	log_end(&ln);
}

void confine_enter(struct agent *a, const struct loop_opts *o)
{
	int datagrams[LISTEN_MAX + 1];
	struct sandbox_opts so = {
		.opener = a->opener.fd, .datagrams = datagrams, .out = &a->connect_ports
	};

	for (unsigned i = 0; i < a->log_udp.n; i++)
		datagrams[so.n_datagrams++] = a->log_udp.l[i].fd;
	if (a->notify.fd >= 0)
		datagrams[so.n_datagrams++] = a->notify.fd;
	if (!o->no_sandbox && SANDBOX_CAN) {
		so.refused = &a->refused->agent;
		sandbox_enter(&a->sandbox, &so);
	}
	log_sandbox(a, o);
}

/* ---- refused calls ---------------------------------------------------------------------- */

static void log_refused_calls(
    const struct refused_count *c, const char *process, uint64_t *told, struct log *log)
{
	int number = __atomic_load_n(&c->last, __ATOMIC_RELAXED);
	uint64_t n = refused_read(c);
	struct log_line ln;
	char *name;

	if (n == *told || !log_begin(&ln, log, LOG_WARN, LOG_LIFE, "the sandbox refused system calls"))
		return;
	name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
	log_text(&ln, "process", process);
	log_int(&ln, "calls", (int64_t)(n - *told));
	log_text(&ln, "last", name != NULL ? name : "unknown");
	log_int(&ln, "number", number);
	log_text(&ln, "effect", "each call failed with EPERM; requests are still answered");
	log_text(&ln, "remedy",
		"the agent needs none while it serves: report it, and check this process for foreign code");
	log_end(&ln);
	free(name);
	*told = n;
}

void confine_log_refused(
    const struct sandbox_refused *r, struct refused_told *told, struct log *log, msec now)
{
	if (r == NULL || (told->at != 0 && now - told->at < REFUSED_LOG_MS))
		return;
	if (refused_read(&r->agent) == told->agent && refused_read(&r->opener) == told->opener)
		return;
	log_refused_calls(&r->agent, "agent", &told->agent, log);
	log_refused_calls(&r->opener, "opener", &told->opener, log);
	told->at = now;
}
