/* Files with a secret are checked after they are open, so that a file that is exchanged between the
 * check and the open cannot pass. The token is compared in constant time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/os/privileges.h"
#include "agent/os/secret.h"

int secret_open(const char *path, const struct identity *as)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	struct stat st;

	if (fd >= 0 || errno != ELOOP)
		return fd;
	if (as != NULL && (lstat(path, &st) != 0 || !identity_owns(as, st.st_uid))) {
		errno = EPERM;
		return -1;
	}
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* Returns true if the service manager passed <path> as a credential. systemd makes its directory
 * for this service alone, and gives the agent the right to read by an access list, which looks like
 * a right of the group. */
static bool is_credential(const char *path)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	size_t n = dir != NULL ? strlen(dir) : 0;

	return n > 1 && dir[0] == '/' && strncmp(path, dir, n) == 0 && path[n] == '/' &&
	       strchr(path + n + 1, '/') == NULL;
}

int secret_check(int fd, const char *what, const char *path, const struct identity *as,
    int64_t *bytes, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_set(e, "cannot read the %s file %s: %s", what, path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, "the %s file %s is not a regular file", what, path);
	if (as != NULL && !identity_owns(as, st.st_uid))
		return err_set(e,
		    "the %s file %s belongs to user %u, neither to root nor to the agent's user %u: if it is "
		    "yours, chown it; else remove it",
		    what, path, (unsigned)st.st_uid, (unsigned)as->uid);
	if (st.st_mode & (is_credential(path) ? 037 : 077))
		return err_set(e,
			"the %s file %s is open to its group or to others (mode %04o): chmod 0600 "
			"it", what, path, (unsigned)(st.st_mode & 07777));
	*bytes = (int64_t)st.st_size;
	return 0;
}

static int take_line(
    const char *what, const char *path, int fd, char *out, size_t cap, struct err *e)
{
	ssize_t n = read(fd, out, cap);

	if (n < 0)
		return err_set(e, "cannot read the %s file %s: %s", what, path, strerror(errno));
	if (n > 0 && out[n - 1] == '\n')
		n--;
	if (n == 0 || (size_t)n >= cap || memchr(out, '\n', (size_t)n) != NULL ||
	    memchr(out, '\0', (size_t)n) != NULL)
		return err_set(e, "the %s file %s must have one line of 1 to %zu bytes", what, path, cap - 1);
	out[n] = '\0';
	return 0;
}

int secret_read_line(const char *what, const char *path, const struct identity *as, char *out,
    size_t cap, struct err *e)
{
	int fd = secret_open(path, as), rc;
	int64_t bytes;

	if (fd < 0)
		return err_set(e, "cannot read the %s file %s: %s", what, path,
		    errno == EPERM ? "it is a link that belongs to another user" : strerror(errno));
	rc = secret_check(fd, what, path, as, &bytes, e);
	if (rc == 0)
		rc = take_line(what, path, fd, out, cap, e);
	if (rc != 0)
		mem_wipe(out, cap);
	close(fd);
	return rc;
}

/* ---- the token -------------------------------------------------------------------------- */

static bool token_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c != '\0' && strchr("._~+/=-", c) != NULL);
}

/* Check the token in <text>, the first <n> bytes of the file. That is the whole file, if it is not
 * too long. */
static int check_token(struct token *t, const char *path, const char *text, size_t n, struct err *e)
{
	if (n > 0 && text[n - 1] == '\n')
		n--;
	if (n < TOKEN_MIN || n > TOKEN_MAX)
		return err_set(e, "the token file %s must have one word of %d to %d characters", path,
			       TOKEN_MIN, TOKEN_MAX);
	for (size_t i = 0; i < n; i++)
		if (!token_byte(text[i]))
			return err_set(e, "the token file %s must have letters, digits and \"._~+/=-\" only",
				       path);
	memcpy(t->text, text, n);
	t->n = n;
	return 0;
}

static int cannot_read(const char *path, struct err *e)
{
	return err_set(e, "cannot read the token file %s: %s", path,
		       errno == EPERM ? "it is a link that belongs to another user" : strerror(errno));
}

int token_read(struct token *t, const char *path, const struct identity *as, struct err *e)
{
	char text[TOKEN_MAX + 2];	/* with its newline and one byte more, to see that it is too long */
	int64_t bytes;
	ssize_t n;
	int fd, rc;

	t->n = 0;
	if (path[0] == '\0')
		return 0;
	fd = secret_open(path, as);
	if (fd < 0)
		return cannot_read(path, e);
	rc = secret_check(fd, "token", path, as, &bytes, e);
	if (rc == 0 && (n = read(fd, text, sizeof(text))) < 0)
		rc = cannot_read(path, e);
	else if (rc == 0)
		rc = check_token(t, path, text, (size_t)n, e);
	mem_wipe(text, sizeof(text));
	close(fd);
	return rc;
}

bool token_same(const struct token *t, struct span given)
{
	volatile unsigned char differ = 0;

	if (given.n != t->n)
		return false;
	for (size_t i = 0; i < t->n; i++)
		differ |= (unsigned char)(t->text[i] ^ given.p[i]);
	return differ == 0;
}
