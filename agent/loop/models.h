/* models.h - the tokenizers and chat templates of models: read, built or loaded from their images,
 * and shared.
 *
 *      options:  chat, qwen, qwen-base       set:  chat/tokenizer.json   one tokenizer for each set
 *                  |      \    /                   qwen/tokenizer.json   of files, for all models
 *                                                                        that name it
 *
 * The main thread builds a new set beside the one in use. The new set replaces it when all of a
 * reload is valid. Files with the same content keep the tokenizer that is loaded. */
#ifndef KVROUTE_LOOP_MODELS_H
#define KVROUTE_LOOP_MODELS_H

#include <pthread.h>

#include "agent/loop/log_in.h"
#include "agent/route/route.h"

#define MODEL_FILE_MAX	(256u << 20)	/* bytes of a tokenizer or of its configuration */

enum model_images {
	IMAGES_NONE,	/* ignore images */
	IMAGES_READ,	/* use an image beside the tokenizer */
	/* use images there and in state_dir, and write missing ones. Opens files itself, so not in the
	 * sandbox */
	IMAGES_WRITE
};

/* How files are opened. */
struct model_files {
	/* open a regular file below models_dir for reading; returns a descriptor or -errno */
	int (*open)(void *arg, const char *path);
	void *arg;
	const char *models_dir, *state_dir;		/* <state_dir> with IMAGES_WRITE */
	enum model_images images;
	struct log *log;				/* NULL: no log */
};

/* <open> for a process that may open files. <arg> is the path of models_dir. */
int models_open(void *models_dir, const char *path);

struct model_set;

/* Load the files of the models in <ro> that are in token mode, and give each model its tokenizer.
 * <ro> holds a reference to each, which route_opts_free() drops. Tokenizers of <old> (may be NULL)
 * that have not changed are shared. Returns NULL with <e>, which names model, file and place; <ro>
 * keeps what it got until then. */
struct model_set *models_load(
    struct route_opts *ro, const struct model_set *old, const struct model_files *f, struct err *e);
void models_free(struct model_set *s);

/* The set in use. One thread changes it and another reads its figures. */
struct models {
	pthread_mutex_t lock;
	struct model_set *set;
};

void models_init(struct models *m);
void models_fini(struct models *m);
void models_take(struct models *m, struct model_set *set);	/* frees the old set */

struct model_figures {
	const char *model;
	size_t bytes;		/* of its tokenizer, which may be shared */
	double load_s;		/* time to read and build it, or to read its image */
	bool image;
};

/* Call <fn> for each model in token mode, under the lock. */
void models_each(struct models *m, void (*fn)(void *arg, const struct model_figures *v), void *arg);

#endif
