/* The key file: created once, read again, rejected if it is not a valid key file. */
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

#include "agent/os/key_file.h"
#include "agent/os/privileges.h"

static char key_file[128], state_dir[128];
static struct identity me;
static char dir[64], file[128];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/kvroute-key-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	/* root ignores permissions, so use another user */
	if (geteuid() == 0 && (chown(dir, 65534, 65534) != 0 || seteuid(65534) != 0))
		return -1;
	snprintf(file, sizeof(file), "%s/key", dir);
	key_file[0] = '\0';
	me = (struct identity){ .uid = geteuid(), .gid = getegid() };
	snprintf(state_dir, sizeof(state_dir), "%s", dir);
	return 0;
}

static int teardown(void **state)
{
	if (getuid() == 0 && seteuid(0) != 0)
		return -1;
	chmod(dir, 0700);
	unlink(file);
	return rmdir(dir);	/* fails if any other file is left */
}

static void put(const void *p, size_t n, mode_t mode)
{
	int fd;

	unlink(file);
	fd = open(file, O_CREAT | O_EXCL | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static bool same(const struct hash_key *a, const struct hash_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static void made_once(void **state)
{
	struct hash_key one = { { 0 } }, two = { { 0 } }, none = { { 0 } };
	struct stat st;
	struct err e;
	bool kept = false;

	assert_int_equal(key_file_load(key_file, state_dir, &me, &one, &kept, &e), 0);
	assert_true(kept);
	assert_false(same(&one, &none));
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, HASH_SECRET_BYTES);
	kept = false;
	assert_int_equal(key_file_load(key_file, state_dir, &me, &two, &kept, &e), 0);
	assert_true(kept);
	assert_true(same(&one, &two));
}

static void named_file(void **state)
{
	struct hash_key one, two;
	struct err e;
	bool kept;

	snprintf(key_file, sizeof(key_file), "%s", file);
	snprintf(state_dir, sizeof(state_dir), "/nonexistent-kvroute");
	assert_int_equal(key_file_load(key_file, state_dir, &me, &one, &kept, &e), 0);
	assert_true(kept);
	assert_int_equal(key_file_load(key_file, state_dir, &me, &two, &kept, &e), 0);
	assert_true(same(&one, &two));
	/* a configured place must work */
	snprintf(key_file, sizeof(key_file), "/nonexistent-kvroute/key");
	assert_int_equal(key_file_load(key_file, state_dir, &me, &one, &kept, &e), -1);
	assert_non_null(strstr(e.text, key_file));
}

static void permissions(void **state)
{
	static const struct { mode_t mode; int rc; } cases[] = {
		{ 0600, 0 }, { 0400, 0 }, { 0640, -1 }, { 0604, -1 }, { 0620, -1 }, { 0601, -1 },
		{ 0644, -1 }, { 0000, -1 },
	};
	uint8_t secret[HASH_SECRET_BYTES];
	struct hash_key key;
	struct err e;
	bool kept;
	size_t i;

	memset(secret, 'k', sizeof(secret));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put(secret, sizeof(secret), cases[i].mode);
		if (key_file_load(key_file, state_dir, &me, &key, &kept, &e) != cases[i].rc)
			fail_msg("mode %04o", (unsigned)cases[i].mode);
		if (cases[i].rc == 0)
			assert_memory_equal(key.secret, secret, sizeof(secret));
		else
			assert_non_null(strstr(e.text, file));
	}
}

static void sizes(void **state)
{
	uint8_t secret[HASH_SECRET_BYTES + 1] = { 1 };
	struct hash_key key;
	struct err e;
	bool kept;

	put(secret, 0, 0600);
	assert_int_equal(key_file_load(key_file, state_dir, &me, &key, &kept, &e), -1);
	put(secret, HASH_SECRET_BYTES - 1, 0600);
	assert_int_equal(key_file_load(key_file, state_dir, &me, &key, &kept, &e), -1);
	assert_non_null(strstr(e.text, "191 bytes instead of 192"));
	put(secret, HASH_SECRET_BYTES + 1, 0600);
	assert_int_equal(key_file_load(key_file, state_dir, &me, &key, &kept, &e), -1);
	put(secret, HASH_SECRET_BYTES, 0600);
	assert_int_equal(key_file_load(key_file, state_dir, &me, &key, &kept, &e), 0);
}

static void no_regular_file(void **state)
{
	struct hash_key key;
	struct err e;
	bool kept;

	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(key_file_load(key_file, state_dir, &me, &key, &kept, &e), -1);
	assert_non_null(strstr(e.text, "not a regular file"));
}

static void temporary(const char *missing)
{
	struct hash_key one = { { 0 } }, two = { { 0 } };
	struct err e;
	bool kept = true;

	assert_int_equal(key_file_load(key_file, missing, &me, &one, &kept, &e), 0);
	assert_false(kept);
	assert_int_equal(key_file_load(key_file, missing, &me, &two, &kept, &e), 0);
	assert_false(kept);
	assert_false(same(&one, &two));
}

static void no_directory(void **state)
{
	temporary("/nonexistent-kvroute");
}

static void closed_directories(void **state)
{
	assert_int_equal(chmod(dir, 0500), 0);		/* readable, not writable */
	temporary(dir);
	assert_int_equal(chmod(dir, 0000), 0);		/* not searchable either */
	temporary(dir);
}

/* An existing key is used, also if none could be created. */
static void read_only_directory_with_key(void **state)
{
	uint8_t secret[HASH_SECRET_BYTES] = { 7 };
	struct hash_key key;
	struct err e;
	bool kept = false;

	put(secret, sizeof(secret), 0400);
	assert_int_equal(chmod(dir, 0500), 0);
	assert_int_equal(key_file_load(key_file, state_dir, &me, &key, &kept, &e), 0);
	assert_true(kept);
	assert_memory_equal(key.secret, secret, sizeof(secret));
}

#define STORY(f)	cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(made_once),
		STORY(named_file),
		STORY(permissions),
		STORY(sizes),
		STORY(no_regular_file),
		STORY(no_directory),
		STORY(closed_directories),
		STORY(read_only_directory_with_key),
	};

	return cmocka_run_group_tests_name("os key_file", tests, NULL, NULL);
}
