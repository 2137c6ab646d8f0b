/* Loads the tokenizers and chat templates of models.
 *
 * The content of files decides, not their names or times: a reload reads and hashes all files (17
 * MB: 15 ms). Files with the same hash keep their tokenizer, even under another name. An image is
 * found by the tokenizer's name, and used only if the hash in it matches.
 *
 * The memory of a JSON tree is several times that of the tokenizer. It is returned to the system
 * after all models are loaded. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/models.h"
#include "agent/loop/tokfile_in.h"
#include "agent/os/clock.h"
#include "agent/os/newfile.h"
#include "agent/os/safe_path.h"

#define CONFIG_NAME	"tokenizer_config.json"
#define TEMPLATE_NAME	"chat_template.jinja"
#define NONE		"none"
#define IMAGE_NAME_MAX	(MODEL_PATH_MAX + sizeof(TOKFILE_SUFFIX))

/* What was loaded from one set of files. */
struct loaded {
	const struct model_opts *from;	/* while the set is built: the first model that names these files */
	struct tok_image_key key;
	struct tok *tok;
	struct chat *chat;		/* NULL: no template */
	double load_s;
	bool image;
};

struct user {
	char model[PROMPT_NAME_MAX + 1];
	size_t loaded;			/* index */
};

struct model_set {
	struct loaded *loaded;
	struct user *user;
	size_t n_loaded, n_users;
};

/* One load in progress. */
struct work {
	const struct model_files *f;
	const struct model_opts *m;
	struct err *e;
	const char *path;	/* of the tokenizer, below models_dir */
	struct span file, config;	/* owned */
	char config_name[sizeof(((struct err *)NULL)->file)];
	struct span template;		/* owned */
	char template_name[sizeof(((struct err *)NULL)->file)];
	struct tok_image_key key;
};

/* ---- files ------------------------------------------------------------------------------ */

int models_open(void *models_dir, const char *path)
{
	int dir = open(models_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), rc;

	if (dir < 0)
		return -errno;
	rc = safe_path_open(dir, path);
	close(dir);
	return rc;
}

/* Returns <path> relative to models_dir. The configuration was checked, so an absolute path is
 * below it. */
static const char *path_in_models(const struct model_files *f, const char *path)
{
	size_t n = strlen(f->models_dir);

	if (path[0] != '/')
		return path;
	while (n > 0 && f->models_dir[n - 1] == '/')
		n--;
	if (strncmp(path, f->models_dir, n) == 0)
		path += n;
	return path + strspn(path, "/");
}

/* Write the full path of <path> to <out>. If it is too long, its start is cut off, because the end
 * says more. */
static void full_name(const struct work *w, const char *path, char *out, size_t cap)
{
	char full[PATH_CHARS_MAX + MODEL_PATH_MAX + sizeof(CONFIG_NAME) + 2];
	int n = snprintf(full, sizeof(full), "%s/%s", w->f->models_dir, path), max = (int)cap - 1;

	snprintf(out, cap, "%s", n > max ? full + (n - max) : full);
}

static int refuse_image(struct work *w, const char *path, const char *why)
{
	full_name(w, path, w->e->file, sizeof(w->e->file));
	w->e->line = w->e->column = 0;
	return err_set(w->e, "The file of model \"%.255s\" cannot be read: %s.", w->m->name, why);
}

static int read_open(struct work *w, const char *path, int fd, struct span *out)
{
	struct stat st;
	char *p;

	if (fstat(fd, &st) != 0)
		return refuse_image(w, path, strerror(errno));
	if (st.st_size > (off_t)MODEL_FILE_MAX)
		return refuse_image(w, path, "it is larger than 256 MiB");
	if ((p = mem_alloc((size_t)st.st_size + 1)) == NULL)
		return refuse_image(w, path, "not enough memory");
	*out = span_of(p, (size_t)st.st_size);
	return fd_read_all(fd, p, out->n) == 0 ? 0 : refuse_image(w, path, strerror(errno));
}

/* Read the file <path> to <*out>. If it does not exist and <optional> is true, <*out> stays
 * empty. */
static int read_file(struct work *w, const char *path, bool optional, struct span *out)
{
	int fd = w->f->open(w->f->arg, path), rc;

	if (optional && fd == -ENOENT)
		return 0;
	if (fd < 0)
		return refuse_image(w, path, fd == -ESRCH ?
			"the process that opens files has ended; restart the agent" :
			      safe_path_error(fd));
	rc = read_open(w, path, fd, out);
	close(fd);
	return rc;
}

/* Read the file <path>. If <path> is "", read the file <name> beside the tokenizer, if it
 * exists. */
