/* Walks from directory to directory. Each part of the path is opened by itself, and the kernel
 * follows no link: the text of a link is inserted before the rest of the path. ".." returns to the
 * previous directory by its descriptor, so a rename during the walk cannot lead out.
 *
 * openat2(RESOLVE_BENEATH) does the same in the kernel since Linux 5.6. But its flags are in
 * memory, which a filter of system calls cannot read, so allowing it would also allow to create and
 * write files. openat() has its flags in a register (sandbox_seccomp.c). */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/safe_path.h"

struct walk {
	int fd[SAFE_PATH_DEPTH_MAX];	/* fd[0] belongs to the caller */
	unsigned depth, links;
	char path[SAFE_PATH_MAX + 1];
	char part[SAFE_PATH_MAX + 1];
	char *rest;			/* of <path>, after <part> */
};

static void walk_end(struct walk *w)
{
	for (; w->depth > 0; w->depth--)
		close(w->fd[w->depth]);
}

static int walk_begin(struct walk *w, int dir, const char *path)
{
	size_t n = strlen(path);

	w->fd[0] = dir;
	w->depth = w->links = 0;
	w->rest = w->path;
	if (n > SAFE_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(w->path, path, n + 1);
	return path[0] == '/' ? -EXDEV : 0;
}

/* Copy the next part to <part>. Returns false if there is none. */
static bool next_part(struct walk *w)
{
	size_t n;

	w->rest += strspn(w->rest, "/");
	n = strcspn(w->rest, "/");
	memcpy(w->part, w->rest, n);
	w->part[n] = '\0';
	w->rest += n;
	return n > 0;
}

/* Insert the text of the open <link> before the rest of the path. */
static int follow_link(struct walk *w, int link)
{
	char text[SAFE_PATH_MAX + 1];
	ssize_t n = readlinkat(link, "", text, sizeof(text));
	size_t rest = strlen(w->rest);

	if (n < 0)
		return -errno;
	if (n == 0)
		return -ENOENT;
	if (text[0] == '/')
		return -EXDEV;
	if (++w->links > SAFE_PATH_LINKS_MAX)
		return -ELOOP;
	if ((size_t)n + rest > SAFE_PATH_MAX)
		return -ENAMETOOLONG;
	memmove(w->path + n, w->rest, rest + 1);
	memcpy(w->path, text, (size_t)n);
	w->rest = w->path;
	return 0;
}

static int walk_up(struct walk *w)
{
	if (w->depth == 0)
		return -EXDEV;
	close(w->fd[w->depth--]);
	return 0;
}

/* Enter the directory <fd>. Takes <fd> over, also on failure. */
static int walk_down(struct walk *w, int fd)
{
	if (w->depth + 1 == SAFE_PATH_DEPTH_MAX) {
		close(fd);
		return -ENAMETOOLONG;
	}
	w->fd[++w->depth] = fd;
	return 0;
}

/* Open the last part as a file. Returns 1 and stores the descriptor in <*out> if it is the regular
 * file <seen>. Returns -EAGAIN if the file was replaced since. */
static int open_file(struct walk *w, const struct stat *seen, int *out)
{
	struct stat st;
	int fd;

	if (w->rest[0] != '\0')
		return -ENOTDIR;
	fd = openat(w->fd[w->depth], w->part, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == seen->st_dev &&
	    st.st_ino == seen->st_ino) {
		*out = fd;
		return 1;
	}
	close(fd);
	return -EAGAIN;
}

/* Walk one part. Returns 0 to continue, 1 if a file is open in <*out>, or -errno. */
static int walk_step(struct walk *w, int *out)
{
	struct stat st;
	int fd, rc;

	if (strcmp(w->part, ".") == 0)
		return 0;
	if (strcmp(w->part, "..") == 0)
		return walk_up(w);
	fd = openat(w->fd[w->depth], w->part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		rc = -errno;
	else if (S_ISDIR(st.st_mode))
		return walk_down(w, fd);
	else if (S_ISLNK(st.st_mode))
		rc = follow_link(w, fd);
	else
		rc = S_ISREG(st.st_mode) ? open_file(w, &st, out) : -EBADFD;
	close(fd);
	return rc;
}

int safe_path_open(int dir, const char *path)
{
	struct walk w;
	int rc = walk_begin(&w, dir, path), fd = -1;

	while (rc == 0)
		rc = next_part(&w) ? walk_step(&w, &fd) : -EISDIR;
	walk_end(&w);
	return rc > 0 ? fd : rc;
}

int safe_path_parent(int dir, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash != NULL ? (size_t)(slash - path) : 0;
	char above[SAFE_PATH_MAX + 1];
	struct walk w;
	int rc, fd = -1;

	*name = slash != NULL ? slash + 1 : path;
	if (n > SAFE_PATH_MAX)
		return -ENAMETOOLONG;
	if (slash == path)
		return -EXDEV;
	memcpy(above, path, n);
	above[n] = '\0';
	rc = walk_begin(&w, dir, above);
	while (rc == 0 && next_part(&w))
		rc = walk_step(&w, &fd);
	if (fd >= 0)			/* a file instead of a directory */
		close(fd);
	fd = rc == 0 ? openat(w.fd[w.depth], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (rc == 0)
		rc = fd < 0 ? -errno : fd;
	else if (rc > 0)
		rc = -ENOTDIR;
	walk_end(&w);
	return rc;
}

const char *safe_path_error(int rc)
{
	if (rc == -EXDEV)
		return "it is outside of its directory, or a link leads out of it";
	if (rc == -EBADFD)
		return "it is not a regular file";
	return strerror(-rc);
}
