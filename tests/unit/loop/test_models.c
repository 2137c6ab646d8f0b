/* Test the tokenizers of models: loading from files, sharing, reloads, rejected files, and images
 * that are intact, damaged or made from other files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/mem.h"
#include "agent/loop/models.h"
#include "tests/unit/loop/tokfix.h"

#define IMAGE	"a/tokenizer.json.kvroute"

static char top[64], models[80], state[80];
static struct model_files f;
static struct log lg;
static FILE *said;

static char *in(const char *dir, const char *name)
{
	static char full[4][256];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(full[i], sizeof(full[i]), "%s/%s", dir, name);
	return full[i];
}

static void put(const char *name, const char *text, size_t n)
{
	int fd = open(in(models, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), (ssize_t)n);
	close(fd);
}

static void put_tokenizer(const char *name, char letter, unsigned merges)
{
	char *s = tokfix_json(letter, merges);

	put(name, s, strlen(s));
	free(s);
}

static int setup(void **state_)
{
	snprintf(top, sizeof(top), "/tmp/kvroute-models-XXXXXX");
	if (mkdtemp(top) == NULL)
		return -1;
	snprintf(models, sizeof(models), "%s/models", top);
	snprintf(state, sizeof(state), "%s/state", top);
	mkdir(models, 0755);
	mkdir(state, 0755);
	mkdir(in(models, "a"), 0755);
	mkdir(in(models, "b"), 0755);
	put_tokenizer("a/tokenizer.json", 'a', 4);
	said = tmpfile();
	log_init(&lg, fileno(said), LOG_INFO);
	f = (struct model_files){ .open = models_open,
		.arg = models,
		.models_dir = models,
		.state_dir = state,
		.images = IMAGES_NONE,
		.log = &lg };
	return 0;
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *at)
{
	return remove(name);
}

static int teardown(void **state_)
{
	log_fini(&lg);
	fclose(said);
	return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Count the lines with <what> in the log since the last call. */
static unsigned log_has(const char *what)
{
	static char text[65536];
	ssize_t n = pread(fileno(said), text, sizeof(text) - 1, 0);
	unsigned found = 0;

	text[n > 0 ? n : 0] = '\0';
	for (char *p = text; (p = strstr(p, what)) != NULL; p++)
		found++;
	return found;
}

static void log_forget(void)
{
	assert_int_equal(ftruncate(fileno(said), 0), 0);
	lseek(fileno(said), 0, SEEK_SET);
}

/* Fill <o> with <n> models in token mode and the named tokenizers. */
static void options(struct route_opts *o, const char *const *tokenizer, size_t n)
{
	route_defaults(o);
	o->models = mem_calloc(n + 1, sizeof(*o->models));
	assert_non_null(o->models);
	o->n_models = n;
	for (size_t i = 0; i < n; i++) {
		o->models[i] = o->model_default;
		snprintf(o->models[i].name, sizeof(o->models[i].name), "m%zu", i);
		o->models[i].mode = MODEL_TOKENS;
		snprintf(o->models[i].tokenizer, sizeof(o->models[i].tokenizer), "%s", tokenizer[i]);
	}
}

static struct model_set *load_good(struct route_opts *o, const struct model_set *old)
{
	struct err e = { .text = "" };
	struct model_set *s = models_load(o, old, &f, &e);

	if (s == NULL)
		fail_msg("%s:%d:%d: %s", e.file, e.line, e.column, e.text);
	return s;
}

static const char *const only_a[] = { "a/tokenizer.json" };

/* Load one model and encode: its ids as a number. */
static unsigned ids_of(const struct tok *t, const char *text)
{
	struct tok_scratch *c = tok_scratch_new();
	struct ids out = { 0 };
	unsigned sum = 0;

	assert_int_equal(tok_encode(t, c, span_str(text), 0, &out), 0);
	for (size_t i = 0; i < out.n; i++)
		sum = sum * 1000 + out.p[i];
	ids_free(&out);
	tok_scratch_free(c);
	return sum;
}

