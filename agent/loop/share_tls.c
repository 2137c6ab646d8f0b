/* TLS to the store: hiredis carries it, and OpenSSL checks the certificate.
 *
 * hiredis can make a context of its own, but does not compare the name in the certificate, so it is
 * made here. Files are read at the start. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS_SSL
#include <arpa/inet.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "agent/base/mem.h"

#define SYSTEM_CA	"/etc/ssl/certs/ca-certificates.crt"

struct tls {
	SSL_CTX *ctx;
};

static int failed(struct err *e, const char *key, const char *path)
{
	char text[200] = "";

	ERR_error_string_n(ERR_get_error(), text, sizeof(text));
	return err_set(e, "%s: %s cannot be used: %s", key, path, text);
}

static int load_files(SSL_CTX *ctx, const struct share_opts *o, struct err *e)
{
	const char *ca = o->tls_ca[0] != '\0' ? o->tls_ca : SYSTEM_CA;

	if (SSL_CTX_load_verify_locations(ctx, ca, NULL) != 1)
		return failed(e, "share.tls_ca", ca);
	if (o->tls_cert[0] == '\0')
		return 0;
	if (SSL_CTX_use_certificate_chain_file(ctx, o->tls_cert) != 1)
		return failed(e, "share.tls_cert", o->tls_cert);
	if (SSL_CTX_use_PrivateKey_file(ctx, o->tls_key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return failed(e, "share.tls_key", o->tls_key);
	return 0;
}

struct tls *tls_new(const struct share_opts *o, struct err *e)
{
	struct tls *t = mem_alloc(sizeof(*t));

	if (t == NULL || (t->ctx = SSL_CTX_new(TLS_client_method())) == NULL) {
		err_set(e, "not enough memory for TLS");
	} else if (load_files(t->ctx, o, e) == 0) {
		SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
		SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
		return t;
	}
	tls_free(t);
	return NULL;
}

void tls_free(struct tls *t)
{
	if (t == NULL)
		return;
	SSL_CTX_free(t->ctx);
	mem_free(t);
}

static bool expect_host(SSL *ssl, const char *host)
{
	struct in6_addr raw;

	if (inet_pton(AF_INET, host, &raw) == 1 || inet_pton(AF_INET6, host, &raw) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

/* hiredis begins the handshake, and the whole of it may pass in this call. */
static const char *why_not_started(const SSL *ssl, const char *text)
{
	static const char prefix[] = "SSL_connect failed: ";
	size_t n = strlen(prefix);

	return tls_why(ssl, strncmp(text, prefix, n) == 0 ? text + n : text);
}

void *tls_start(struct tls *t, struct redisContext *ctx, const char *host, const char **why)
{
	SSL *ssl = SSL_new(t->ctx);

	*why = "no memory for TLS";
	if (ssl == NULL)
		return NULL;
	if (!expect_host(ssl, host)) {
		SSL_free(ssl);
		return NULL;
	}
	/* commands that are added while a write waits may move the buffer of hiredis */
	SSL_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (redisInitiateSSL(ctx, ssl) == REDIS_OK)	/* <ctx> owns it now */
		return ssl;
	*why = why_not_started(ssl, ctx->errstr);
	SSL_free(ssl);
	return NULL;
}

bool tls_wants_write(const void *ssl, bool unsent)
{
	int want = SSL_want(ssl);

	return want == SSL_WRITING || (unsent && want != SSL_READING);
}

void tls_forget_errors(void)
{
	ERR_clear_error();
}

const char *tls_why(const void *ssl, const char *otherwise)
{
	long rc = SSL_get_verify_result(ssl);

	return rc != X509_V_OK ? X509_verify_cert_error_string(rc) : otherwise;
}

#elif defined(HAVE_HIREDIS)	/* the configuration has no TLS, so nothing of this is called */

struct tls *tls_new(const struct share_opts *o, struct err *e)
{
	err_set(e, "built without TLS");
	return NULL;
}

void tls_free(struct tls *t)
{
}

void *tls_start(struct tls *t, struct redisContext *ctx, const char *host, const char **why)
{
	return NULL;
}

bool tls_wants_write(const void *ssl, bool unsent)
{
	return unsent;
}

void tls_forget_errors(void)
{
}

const char *tls_why(const void *ssl, const char *otherwise)
{
	return otherwise;
}

#endif
