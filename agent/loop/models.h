/* models.h - the tokenizers and chat templates of the models that have one: read, built or taken from their images, and shared.
 *
 *      options:  chat, qwen, qwen-base        set:  chat/tokenizer.json    one tokenizer for each set of files,
 *                  |      \    /                    qwen/tokenizer.json    whichever models name them
 *
 * A set is built whole beside the one in use, in the main thread, and takes its place when all else of a reload is good. Files with
 * the same content keep the tokenizer that is loaded. */
#ifndef KVROUTE_LOOP_MODELS_H
#define KVROUTE_LOOP_MODELS_H

#include <pthread.h>

#include "agent/loop/log_in.h"
#include "agent/route/route.h"

#define MODEL_FILE_MAX	(256u << 20)	/* bytes of a tokenizer, or of its configuration */

enum model_images {
	IMAGES_NONE,	/* build from the files, whatever is beside them */
	IMAGES_READ,	/* look for an image beside the tokenizer */
	IMAGES_WRITE	/* and in state_dir; make one where there is none. Opens files itself, so not in the sandbox */
};

/* How files are come by. */
struct model_files {
	int (*open)(void *arg, const char *path);	/* for reading, a regular file beneath models_dir: or -errno */
	void *arg;
	const char *models_dir, *state_dir;		/* <state_dir> with IMAGES_WRITE */
	enum model_images images;
	struct log *log;				/* NULL: nothing is said */
};

/* <open> for a process that may open files itself: <arg> is the path of models_dir. */
int models_open(void *models_dir, const char *path);

struct model_set;

/* Load what the models in <ro> in token mode name, and give each its tokenizer: <ro> holds a count of each, for
 * route_opts_free(). What is in <old> (may be NULL) and has not changed is shared. NULL: <e> names model, file and place; what <ro> was
 * given until then it still holds. */
struct model_set *models_load(struct route_opts *ro, const struct model_set *old, const struct model_files *f, struct err *e);
void models_free(struct model_set *s);

/* The set in use, for a thread that shows figures and one that changes it. */
struct models {
	pthread_mutex_t lock;
	struct model_set *set;
};

void models_init(struct models *m);
void models_fini(struct models *m);
void models_take(struct models *m, struct model_set *set);	/* frees the one before */

struct model_figures {
	const char *model;
	size_t bytes;		/* of its tokenizer, which it may share */
	double load_s;		/* what reading and building, or its image, took */
	bool image;
};

/* Call back for each model in token mode, under the lock. */
void models_each(struct models *m, void (*fn)(void *arg, const struct model_figures *v), void *arg);

#endif