/* ---- sharing ---------------------------------------------------------------------------- */

static void models_share_what_they_have_in_common(void **state_)
{
	char absolute[128];
	const char *const names[] = { "a/tokenizer.json", "b/tokenizer.json", "a/tokenizer.json",
		absolute, "b/copy.json" };
	struct route_opts o, copy;
	struct model_set *s;
	uint64_t without;

	snprintf(absolute, sizeof(absolute), "%s//a/tokenizer.json", models);
	put_tokenizer("b/tokenizer.json", 'b', 3);
	put_tokenizer("b/copy.json", 'b', 3);
	options(&o, names, 5);
	without = route_budget(&o);
	s = load_good(&o, NULL);
	assert_ptr_not_equal(o.models[0].tok, o.models[1].tok);
	assert_ptr_equal(o.models[0].tok, o.models[2].tok);
	assert_ptr_equal(o.models[0].tok, o.models[3].tok);
	assert_ptr_equal(o.models[1].tok, o.models[4].tok);	/* the content decides */
	assert_int_equal(log_has("tokenizer loaded"), 2);
	assert_int_equal(log_has("source=json"), 2);
	assert_int_equal(
	    route_budget(&o) - without, tok_bytes(o.models[0].tok) + tok_bytes(o.models[1].tok));
	assert_int_equal(ids_of(o.models[0].tok, "aaaa"), 257);
	assert_int_equal(ids_of(o.models[1].tok, "aaaa"), 97 * 1001 * 1000001u + 0);
	assert_int_equal(route_opts_copy(&copy, &o), 0);
	route_opts_free(&o);
	models_free(s);
	assert_int_equal(ids_of(copy.models[2].tok, "aaaa"), 257);	/* each copy holds a reference */
	route_opts_free(&copy);
}

static void the_default_may_have_one(void **state_)
{
	struct route_opts o;
	struct model_set *s;

	options(&o, NULL, 0);
	s = load_good(&o, NULL);
	assert_null(o.model_default.tok);
	models_free(s);
	o.model_default.mode = MODEL_TOKENS;
	strcpy(o.model_default.tokenizer, "a/tokenizer.json");
	s = load_good(&o, NULL);
	assert_non_null(o.model_default.tok);
	models_free(s);
	route_opts_free(&o);
}

static void text_mode_reads_nothing(void **state_)
{
	static const char *const missing[] = { "missing.json" };
	struct route_opts o;
	struct model_set *s;

	options(&o, missing, 1);
	o.models[0].mode = MODEL_TEXT;
	s = load_good(&o, NULL);
	assert_null(o.models[0].tok);
	models_free(s);
	route_opts_free(&o);
}

static void unchanged_tokenizers_are_kept(void **state_)
{
	static const char *const next[] = { "a/tokenizer.json", "b/tokenizer.json" },
				 *const moved[] = { "b/moved.json" };
	struct route_opts o, p, q, r;
	struct model_set *s, *t, *u, *v;

	options(&o, only_a, 1);
	s = load_good(&o, NULL);
	put_tokenizer("a/tokenizer.json", 'a', 4);	/* written anew, the same */
	put_tokenizer("b/tokenizer.json", 'b', 4);
	options(&p, next, 2);
	t = load_good(&p, s);
	assert_ptr_equal(p.models[0].tok, o.models[0].tok);
	assert_int_equal(log_has("tokenizer loaded"), 2);
	models_free(s);
	put_tokenizer("a/tokenizer.json", 'a', 2);
	options(&q, next, 2);
	u = load_good(&q, t);
	assert_ptr_not_equal(q.models[0].tok, o.models[0].tok);
	assert_ptr_equal(q.models[1].tok, p.models[1].tok);
	assert_int_equal(ids_of(q.models[0].tok, "aaaa"), 257);
	assert_int_equal(ids_of(q.models[0].tok, "aaaaaaaa"), 257257);
	assert_int_equal(ids_of(p.models[0].tok, "aaaaaaaa"), 258);	/* still referenced: usable */
	models_free(t);
	assert_int_equal(rename(in(models, "b/tokenizer.json"), in(models, "b/moved.json")), 0);
	options(&r, moved, 1);
	v = load_good(&r, u);
	assert_ptr_equal(r.models[0].tok, q.models[1].tok);
	models_free(u);
	models_free(v);
	route_opts_free(&o);
	route_opts_free(&p);
	route_opts_free(&q);
	route_opts_free(&r);
}

