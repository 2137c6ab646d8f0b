/* The key file has HASH_SECRET_BYTES random bytes and nothing else, so `head -c 192 /dev/urandom`
 * makes one for a fleet.
 *
 * A new key is written under a temporary name and then linked to its path. So no process reads half
 * a key, and of two agents that start at the same time both use the first one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/os/key_file.h"
#include "agent/os/limits.h"
#include "agent/os/privileges.h"
#include "agent/os/secret.h"

/* Write the directory of <path> to <dir>: "." if it has none. */
static void directory_of(const char *path, char *dir, size_t cap)
{
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		snprintf(dir, cap, ".");
	else
		snprintf(dir, cap, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static int random_key(struct hash_key *key, struct err *e)
{
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(key->secret)) {
		got = getrandom(key->secret + n, sizeof(key->secret) - n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(e, "cannot get random bytes for the key: %s", strerror(errno));
		n += (size_t)got;
	}
	return 0;
}

static int check_file(int fd, const char *path, const struct identity *as, struct err *e)
{
	int64_t bytes;

	if (secret_check(fd, "key", path, as, &bytes, e) != 0)
		return -1;
	if (bytes != HASH_SECRET_BYTES)
		return err_set(e, "the key file %s has %lld bytes instead of %d", path, (long long)bytes,
			       HASH_SECRET_BYTES);
	return 0;
}

/* Returns 0, 1 with errno if the file cannot be opened, or -1 with <e>. */
static int read_key(
    const char *path, const struct identity *as, struct hash_key *key, struct err *e)
{
	int fd = secret_open(path, as);
	int rc;

	if (fd < 0 && errno == EPERM)
		return err_set(e,
		    "the key file %s is a link that belongs to another user: remove the link",
		    path);
	if (fd < 0)
		return 1;
	rc = check_file(fd, path, as, e);
	if (rc == 0 && read(fd, key->secret, sizeof(key->secret)) != (ssize_t)sizeof(key->secret))
		rc = err_set(e, "cannot read all of the key file %s", path);
	close(fd);
	return rc;
}

/* Write <key> to a new file <tmp> that belongs to <as>. */
static int write_new(const char *tmp, const struct identity *as, const struct hash_key *key)
{
	int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool ok;

	if (fd < 0)
		return -1;
	ok = fchmod(fd, 0600) == 0 && (!as->change || fchown(fd, as->uid, as->gid) == 0) &&
	     write(fd, key->secret, sizeof(key->secret)) == (ssize_t)sizeof(key->secret) &&
	     fsync(fd) == 0;
	if (close(fd) != 0 || !ok) {
		unlink(tmp);
		return -1;
	}
	return 0;
}

/* Create the key file. Returns 0 if <key> is the key in <path>, 1 with errno if it cannot be
 * created, or -1 with <e>. */
static int make_key(
    const char *path, const struct identity *as, struct hash_key *key, struct err *e)
{
	char tmp[PATH_CHARS_MAX + 32];
	int rc, saved;

	if (random_key(key, e) != 0)
		return -1;
	snprintf(tmp, sizeof(tmp), "%s.%ld", path, (long)getpid());
	unlink(tmp);		/* left by a killed agent with the same process id */
	if (write_new(tmp, as, key) != 0)
		return 1;
	rc = link(tmp, path);
	saved = errno;
	unlink(tmp);
	errno = saved;
	if (rc == 0)
		return 0;
	if (errno == EEXIST)
		return read_key(path, as, key, e);
	return 1;
}

/* Returns true if the open failed with EACCES although <dir> may be searched. Then the file itself
 * is closed to this user, and a random key would hide that. */
static bool file_is_closed(const char *dir)
{
	return errno == EACCES && faccessat(AT_FDCWD, dir, X_OK, AT_EACCESS) == 0;
}

/* Write the path of the key file to <path>; the file may not exist. */
static void path_of(const char *key_file, const char *state_dir, char *path, size_t cap)
{
	if (key_file[0] != '\0')
		snprintf(path, cap, "%s", key_file);
	else
		snprintf(path, cap, "%s/key", state_dir);
}

int key_file_read(const char *key_file, const char *state_dir, struct hash_key *key, struct err *e)
{
	char path[PATH_CHARS_MAX + 8];
	int rc;

	path_of(key_file, state_dir, path, sizeof(path));
	rc = read_key(path, NULL, key, e);
	return rc > 0 ? err_set(e, "cannot read the key file %s: %s", path, strerror(errno)) : rc;
}

int key_file_load(const char *key_file, const char *state_dir, const struct identity *as,
    struct hash_key *key, bool *kept, struct err *e)
{
	bool named = key_file[0] != '\0';
	char path[PATH_CHARS_MAX + 8], dir[PATH_CHARS_MAX + 8];
	int rc;

	*kept = true;
	path_of(key_file, state_dir, path, sizeof(path));
	directory_of(path, dir, sizeof(dir));
	if ((rc = read_key(path, as, key, e)) <= 0)
		return rc;
	if ((errno != ENOENT && named) || file_is_closed(dir))
		return err_set(e, "cannot read the key file %s: %s", path, strerror(errno));
	if (errno == ENOENT && (rc = make_key(path, as, key, e)) <= 0)
		return rc;
	if (named)
		return err_set(e, "cannot create the key file %s: %s", path, strerror(errno));
	*kept = false;
	return random_key(key, e);
}
