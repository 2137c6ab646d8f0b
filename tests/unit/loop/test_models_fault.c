/* Fail each allocation in turn: a tokenizer is loaded completely or not at all, and loaded ones
 * stay. */
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

#include "agent/base/mem.h"
#include "agent/loop/models.h"
#include "tests/unit/fault.h"
#include "tests/unit/loop/tokfix.h"

static char dir[64], file[96], image[112];

static int setup(void **state)
{
	char *s = tokfix_json('a', 3);
	int fd;

	snprintf(dir, sizeof(dir), "/tmp/kvroute-fault-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(file, sizeof(file), "%s/tokenizer.json", dir);
	snprintf(image, sizeof(image), "%s.kvroute", file);
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, s, strlen(s)) != (ssize_t)strlen(s))
		return -1;
	free(s);
	return close(fd);
}

static int teardown(void **state)
{
	unlink(image);
	unlink(file);
	return rmdir(dir);
}

static int options(struct route_opts *o)
{
	route_defaults(o);
	o->models = mem_alloc(sizeof(*o->models));
	if (o->models == NULL)
		return -1;
	o->n_models = 1;
	*o->models = o->model_default;
	strcpy(o->models->name, "m");
	o->models->mode = MODEL_TOKENS;
	strcpy(o->models->tokenizer, "tokenizer.json");
	return 0;
}

/* Load as at a start, and copy as the core does. Returns the number of successes. */
static int story(const struct model_files *f)
{
	struct err e = { .text = "" };
	struct model_set *s = NULL, *again;
	struct route_opts o, copy;
	int done = 0;

	if (options(&o) != 0)
		return 0;
	if ((s = models_load(&o, NULL, f, &e)) != NULL) {
		assert_non_null(o.models->tok);
		done++;
		if (route_opts_copy(&copy, &o) == 0) {
			route_opts_free(&copy);
			done++;
		}
		tok_unref(o.models->tok);
		o.models->tok = NULL;
		if ((again = models_load(&o, s, f, &e)) != NULL)
			done++;
		models_free(again);
	} else {
		assert_true(e.text[0] != '\0');
	}
	models_free(s);
	route_opts_free(&o);
	return done;
}

static void run(enum model_images images, bool keep_image)
{
	struct model_files f = { .open = models_open,
		.arg = dir,
		.models_dir = dir,
		.state_dir = "/nonexistent/kvroute",
		.images = images };
	unsigned long k;
	int least = 3, done;

	assert_int_equal(story(&f), 3);
	for (k = 1; ; k++) {
		if (!keep_image)
			unlink(image);
		fault_begin(k);
		done = story(&f);
		least = done < least ? done : least;
		if (!fault_end())
			break;
	}
	assert_int_equal(done, 3);
	assert_int_equal(least, 0);
	assert_true(k > 10);
	print_message("%lu allocations failed\n", k - 1);
}

static void from_files(void **state)
{
	run(IMAGES_NONE, false);
}

static void with_an_image_to_make(void **state)
{
	run(IMAGES_WRITE, false);
}

static void from_an_image(void **state)
{
	run(IMAGES_WRITE, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_files),
		cmocka_unit_test(with_an_image_to_make),
		cmocka_unit_test(from_an_image),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
