/* doctor_write.c - files of HAProxy as HAProxy finds them, and "doctor --write" and "--remove". */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ctl/doctor.h"

/* ---- files --------------------------------------------------------------------------------- */

static int add(struct doctor_args *a, const char *path, const char **why)
{
	if (a->n == DOCTOR_FILES) {
		*why = "too many files";
		return -1;
	}
	if ((a->paths[a->n] = strdup(path)) == NULL) {
		*why = "there is no memory";
		return -1;
	}
	a->n++;
	return 0;
}

/* HAProxy takes "*.cfg" of a directory in the order of the C locale, and no hidden file. */
static int is_cfg(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 4 && e->d_name[0] != '.' && strcmp(e->d_name + n - 4, ".cfg") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int doctor_add_path(struct doctor_args *a, const char *path, const char **why)
{
	struct dirent **found;
	struct stat st;
	char name[4096];
	int n, status = 0;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return add(a, path, why);
	if ((n = scandir(path, &found, is_cfg, by_name)) < 0) {
		*why = strerror(errno);
		return -1;
	}
	if (n == 0) {
		*why = "no file *.cfg is in this folder";
		status = -1;
	}
	for (int i = 0; i < n; i++) {
		if (snprintf(name, sizeof(name), "%s/%s", path, found[i]->d_name) >= (int)sizeof(name)) {
			*why = "the name of a file is too long";
			status = -1;
		} else if (status == 0) {
			status = add(a, name, why);
		}
		free(found[i]);
	}
	free(found);
	return status;
}

/* ---- names --------------------------------------------------------------------------------- */

static bool is_below(const char *path)
{
	struct stat st;

	return path[0] != '/' && strstr(path, "..") == NULL && lstat(path, &st) == 0 &&
	    S_ISREG(st.st_mode);
}

static int make_absolute(struct doctor_args *a, struct doctor_names *n)
{
	for (unsigned i = 0; i < a->n; i++) {
		char *path = realpath(a->paths[i], NULL);

		if (path == NULL) {
			snprintf(n->why, sizeof(n->why), "%s: %s", a->paths[i], strerror(errno));
			return -1;
		}
		free(a->paths[i]);
		a->paths[i] = path;
	}
	return 0;
}

/* The SPOE file: --spoe, or beside the first file. */
static int name_spoe(const struct doctor_args *a, struct doctor_names *n)
{
	char cwd[4096] = "";
	const char *given = a->spoe != NULL ? a->spoe : a->paths[0], *slash = strrchr(given, '/');
	int dir = slash != NULL ? (int)(slash - given) + 1 : 0, len;

	if (given[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL)
		return -1;
	len = snprintf(n->spoe, sizeof(n->spoe), "%s%s%.*s%s", cwd, given[0] != '/' ? "/" : "",
	    a->spoe != NULL ? (int)strlen(given) : dir, given, a->spoe != NULL ? "" : "kvroute.spoe");
	return len < (int)sizeof(n->spoe) ? 0 : -1;
}

int doctor_check_twice(const struct doctor_args *a, char *why, size_t room)
{
	struct stat st[DOCTOR_FILES];

	for (unsigned i = 0; i < a->n; i++) {
		if (stat(a->paths[i], &st[i]) < 0)
			st[i] = (struct stat){ 0 };
		for (unsigned k = 0; k < i && st[i].st_ino != 0; k++) {
			if (st[i].st_dev != st[k].st_dev || st[i].st_ino != st[k].st_ino)
				continue;
			snprintf(why, room, "%s and %s are the same file: name it once", a->paths[k],
			    a->paths[i]);
			return -1;
		}
	}
	return 0;
}

int doctor_choose_names(struct doctor_args *a, struct doctor_names *n)
{
	bool below = a->n > 0;

	for (unsigned i = 0; i < a->n; i++)
		below = below && is_below(a->paths[i]);
	if (below && (getcwd(n->root, sizeof(n->root)) == NULL || strcmp(n->root, "/") == 0))
		below = false;
	if (!below) {
		n->root[0] = '\0';
		if (make_absolute(a, n) < 0)
			return -1;
	}
	if (a->n > 0 && name_spoe(a, n) < 0) {
		snprintf(n->why, sizeof(n->why), "the name of the SPOE file is too long");
		return -1;
	}
	return 0;
}

/* ---- the diff ------------------------------------------------------------------------------ */

/* <what>: "note: ", or what is refused. */
static void print_said(const struct buf *said, const char *option, const char *what)
{
	const char *p = said->n > 0 ? said->p : "", *end = p + said->n, *stop;

	for (; p < end; p = stop + 1) {
		if ((stop = memchr(p, '\n', (size_t)(end - p))) == NULL)
			stop = end;
		fprintf(stderr, "kvroutectl doctor: %s%s%.*s\n", option, what, (int)(stop - p), p);
	}
}

int doctor_write(struct doctor *d, const struct doctor_args *a, const struct doctor_names *n)
{
	struct doctor_attach o = {
		.pools = a->n_pools > 0 ? a->pools : NULL,
		.frontends = a->n_frontends > 0 ? a->frontends : NULL,
		.spoe = a->remove ? NULL : n->spoe, .root = n->root,
	};
	struct buf diff = { 0 }, said = { 0 };
	const char *option = a->remove ? "--remove" : a->update ? "--update" : "--write";
	int status = a->remove ? doctor_detach(d, &o, &diff, &said) :
	    a->update ? doctor_update(d, &o, &diff, &said) : doctor_attach(d, &o, &diff, &said);

	if (status == 0)
		print_said(&said, "note: ", "");
	else if (status != DOCTOR_NOMEM)
		print_said(&said, option, status == DOCTOR_ASKS ? " asks: " : " refused: ");
	if (status == 0 && diff.n > 0 && fwrite(diff.p, 1, diff.n, stdout) == diff.n &&
	    fflush(stdout) == 0)
		fprintf(stderr, "kvroutectl doctor: apply it with \"patch %s-p1\"; then check with "
		    "\"haproxy -c\" and reload\n", n->root[0] == '\0' ? "-d / " : "");
	else if (status == DOCTOR_ASKS)
		fprintf(stderr, "kvroutectl doctor: there is no diff, because a question is open: repeat %s "
		    "with the options that answer it\n", option);
	else if (status == DOCTOR_NOMEM)
		fprintf(stderr, "kvroutectl doctor: there is no memory\n");
	buf_free(&diff);
	buf_free(&said);
	return status == 0 ? 0 : 1;
}
