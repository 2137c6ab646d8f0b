/* test_secret.c - the token of the log feed: reading, rejecting and comparing it; and error texts,
 * which must not contain it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/privileges.h"
#include "agent/os/secret.h"

#define GOOD	"0123456789abcdefABCDEF._~+/=-"

static char dir[64], file[128];
static struct identity me;

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/kvroute-token-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(file, sizeof(file), "%s/token", dir);
	me = (struct identity){ .uid = geteuid(), .gid = getegid() };
	return 0;
}

static int teardown(void **state)
{
	unlink(file);
	return rmdir(dir);
}

static int read_as(const char *p, size_t n, mode_t mode, struct token *t, struct err *e)
{
	int fd;

	unlink(file);
	fd = open(file, O_CREAT | O_EXCL | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	memset(e, 0, sizeof(*e));
	return token_read(t, file, &me, e);
}

static void taken(void **state)
{
	struct token t = { .n = 7 };
	struct err e;

	assert_int_equal(token_read(&t, "", &me, &e), 0);
	assert_int_equal(t.n, 0);
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0600, &t, &e), 0);
	assert_true(span_eq(span_of(t.text, t.n), SPAN(GOOD)));
	assert_int_equal(read_as(GOOD "\n", strlen(GOOD) + 1, 0400, &t, &e), 0);
	assert_true(span_eq(span_of(t.text, t.n), SPAN(GOOD)));
}

static void lengths(void **state)
{
	char text[TOKEN_MAX + 3];
	struct token t;
	struct err e;

	memset(text, 'x', sizeof(text));
	for (size_t n = 0; n <= sizeof(text); n++)
		assert_int_equal(read_as(text, n, 0600, &t, &e), n >= TOKEN_MIN && n <= TOKEN_MAX ? 0 : -1);
	text[TOKEN_MAX] = '\n';
	assert_int_equal(read_as(text, TOKEN_MAX + 1, 0600, &t, &e), 0);
	assert_int_equal(t.n, TOKEN_MAX);
	assert_int_equal(read_as(text, TOKEN_MAX + 2, 0600, &t, &e), -1);	/* a second line */
}

static void bytes(void **state)
{
	static const char fine[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._~+/=-";
	char text[] = "secretsecretsecretsecret";
	struct token t;
	struct err e;

	for (int c = 0; c < 256; c++) {
		bool ok = c != 0 && strchr(fine, c) != NULL;

		text[10] = (char)c;
		assert_int_equal(read_as(text, strlen("secretsecretsecretsecret"), 0600, &t, &e),
				 ok ? 0 : -1);
		assert_null(strstr(e.text, "secretsecret"));	/* the error names the file only */
		assert_true(ok || strstr(e.text, file) != NULL);
	}
}

static void files(void **state)
{
	static const mode_t open_ones[] = { 0640, 0604, 0660, 0601, 0610, 0777 };
	struct token t;
	struct err e;

	for (size_t i = 0; i < sizeof(open_ones) / sizeof(open_ones[0]); i++) {
		assert_int_equal(read_as(GOOD, strlen(GOOD), open_ones[i], &t, &e), -1);
		assert_non_null(strstr(e.text, "chmod 0600"));
		assert_int_equal(t.n, 0);
	}
	assert_int_equal(token_read(&t, dir, &me, &e), -1);
	assert_non_null(strstr(e.text, "not a regular file"));
	unlink(file);
	assert_int_equal(token_read(&t, file, &me, &e), -1);
	assert_non_null(strstr(e.text, "No such file"));
	assert_int_equal(mkfifo(file, 0600), 0);	/* must not hang */
	assert_int_equal(token_read(&t, file, &me, &e), -1);
}

/* Another user's file is rejected, because that user can change it. Only root can create one. */
static void owners(void **state)
{
	struct identity other = { .uid = 4711 };
	struct token t;
	struct err e;
	char to[140];

	if (geteuid() != 0) {
		print_message("skipped: files of other users, which only root can make\n");
		skip();
	}
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0600, &t, &e), 0);
	assert_int_equal(chown(file, 4711, 4711), 0);
	assert_int_equal(token_read(&t, file, &me, &e), -1);
	assert_non_null(strstr(e.text, "belongs to user 4711"));
	assert_non_null(strstr(e.text, "chown it"));
	assert_int_equal(token_read(&t, file, &other, &e), 0);	/* owner: the user to switch to */
	assert_int_equal(chown(file, 0, 0), 0);
	snprintf(to, sizeof(to), "%s.to", file);
	assert_int_equal(rename(file, to), 0);
	assert_int_equal(symlink(to, file), 0);			/* our link to our file */
	assert_int_equal(token_read(&t, file, &me, &e), 0);
	assert_int_equal(lchown(file, 4711, 4711), 0);		/* another user's link to our file */
	assert_int_equal(token_read(&t, file, &me, &e), -1);
	assert_non_null(strstr(e.text, "link that belongs to another user"));
	assert_int_equal(lchown(file, 0, 0), 0);
	assert_int_equal(chown(to, 4711, 4711), 0);		/* our link to another user's file */
	assert_int_equal(token_read(&t, file, &me, &e), -1);
	assert_non_null(strstr(e.text, "belongs to user 4711"));
	unlink(to);
}

static void compared(void **state)
{
	struct token t = { .n = 0 };
	char other[TOKEN_MAX + 1];

	assert_true(token_same(&t, SPAN("")));	/* no caller compares it then */
	t.n = 40;
	for (size_t i = 0; i < t.n; i++)
		t.text[i] = (char)('A' + i);
	memcpy(other, t.text, t.n);
	assert_true(token_same(&t, span_of(other, t.n)));
	for (size_t n = 0; n <= TOKEN_MAX; n++)
		if (n != t.n)
			assert_false(token_same(&t, span_of(other, n)));
	assert_false(token_same(&t, span_of(NULL, 0)));
	for (size_t i = 0; i < t.n; i++) {
		for (int bit = 0; bit < 8; bit++) {
			other[i] ^= (char)(1 << bit);
			assert_false(token_same(&t, span_of(other, t.n)));
			other[i] ^= (char)(1 << bit);
		}
	}
}

/* A credential of systemd may be readable for its group: the access list shows as that. */
static void credential(void **state)
{
	struct token t = { .n = 0 };
	struct err e;

	setenv("CREDENTIALS_DIRECTORY", dir, 1);
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0440, &t, &e), 0);
	assert_int_equal(t.n, strlen(GOOD));
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0460, &t, &e), -1);
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0444, &t, &e), -1);
	setenv("CREDENTIALS_DIRECTORY", "/tmp", 1);	/* below it, but not in it */
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0440, &t, &e), -1);
	setenv("CREDENTIALS_DIRECTORY", "", 1);
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0440, &t, &e), -1);
	unsetenv("CREDENTIALS_DIRECTORY");
	assert_int_equal(read_as(GOOD, strlen(GOOD), 0440, &t, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(taken, setup, teardown),
		cmocka_unit_test_setup_teardown(credential, setup, teardown),
		cmocka_unit_test_setup_teardown(lengths, setup, teardown),
		cmocka_unit_test_setup_teardown(bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(files, setup, teardown),
		cmocka_unit_test_setup_teardown(owners, setup, teardown),
		cmocka_unit_test(compared),
	};

	return cmocka_run_group_tests_name("os secret", tests, NULL, NULL);
}