/* ---- rejected files --------------------------------------------------------------------- */

static void expect_refusal(
    const char *tokenizer, const char *config, const char *file, int line, const char *text)
{
	const char *const names[] = { "a/tokenizer.json", tokenizer };
	struct err e = { .text = "" };
	struct route_opts o;

	options(&o, names, 2);
	snprintf(o.models[1].tokenizer_config, sizeof(o.models[1].tokenizer_config), "%s", config);
	assert_null(models_load(&o, NULL, &f, &e));
	if (strstr(e.file, file) == NULL || strstr(e.text, text) == NULL ||
	    (line > 0 ? e.line != line || e.column < 1 : e.line != 0))
		fail_msg("%s:%d:%d: %s, not %s:%d %s", e.file, e.line, e.column, e.text, file, line, text);
	route_opts_free(&o);
}

static void mistakes_are_named(void **state_)
{
	static const char bad[] = "{\"version\":\"1.0\",\n\"model\":\n  {\"type\":\"WordLevel\"}}\n";
	int fd;

	expect_refusal("missing.json", "", "models/missing.json", 0,
		"model \"m1\" cannot be read: No such file");
	expect_refusal("../state/x", "", "../state/x", 0, "a link leads out");
	expect_refusal("a", "", "models/a", 0, "directory");
	expect_refusal(
	    "a/tokenizer.json", "missing_config.json", "missing_config.json", 0, "No such file");
	assert_int_equal(mkfifo(in(models, "pipe"), 0600), 0);
	expect_refusal("pipe", "", "models/pipe", 0, "not a regular file");
	put("bad.json", bad, sizeof(bad) - 1);
	expect_refusal("bad.json", "", "models/bad.json", 3, "WordLevel");
	put("cut.json", "{\"model\":\n{", 11);
	expect_refusal("cut.json", "", "models/cut.json", 2, "");
	put("latin1.json", "{\"model\":\n\"\xe4\"}", 14);
	expect_refusal("latin1.json", "", "models/latin1.json", 2, "byte 0xe4 is not UTF-8");
	expect_refusal("a/tokenizer.json", "latin1.json", "models/latin1.json", 2,
		"byte 0xe4 is not UTF-8");
	fd = open(in(models, "large"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, (off_t)MODEL_FILE_MAX + 1), 0);
	close(fd);
	expect_refusal("large", "", "models/large", 0, "256 MiB");
}

/* A file that is not a tokenizer, or of an unsupported kind, is rejected with one sentence that
 * says what to use instead. */
static void other_files_are_named(void **state_)
{
	static const char pieces[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02\x12\x07\x0a\x03" "a.b\x18";
	static const char clip[] = "{\"model\":\n{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"}}";
	static const char bert[] = "{\"model\":\n{\"type\":\"WordLevel\"}}";
	char spm[sizeof(pieces)];

	memcpy(spm, pieces, sizeof(spm));
	spm[sizeof(spm) - 1] = 2;
	put("tokenizer.model", spm, sizeof(spm));
	expect_refusal("tokenizer.model", "", "models/tokenizer.model", 0, "no normal piece");
	spm[sizeof(spm) - 1] = 4;
	put("spiece.model", spm, sizeof(spm));
	expect_refusal("spiece.model", "", "models/spiece.model", 0, "whole words or characters");
	put("clip.json", clip, sizeof(clip) - 1);
	expect_refusal("clip.json", "", "models/clip.json", 2, "ByteLevel");
	put("bert.json", bert, sizeof(bert) - 1);
	expect_refusal("bert.json", "", "models/bert.json", 2, "WordLevel");
}