static int read_image_beside(struct work *w, const char *path, const char *name,
    char full[static sizeof(((struct err *)NULL)->file)], struct span *out)
{
	const char *slash = strrchr(w->path, '/');
	char beside[MODEL_PATH_MAX + 64];
	bool given = path[0] != '\0';

	snprintf(beside, sizeof(beside), "%.*s%s", slash != NULL ? (int)(slash + 1 - w->path) : 0,
	    w->path, name);
	full_name(w, given ? path : beside, full, sizeof(((struct err *)NULL)->file));
	return read_file(w, given ? path : beside, !given, out);
}

static int read_config(struct work *w)
{
	const char *path = path_in_models(w->f, w->m->tokenizer_config);

	return strcmp(path, NONE) == 0
	    ? 0
	    : read_image_beside(w, path, CONFIG_NAME, w->config_name, &w->config);
}

static int read_template(struct work *w)
{
	if (w->m->chat_by != CHAT_AUTO)
		return 0;
	return read_image_beside(w, path_in_models(w->f, w->m->chat_template), TEMPLATE_NAME,
	    w->template_name, &w->template);
}

/* ---- images ----------------------------------------------------------------------------- */

static void log_image(
    const struct work *w, enum log_level level, const char *msg, const char *file, const char *why)
{
	struct log_line ln;

	if (w->f->log == NULL || !log_begin(&ln, w->f->log, level, LOG_LIFE, msg))
		return;
	log_text(&ln, "model", w->m->name);
	log_text(&ln, "file", file);
	log_text(&ln, "error", why);
	log_end(&ln);
}

/* Read an image from <fd>, which is closed. Returns NULL if there is none or it cannot be used. */
static struct tok *image_from(const struct work *w, int fd, const char *name)
{
	struct err e = { 0 };
	struct tok *t;

	if (fd < 0) {
		if (fd != -ENOENT)
			log_image(w, LOG_WARN, "compiled tokenizer not used", name, safe_path_error(fd));
		return NULL;
	}
	/* at a reload, the image of a changed tokenizer is normally outdated */
	if ((t = tokfile_read(fd, w->key, &e)) == NULL)
		log_image(w, w->f->images == IMAGES_WRITE ? LOG_WARN : LOG_INFO,
		    "compiled tokenizer not used", name, e.text);
	close(fd);
	return t;
}

/* All images are in state_dir, so the name is a hash of the tokenizer's path. */
static void name_in_state(const struct work *w, char name[64])
{
	uint64_t h = XXH3_64bits(w->path, strlen(w->path));

	h = XXH3_64bits_withSeed(w->f->models_dir, strlen(w->f->models_dir), h);
	snprintf(name, 64, "tokenizer-%016llx" TOKFILE_SUFFIX, (unsigned long long)h);
}

