/* check_share.c - rules between the keys of the section share. */
#include "agent/conf/check_in.h"
#include "agent/conf/value.h"
#include "agent/loop/share.h"

struct share_check {
	struct conf_errors *es;
	const char *file;
	const struct share_opts *o;
	const struct conf_given *given;
};

/* Report <text> at <key> if the file gives it, or else at <beside>. */
static void add(const struct share_check *k, const char *key, const char *beside, const char *text)
{
	struct conf_mark at;

	if (conf_error_place(k->given, conf_key_of(key), conf_key_of(beside), &at))
		conf_errors_add(k->es, k->file, at, "%s", text);
}

/* The agent can be built without hiredis, or with one that has no TLS. */
static void check_built(const struct share_check *k)
{
	if (!share_available())
		add(k, "share.servers", "share.servers",
		    "share.servers: This kvroute was built without hiredis, which sharing needs; install "
		    "libhiredis-dev and build it again.");
	else if (k->o->tls && !share_tls_available())
		add(k, "share.tls", "share.tls",
		    "share.tls: This kvroute was built with a hiredis that has no TLS (before 1.0); let HAProxy "
		    "carry the connection, as haproxy-conf/recipes/store-over-tls.cfg does, or build it with "
		    "hiredis 1.0 or later.");
}

static void check_tls(const struct share_check *k)
{
	const struct share_opts *o = k->o;
	const char *const keys[] = { "share.tls_ca", "share.tls_cert", "share.tls_key" };
	const char *const paths[] = { o->tls_ca, o->tls_cert, o->tls_key };

	for (int i = 0; i < 3 && !o->tls; i++)
		if (paths[i][0] != '\0') {
			add(k, keys[i], "share.tls", "The keys share.tls_* need share.tls: true beside them.");
			return;
		}
	if ((o->tls_cert[0] != '\0') != (o->tls_key[0] != '\0'))
		add(k, "share.tls_cert", "share.tls_key",
		    "share.tls_cert and share.tls_key need each other: a certificate and its private key.");
}

/* Without servers no other key of the store has an effect. */
void conf_check_share(
    struct conf_errors *es, const char *file, const struct conf *c, const struct conf_given *given)
{
	struct share_check k = { es, file, &c->loop.share, given };

	if (k.o->servers[0][0] == '\0')
		return;
	check_built(&k);
	check_tls(&k);
	if (k.o->user[0] != '\0' && k.o->password_file[0] == '\0')
		add(&k, "share.user", "share.password_file",
		    "share.user needs share.password_file beside it, the file of its password.");
}