/* One rank file with two normalizers gives two tokenizers, also if both have images. */
static void a_normalizer_makes_another_tokenizer(void **state_)
{
	static const char *const names[] = { "ranks", "ranks" };
	static char text[65536];
	FILE *file = fopen("tests/data/tok/small.tiktoken", "r");
	struct route_opts o;
	struct model_set *s;

	assert_non_null(file);
	put("ranks", text, fread(text, 1, sizeof(text), file));
	fclose(file);
	f.images = IMAGES_WRITE;
	/* in the second round from an image, which is that of the tokenizer written last */
	for (unsigned round = 0; round < 2; round++) {
		options(&o, names, 2);
		for (unsigned i = 0; i < 2; i++)
			strcpy(o.models[i].pattern, "qwen");
		o.models[1].normalizer = NORMALIZER_NONE;
		s = load_good(&o, NULL);
		assert_int_equal(ids_of(o.models[0].tok, "e\xcc\x81"), ids_of(o.models[0].tok, "\xc3\xa9"));
		assert_int_not_equal(ids_of(o.models[1].tok, "e\xcc\x81"), ids_of(o.models[1].tok, "\xc3\xa9"));
		models_free(s);
		route_opts_free(&o);
	}
}

/* A model with tekken.json uses ids for completions and text for conversations. Templates next to
 * the file are ignored. */
static void a_tekken_has_no_template(void **state_)
{
	static const char *const names[] = { "tekken.json" };
	static char text[65536];
	FILE *file = fopen("tests/data/tok/small.tekken.json", "r");
	struct err e = { .text = "" };
	struct route_opts o;
	struct model_set *s;

	assert_non_null(file);
	put("tekken.json", text, fread(text, 1, sizeof(text), file));
	fclose(file);
	put("chat_template.jinja", "{{ x", 4);
	options(&o, names, 1);
	log_forget();
	s = load_good(&o, NULL);
	assert_true(tok_is_plain(o.models[0].tok));
	assert_null(o.models[0].chat);
	assert_int_equal(log_has("conversations are matched as text"), 1);
	models_free(s);
	strcpy(o.models[0].chat_template, "chat_template.jinja");
	assert_null(models_load(&o, NULL, &f, &e));
	assert_non_null(strstr(e.text, "mistral_common"));
	assert_non_null(strstr(e.file, "models/tekken.json"));
	route_opts_free(&o);
}

static unsigned long configured(const char *config)
{
	struct route_opts o;
	struct model_set *s;
	unsigned long print;

	options(&o, only_a, 1);
	snprintf(o.models[0].tokenizer_config, sizeof(o.models[0].tokenizer_config), "%s", config);
	s = load_good(&o, NULL);
	print = tok_fingerprint(o.models[0].tok);
	models_free(s);
	route_opts_free(&o);
	return print;
}

static void the_configuration_beside_is_used(void **state_)
{
	static const char one[] =
	    "{\"tokenizer_class\":\"LlamaTokenizerFast\",\"bos_token\":\"<|end|>\","
	    "\"add_bos_token\":true}",
			  two[] = "{}";
	unsigned long without = configured(""), with;

	put("a/tokenizer_config.json", one, sizeof(one) - 1);
	with = configured("");
	assert_int_not_equal(with, without);
	assert_int_equal(configured("none"), without);
	put("b/other.json", one, sizeof(one) - 1);
	put("a/tokenizer_config.json", two, sizeof(two) - 1);
	assert_int_equal(configured("b/other.json"), with);
	assert_int_not_equal(configured(""), with);
}

/* ---- chat templates --------------------------------------------------------------------- */

/* Load model m0 with the given options. Returns its text of one message, NULL if it has no
 * template, or the error. */
