/* Calls Landlock by its system calls, because libc has no functions for them and the headers of
 * Debian 12 know ABI 2 only. Everything that the running kernel can refuse is refused. Rights of
 * later ABIs are defined here with their numbers
 * (linux/Documentation/userspace-api/landlock.rst). */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/os/sandbox_in.h"

#define CREATE_VERSION	1u		/* flag: return the ABI version only */
#define RULE_PATH	1
#define RULE_PORT	2

/* file rights: bits 0 to 12 exist since ABI 1, one more each since 2, 3 and 5 */
#define FS_WRITE_FILE	(1ull << 1)
#define FS_READ		(3ull << 2)	/* files and directories */
#define FS_REMOVE_FILE	(1ull << 5)
#define FS_MAKE_REG	(1ull << 8)
#define FS_ABI_1	((1ull << 13) - 1)
#define FS_REFER	(1ull << 13)
#define FS_TRUNCATE	(1ull << 14)
#define FS_IOCTL_DEV	(1ull << 15)
/* ABI 4: TCP bind and connect. ABI 6: abstract sockets and signals to processes outside. */
#define NET_ALL		3ull
#define NET_CONNECT	2ull
#define SCOPE_ALL	3ull

struct ruleset {
	uint64_t fs, net, scope;
};

struct path_rule {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

struct port_rule {
	uint64_t allowed, port;
};

/* Create a rule set that refuses all that the kernel can refuse, except the file rights <open> and
 * the network rights <net>. */
static int ruleset_create(int abi, uint64_t open, uint64_t net, struct ruleset *r)
{
	size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;

	r->fs = FS_ABI_1;
	if (abi >= 2)
		r->fs |= FS_REFER;
	if (abi >= 3)
		r->fs |= FS_TRUNCATE;
	if (abi >= 5)
		r->fs |= FS_IOCTL_DEV;
	r->fs &= ~open;
	r->net = abi >= 4 ? NET_ALL & ~net : 0;
	r->scope = abi >= 6 ? SCOPE_ALL : 0;
	return (int)syscall(SYS_landlock_create_ruleset, r, size, 0u);
}

/* Allow to create, write, remove and rename files in <dir>. A rename is a removal and a
 * creation. */
static int allow_files(int rules, int dir)
{
	struct path_rule p = { .allowed = FS_WRITE_FILE | FS_REMOVE_FILE | FS_MAKE_REG, .parent = dir };

	return dir < 0 ? 0 : (int)syscall(SYS_landlock_add_rule, rules, RULE_PATH, &p, 0u);
}

static int allow_removal(int rules, const char *dir)
{
	struct path_rule p = { .allowed = FS_REMOVE_FILE };
	long rc;

	if ((p.parent = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		return -1;
	rc = syscall(SYS_landlock_add_rule, rules, RULE_PATH, &p, 0u);
	close(p.parent);
	return (int)rc;
}

static int allow_ports(int rules, const struct connect_ports *out)
{
	long rc = 0;

	for (uint32_t port = 0; port <= UINT16_MAX && rc == 0; port++) {
		struct port_rule p = { NET_CONNECT, port };

		if (connect_ports_has(out, (uint16_t)port))
			rc = syscall(SYS_landlock_add_rule, rules, RULE_PORT, &p, 0u);
	}
	return (int)rc;
}

/* Returns a new rule set, or -1 with errno. */
static int ruleset_begin(uint64_t open, uint64_t net, struct ruleset *r, int *abi)
{
	*abi = (int)syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, CREATE_VERSION);
	return *abi < 1 ? -1 : ruleset_create(*abi, open, net, r);
}

/* Apply <rules> if <rc>, the result of adding to them, is 0. Closes <rules>. Returns 0 or an
 * errno. */
static int ruleset_end(int rules, int rc)
{
	if (rc == 0)
		rc = (int)syscall(SYS_landlock_restrict_self, rules, 0u);
	rc = rc != 0 ? errno : 0;
	close(rules);
	return rc;
}

int sandbox_landlock(const struct connect_ports *out, int *abi)
{
	int version, rules, rc;
	struct ruleset r;

	*abi = 0;
	if ((rules = ruleset_begin(0, out->every ? NET_CONNECT : 0, &r, &version)) < 0)
		return errno;
	if ((rc = ruleset_end(rules, r.net & NET_CONNECT ? allow_ports(rules, out) : 0)) == 0)
		*abi = version;
	return rc;
}

/* A directory that does not exist is skipped, because it has no sockets. */
int sandbox_landlock_opener(const char *const *dir, size_t n, const int files[SANDBOX_DIRS])
{
	int version, rules, rc;
	struct ruleset r;

	if ((rules = ruleset_begin(FS_READ, 0, &r, &version)) < 0)
		return errno;
	rc = allow_files(rules, files[0]) != 0 || allow_files(rules, files[1]) != 0 ? -1 : 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		if ((rc = allow_removal(rules, dir[i])) != 0 && (errno == ENOENT || errno == ENOTDIR))
			rc = 0;
	return ruleset_end(rules, rc);
}