static int open_state(const struct work *w)
{
	return open(w->f->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static struct tok *image_in_state(const struct work *w)
{
	int dir = open_state(w), fd;
	struct tok *t = NULL;
	char name[64];

	if (dir < 0)
		return NULL;
	name_in_state(w, name);
	fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	t = image_from(w, fd < 0 ? -errno : fd, name);
	close(dir);
	return t;
}

static struct tok *image_read(const struct work *w)
{
	char name[IMAGE_NAME_MAX];
	struct tok *t;

	if (w->f->images == IMAGES_NONE)
		return NULL;
	snprintf(name, sizeof(name), "%s" TOKFILE_SUFFIX, w->path);
	t = image_from(w, w->f->open(w->f->arg, name), name);
	return t == NULL && w->f->images == IMAGES_WRITE ? image_in_state(w) : t;
}

/* Returns 0, or -1 with errno. */
static int write_beside(const struct work *w, const struct tok *t)
{
	int models = open(w->f->models_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), dir, rc, error;
	char name[IMAGE_NAME_MAX];
	const char *last;

	if (models < 0)
		return -1;
	snprintf(name, sizeof(name), "%s" TOKFILE_SUFFIX, w->path);
	dir = safe_path_parent(models, name, &last);
	close(models);
	if (dir < 0) {
		errno = -dir;
		return -1;
	}
	rc = tokfile_write(dir, last, t, w->key);
	error = errno;
	close(dir);
	errno = error;
	return rc;
}

static int write_in_state(const struct work *w, const struct tok *t)
{
	int dir = open_state(w), rc, error;
	char name[64];

	if (dir < 0)
		return -1;
	name_in_state(w, name);
	rc = tokfile_write(dir, name, t, w->key);
	error = errno;
	close(dir);
	errno = error;
	return rc;
}

static void image_write(const struct work *w, const struct tok *t)
{
	int error;

	if (w->f->images != IMAGES_WRITE || write_beside(w, t) == 0)
		return;
	error = errno;
	if (write_in_state(w, t) != 0)
		log_image(w, LOG_INFO,
			"compiled tokenizer not saved: neither its directory nor state_dir can be written", w->path,
			  strerror(error));
}

/* ---- one tokenizer ---------------------------------------------------------------------- */

static void log_loaded(const struct work *w, const struct loaded *l)
{
	struct log_line ln;

	if (w->f->log == NULL || !log_begin(&ln, w->f->log, LOG_INFO, LOG_LIFE, "tokenizer loaded"))
		return;
	log_text(&ln, "model", w->m->name);
	log_text(&ln, "tokenizer", w->path);
	log_int(&ln, "ms", (int64_t)(l->load_s * 1000 + 0.5));
	log_text(&ln, "source", l->image ? "image" : w->m->pattern[0] != '\0' ? "ranks" : "json");
	log_int(&ln, "bytes", (int64_t)tok_bytes(l->tok));
	log_end(&ln);
}

static const struct loaded *with_key(const struct model_set *s, struct tok_image_key key)
{
	for (size_t i = 0; s != NULL && i < s->n_loaded; i++)
		if (memcmp(&s->loaded[i].key, &key, sizeof(key)) == 0)
			return &s->loaded[i];
	return NULL;
}

static const enum tok_normalizer normalizers[] = {
	[NORMALIZER_AUTO] = TOK_NORMALIZER_AUTO,
	[NORMALIZER_NONE] = TOK_NORMALIZER_NONE,
	[NORMALIZER_NFC] = TOK_NORMALIZER_NFC,
};

/* Build the tokenizer from its files, which were read, or take it from <old> or an image. */
static int make_tokenizer(struct work *w, const struct model_set *old, const struct model_set *s,
    struct loaded *l, usec began)
{
	char name[sizeof(w->e->file)];
	const struct tok_source src = { .file = w->file,
		.config = w->config,
		.name = name,
		.config_name = w->config_name,
		.pattern = w->m->pattern[0] != '\0' ? w->m->pattern : NULL,
		.normalizer = normalizers[w->m->normalizer] };
	const struct loaded *same;

	full_name(w, w->path, name, sizeof(name));
	w->key = l->key = tok_image_key(&src);
	if ((same = with_key(s, w->key)) == NULL)
		same = with_key(old, w->key);
	if (same != NULL) {
		l->tok = tok_ref(same->tok);
		l->load_s = same->load_s;
		l->image = same->image;
		return 0;
	}
	l->image = (l->tok = image_read(w)) != NULL;
	if (l->tok == NULL && (l->tok = tok_load(&src, w->e)) == NULL)
		return -1;
	l->load_s = (double)(clock_usec() - began) / 1e6;
	log_loaded(w, l);
	if (!l->image)
		image_write(w, l->tok);
	return 0;
}

/* The hashes of template variables need no secret, because templates come from the configuration
 * and are few and small. */
static const struct hash_key template_key = { { 0x6b, 0x76, 0x72, 0x6f, 0x75, 0x74, 0x65 } };

/* An engine with a tekken.json or a SentencePiece model renders conversations with mistral_common
 * and ignores chat templates. */
static int without_chat(struct work *w)
{
	struct log_line ln;

	if (w->m->chat_template[0] != '\0' || w->m->chat_by == CHAT_BY_HARMONY) {
		full_name(w, w->path, w->e->file, sizeof(w->e->file));
		w->e->line = w->e->column = 0;
		return err_set(w->e,
			"Model \"%.255s\": engines with a tekken.json or a SentencePiece model render conversations "
			"with mistral_common and use no chat template; if the engine uses transformers, name the "
			"tokenizer.json that save_pretrained() writes.",
			       w->m->name);
	}
	if (w->m->chat_by == CHAT_BY_NONE || w->f->log == NULL ||
	    !log_begin(&ln, w->f->log, LOG_INFO, LOG_LIFE,
		"conversations are matched as text, because engines render them with mistral_common"))
		return 0;
	log_text(&ln, "model", w->m->name);
	log_text(&ln, "tokenizer", w->path);
	log_end(&ln);
	return 0;
}

/* Build the template from its files, which were read. It takes a millisecond, so no template is
 * kept over a reload. */
static int make_template(struct work *w, struct loaded *l)
{
	struct chat_source src = {
		.format = w->m->chat_by == CHAT_BY_HARMONY ? CHAT_HARMONY : CHAT_TEMPLATE,
		.template = w->template,
		.config = w->config,
		.template_name = w->template_name,
		.config_name = w->config_name,
		.no_aliases = w->m->transformers != TRANSFORMERS_NEWEST,
	};

	if (tok_is_plain(l->tok))
		return without_chat(w);
	if (w->m->chat_by == CHAT_BY_NONE || !chat_source_has(&src, &template_key))
		return 0;
	l->chat = chat_load(&src, &template_key, w->e);
	return l->chat != NULL ? 0 : -1;
}

static int load_tokenizer(const struct model_opts *m, const struct model_set *old,
    const struct model_set *s, const struct model_files *f, struct loaded *l, struct err *e)
{
	struct work w = { .f = f, .m = m, .e = e };
	usec began = clock_usec();
	int rc = -1;

	w.path = path_in_models(f, m->tokenizer);
	if (read_file(&w, w.path, false, &w.file) == 0 && read_config(&w) == 0 && read_template(&w) == 0)
		rc = make_tokenizer(&w, old, s, l, began);
	if (rc == 0)
		rc = make_template(&w, l);
	if (rc != 0) {
		tok_unref(l->tok);
		l->tok = NULL;
	}
	mem_free((void *)w.file.p);
	mem_free((void *)w.config.p);
	mem_free((void *)w.template.p);
	return rc;
}

/* ---- a set of models -------------------------------------------------------------------- */

static bool same_files(const struct model_opts *a, const struct model_opts *b)
{
	return strcmp(a->tokenizer, b->tokenizer) == 0 &&
	    strcmp(a->tokenizer_config, b->tokenizer_config) == 0 &&
	    strcmp(a->pattern, b->pattern) == 0 && a->normalizer == b->normalizer &&
	    a->chat_by == b->chat_by && a->transformers == b->transformers &&
	    strcmp(a->chat_template, b->chat_template) == 0;
}

static int add_model(struct model_set *s, struct model_opts *m, const struct model_set *old,
    const struct model_files *f, struct err *e)
{
	struct user *u = &s->user[s->n_users];
	size_t i;

	if (m->mode != MODEL_TOKENS)
		return 0;
	for (i = 0; i < s->n_loaded && !same_files(s->loaded[i].from, m); i++)
		;
	if (i == s->n_loaded) {
		if (load_tokenizer(m, old, s, f, &s->loaded[i], e) != 0)
			return -1;
		s->loaded[i].from = m;
		s->n_loaded++;
	}
	memcpy(u->model, m->name, sizeof(u->model));
	u->loaded = i;
	s->n_users++;
	tok_unref(m->tok);
	m->tok = tok_ref(s->loaded[i].tok);
	chat_unref(m->chat);
	m->chat = chat_ref(s->loaded[i].chat);
	return 0;
}

static size_t count_models(const struct route_opts *ro)
{
	size_t n = ro->model_default.mode == MODEL_TOKENS;

	for (size_t i = 0; i < ro->n_models; i++)
		n += ro->models[i].mode == MODEL_TOKENS;
	return n;
}

struct model_set *models_load(
    struct route_opts *ro, const struct model_set *old, const struct model_files *f, struct err *e)
{
	struct model_set *s = mem_alloc(sizeof(*s));
	size_t n = count_models(ro);
	int rc;

	if (s == NULL || (s->loaded = mem_calloc(n + 1, sizeof(*s->loaded))) == NULL ||
	    (s->user = mem_calloc(n + 1, sizeof(*s->user))) == NULL) {
		err_set(e, "no memory");
		models_free(s);
		return NULL;
	}
	rc = add_model(s, &ro->model_default, old, f, e);
	for (size_t i = 0; rc == 0 && i < ro->n_models; i++)
		rc = add_model(s, &ro->models[i], old, f, e);
	if (n > 0)
		malloc_trim(0);
	if (rc == 0)
		return s;
	models_free(s);
	return NULL;
}

static void release_model(struct loaded *l)
{
	tok_unref(l->tok);
	chat_unref(l->chat);
}

void models_free(struct model_set *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n_loaded; i++)
		release_model(&s->loaded[i]);
	mem_free(s->loaded);
	mem_free(s->user);
	mem_free(s);
}

/* ---- the set in use --------------------------------------------------------------------- */

void models_init(struct models *m)
{
	pthread_mutex_init(&m->lock, NULL);
	m->set = NULL;
}

void models_fini(struct models *m)
{
	models_free(m->set);
	m->set = NULL;
	pthread_mutex_destroy(&m->lock);
}

void models_take(struct models *m, struct model_set *set)
{
	struct model_set *old;

	pthread_mutex_lock(&m->lock);
	old = m->set;
	m->set = set;
	pthread_mutex_unlock(&m->lock);
	models_free(old);
}

void models_each(struct models *m, void (*fn)(void *arg, const struct model_figures *v), void *arg)
{
	pthread_mutex_lock(&m->lock);
	for (size_t i = 0; m->set != NULL && i < m->set->n_users; i++) {
		const struct user *u = &m->set->user[i];
		const struct loaded *l = &m->set->loaded[u->loaded];
		struct model_figures v = { u->model, tok_bytes(l->tok), l->load_s, l->image };

		v.bytes += l->chat != NULL ? chat_bytes(l->chat) : 0;

		fn(arg, &v);
	}
	pthread_mutex_unlock(&m->lock);
}