static const char *said_by(enum model_chat by, const char *template, const char *config)
{
	static const struct hash_key key = { { 3, 1 } };
	static char text[ERR_TEXT_MAX + 200];
	struct chat_scratch *c = chat_scratch_new(1 << 20, &key);
	struct chat_body b = { .raw =
				   SPAN("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"),
		.now = { .year = 2026, .month = 1, .day = 2 } };
	struct route_opts o;
	struct chat_text t;
	struct model_set *s;
	struct err e;

	options(&o, only_a, 1);
	o.models[0].chat_by = by;
	strcpy(o.models[0].chat_template, template);
	strcpy(o.models[0].tokenizer_config, config);
	text[0] = '\0';
	if ((s = models_load(&o, NULL, &f, &e)) == NULL)
		snprintf(text, sizeof(text), "%s:%d: %s", strrchr(e.file, '/'), e.line, e.text);
	else if (o.models[0].chat != NULL && chat_render(o.models[0].chat, c, &b, &t) == CHAT_DONE)
		snprintf(text, sizeof(text), "%.*s", (int)t.n, t.p);
	models_free(s);
	route_opts_free(&o);
	chat_scratch_free(c);
	return text[0] != '\0' ? text : NULL;
}

static void templates_are_found(void **state_)
{
	static const char config[] =
		"{\"bos_token\":\"<s>\",\"chat_template\":\"{{ bos_token }}C{{ messages[0].content }}\"}";
	static const char beside[] = "{{ bos_token }}B{{ messages[0].content }}", other[] = "O",
			  bad[] = "x\n{% nosuch %}";
	static const char null[] = "{\"chat_template\": null}";

	put("a/tokenizer_config.json", "{}", 2);
	assert_null(said_by(CHAT_AUTO, "", ""));
	put("a/tokenizer_config.json", null, sizeof(null) - 1);
	assert_null(said_by(CHAT_AUTO, "", ""));
	put("a/tokenizer_config.json", config, sizeof(config) - 1);
	assert_string_equal(said_by(CHAT_AUTO, "", ""), "<s>Chi");
	assert_null(said_by(CHAT_BY_NONE, "", ""));
	assert_null(said_by(CHAT_AUTO, "", "none"));
	put("a/chat_template.jinja", beside, sizeof(beside) - 1);
	assert_string_equal(said_by(CHAT_AUTO, "", ""), "<s>Bhi");
	assert_string_equal(said_by(CHAT_AUTO, "", "none"), "Bhi");
	put("b/t.jinja", other, sizeof(other) - 1);
	assert_string_equal(said_by(CHAT_AUTO, "b/t.jinja", ""), "O");
	assert_non_null(strstr(said_by(CHAT_BY_HARMONY, "", ""), "Current date: 2026-01-02"));
	put("b/t.jinja", bad, sizeof(bad) - 1);
	assert_non_null(strstr(said_by(CHAT_AUTO, "b/t.jinja", ""), "/t.jinja:2: "));
	put("b/t.jinja", "x\n\n \x87", 5);
	assert_non_null(strstr(said_by(CHAT_AUTO, "b/t.jinja", ""),
		"/t.jinja:3: the byte 0x87 is not UTF-8"));
	assert_non_null(strstr(said_by(CHAT_AUTO, "b/none.jinja", ""), "/none.jinja:0: "));
	assert_int_equal(unlink(in(models, "a/chat_template.jinja")), 0);
	put("a/tokenizer_config.json", "{}", 2);
}

/* ---- images ----------------------------------------------------------------------------- */

/* Load as at a start. Returns true if the tokenizer came from its image. */
static bool start_takes_image(void)
{
	struct route_opts o;
	struct model_set *s;
	bool image;

	log_forget();
	f.images = IMAGES_WRITE;
	options(&o, only_a, 1);
	s = load_good(&o, NULL);
	image = log_has("source=image") == 1;
	assert_int_equal(log_has("source=json"), !image);
	assert_int_equal(ids_of(o.models[0].tok, "aaaaaaaa"), 258);
	models_free(s);
	route_opts_free(&o);
	return image;
}

