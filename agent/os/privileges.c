/* Capabilities are set by their system calls, because that is less code than another library. Root
 * without capabilities is a user like any other, except that the system's files belong to it. */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/os/privileges.h"

/* Parse a numeric user or group id. Returns false if <text> is a name. */
static bool number_of(const char *text, unsigned *out)
{
	unsigned long n;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	n = strtoul(text, &end, 10);
	*out = (unsigned)n;
	return *end == '\0' && errno == 0 && n < UINT32_MAX;
}

static int find_user(const char *text, bool with_group, struct identity *id, struct err *e)
{
	struct passwd *pw;
	unsigned n;

	if (number_of(text, &n)) {
		id->uid = n;
		if ((pw = getpwuid(n)) == NULL && (with_group || n == geteuid()))
			return 0;
		if (pw == NULL)
			return err_set(e,
				"user: user %s is unknown on this machine, so it has no group to change to; set the key "
				"group as well (group: %s)", text, text);
	} else if ((pw = getpwnam(text)) == NULL) {
		return err_set(e,
		    "user: there is no user %s on this machine; create it (useradd --system %s) or remove the "
		    "key",
		    text, text);
	}
	id->uid = pw->pw_uid;
	id->gid = pw->pw_gid;
	snprintf(id->name, sizeof(id->name), "%s", pw->pw_name);
	return 0;
}

static int find_group(const char *text, struct identity *id, struct err *e)
{
	struct group *gr;
	unsigned n;

	if (number_of(text, &n)) {
		id->gid = n;
	} else if ((gr = getgrnam(text)) != NULL) {
		id->gid = gr->gr_gid;
	} else {
		return err_set(e,
		    "group: there is no group %s on this machine; make it (groupadd --system %s), or leave the "
		    "key out",
		    text, text);
	}
	return 0;
}

int identity_find(const char *user, const char *group, struct identity *id, struct err *e)
{
	*id = (struct identity){ .uid = geteuid(), .gid = getegid() };
	if (user[0] != '\0' && find_user(user, group[0] != '\0', id, e) != 0)
		return -1;
	if (group[0] != '\0' && find_group(group, id, e) != 0)
		return -1;
	id->change = id->uid != geteuid() || id->gid != getegid();
	if (!id->change || geteuid() == 0)
		return 0;
	return err_set(e,
	    "user, group: the agent was started by user %u, group %u, and only root can change to user "
	    "%u, group %u; start it as root, or leave these keys out",
	    (unsigned)geteuid(), (unsigned)getegid(), (unsigned)id->uid, (unsigned)id->gid);
}

bool identity_owns(const struct identity *id, uid_t uid)
{
	return uid == 0 || uid == geteuid() || uid == id->uid;
}

int identity_become(const struct identity *id, struct err *e)
{
	uid_t u[3];
	gid_t g[3];

	if (!id->change)
		return 0;
	if ((id->name[0] != '\0' ? initgroups(id->name, id->gid) : setgroups(1, &id->gid)) != 0 ||
	    setresgid(id->gid, id->gid, id->gid) != 0 || setresuid(id->uid, id->uid, id->uid) != 0)
		return err_set(e, "user, group: cannot become user %u, group %u: %s",
		    (unsigned)id->uid, (unsigned)id->gid, strerror(errno));
	if (getresuid(&u[0], &u[1], &u[2]) != 0 || getresgid(&g[0], &g[1], &g[2]) != 0 ||
	    u[0] != id->uid || u[1] != id->uid || u[2] != id->uid || g[0] != id->gid ||
	    g[1] != id->gid || g[2] != id->gid || (id->uid != 0 && setresuid(0, 0, 0) == 0))
		return err_set(e, "user, group: the process did not become user %u, group %u", (unsigned)id->uid,
			       (unsigned)id->gid);
	return 0;
}

void privileges_bound(void)
{
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
	      SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0, 0);
}

bool privileges_drop(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (syscall(SYS_capset, &head, none) != 0 || syscall(SYS_capget, &head, none) != 0)
		return false;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		if ((none[i].effective | none[i].permitted | none[i].inheritable) != 0)
			return false;
	return true;
}