static size_t read_image(char **out)
{
	int fd = open(in(models, IMAGE), O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	*out = malloc((size_t)st.st_size);
	assert_int_equal(read(fd, *out, (size_t)st.st_size), st.st_size);
	close(fd);
	return (size_t)st.st_size;
}

static void an_image_is_made_and_used(void **state_)
{
	struct stat st;
	struct route_opts o;
	struct model_set *s;

	assert_false(start_takes_image());
	assert_int_equal(stat(in(models, IMAGE), &st), 0);
	assert_int_equal(st.st_mode & 0777 & ~0640u, 0);
	assert_int_equal(log_has("level=warn"), 0);
	assert_true(start_takes_image());
	assert_int_equal(log_has("level=warn"), 0);
	f.images = IMAGES_READ;		/* a reload */
	options(&o, only_a, 1);
	s = load_good(&o, NULL);
	assert_int_equal(log_has("source=image"), 2);
	models_free(s);
	route_opts_free(&o);
	f.images = IMAGES_NONE;		/* a check */
	options(&o, only_a, 1);
	s = load_good(&o, NULL);
	assert_int_equal(log_has("source=json"), 1);
	models_free(s);
	route_opts_free(&o);
}

/* Any other content in place of the image is ignored with one log line, and the image is written
 * again. */
static void expect_rewritten(void)
{
	assert_false(start_takes_image());
	assert_int_equal(log_has("level=warn"), 1);
	assert_int_equal(log_has("compiled tokenizer not used"), 1);
	assert_true(start_takes_image());
}

static void a_bad_image_is_made_anew(void **state_)
{
	static const size_t cuts[] = { 0, 1, 63, 64, 65, 128, 200, 1000 };
	char *image, *other;
	size_t n, m;

	assert_false(start_takes_image());
	n = read_image(&image);
	for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
		put(IMAGE, image, cuts[i]);		/* half written */
		expect_rewritten();
	}
	put(IMAGE, image, n - 1);
	expect_rewritten();
	for (size_t at = 0; at < n; at += 1 + at * 2 + at % 7) {	/* damaged */
		image[at] ^= 4;
		put(IMAGE, image, n);
		image[at] ^= 4;
		expect_rewritten();
	}
	put_tokenizer("a/tokenizer.json", 'b', 4);	/* foreign, and old: its tokenizer has changed */
	f.images = IMAGES_WRITE;
	log_forget();
	assert_true(unlink(in(models, IMAGE)) == 0);
	{
		struct route_opts o;
		struct model_set *s;

		options(&o, only_a, 1);
		s = load_good(&o, NULL);
		models_free(s);
		route_opts_free(&o);
	}
	m = read_image(&other);
	put_tokenizer("a/tokenizer.json", 'a', 4);
	expect_rewritten();
	put(IMAGE, other, m);
	expect_rewritten();
	memcpy(image + 16, "0.0.9", 6);			/* of another version */
	put(IMAGE, image, n);
	expect_rewritten();
	put(IMAGE,
		"not an image at all, but long enough to be looked at with its head and what is behind "
		"it......", 95);
	expect_rewritten();
	free(image);
	free(other);
}

static void an_image_that_others_can_write_is_not_used(void **state_)
{
	char *image;

	assert_false(start_takes_image());
	read_image(&image);
	free(image);
	assert_int_equal(chmod(in(models, IMAGE), 0660), 0);
	expect_rewritten();
	if (geteuid() == 0) {
		assert_int_equal(chown(in(models, IMAGE), 4711, 4711), 0);
		expect_rewritten();
	}
	unlink(in(models, IMAGE));
	assert_int_equal(mkfifo(in(models, IMAGE), 0600), 0);
	expect_rewritten();
	unlink(in(models, IMAGE));
	assert_int_equal(symlink("/etc/passwd", in(models, IMAGE)), 0);
	expect_rewritten();
}

/* A directory has the name of the writer's temporary file, so no image can be written. */
static void block(const char *dir, const char *name)
{
	char tmp[400];

	snprintf(tmp, sizeof(tmp), "%s/%s.tmp.%ld", dir, name, (long)getpid());
	assert_int_equal(mkdir(tmp, 0700), 0);
}

static unsigned files_in_state(void)
{
	unsigned n = 0;
	char cmd[160];
	FILE *p;

	snprintf(cmd, sizeof(cmd), "ls %s | grep -c 'tokenizer-.*\\.kvroute$'", state);
	p = popen(cmd, "re");
	assert_int_equal(fscanf(p, "%u", &n), 1);
	pclose(p);
	return n;
}

static void state_dir_is_the_second_place(void **state_)
{
	block(in(models, "a"), "tokenizer.json.kvroute");
	assert_false(start_takes_image());
	assert_int_equal(access(in(models, IMAGE), F_OK), -1);
	assert_int_equal(files_in_state(), 1);
	assert_true(start_takes_image());
	put_tokenizer("a/tokenizer.json", 'a', 3);
	f.images = IMAGES_NONE;
	put_tokenizer("a/tokenizer.json", 'a', 4);
	assert_true(start_takes_image());
	assert_int_equal(log_has("level=warn"), 0);
}

static void an_unwritable_image_is_only_logged(void **state_)
{
	block(in(models, "a"), "tokenizer.json.kvroute");
	f.state_dir = "/nonexistent/kvroute";
	assert_false(start_takes_image());
	assert_int_equal(log_has("compiled tokenizer not saved"), 1);
	assert_false(start_takes_image());
}

/* Temporary files of killed processes are removed. */
static void half_written_images_are_removed(void **state_)
{
	char left[128], lives[128];
	int status;
	pid_t dead = fork();

	if (dead == 0)
		_exit(0);
	assert_int_equal(waitpid(dead, &status, 0), dead);
	snprintf(left, sizeof(left), IMAGE ".tmp.%ld", (long)dead);
	snprintf(lives, sizeof(lives), IMAGE ".tmp.%ld", (long)getppid());
	put(left, "half", 4);
	put(lives, "half", 4);
	put("a/tokenizer.json.kvroute.tmp.x", "not ours", 8);
	assert_false(start_takes_image());
	assert_int_equal(access(in(models, left), F_OK), -1);
	assert_int_equal(access(in(models, lives), F_OK), 0);
	assert_int_equal(access(in(models, "a/tokenizer.json.kvroute.tmp.x"), F_OK), 0);
}

/* ---- figures ---------------------------------------------------------------------------- */

struct seen {
	size_t n, bytes;
};

static void see(void *arg, const struct model_figures *v)
{
	struct seen *s = arg;

	assert_true(v->load_s > 0 && v->load_s < 100 && !v->image);
	s->n += strcmp(v->model, s->n ? "m1" : "m0") == 0;
	s->bytes = v->bytes;
}

static void figures(void **state_)
{
	static const char *const both[] = { "a/tokenizer.json", "a/tokenizer.json" };
	struct models m;
	struct route_opts o;
	struct seen seen = { 0 };

	models_init(&m);
	models_each(&m, see, &seen);
	assert_int_equal(seen.n, 0);
	options(&o, both, 2);
	models_take(&m, load_good(&o, NULL));
	models_each(&m, see, &seen);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.bytes, tok_bytes(o.models[0].tok));
	route_opts_free(&o);
	models_fini(&m);
}

int main(void)
{
#define T(f)	cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(models_share_what_they_have_in_common),
		T(the_default_may_have_one),
		T(text_mode_reads_nothing),
		T(unchanged_tokenizers_are_kept),
		T(mistakes_are_named),
		T(other_files_are_named),
		T(a_tekken_has_no_template),
		T(a_normalizer_makes_another_tokenizer),
		T(the_configuration_beside_is_used),
		T(templates_are_found),
		T(an_image_is_made_and_used),
		T(a_bad_image_is_made_anew),
		T(an_image_that_others_can_write_is_not_used),
		T(state_dir_is_the_second_place),
		T(an_unwritable_image_is_only_logged),
		T(half_written_images_are_removed),
		T(figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
